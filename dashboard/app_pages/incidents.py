"""Which incidents, worst first; and one of them whole, under its own URL."""

from __future__ import annotations

import streamlit as st

from loopscope.dashboard import (
    _charts,
    _data,
    _filters,
    _first,
    _incident,
    _incident_faults,
    _incident_list,
    _incident_table,
    _label_box,
    _policy,
    _snippets,
    _ui,
)
from loopscope.dashboard._incident_faults import FAULT
from loopscope.dashboard._incident_list import ORDERS, Order
from loopscope.dashboard._text import count, plain
from loopscope.dashboard._theme import KIND_NAMES
from loopscope.dashboard._units import duration, money
from loopscope.guard import NotFoundError
from loopscope.replay import Coverage, Incident, Totals

view, saved = _filters.current_view(), _policy.saved()

_WORST = {"twins": "are twin calls", "same_error": "is a repeated error"}
"""Kinds whose names do not follow "is a"."""


def main() -> None:
    key = _incident_table.asked_for()
    if key:
        try:
            _incident.draw(key, saved.policy, view.filters)
            return
        except NotFoundError:
            _ui.back("All incidents", _incident_table.PARAMETER)
            _ui.sentence("That incident is not in this database.")
            st.caption(
                "The link may belong to another database, or calls that came in since changed the incident. "
                "The database in use stands at the foot of the sidebar."
            )
            return
    _all(st.query_params.get(FAULT))


def _all(fault: str | None) -> None:
    with _data.reader() as ask:
        with _first.counting(ask):
            found, labels = _incident_list.asked(ask, saved.policy, view.filters)
        seen = ask.totals(saved.policy, view.filters)
        coverage = ask.coverage(view.filters)
        ask.release()
    if not found:
        _none(seen, coverage)
        return
    if fault:
        _ui.back("All faults", FAULT)
    top = st.container()
    _incident_list.controls()
    shown = _incident_list.narrowed(found, labels, view.filters, fault=fault)
    if shown.unlabelled_only and shown.incidents:
        st.caption("Unlabelled incidents: open one, press 1 to 5, and the next one opens by itself.")
    with top:
        _ui.sentence(
            _worst(list(shown.incidents), shown.order, one_fault=bool(fault))
            if shown.incidents
            else "No incident fits these filters."
        )
    if not shown.incidents:
        if shown.unlabelled_only and shown.ordered:
            st.success("Every incident in this view has a label.", icon=":material/done_all:")
        return
    if fault:
        _label_box.for_group(shown.ordered, shown.labels)
    else:
        _label_box.told()
    _figures(shown.incidents, seen.runs)
    _ui.coverage_note(coverage)
    now_ns = _data.now_ns()
    if not fault:
        faults = _incident_faults.faults_of(shown.incidents, shown.order)
        _ui.section(
            "Faults",
            f"Equal incidents of different runs in one line, {shown.order.by}. Open shows those of one.",
        )
        _charts.show(_charts.fault_bars(shown.incidents), key="faults", alt="Faults by repeated calls")
        _incident_faults.draw(faults, shown.labels, key="fault_list", now_ns=now_ns)
    _ui.section("Incidents", f"{shown.order.by.capitalize()}. Click Open to see the calls of one.")
    rows = _ui.page_of(len(shown.incidents), key="incidents_page", what="incidents")
    _incident_table.draw(
        shown.incidents[rows], key="incidents", now_ns=now_ns, labels=shown.labels, here=True
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("This list as a report:")
        keys = [one.key for one in shown.incidents]
        _incident.downloads(None, saved.policy, view.filters, keys)


def _none(seen: Totals, coverage: Coverage) -> None:
    if not seen.calls:
        _snippets.nothing_here(view, "Loops, cycles and retry storms stand here, worst first; each opens.")
        return
    _ui.sentence(
        _ui.unjudged(coverage) or f"No incident in {count(seen.calls, 'call')} of {count(seen.runs, 'run')}."
    )
    st.caption(
        "An incident is a call made three times with an equal result, a cycle of such calls, "
        "an error that came back three times, or equal calls requested at once."
    )
    _ui.coverage_note(coverage)


def _worst(found: list[Incident], order: Order = ORDERS["repeats"], *, one_fault: bool = False) -> str:
    worst = found[0]
    most = order.value(worst)
    equal = 1 if most is None else sum(order.value(one) == most for one in found)
    who = f"{plain(worst.agent_name, 60)} / " if worst.agent_name else ""
    what = " → ".join(plain(tool, 40) for tool in worst.tools[:4])
    runs = len({one.run_id for one in found})
    open_ones = sum(one.unresolved for one in found)
    stopped = sum(one.stopped_at is not None for one in found)
    ended = "resolved" if len(found) == 1 else "all of them resolved"
    if open_ones:
        ended = f"{open_ones:,} ended {'its run' if open_ones == 1 else 'their runs'} unresolved"
    elif stopped:
        others = "" if stopped == len(found) else ", the others resolved"
        ended = f"{stopped:,} stopped by a live guard{others}"
    first, kind = order.worst, _WORST.get(worst.kind) or f"is a {KIND_NAMES.get(worst.kind, worst.kind)}"
    if equal > 1:
        first = f"One of the {equal:,} {order.worst.removeprefix('The ').removeprefix('one ')}"
        kind = kind.replace("are ", "is a case of ")
    cost = f", {money(worst.cost)}" if order.name == "cost" and worst.cost is not None else ""
    spent = _incident_list.spent(worst) if order.name == "tokens" else None
    fault = "of one fault " if one_fault else ""
    return (
        f"{count(len(found), 'incident')} {fault}in {count(runs, 'run')}, {ended}. "
        f"{first} {kind} of {who}{what}: "
        f"{count(worst.calls, 'call')}, {worst.repeated_calls:,} of them for nothing, "
        f"in {duration(worst.duration_ns)}{cost}{'' if spent is None else f', {spent:,} tokens'}."
    )


def _figures(shown: tuple[Incident, ...], all_runs: int) -> None:
    runs = len({one.run_id for one in shown})
    groups = len({one.group for one in shown})
    repeated = sum(one.repeated_calls for one in shown)
    spent = [number for one in shown if (number := _incident_list.spent(one)) is not None]
    costs = [one.cost for one in shown if one.cost is not None]
    soft = sum(one.soft_failure and one.unresolved for one in shown)
    failures = sum(one.repeated_calls for one in shown if one.outcome not in (None, "success"))
    with _ui.figures(6):
        _ui.figure("Incidents", f"{len(shown):,}", note=count(groups, "distinct fault"))
        _ui.figure("Runs affected", f"{runs:,}", note=f"of {count(all_runs, 'run')}")
        _ui.figure(
            "Calls for nothing",
            f"{repeated:,}",
            note=f"includes {count(failures, 'repeated failure')}" if failures else "brought nothing new",
            help="Calls of these incidents that repeated an earlier one: all but the first, in a cycle all "
            "but the first lap.",
        )
        _ui.figure(
            "Tokens meanwhile",
            f"{sum(spent):,}" if spent else "unknown",
            note=f"recorded for {len(spent):,} of {count(len(shown), 'incident')}",
        )
        _ui.figure(
            "Cost meanwhile",
            money(sum(costs) if costs else None),
            note=f"recorded for {len(costs):,} of {count(len(shown), 'incident')}",
        )
        _ui.figure(
            "Soft failures",
            f"{soft:,}",
            note="unresolved, yet the run ended OK",
            help="Unresolved incidents whose run ended OK all the same: its agent span reports no error.",
        )


main()
