"""One incident whole: what happened, what it was, the run as lanes, its calls, the report to take away."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy
from ..replay import Filters, Incident, IncidentDetail, Label
from . import (
    _data,
    _first,
    _incident_around,
    _incident_calls,
    _incident_list,
    _label_box,
    _links,
    _queries,
    _ui,
)
from ._charts import show
from ._incident_calls import Place, in_run
from ._incident_faults import FAULT
from ._incident_list import Shown
from ._incident_table import PARAMETER, ended, stay_and_open
from ._labels import label_text
from ._lanes import lanes
from ._text import count, lit, plain
from ._theme import KIND_NAMES, VERDICTS
from ._traces_link import run_query
from ._units import duration, instant, money, tokens, when

__all__ = ["downloads", "draw"]

_FORMATS = {
    "md": ("Markdown", "text/markdown"),
    "html": ("HTML", "text/html"),
    "json": ("JSON", "application/json"),
    "csv": ("CSV", "text/csv"),
}
_SAME = 100
"""Other incidents of the fault that are listed."""


def draw(key: str, policy: GuardPolicy, filters: Filters) -> None:
    """The page of one incident. Raises NotFoundError."""
    with _data.reader() as ask:
        with _first.counting(ask):
            detail = ask.incident(key, policy)
        one = detail.incident
        run_calls = ask.run_calls(one.run_id, policy)
        found, labels = _incident_list.asked(ask, policy, filters)
        group = ask.fault(one.group)
        suggestion = None if one.key in labels else ask.suggested_label(one.key, one.run_id)
        spending = ask.spending(one.run_id, one.first_ns, one.last_ns)
        answer = ask.final_answer(one.run_id)
        tree = ask.span_tree(one.run_id, policy, False) if _incident_around.wanted(detail) else None
        ask.release()
    numbers = _incident_calls.numbers_in_run(run_calls)
    shown = _walk(one.key, found, labels, filters)
    _ui.sentence(detail.summary)
    _badges(detail, len({other.run_id for other in group}))
    _label_box.draw(one, shown, group, suggestion)
    _figures(detail, spending, numbers)
    _ui.coverage_note(detail.coverage)
    _ui.section("The run", _lane_note(detail, len(run_calls)))
    show(lanes(detail, run_calls), key="lanes", alt="Calls of the run in order, one lane for each tool")
    _ways(detail)
    _ui.section("Calls in order", _incident_calls.note(detail))
    _incident_calls.draw(detail, numbers)
    _ui.section("The trace")
    _incident_around.draw(detail, tree)
    _answer(detail, answer)
    _same_fault(one, group, shown.labels)
    _ui.section("Take it away", "A report that reads without this tool. The HTML opens offline.")
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        downloads(one.key, policy, Filters())
    _facts(detail)


def _walk(key: str, found: Sequence[Incident], labels: Mapping[str, Label], filters: Filters) -> Shown:
    """Back to the list, and to the incidents before and behind this one in it; the list."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="walk"):
        _ui.back("All incidents", PARAMETER)
        buttons = st.container(horizontal=True, vertical_alignment="center", gap="small", width="content")
        with st.popover("List", icon=":material/filter_list:", width="content"):
            st.caption("The list that Previous and Next walk through.")
            _incident_list.controls()
        shown = _incident_list.narrowed(found, labels, filters, fault=st.query_params.get(FAULT))
        place, before, behind = shown.place(key)
        unlabelled = shown.next_unlabelled(key)
        with buttons:
            for label, target, icon, shortcut in (
                ("Previous", before, ":material/chevron_left:", "K"),
                ("Next", behind, ":material/chevron_right:", "J"),
                ("Next unlabelled", unlabelled, ":material/new_label:", "N"),
            ):
                st.button(
                    label,
                    key=f"walk_{label.lower().replace(' ', '_')}",
                    icon=icon,
                    shortcut=shortcut,
                    disabled=target is None,
                    on_click=stay_and_open,
                    args=(target,),
                )
        total = len(shown.incidents)
        at = "not in this list of" if place is None else f"{place + 1:,} of"
        st.caption(f"{at} {count(total, 'incident')}, {shown.order.by}", width="content")
    if st.session_state.pop("_all_labelled", False):
        st.success("That was the last incident without a label in this list.", icon=":material/done_all:")
    return shown


