"""Requests that name the history before them: whole again, in bounded space, whatever they name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopscope.collector import SpanRecord, _history, derive_trace

START = 1_750_000_000_000_000_000


def chat(number: int, after: str | None = None, *, content: bool = True) -> SpanRecord:
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat"}
    if content:
        attributes["gen_ai.input.messages"] = f'[{{"role":"user","content":"in {number}"}}]'
        attributes["gen_ai.output.messages"] = f'[{{"role":"assistant","content":"out {number}"}}]'
    if after is not None:
        attributes["loopscope.history.after"] = after
    return SpanRecord(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        parent_span_id=None,
        name="chat",
        kind=3,
        start_ns=START + number * 10,
        end_ns=START + number * 10 + 5,
        attributes=attributes,
    )


def inputs(*spans: SpanRecord) -> list[tuple[int | None, str]]:
    """Messages in the input of each request, and its content state."""
    return [
        (None if request.input_messages is None else len(request.input_messages), request.content_state)
        for request in derive_trace(spans).llm_requests
    ]


def test_a_chain_is_put_together_in_any_order():
    spans = [chat(1), chat(2, f"{1:016x}"), chat(3, f"{2:016x}")]
    assert inputs(*spans) == [(1, "full"), (3, "full"), (5, "full")]
    assert derive_trace(spans[::-1]) == derive_trace(spans)
    last = derive_trace(spans).llm_requests[-1].input_messages or []
    assert [text.split('"')[-2] for text in last] == ["in 1", "out 1", "in 2", "out 2", "in 3"]


def test_a_history_that_is_not_there_makes_a_request_partial():
    assert inputs(chat(1, f"{9:016x}"), chat(2, f"{1:016x}")) == [(1, "truncated"), (3, "truncated")]
    assert inputs(chat(1, content=False), chat(2, f"{1:016x}")) == [(None, "missing"), (1, "truncated")]
    assert inputs(chat(1), chat(2, f"{1:016x}", content=False)) == [(1, "full"), (None, "missing")]


def test_circles_end():
    assert [state for _, state in inputs(chat(1, f"{1:016x}"))] == ["truncated"]
    found = inputs(chat(1, f"{2:016x}"), chat(2, f"{1:016x}"))
    assert "truncated" in [state for _, state in found]


def test_a_trace_without_end_stays_small(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_history, "MAX_HISTORY", 100)
    spans = [chat(1)] + [chat(n, f"{n - 1:016x}") for n in range(2, 60)]
    found = inputs(*spans)
    assert sum(size or 0 for size, _ in found) <= 100 + len(spans)
    assert found[0] == (1, "full")
    assert found[-1][1] == "truncated"


@given(st.lists(st.none() | st.integers(0, 8), min_size=1, max_size=8))
def test_any_references_give_the_same_in_any_order(after: list[int | None]):
    spans = [chat(n, None if a is None else f"{a:016x}") for n, a in enumerate(after)]
    forwards = derive_trace(spans)
    assert derive_trace(spans[::-1]) == forwards
    for request, reference in zip(forwards.llm_requests, after, strict=True):
        assert request.input_messages
        if reference is None:
            assert (len(request.input_messages), request.content_state) == (1, "full")
        else:
            assert len(request.input_messages) > 1 or request.content_state == "truncated"
