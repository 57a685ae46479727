"""The list of runs: any number of them, a page at a time, out of the database as sorted there."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy
from ..replay.traces import RunPage, RunRow, RunSort
from . import _data, _first, _snippets, _traces_link, _ui
from ._filters import View
from ._text import count, plain
from ._traces_words import costs, ended, ended_cell, names, short_id, who
from ._units import ago, duration, when

__all__ = ["draw", "table"]

_ROWS = 25
_PAGE = "runs_page"

_SORTS = {  # what the link says, too
    RunSort.NEWEST: "Newest",
    RunSort.REPEATS: "Most repeats",
    RunSort.CALLS: "Most calls",
    RunSort.LONGEST: "Longest",
    RunSort.TOKENS: "Most tokens",
    RunSort.COST: "Dearest",
}
_SORTED = {
    RunSort.NEWEST: "newest",
    RunSort.REPEATS: "one with most repeated calls",
    RunSort.CALLS: "one with most calls",
    RunSort.LONGEST: "longest",
    RunSort.TOKENS: "one with most tokens",
    RunSort.COST: "dearest",
}


def draw(policy: GuardPolicy, view: View) -> None:
    """The page of all runs."""
    head = st.container()
    sort, search = _choices()
    with _data.reader() as ask:
        number = max(1, int(st.session_state.get(_PAGE, 1)))
        with _first.counting(ask):
            found = ask.runs(policy, view.filters, sort, search, _ROWS, (number - 1) * _ROWS)
        if not found.rows and found.total:  # the list got shorter
            st.session_state[_PAGE] = 1
            found = ask.runs(policy, view.filters, sort, search, _ROWS, 0)
        ask.release()
    now = _data.now_ns()
    with head:
        if not found.total:
            _nothing(view, search)
            return
        _ui.sentence(_said(found, sort, view, search))
        _figures(found, view)
    table(found.rows, now_ns=now)
    _ui.page_of(found.total, key=_PAGE, what="runs", rows=_ROWS)


def _choices() -> tuple[RunSort, str]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="runs_choices"):
        sort = st.selectbox(
            "First",
            [str(one) for one in RunSort],
            format_func=lambda one: _SORTS[RunSort(one)],
            key="sort",
            bind="query-params",
            width=200,
        )
        search = st.text_input(
            "Find by id",
            key="find",
            bind="query-params",
            placeholder="Run, trace or session id, or how it begins",
            icon=":material/search:",
            width=360,
            max_chars=300,
        )
    return RunSort(sort), (search or "").strip()


def _nothing(view: View, search: str) -> None:
    if search:
        _ui.sentence(
            f"No run, trace or session in {view.period} has an id that begins with {plain(search, 80)}."
        )
        if view.narrowed:
            st.caption("The filter above is narrower than everything: Clear takes it away.")
        return
    _snippets.nothing_here(
        view, "Runs stand here, newest first; each opens with its spans, its messages and its calls."
    )


def _said(found: RunPage, sort: RunSort, view: View, search: str) -> str:
    first = found.rows[0] if found.rows else None
    text = f"{count(found.total, 'run')} in {view.period}"
    if search:
        text += f" under an id that begins with {plain(search, 60)}"
    if found.with_incidents:
        text += f", {found.with_incidents:,} of them with an incident"
    if first is None or int(st.session_state.get(_PAGE, 1)) > 1:
        return f"{text}."
    return (
        f"{text}. The {_SORTED[sort]}: {who(first)}, {count(first.calls, 'call')} and "
        f"{count(first.requests, 'request')} to a model in {duration(first.duration_ns)}, {ended(first)}."
    )


def _figures(found: RunPage, view: View) -> None:
    with _ui.figures(5, narrowest=130):
        _ui.figure("Runs", f"{found.total:,}", note=f"in {view.period}")
        _ui.figure("Calls", f"{found.calls:,}", note="of these runs, finished")
        _ui.figure("Requests", f"{found.requests:,}", note="to a model")
        _ui.figure(
            "Runs with a repeat",
            f"{found.repeating:,}",
            note=f"of {count(found.total, 'run')}",
            help="At least one call brought the same result as the equal call before it.",
        )
        _ui.figure("Runs with an incident", f"{found.with_incidents:,}", note="a loop, a cycle, …")


def table(found: tuple[RunRow, ...], *, now_ns: int, key: str = "runs") -> None:
    """Runs, a line each; a click on Open goes to the run."""
    rows = pd.DataFrame(
        {
            "open": ["Open"] * len(found),
            "age": [ago(one.last_ns, now_ns) for one in found],
            "agent": [names(one.agent_name or one.service_name, one.several_agents) for one in found],
            "service": [names(one.service_name) for one in found],
            "short": [short_id(one.run_id) for one in found],
            "repeats": [one.repeats for one in found],
            "incidents": [one.incidents for one in found],
            "status": [ended_cell(one) for one in found],
            "calls": [one.calls for one in found],
            "failed": [one.failed_calls for one in found],
            "requests": [one.requests for one in found],
            "took": [duration(one.duration_ns) for one in found],
            "tokens": [one.tokens for one in found],
            "cost": costs([one.cost for one in found]),
            "model": [names(one.model, one.several_models) for one in found],
            "when": [when(one.first_ns) for one in found],
            "run": [plain(one.run_id, 120) for one in found],
            "session": [names(one.session_id) for one in found],
        }
    )
    rows = rows.drop(
        columns=[name for name in ("cost", "tokens", "session") if bool(rows[name].isna().all())]
    )

    def clicked() -> None:
        click = st.session_state[f"{key}_open"]
        if click is not None and 0 <= click.row < len(found):
            _traces_link.open_run(found[click.row].run_id)

    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    _ui.table(
        rows,
        key=key,
        alt="Runs",
        height="content",
        columns={
            "open": st.column_config.ButtonColumn(
                "", on_click=clicked, key=f"{key}_open", type="tertiary", width=56, pinned=True
            ),
            "age": text("Last sign", width=88),
            "agent": text("Agent", width=118, help="Or its service, where the agent has no name"),
            "repeats": number(
                "Repeats", width=66, help="Calls with the same result as the equal call before"
            ),
            "incidents": number("Incidents", width=76),
            "status": text("Ended", width=122),
            "service": text("Service", width=108),
            "short": text(
                "Run", width=100, help="What tells its id from others; the whole id is further right"
            ),
            "calls": number("Calls", width=52, format="localized", help="That finished"),
            "failed": number("Failed", width=56, format="localized", help="Calls that failed"),
            "requests": number("Requests", width=72, format="localized", help="To a model"),
            "took": text("Took", width=70, help="From its first to its last sign"),
            "tokens": number("Tokens", width=66, format="localized", help="Sent and answered"),
            "cost": text("Cost", width=78),
            "model": text("Model", width=130),
            "when": st.column_config.DatetimeColumn("Began (UTC)", format="YYYY-MM-DD HH:mm:ss", width=155),
            "run": text("Run id", width=260),
            "session": text("Session", width=160),
        },
    )
