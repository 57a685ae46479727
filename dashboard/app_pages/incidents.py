"""Which incidents, worst first; and one of them whole, under its own URL."""

from __future__ import annotations

import streamlit as st

from loopscope.dashboard import _charts, _data, _filters, _incident, _incident_table, _policy, _snippets, _ui
from loopscope.dashboard._text import count, plain
from loopscope.dashboard._theme import KIND_NAMES
from loopscope.dashboard._units import duration
from loopscope.guard import NotFoundError
from loopscope.replay import Incident

view, saved = _filters.current_view(), _policy.saved()

_WORST = {"twins": "are twin calls", "same_error": "is a repeated error"}
"""Kinds whose names do not follow "is a"."""


def main() -> None:
    key = st.query_params.get(_incident_table.PARAMETER)
    if key:
        try:
            _incident.draw(key, saved.policy)
            return
        except NotFoundError:
            _ui.back("All incidents", _incident_table.PARAMETER)
            _ui.sentence("That incident is not in this database.")
            st.caption(
                "The link may belong to another database, or calls that came in since changed the incident. "
                "The database in use stands at the foot of the sidebar."
            )
            return
    _all()


def _all() -> None:
    with _data.reader() as ask:
        found = ask.incidents(saved.policy, view.filters)
        seen = ask.replay(saved.policy, view.filters)
        ask.release()
    if not found:
        if seen.totals.calls:
            _ui.sentence(
                _ui.unjudged(seen.coverage)
                or f"No incident in {count(seen.totals.calls, 'call')} of {count(seen.totals.runs, 'run')}."
            )
            st.caption(
                "An incident is a call made three times with an equal result, a cycle of such calls, "
                "an error that came back three times, or equal calls requested at once."
            )
            _ui.coverage_note(seen.coverage)
        else:
            _snippets.nothing_here(
                view, "Loops, cycles and retry storms stand here, worst first; each opens."
            )
        return
    _ui.sentence(_worst(found))
    shown = _narrow(found)
    _figures(shown, seen.totals.runs)
    _ui.coverage_note(seen.coverage)
    _ui.section("Faults", "Equal faults of different runs in one line, by the calls they repeated.")
    _charts.show(_charts.fault_bars(shown), key="faults", alt="Groups of incidents by repeated calls")
    _ui.section("Incidents, worst first", "Most repeated calls first. Click Open to see the calls of one.")
    rows = _ui.page_of(len(shown), key="incidents_page", what="incidents")
    _incident_table.draw(shown[rows], key="incidents", now_ns=_data.now_ns())
    _take_away()


def _worst(found: list[Incident]) -> str:
    worst = found[0]
    who = f"{plain(worst.agent_name, 60)} / " if worst.agent_name else ""
    what = " → ".join(plain(tool, 40) for tool in worst.tools[:4])
    runs = len({one.run_id for one in found})
    open_ones = sum(not one.resolved for one in found)
    ended = "resolved" if len(found) == 1 else "all of them resolved"
    if open_ones:
        ended = f"{open_ones:,} ended {'its run' if open_ones == 1 else 'their runs'} unresolved"
    kind = _WORST.get(worst.kind) or f"is a {KIND_NAMES.get(worst.kind, worst.kind)}"
    return (
        f"{count(len(found), 'incident')} in {count(runs, 'run')}, {ended}. "
        f"The worst {kind} of {who}{what}: "
        f"{count(worst.calls, 'call')}, {worst.repeated_calls:,} of them for nothing, "
        f"in {duration(worst.duration_ns)}."
    )


def _narrow(found: list[Incident]) -> list[Incident]:
    kinds = [kind for kind in KIND_NAMES if any(one.kind == kind for one in found)]
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        chosen = st.pills(
            "Kind",
            kinds,
            selection_mode="multi",
            format_func=lambda kind: KIND_NAMES[kind],  # what the link says, so without a changing number
            key="kind",
            bind="query-params",
            label_visibility="collapsed",
        )
        unresolved = st.toggle("Unresolved only", key="unresolved", bind="query-params")
    return [one for one in found if (not chosen or one.kind in chosen) and not (unresolved and one.resolved)]


def _figures(shown: list[Incident], all_runs: int) -> None:
    runs = len({one.run_id for one in shown})
    groups = len({one.group for one in shown})
    repeated = sum(one.repeated_calls for one in shown)
    known = [one for one in shown if one.input_tokens is not None]
    spent = sum((one.input_tokens or 0) + (one.output_tokens or 0) for one in known)
    soft = sum(one.soft_failure and not one.resolved for one in shown)
    with _ui.figures():
        _ui.figure("Incidents", f"{len(shown):,}", note=count(groups, "distinct fault"))
        _ui.figure("Runs affected", f"{runs:,}", note=f"of {count(all_runs, 'run')}")
        _ui.figure(
            "Calls for nothing",
            f"{repeated:,}",
            note="brought nothing new",
            help="Calls of these incidents that repeated an earlier one: all but the first, in a cycle all "
            "but the first lap.",
        )
        _ui.figure(
            "Tokens meanwhile",
            f"{spent:,}" if known else "unknown",
            note=f"recorded for {len(known):,} of {count(len(shown), 'incident')}",
        )
        _ui.figure(
            "Soft failures",
            f"{soft:,}",
            note="unresolved, yet the run ended OK",
            help="Unresolved incidents whose run ended OK all the same: its agent span reports no error.",
        )


def _take_away() -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Report of all incidents in this view:")
        _incident.downloads(None, saved.policy, view.filters)


main()
