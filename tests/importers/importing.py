"""Small inputs and helpers that the importer tests share."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from loopscope.collector import SpanRecord, decode_traces
from loopscope.collector.importers._chats import conversations
from loopscope.collector.importers._json_stream import json_values
from loopscope.collector.importers._report import SkipList
from loopscope.collector.importers._transcript import content_digest, conversation_spans

Message = dict[str, Any]


def asks(*calls: tuple[str | None, str, Any], **more: Any) -> Message:
    """An assistant message with calls (id, tool, arguments)."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ],
        **more,
    }


def answer(call_id: str | None, content: Any, **more: Any) -> Message:
    """A tool message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def says(role: str, content: Any, **more: Any) -> Message:
    return {"role": role, "content": content, **more}


def spans_of(
    data: object, dialect: str = "openai-chat"
) -> tuple[list[list[SpanRecord]], list[tuple[str, str]]]:
    """The spans of each conversation in JSON data, and what was skipped."""
    stream = io.BytesIO(json.dumps(data).encode())
    skipped = SkipList()
    out = []
    for conversation in conversations(json_values(stream.read), dialect, skipped):
        digest = content_digest(conversation)
        out.append(decode_traces(conversation_spans(conversation, digest, 0, skipped)))
    return out, [tuple(skip) for skip in skipped]


def one(messages: Sequence[Message], **wrapper: Any) -> list[SpanRecord]:
    """The spans of a single conversation."""
    (spans,), _ = spans_of({"messages": messages, **wrapper})
    return spans


def kind(spans: Sequence[SpanRecord], operation: str) -> list[SpanRecord]:
    """The spans of one operation: invoke_agent, chat, execute_tool."""
    return [span for span in spans if span.attributes["gen_ai.operation.name"] == operation]


def calls(spans: Sequence[SpanRecord]) -> list[tuple[str | None, str, str | None, str | None]]:
    """(id, tool, arguments, result) of each call, in the order of asking."""
    return [
        (
            span.attributes.get("gen_ai.tool.call.id"),
            span.attributes["gen_ai.tool.name"],
            span.attributes.get("gen_ai.tool.call.arguments"),
            span.attributes.get("gen_ai.tool.call.result"),
        )
        for span in sorted(kind(spans, "execute_tool"), key=lambda span: span.start_ns)
    ]


# Texts that other recordings wrap, cut or mark; in a transcript they are what they are.
TRICKY = (
    '{"kwargs": {"a": 1}}',
    '{"tool_call_id": "c", "content": "x", "status": "error"}',
    '{"id": "a", "name": "t", "response": "r"}',
    "x" * 128,
    '{"cut": "' + "x" * 119,
    "text ... [TRUNCATED]",
    " ",
    "<not specified>",
)


@st.composite
def logs(draw: st.DrawFn) -> list[Message]:
    """Any interleaving of calls, results (also of nobody's calls) and talk; few ids, so that they recur."""
    ids = st.sampled_from(["a", "b", "c", "", None])
    names = st.sampled_from(["t", "u"])
    values = st.sampled_from(["1", "2", "", None, *TRICKY])
    call = st.tuples(ids, names, values)
    message = st.one_of(
        st.lists(call, min_size=1, max_size=3).map(lambda found: asks(*found)),
        st.lists(call, min_size=1, max_size=2).map(lambda found: {**asks(*found), "role": "user"}),
        st.builds(answer, ids, values),
        st.builds(
            lambda i, v, who: answer(i, v, requestor=who), ids, values, st.sampled_from(["user", "assistant"])
        ),
        st.builds(lambda n, v: {"role": "function", "name": n, "content": v}, names, values),
        st.builds(says, st.sampled_from(["user", "assistant", "system"]), values),
        st.builds(
            lambda n, v: {"role": "assistant", "function_call": {"name": n, "arguments": v}}, names, values
        ),
    )
    return draw(st.lists(message, min_size=1, max_size=14))