def _badges(detail: IncidentDetail, runs: int) -> None:
    one = detail.incident
    with st.container(horizontal=True, gap="xsmall"):
        st.badge(KIND_NAMES.get(one.kind, one.kind), color="blue", icon=":material/all_inclusive:")
        if one.resolved:
            st.badge("resolved", color="green", icon=":material/check:")
        elif one.stopped_at is not None:
            st.badge(
                f"stopped by the guard at call {one.stopped_at:,}", color="green", icon=":material/shield:"
            )
        else:
            st.badge("unresolved: the run ended in it", color="red", icon=":material/close:")
        if one.soft_failure and one.unresolved:
            st.badge(
                "soft failure", color="orange", icon=":material/warning:", help="The run reported success."
            )
        if one.interleaved:
            st.badge("interleaved", color="grey", help="Other calls of the run lay in between.")
        if runs > 1:
            st.badge(f"seen in {runs:,} runs", color="grey", icon=":material/content_copy:")
        if detail.run.guarded:
            st.badge("recorded under a live guard", color="violet", icon=":material/shield:")


def _figures(detail: IncidentDetail, spending: _queries.Recorded, numbers: Mapping[Place, int]) -> None:
    one = detail.incident
    spent = _incident_list.spent(one)
    with _ui.figures(6, 128):
        _ui.figure("Calls", f"{one.calls:,}", note=f"{one.repeated_calls:,} brought nothing new")
        _ui.figure("Took", duration(one.duration_ns), note=f"{duration(one.tool_ns)} of it inside the tools")
        _ui.figure(
            "Tokens meanwhile",
            "unknown" if spent is None else f"{spent:,}",
            note=_of(spending.requests, spending.with_tokens),
        )
        _ui.figure("Cost meanwhile", money(one.cost), note=_of(spending.requests, spending.with_cost))
        for action, number in (("nudge", one.nudge_at), ("block", one.block_at)):
            mark = VERDICTS[action]
            entry = next((call for call in detail.calls if call.number == number), None) if number else None
            sure = entry is None or entry.exact
            place = in_run(entry, numbers) if entry else None
            _ui.figure(
                f"{mark.glyph} {mark.name.capitalize()} at call",
                "none" if number is None else f"{number:,} of {one.calls:,}",
                note=_falls_note(one, action, number, sure, place),
                help=None if sure or number is None else _PROJECTED,
            )


def _of(requests: int, known: int) -> str:
    if not requests:
        return "no request to a model recorded"
    return f"of {known:,} of {count(requests, 'request')} to a model"


_PROJECTED = (
    "Projected: an earlier intervention, which the recorded agent did not see, might have changed "
    "how the run went on."
)


def _falls_note(one: Incident, action: str, number: int | None, sure: bool, place: int | None) -> str:
    if number is None:
        return "not reached under this policy" if not one.after_block else "the run was blocked before"
    after = f"; {count(one.after_block, 'call')} after it" if action == "block" and one.after_block else ""
    run = f", #{place:,} of the run" if place else ""
    return f"of the incident{run}; {'exact' if sure else 'projected'}{after}"


def _lane_note(detail: IncidentDetail, drawn: int) -> str:
    text = "Each call by its number in the run (#) and its tool; large marks belong to this incident."
    if drawn < detail.run.calls:
        text += f" The first {drawn:,} of {count(detail.run.calls, 'call')}."
    return text


def _ways(detail: IncidentDetail) -> None:
    """To the whole run, to tuning, and to the same trace in other tools."""
    one = detail.incident
    found = _links.links(_data.database())
    values = {
        "trace_id": one.trace_id,
        "span_id": one.span_id,
        "run_id": one.run_id,
        "session_id": one.session_id,
        "service_name": one.service_name,
        "agent_name": one.agent_name,
        "start_ms": one.first_ns // 1_000_000,
        "end_ms": one.last_ns // 1_000_000,
    }
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="ways"):
        st.page_link(
            "app_pages/traces.py",
            label="The whole run",
            icon=":material/account_tree:",
            query_params=run_query(one.run_id),
        )
        st.page_link(
            "app_pages/tuning.py",
            label="Tune with this run",
            icon=":material/tune:",
            query_params={"run": one.run_id},
        )
        for link in found.links:
            target = link.to(values)
            if target is not None:
                st.link_button(
                    f"Open in {lit(link.name, 40)}", target, icon=":material/open_in_new:", type="tertiary"
                )
        if not found.links:
            st.caption(
                "Jaeger, Phoenix or Langfuse have this trace, too? `loopscope serve --link "
                "'Jaeger=http://localhost:16686/trace/{trace_id}'` puts a link here."
            )
    if found.problem:
        st.text(plain(f"A link cannot be used: {found.problem}", 400))


def _answer(detail: IncidentDetail, answer: tuple[str, str] | None) -> None:
    ended = {"ok": "Its agent span ended OK.", "error": "Its agent span ended with an error."}
    status = ended.get(detail.run.status or "", "")
    _ui.section("What the run said in the end", f"The final answer as recorded. {status}".strip())
    if answer is None:
        st.caption(":material/block: No final answer is recorded.")
        return
    text, source = answer
    where = "the last answered request" if source == "request" else "the agent's span"
    _ui.text_box(f"From {where} ({count(len(text), 'character')})", text, key=f"answer_{detail.incident.key}")


