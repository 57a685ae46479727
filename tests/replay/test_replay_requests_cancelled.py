"""Requests that were cancelled are no failed ones: nobody refused them."""

from __future__ import annotations

from typing import Any

import pytest
from refused_histories import MISSING, asks, says
from replay_rows import call, database
from request_rows import asked, refused, sent

from loopscope.guard import GuardPolicy
from loopscope.replay import Filters, failed_requests, overview, request_history

USER = says("user", "where is my refund?")


def ended(error_type: str | None, text: str | None, status: int | None = None, *, at: float = 1, **more: Any):
    return refused(
        [USER], text, at=at, http_status=status, error_type=error_type, error_class="other", **more
    )


@pytest.mark.parametrize(
    ("error_type", "text", "status"),
    [
        ("aborted", "Request was aborted.", None),
        ("aborted", None, None),
        ("asyncio.exceptions.CancelledError", "", None),
        ("APIUserAbortError", "Request was aborted.", None),
        ("AbortError", "This operation was aborted", None),
        ("interrupted", None, None),
        (None, "CancelledError()", None),
        (None, "asyncio.exceptions.CancelledError: Cancelled via cancel scope 7f", None),
        (None, "[Request interrupted by user]", None),
        (None, "Error: The user aborted a request.", None),
        ("Error", "canceled", None),
        (None, None, 499),
    ],
)
def test_a_request_that_was_cancelled(error_type: str | None, text: str | None, status: int | None) -> None:
    con = database(requests=[ended(error_type, text, status)])
    found = asked(con)
    assert (found.totals.requests, found.totals.failed, found.totals.cancelled) == (1, 0, 1)
    assert {name: counts.failed for name, counts in found.by_class.items()} == {"cancelled": 1}
    (row,) = found.requests
    assert (row.error_class, row.verdict) == ("cancelled", None)
    listed = failed_requests(con)
    assert (listed.requests, listed.failed, listed.cancelled, listed.by_status) == (1, 0, 1, {})
    assert [one.error_class for one in listed.rows] == ["cancelled"]


@pytest.mark.parametrize(
    ("error_type", "text", "status"),
    [
        (None, None, None),
        ("RuntimeError", "Request was aborted.", None),  # a name of its own
        ("APITimeoutError", "Request was aborted.", None),
        (None, "Request was aborted: timed out", None),
        (None, "Connection aborted.", None),
        (None, "Your subscription was cancelled.", None),
        (None, "Request was aborted.", 500),
        ("aborted", "Conflict", 409),
    ],
)
def test_a_request_that_failed(error_type: str | None, text: str | None, status: int | None) -> None:
    con = database(requests=[ended(error_type, text, status)])
    found = asked(con)
    assert (found.totals.failed, found.totals.cancelled, found.requests[0].error_class) == (1, 0, "other")
    listed = failed_requests(con)
    assert (listed.failed, listed.cancelled, list(listed.by_status.values())) == (1, 0, [1])


def test_a_refusal_that_speaks_of_a_cancelled_call_is_one() -> None:
    text = MISSING.format("call_aaaa")
    history = [USER, asks("call_aaaa"), says("user", "cancelled by the user")]
    found = asked(database(requests=[refused(history, text, at=1, http_status=None, error_type="aborted")]))
    assert (found.totals.failed, found.totals.cancelled, found.totals.tool_related) == (1, 0, 1)


def _mixed() -> list[Any]:
    return [
        sent([USER], at=0),
        ended("aborted", "Request was aborted.", at=1),
        ended("aborted", "Request was aborted.", at=2, model="other"),
        ended("RateLimitError", "slow down", 429, at=3),
        refused([USER, asks("call_aaaa"), USER], MISSING.format("call_aaaa"), at=4),
    ]


def test_they_are_counted_apart_everywhere() -> None:
    con = database([call()], _mixed())
    totals = asked(con).totals
    assert (totals.requests, totals.failed, totals.cancelled, totals.tool_related) == (5, 2, 2, 1)
    assert asked(con, filters=Filters(models=("other",))).totals.cancelled == 1
    listed = failed_requests(con, limit=1)
    assert (listed.failed, listed.cancelled, listed.by_status) == (2, 2, {"400": 1, "429": 1})
    assert failed_requests(con, Filters(models=("other",))).cancelled == 1
    figures = overview(con, GuardPolicy()).figures
    assert (figures.requests, figures.failed_requests, figures.cancelled_requests) == (5, 2, 2)


def test_one_of_them_is_shown_with_its_class() -> None:
    request = ended("aborted", "Request was aborted.")
    con = database(requests=[request])
    shown = request_history(con, request.trace_id, request.span_id).request
    assert shown is not None
    assert (shown.error_class, shown.verdict) == ("cancelled", None)
