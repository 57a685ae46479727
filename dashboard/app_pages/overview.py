"""Is anything looping now, and what does it cost?"""

from __future__ import annotations

from typing import Any

import streamlit as st

from loopscope.dashboard import (
    _charts,
    _circling,
    _data,
    _filters,
    _first,
    _incident_table,
    _policy,
    _snippets,
    _ui,
)
from loopscope.dashboard._text import count
from loopscope.replay import Figures, Overview

view, saved = _filters.current_view(), _policy.saved()


def main() -> None:
    now_ns = _data.now_ns()
    with _data.reader() as ask:
        with _first.counting(ask):
            seen = ask.overview(saved.policy, view.filters)
        circling = ask.circling(saved.policy, view.filters, now_ns)
        # The tool filter does not reach requests.
        requests = 0 if view.filters.tools else seen.figures.requests
        nothing = not seen.figures.calls and not requests and not seen.coverage.calls_not_ended
        if not nothing:  # what is new stands before the rest is asked for
            _circling.now(circling, now_ns, seen.sentence)
            _figures(seen)
        effect = ask.impact(saved.policy, view.filters) if circling.runs else None
        ask.release()
    if nothing:
        _snippets.nothing_here(
            view, "Loops, calls over time and what they cost stand here once an agent has run."
        )
        return
    _ui.coverage_note(seen.coverage)
    _ui.section(
        "Calls over time",
        f"Each call as the policy in force judges it ({_policy.name(saved.policy)}). Times are UTC.",
    )
    if seen.buckets:
        _charts.show(
            _charts.calls_over_time(seen.buckets, seen.bucket_ns),
            key="calls_over_time",
            alt="Calls over time, stacked by the guard's verdict",
        )
    _ui.untimed_note(seen.calls_untimed, "call")
    if effect is not None:
        _circling.cost(circling, effect, _policy.name(saved.policy))
    left, right = st.columns(2, gap="medium")
    with left:
        _ranking("Tools", "tool", seen.tools)
    with right:
        _ranking("Agents", "agent", seen.agents)
    _ui.section("Newest incidents", "Click Open to see the calls of one.")
    if seen.incidents:
        _incident_table.draw(
            list(seen.incidents),
            key="newest",
            now_ns=_data.now_ns(),
            total=seen.incidents_total,
            newest_first=True,
        )
    else:
        st.caption(
            "None: no call was repeated three times with an equal result, and nothing failed over and over."
        )


def _figures(seen: Overview) -> None:
    now, before = seen.figures, seen.previous
    calls = _ui.covers(seen.coverage)

    def delta(name: str) -> dict[str, Any]:
        if before is None:
            return {}
        return {"delta": getattr(now, name) - getattr(before, name), "delta_note": "vs before"}

    share = f"{now.runs_looping / now.runs:.0%} of {count(now.runs, 'run')}" if now.runs else ""
    if now.runs_with_twins_only:
        share += f"; and {count(now.runs_with_twins_only, 'run')} with twin calls only"
    if now.soft_failures:
        share += f"; {now.soft_failures:,} ended in it and reported no error"
    repeated = f"{now.repeated_calls / now.calls:.0%} of all calls" if now.calls and not calls else calls
    with _ui.figures():
        _ui.figure("Runs", f"{now.runs:,}", note=f"in {view.period}", good="", **delta("runs"))
        _ui.figure("Tool calls", f"{now.calls:,}", note=_ended(seen), good="", **delta("calls"))
        _ui.figure(
            "Runs with a loop",
            f"{now.runs_looping:,}",
            note=share,
            help="Runs with an incident of any kind but twin calls.",
            **delta("runs_looping"),
        )
        _ui.figure(
            "Repeated calls",
            f"{now.repeated_calls:,}",
            note=repeated,
            help="Calls that brought the same result as the call before with the same arguments, those of "
            "healthy polls included. Failed calls are not counted unless the policy counts them; "
            "calls of exempt tools never are.",
            **delta("repeated_calls"),
        )
        _ui.figure(
            "Failed requests", f"{now.failed_requests:,}", note=_requests(now), **delta("failed_requests")
        )


def _ended(seen: Overview) -> str:
    open_calls = seen.coverage.calls_not_ended
    return f"finished; {open_calls:,} more without a recorded end" if open_calls else "all finished"


def _requests(now: Figures) -> str:
    text = f"of {count(now.requests, 'request')} to a model"
    if now.cancelled_requests:
        text += f"; {now.cancelled_requests:,} more cancelled"
    if now.preventable_requests is not None:
        text += f"; {now.preventable_requests:,} preventable"
    return text


def _ranking(title: str, what: str, rows) -> None:
    _ui.section(f"{title} by repeated calls")
    if any(row.repeated_calls for row in rows):
        _charts.show(
            _charts.bar_counts(rows, f"no {what} recorded"),
            key=f"by_{what}",
            alt=f"{title} with the most repeated calls",
        )
    else:
        st.caption("No repeated call.")


main()