def _same_fault(one: Incident, group: Sequence[Incident], labels: Mapping[str, Label]) -> None:
    """Other incidents with the same calls but for numbers and ids."""
    others = sorted((other for other in group if other.key != one.key), key=lambda other: -other.last_ns)
    if not others:
        return
    runs = len({other.run_id for other in group})
    _ui.section(
        "The same fault elsewhere",
        f"{count(len(group), 'incident')} in {count(runs, 'run')} with the same calls "
        "but for numbers and ids, this one included; newest first, whatever the filter.",
    )
    shown = others[_ui.page_of(len(others), key="same_page", what="incidents", rows=_SAME)]
    rows = pd.DataFrame(
        {
            "open": ["Open"] * len(shown),
            "when": [when(other.first_ns) for other in shown],
            "repeats": [other.repeated_calls for other in shown],
            "label": [
                label_text(said.verdict.value if (said := labels.get(other.key)) else None) for other in shown
            ],
            "ending": [ended(other) for other in shown],
            "took": [duration(other.duration_ns) for other in shown],
            "run": [plain(other.run_id, 120) for other in shown],
        }
    )

    def clicked() -> None:
        click = st.session_state["same_open"]
        if click is not None and 0 <= click.row < len(shown):
            stay_and_open(shown[click.row].key)

    text = st.column_config.TextColumn
    _ui.table(
        rows,
        key="same",
        alt="Other incidents of the same fault",
        height="content" if len(rows) <= 6 else 240,
        columns={
            "open": st.column_config.ButtonColumn(
                "", on_click=clicked, key="same_open", type="tertiary", width=64, pinned=True
            ),
            "when": st.column_config.DatetimeColumn("Began (UTC)", format="YYYY-MM-DD HH:mm:ss", width=160),
            "repeats": st.column_config.NumberColumn("Repeats", width=72),
            "label": text("Label", width=140),
            "ending": text("Ended", width=128),
            "took": text("Took", width=80),
            "run": text("Run", width=260),
        },
    )


def _facts(detail: IncidentDetail) -> None:
    run, one = detail.run, detail.incident
    known = {
        "Incident": one.key,
        "Run": run.run_id,
        "Run is": run.run_source.replace("_", " "),
        "Traces": ", ".join(run.trace_ids[:5]) + (" …" if len(run.trace_ids) > 5 else ""),
        "Session": run.session_id,
        "Service": run.service_name,
        "Agents": ", ".join(run.agents) or None,
        "Models": ", ".join(run.models) or None,
        "Recorded as": ", ".join(run.dialects),
        "Began": instant(run.first_ns),
        "Ended": instant(run.last_ns),
        "Agent span": run.status,
        "Calls": f"{run.calls:,}",
        "Requests": f"{run.requests:,} ({run.failed_requests:,} failed)",
        "Tokens": tokens(None if run.input_tokens is None else run.input_tokens + (run.output_tokens or 0)),
        "Cost": money(run.cost),
    }
    with st.expander("Facts of the run", icon=":material/list:", key="facts"):
        rows = pd.DataFrame(
            {
                "fact": list(known),
                "value": ["not recorded" if value is None else plain(value, 400) for value in known.values()],
            }
        )
        _ui.table(
            rows,
            key="facts_table",
            alt="Facts of the run",
            height="content",
            columns={
                "fact": st.column_config.TextColumn("", width=140),
                "value": st.column_config.TextColumn("", width="large"),
            },
        )


def downloads(
    key: str | None, policy: GuardPolicy, filters: Filters, keys: Sequence[str] | None = None
) -> None:
    """A button for each format; the report is written when its button is clicked. `keys`: only these."""
    name = f"incident-{re.sub('[^A-Za-z0-9-]', '', key)[:16]}" if key else "incidents"
    for form, (label, mime) in _FORMATS.items():
        st.download_button(
            label,
            data=_write(key, policy, form, filters, keys),
            file_name=f"{name}.{form}",
            mime=mime,
            icon=":material/download:",
            on_click="ignore",
            key=f"download_{form}",
        )


def _write(
    key: str | None, policy: GuardPolicy, form: str, filters: Filters, keys: Sequence[str] | None
) -> Callable[[], bytes]:
    def write() -> bytes:
        with _data.reader() as ask:
            # A byte-order mark, without which spreadsheets take UTF-8 for something else.
            start = b"\xef\xbb\xbf" if form == "csv" else b""
            return start + ask.report(key, policy, form, filters, keys).encode()

    return write
