"""Requests for the tests of their analysis, and stores that hold them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import duckdb
from replay_rows import database, request

from loopscope.guard import GuardPolicy
from loopscope.replay import Filters, JudgedRequest, RequestAnalysis, analyse_requests


def texts(messages: Sequence[Any]) -> list[str]:
    return [json.dumps(message) for message in messages]


def sent(messages: Sequence[Any] | None, run: str = "run-1", *, at: float, **more: Any) -> Any:
    """An answered request with these messages."""
    output = more.pop("output", None)
    return request(
        run,
        at=at,
        input_messages=None if messages is None else texts(messages),
        output_messages=None if output is None else texts(output),
        content_state=more.pop("content_state", "missing" if messages is None else "full"),
        **more,
    )


def refused(
    messages: Sequence[Any] | None, error: str | None, run: str = "run-1", *, at: float, **more: Any
) -> Any:
    """A refused request."""
    values = {"status": "error", "http_status": 400, "input_tokens": None, **more}
    return sent(messages, run, at=at, error_text=error, **values)


def analysed(*requests: Any, policy: GuardPolicy | None = None, **more: Any) -> RequestAnalysis:
    """The analysis of a store that holds just these."""
    return analyse_requests(database(more.pop("calls", ()), requests), policy or GuardPolicy(), **more)


def judged(*requests: Any, **more: Any) -> JudgedRequest:
    """The newest failed request of a store that holds just these."""
    return analysed(*requests, **more).requests[0]


def asked(con: duckdb.DuckDBPyConnection, **more: Any) -> RequestAnalysis:
    return analyse_requests(con, more.pop("policy", GuardPolicy()), more.pop("filters", Filters()), **more)
