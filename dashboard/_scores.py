"""Precision and recall of thresholds over labelled incidents; without labels, how to make some."""

from __future__ import annotations

import streamlit as st

from ..guard import GuardPolicy
from ..replay import Filters, Split
from . import _charts, _data, _tuning_charts
from ._text import count

__all__ = ["ahead", "draw"]

_LEVELS = range(2, 13)
_SPLITS = {Split.TUNING: "Tuning", Split.HELD_OUT: "Held out", Split.ALL: "All"}


def draw(still: GuardPolicy, draft: GuardPolicy, saved: GuardPolicy, filters: Filters) -> None:
    """Draw the bands. `still`: the draft with thresholds that do not move with the sliders."""
    with _data.reader() as ask:
        labels = ask.labels()
        scores = ask.scores(still, _LEVELS, filters) if labels else None
    if scores is None or not scores.labels.incidents:
        _teach(bool(labels))
        return
    found = scores.labels
    with st.container(horizontal=True, gap="small"):
        by = st.segmented_control(
            "Threshold",
            ["block", "nudge"],
            default="block",
            required=True,
            format_func=str.capitalize,
            key="score_by",
            label_visibility="collapsed",
            wrap=True,
            persist_state="session",
        )
        split = st.segmented_control(
            "Split",
            list(_SPLITS),
            default=Split.TUNING,
            required=True,
            format_func=_SPLITS.__getitem__,
            key="score_split",
            label_visibility="collapsed",
            wrap=True,
            persist_state="session",
            help="Choose thresholds by the tuning part, then look at the held-out part: about a third of the "
            "faults, and copies of one fault are always on one side.",
        )
    by, split = by or "block", split or Split.TUNING
    level = "block_threshold" if by == "block" else "nudge_threshold"
    if not any((row.block if by == "block" else row.nudge)[split].n for row in scores.rows):
        st.caption(
            f"No labelled fault falls into this part yet ({count(found.groups[Split.TUNING], 'fault')} in "
            f"tuning, {found.groups[Split.HELD_OUT]:,} held out). Label more faults."
        )
    else:
        _charts.show(
            _tuning_charts.score_bands(scores, by, split, getattr(draft, level), getattr(saved, level)),
            key="score_bands",
            alt=f"Precision and recall by {by} threshold with 95 % intervals, {_SPLITS[split]}",
        )
    st.caption(
        f"{count(found.incidents, 'labelled incident')} ({found.positive:,} true loops, {found.negative:,} "
        f"others) of {count(found.groups[Split.ALL], 'fault')}; {found.unsure:,} unsure and "
        f"{found.unlabelled:,} without a label are left out. Bands are 95 % Wilson intervals, wide for "
        "small n. The other threshold is off."
    )


def ahead(ask: _data.Reader, still: GuardPolicy, filters: Filters) -> None:
    """Ask what `draw` will ask, while the lease is at hand."""
    if ask.labels():
        ask.scores(still, _LEVELS, filters)


def _teach(some: bool) -> None:
    with st.container(border=True, key="label_empty"):
        st.markdown(
            "**No labelled incident falls into this view.**" if some else "**No incident is labelled yet.**"
        )
        st.caption(
            "Here stand the shares of what each threshold catches that were true loops (precision), and of "
            "true loops that it catches (recall), with intervals. Only people can say what was a true loop: "
            "open an incident and press a label button or its key. Ten labels of different faults are a "
            "start. In a terminal:"
        )
        st.code("loopscope incidents\nloopscope label KEY true_loop", language="bash")
        st.page_link("app_pages/incidents.py", label="Label incidents", icon=":material/label:")
