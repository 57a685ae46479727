"""The calls of a run in the order of counting, with what the policy in force says of each."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy
from ..replay.traces import RunCall, RunCalls, RunHead
from . import _data, _traces_span, _ui
from ._text import cell, lit, plain
from ._theme import VERDICTS, verdict_text
from ._traces_link import SPAN, VIEW
from ._units import duration, instant

__all__ = ["draw"]

_ROWS = 100


def draw(ask: _data.Reader, head: RunHead, policy: GuardPolicy) -> None:
    """The table of calls, and the selected one whole."""
    ask.release()
    _calls(head, policy)


@st.fragment
@_ui.guarded
def _calls(head: RunHead, policy: GuardPolicy) -> None:
    chosen = st.pills(
        "Verdict",
        [*VERDICTS, "failed"],
        selection_mode="multi",
        format_func=lambda name: "✗ failed" if name == "failed" else verdict_text(name),
        key="run_calls_only",
        label_visibility="collapsed",
        wrap=True,
    )
    actions = tuple(name for name in chosen if name in VERDICTS)
    page = max(1, int(st.session_state.get("run_calls_page", 1)))

    def asked(number: int) -> RunCalls:
        return ask.calls_of_run(
            head.run.run_id,
            policy,
            actions=actions,
            failed="failed" in chosen,
            limit=_ROWS,
            offset=(number - 1) * _ROWS,
        )

    with _data.reader() as ask:
        found = asked(page)
        if not found.calls and page > 1:
            st.session_state["run_calls_page"] = 1
            found = asked(1)
        ask.release()
    if not found.calls:
        st.caption(
            "No call under this choice."
            if chosen
            else "No tool calls were recorded for this run: its agent made none, or they have no spans."
        )
        return
    st.caption(
        "In the order in which the guard counts them. Up to the first intervention that the agent did "
        "not see a verdict is "
        "exact, after it projected. Select a call to read it."
    )
    call = _table(found.calls)
    _ui.page_of(found.total, key="run_calls_page", what="calls", rows=_ROWS)
    if call is not None:
        with st.container(border=True, key="call_detail"):
            st.markdown(f"**Call {'' if call.seq is None else f'{call.seq:,} '}**{lit(call.tool_name, 100)}")
            st.caption(f"{_traces_span.call_facts(call)} · begins {instant(call.start_ns)}")
            _traces_span.call_texts(call, key=f"call_{call.span_id}_{call.position}")
            if st.button(
                "Show among the spans",
                icon=":material/account_tree:",
                key="call_to_span",
                on_click=_to_span,
                args=(call,),
            ):
                st.rerun()  # the whole page: another part of it is open now


def _to_span(call: RunCall) -> None:
    span = f"#{call.position}" if call.position else ""
    st.query_params[SPAN] = f"{call.trace_id}/{call.span_id}{span}"
    st.session_state.pop("_spans", None)
    st.session_state[VIEW] = "Spans"


def _table(calls: tuple[RunCall, ...]) -> RunCall | None:
    start = calls[0].start_ns
    rows = pd.DataFrame(
        {
            "seq": [call.seq for call in calls],
            "verdict": [[verdict_text(call.action)] if call.action else [] for call in calls],
            "count": [call.count or None for call in calls],
            "tool": [plain(call.tool_name, 80) for call in calls],
            "arguments": [cell(call.arguments) for call in calls],
            "result": [cell(call.result) for call in calls],
            "outcome": [_outcome(call) for call in calls],
            "took": [
                "not ended" if call.end_ns is None else duration(call.end_ns - call.start_ns)
                for call in calls
            ],
            "begins": [f"+{duration(call.start_ns - start)}" for call in calls],
            "sure": [
                None if call.action is None else "exact" if call.exact else "projected" for call in calls
            ],
            "turn": [call.turn for call in calls],
            "agent": [plain(call.agent_name, 60) if call.agent_name else None for call in calls],
        }
    )
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    with st.container(key="run_calls_table"):
        picked = st.dataframe(
            rows,
            key="run_calls",
            alt="Calls of the run with verdicts",
            hide_index=True,
            on_select="rerun",
            selection_mode="single-row",
            height="content" if len(rows) <= 20 else 35 * 21,
            placeholder="—",
            column_config={
                "seq": number("Call", width=60, help="Number in the order of counting"),
                "verdict": _ui.verdict_column(),
                "count": number("In a row", width=70, help="Equal results in a row, this one included"),
                "tool": text("Tool", width=140),
                "arguments": text("Arguments", width=210),
                "result": text("Result", width=210),
                "outcome": text("Outcome", width=140),
                "took": text("Took", width=80),
                "begins": text("Begins", width=80, help="After the first call of this page"),
                "sure": text("Certainty", width=82),
                "turn": number("Turn", width=60, help="Of the model's answer that asked for it"),
                "agent": text("Agent", width=120),
            },
        )
    chosen = picked.selection.rows
    return calls[chosen[0]] if chosen and chosen[0] < len(calls) else None


def _outcome(call: RunCall) -> str:
    if call.outcome is None:
        return "not known"
    if call.outcome == "success":
        return "✓ success"
    return f"✗ {(call.error_kind or call.outcome).replace('_', ' ')}"
