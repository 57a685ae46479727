"""The conversation of a run as it grew: each message where the run first shows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._sql import rows, sql_text
from ..requests._recorded import NOT_RECORDED, as_chat
from ._calls import calls_with_ids
from ._types import MessagePart, MessageRequest, MessagesPage, RunMessage

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["run_messages"]

_PARSED = 1_000_000  # characters of a message that are read; of a longer one the text stands as it is
_MESSAGES = 400  # of one page


def run_messages(
    con: duckdb.DuckDBPyConnection,
    run_id: str,
    policy: GuardPolicy,
    *,
    limit: int = 20,
    offset: int = 0,
    text_limit: int = 20_000,
    most: int = _MESSAGES,
) -> MessagesPage:
    """Requests of a run, `limit` of them from `offset` on, each with the messages that were new in it.

    An answer that comes back in the next history is the same message. The results of the calls on the page
    are given by
    call id, also where the history that brings them lies on the next page; else as the call's own span has
    them. Texts
    are cut at `text_limit` characters; of `most` messages the first ones are given.
    """
    params: dict[str, Any] = {"run_id": run_id, "limit": limit, "offset": offset, "text_limit": 4_000}
    asked = rows(con, sql_text("traces_asked"), params)
    if not asked:
        return MessagesPage((), 0, {}, {}, False)
    first, last = asked[0]["request"], asked[-1]["request"]
    # One request before and behind: whose answer comes back, and what came of the last answer.
    found = rows(
        con,
        sql_text("traces_messages"),
        {"run_id": run_id, "first": first - 1, "last": last + 1, "limit": most + 1, "text_limit": _PARSED},
    )
    cut = len(found) > most
    by_request: dict[int, list[RunMessage]] = {}
    answered: set[Any] = set()
    for row in found[:most]:
        message = _message(row, text_limit)
        mark = _mark(message)
        if mark is not None and message.role == "assistant":
            if not message.answered and mark in answered:
                continue
            answered.add(mark)
        by_request.setdefault(row["request"], []).append(message)
    results: dict[str, MessagePart] = {}
    for messages in by_request.values():
        for part in _parts(messages, "result"):
            if part.call_id is not None:
                results.setdefault(part.call_id, part)
    requests = tuple(
        MessageRequest(
            number=row["request"],
            sent=row["messages"],
            messages=tuple(by_request.get(row["request"], ())),
            **{name: row[name] for name in _FACTS},
        )
        for row in asked
    )
    ids = {
        part.call_id
        for request in requests
        for part in _parts(request.messages, "call", "result")
        if part.call_id is not None
    }
    made = calls_with_ids(con, run_id, policy, sorted(ids), text_limit)
    calls = {call.call_id: call for call in reversed(made) if call.call_id is not None}
    return MessagesPage(requests, asked[0]["total"], calls, results, cut)


_FACTS = (
    "trace_id", "span_id", "agent_name", "turn", "provider", "model", "start_ns", "end_ns", "status",
    "http_status", "error_class", "error_text", "input_tokens", "output_tokens", "cost", "content_state",
    "dialect",
)  # fmt: skip


def _parts(messages: Iterable[RunMessage], *kinds: str) -> Iterable[MessagePart]:
    return (part for message in messages for part in message.parts if part.kind in kinds)


def _message(row: dict[str, Any], limit: int) -> RunMessage:
    text, chars = row["text"], row["chars"] or 0
    parts: list[MessagePart] = []
    role, media, cut = "assistant" if row["side"] else "user", 0, False
    value: Any = None
    if text is not None and chars <= _PARSED:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
    if value is None:
        parts.append(MessagePart("text", None if text is None else text[:limit]))
        return RunMessage(row["key"], bool(row["side"]), role, tuple(parts), 0, chars > limit, chars)
    chat, read = as_chat(value)
    media = read.media
    role = next((str(one["role"]) for one in chat if one.get("role") != "tool"), "tool")
    for kind, texts in (("reasoning", read.reasoning), ("text", read.texts)):
        joined = "\n".join(texts)
        if joined:
            cut |= len(joined) > limit
            parts.append(MessagePart(kind, joined[:limit]))  # pyright: ignore[reportArgumentType]
    for call in read.calls:
        function = call["function"]
        arguments = function["arguments"]
        cut |= len(arguments) > limit
        parts.append(MessagePart("call", arguments[:limit], call.get("id"), function["name"]))
    for result in read.results:
        content = result["content"]
        said = None if content == NOT_RECORDED else str(content)
        cut |= said is not None and len(said) > limit
        parts.append(
            MessagePart("result", None if said is None else said[:limit], result.get("tool_call_id"))
        )
    if not parts and read.silent:
        parts.append(MessagePart("text", None))
    return RunMessage(row["key"], bool(row["side"]), role, tuple(parts), media, cut, chars)


def _mark(message: RunMessage) -> Any:
    """What makes an answer the same message as one in a later history: its calls' ids, else what it says."""
    calls: Sequence[MessagePart] = [part for part in message.parts if part.kind == "call"]
    ids = tuple(part.call_id for part in calls if part.call_id is not None)
    if ids:
        return "ids", ids
    texts = "".join((part.text or "") for part in message.parts if part.kind == "text").split()
    names = tuple(part.name for part in calls)
    return ("text", names, " ".join(texts)) if texts or names else None
