"""One picture at a time: the map of thresholds, the curve, precision and recall, where runs leave."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from ..guard import GuardPolicy, PolicyError
from ..replay import Filters, Impact
from . import _charts, _data, _knobs, _scores, _tuning_charts, _tuning_map
from ._text import count

__all__ = ["ahead", "draw"]

_PICTURES = {
    "map": "Every pair",
    "curve": "By block threshold",
    "labels": "Precision and recall",
    "leave": "Where runs leave",
}

_FIELDS = {
    "runs_blocked": ("Runs ended", "runs ended"),
    "calls_avoidable": ("Spared", "calls spared"),
    "calls_lost": ("Lost", "calls lost"),
    "trade": ("Spared against lost", "calls spared less calls lost"),
    "runs_nudged": ("Runs nudged", "runs nudged"),
}


def draw(draft: GuardPolicy, saved: GuardPolicy, filters: Filters, now: Impact) -> None:
    """Draw the chosen picture."""
    chosen = st.segmented_control(
        "Picture",
        list(_PICTURES),
        default="map",
        required=True,
        format_func=_PICTURES.__getitem__,
        key="picture",
        label_visibility="collapsed",
        wrap=True,
        persist_state="session",
    )
    if chosen == "curve":
        _curve(draft, saved, filters)
    elif chosen == "labels":
        _scores.draw(_still(draft, saved), draft, saved, filters)
    elif chosen == "leave":
        _leave(now)
    else:
        _map(draft, saved, filters)


def ahead(ask: _data.Reader, draft: GuardPolicy, saved: GuardPolicy, filters: Filters) -> None:
    """Ask what the chosen picture will ask, while the lease is at hand."""
    still, chosen = _still(draft, saved), st.session_state.get("picture") or "map"
    nudges, blocks = _axes(draft, saved)
    if chosen == "map":
        ask.sweep(still, nudges, blocks, filters)
    elif chosen == "curve":
        ask.sweep(still, (None,), _levels(blocks), filters)
    elif chosen == "labels":
        _scores.ahead(ask, still, filters)


def _levels(blocks: range) -> range:
    return range(min(2, blocks.start), max(blocks.stop, 16))


def _still(draft: GuardPolicy, saved: GuardPolicy) -> GuardPolicy:
    """The draft with the saved thresholds: sweeps do not depend on where the sliders stand, so one answer
    serves all their places."""
    try:
        return replace(draft, nudge_threshold=saved.nudge_threshold, block_threshold=saved.block_threshold)
    except PolicyError:  # a tool's own thresholds do not go with the saved ones
        return draft


def _axes(draft: GuardPolicy, saved: GuardPolicy) -> tuple[range, range]:
    nudges = [policy.nudge_threshold for policy in (draft, saved) if policy.nudge_threshold]
    blocks = [policy.block_threshold for policy in (draft, saved) if policy.block_threshold]
    return (
        range(min([2, *nudges]), min(max([8, *nudges]), 40) + 1),
        range(min([3, *blocks]), min(max([10, *blocks]), 40) + 1),
    )


def _map(draft: GuardPolicy, saved: GuardPolicy, filters: Filters) -> None:
    field = st.segmented_control(
        "What the map shows",
        list(_FIELDS),
        default="runs_blocked",
        required=True,
        format_func=lambda name: _FIELDS[name][0],
        key="map_field",
        label_visibility="collapsed",
        wrap=True,
        persist_state="session",
    )
    field = field or "runs_blocked"
    nudges, blocks = _axes(draft, saved)
    with _data.reader() as ask:
        grid = ask.sweep(_still(draft, saved), nudges, blocks, filters)
    _charts.show(
        _tuning_map.threshold_map(
            grid,
            field,
            _FIELDS[field][1],
            (draft.nudge_threshold, draft.block_threshold),
            (saved.nudge_threshold, saved.block_threshold),
        ),
        key="threshold_map",
        alt=f"{_FIELDS[field][0]} for every pair of nudge and block thresholds",
        on_select=_pick,
        selection_mode="points",
    )
    note = "Click a cell to try its thresholds. Runs are projected after their first intervention."
    if field == "trade":
        note = "Upper number: calls spared; lower: calls lost. Greener: more spared than lost. " + note
    st.caption(note)


def _pick() -> None:
    points = (st.session_state.get("threshold_map") or {}).get("selection", {}).get("points", [])
    if points:
        _knobs.set_thresholds(int(points[0]["x"]), int(points[0]["y"]))


def _curve(draft: GuardPolicy, saved: GuardPolicy, filters: Filters) -> None:
    _, blocks = _axes(draft, saved)
    with _data.reader() as ask:
        rows = ask.sweep(_still(draft, saved), (None,), _levels(blocks), filters)
    if not any(row.totals.calls_after_block for row in rows):
        st.caption("No block threshold from here on would have prevented a call.")
        return
    _charts.show(
        _tuning_charts.later_curve(rows, draft.block_threshold, saved.block_threshold),
        key="later_curve",
        alt="Calls after the block for every block threshold, by what they brought later in the recording",
    )
    st.caption(
        "What the calls after the block brought later in the recording: nothing that the run did not know "
        "(spared), something new (lost), or nobody knows. All of it is projected."
    )


def _leave(now: Impact) -> None:
    found = now.divergence
    if not found.runs:
        st.caption("No run would have left its recording: every figure is exact.")
        return
    by = st.segmented_control(
        "Place",
        ["share", "number"],
        default="share",
        required=True,
        format_func={"share": "Share of the run", "number": "Number of the call"}.__getitem__,
        key="leave_by",
        label_visibility="collapsed",
        wrap=True,
        persist_state="session",
    )
    _charts.show(
        _tuning_charts.divergence_bars(found, by or "share"),
        key="divergence",
        alt="Runs by where the draft's first nudge or block lies that the agent did not see",
    )
    share = f", {found.median_share:.0%} of the run" if found.median_share is not None else ""
    st.caption(
        f"{count(found.runs, 'run')} of {now.totals.runs:,} would have left the recording at the first nudge "
        f"or block that the agent did not see; half of them by call {found.median_position}{share}. "
        "What comes later is projected: the later runs leave, the surer the figures."
    )
