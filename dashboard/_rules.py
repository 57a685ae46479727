"""Other frameworks' rules beside ours, on the same recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy
from ..replay import Filters
from ..replay.rules import RuleComparison, rule_info
from . import _data, _knobs_draft, _policy, _ui
from ._filters import View
from ._text import count, plain

__all__ = ["ahead", "draw"]

_AT_ONCE = 5_000
"""Calls of a store whose rules are run without being asked."""

_PART = "rules"
_DOES = {"halts": "the run ends", "refuses": "refuses calls", "marks": "marks only"}


@st.fragment
@_ui.guarded
def draw(view: View, saved: _policy.Saved) -> None:
    """A fragment of its own: running all rules takes seconds on a big store."""
    filters = _knobs_draft.one_run(view.filters)
    now = _knobs_draft.current(saved.policy)
    _ui.section(
        "Beside other frameworks' rules",
        "What the rules that ship with other frameworks would have done with the same runs.",
    )
    with _data.reader() as ask:
        calls = ask.coverage(filters).calls
        ask.release()
    asked = _knobs_draft.asked_below(_PART, calls <= _AT_ONCE, saved.policy, _data.in_whole_page())
    if asked is None:
        st.caption(
            f"Running 16 rules over {count(calls, 'call')} takes a while; sliders stay quick meanwhile."
        )
        _run("Run them", saved)
        return
    with st.spinner("Running the rules over the recorded runs…", show_time=True), _data.reader() as ask:
        found = ask.rules(asked, filters)
        ask.release()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="rules_for"):
        if asked == now:
            st.caption(f"*Ours* is the draft with {_policy.name(asked)}.", width="content")
        else:
            st.markdown(
                f":material/history: **For an earlier draft ({_policy.name(asked)}): run again.**",
                width="content",
            )
        _run("Run again", saved)
    _table(found)
    st.caption(
        "All after a first note or stop is projected. The other rules count by thresholds of their own. What "
        "they share with the draft is which calls brought something new (Spared, Lost); *reasoned-override* "
        "also takes the draft's tools left alone and tools that reset others."
    )


def ahead(ask: _data.Reader, draft: GuardPolicy, filters: Filters) -> None:
    """Ask what `draw` will ask, while the lease is at hand."""
    if ask.coverage(filters).calls <= _AT_ONCE:
        ask.rules(draft, filters)


def _run(label: str, saved: _policy.Saved) -> None:
    def clicked() -> None:
        _knobs_draft.looked_again(_PART, saved.policy)

    st.button(label, icon=":material/play_arrow:", key="rules_run", on_click=clicked)


def _table(found: Sequence[RuleComparison]) -> None:
    labelled = any(one.labels is not None and one.labels.n for one in found)
    rows = pd.DataFrame([_row(one, labelled) for one in found])
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    picked = _ui_table(
        rows,
        {
            "rule": text("Rule", width=165, pinned=True),
            "stopped": number("Runs stopped", width=95, help="Its first refusal, halt or question in a run"),
            "spared": number("Spared", width=75, help="Calls after the stop that brought nothing new"),
            "lost": number("Lost", width=65, help="Calls after the stop that brought something new"),
            "right": text("Right", width=80, help="True loops, by your labels, in which it stops"),
            "wrong": number(
                "Wrong",
                width=70,
                help="Polls, legitimate repeats and retries that it "
                "stops. Stops only: the figure True loops caught counts nudges, too",
            ),
            "missed": number("Missed", width=70, help="True loops in which it does not stop"),
            "noticed": number("Runs noted", width=90),
            "only": number("Not by ours", width=95, help="Runs that it stops and the draft does not"),
            "ours": number("Ours only", width=85, help="Runs that the draft stops and it does not"),
            "refused": number("Calls refused", width=100, help="If the agent had gone on as recorded"),
            "does": text("When it fires", width=120),
            "lacking": text("Could not see", width=260),
        },
    )
    if picked is not None:
        info = rule_info(found[picked].rule)
        with st.container(border=True, key="rule_detail"):
            st.text(f"{info.framework}: {info.title}")
            st.text(info.says)
            if info.unseen:
                st.caption(f"Not seen here: {info.unseen}")
            st.caption(f"Source: `{info.source}`")
    else:
        st.caption("Select a row to read what the rule compares, and where it comes from.")


def _ui_table(rows: pd.DataFrame, columns: dict[str, Any]) -> int | None:
    known = {name: config for name, config in columns.items() if name in rows.columns}
    event = st.dataframe(
        rows,
        key="rules_table",
        alt="Other frameworks' rules beside ours",
        hide_index=True,
        column_config=known,
        column_order=list(known),
        on_select="rerun",
        selection_mode="single-row",
        placeholder="—",
    )
    chosen = event["selection"]["rows"] if event else []
    return chosen[0] if chosen and chosen[0] < len(rows) else None


def _row(one: RuleComparison, labelled: bool) -> dict[str, object]:
    stops = one.does != "marks"
    row: dict[str, object] = {
        "rule": one.rule,
        "stopped": one.runs_stopped if stops else None,
        "spared": one.calls_avoidable if stops else None,
        "lost": one.calls_lost if stops else None,
        "noticed": one.runs_noticed,
        "only": one.agreement.only_rule if one.agreement else None,
        "ours": one.agreement.only_ours if one.agreement else None,
        "refused": one.calls_refused,
        "does": _DOES.get(one.does, one.does),
        "lacking": "; ".join(
            f"{count(number, 'call')} without {plain(what, 30)}"
            for what, number in one.lacking.items()
            if number
        )
        or None,
    }
    if labelled and one.labels is not None:
        row["right"] = f"{one.labels.right:,} of {one.labels.right + one.labels.missed:,}"
        row["wrong"], row["missed"] = one.labels.wrong, one.labels.missed
    return row
