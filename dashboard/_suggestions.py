"""Changes to the draft that the recorded runs speak for: evidence, preview, accept, undo."""

from __future__ import annotations

import streamlit as st

from ..guard import GuardPolicy, PolicyError, describe_changes
from ..replay import Filters, Suggestion, SuggestionReport, accept
from . import _data, _knobs_draft, _policy, _traces_link, _ui
from ._filters import View
from ._text import count, lit, plain

__all__ = ["ahead", "draw"]

_AT_ONCE = 5_000
"""Calls of a store whose suggestions are looked for without being asked."""

_PART = "suggestions"


@st.fragment
@_ui.guarded
def draw(view: View, saved: _policy.Saved) -> None:
    """A fragment of its own: looking takes seconds on a big store, and no slider waits for it."""
    _traces_link.follow()
    if st.session_state.pop("_draft_moved", False):
        st.rerun()  # sliders and figures lie outside this fragment
    _knobs_draft.say_now()
    filters = _knobs_draft.one_run(view.filters)
    now = _knobs_draft.current(saved.policy)
    _ui.section("Suggestions", "Changes that the recorded runs speak for, each replayed before it is shown.")
    with _data.reader() as ask:
        calls = ask.coverage(filters).calls
        ask.release()
    asked = _knobs_draft.asked_below(_PART, calls <= _AT_ONCE, saved.policy, _data.in_whole_page())
    if asked is None:
        st.caption(f"Looking through {count(calls, 'call')} takes a while; sliders stay quick meanwhile.")
        _look("Look for suggestions", saved)
        return
    with st.spinner("Looking through the recorded runs…", show_time=True), _data.reader() as ask:
        report = ask.suggestions(asked, filters)
        ask.release()
    stale = asked != now
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="suggestions_for"):
        if stale:
            st.markdown(
                f":material/history: **For an earlier draft ({_policy.name(asked)}): look again.**",
                width="content",
            )
        else:
            st.caption(f"For the draft with {_policy.name(asked)}.", width="content")
        _look("Look again", saved)
    _show(report, saved, stale)


def ahead(ask: _data.Reader, draft: GuardPolicy, filters: Filters) -> None:
    """Ask what `draw` will ask, while the lease is at hand."""
    if ask.coverage(filters).calls <= _AT_ONCE:
        ask.suggestions(draft, filters)


def _look(label: str, saved: _policy.Saved) -> None:
    def clicked() -> None:
        _knobs_draft.looked_again(_PART, saved.policy)

    st.button(label, icon=":material/search:", key="suggestions_look", on_click=clicked)


def _show(report: SuggestionReport, saved: _policy.Saved, stale: bool) -> None:
    if report.runs_guarded:
        st.caption(
            f":material/info: {count(report.runs_guarded, 'run')} recorded under a live guard "
            f"{'is' if report.runs_guarded == 1 else 'are'} left out: what an agent did after a note is not "
            "what it would have done without."
        )
    if not report.suggestions:
        st.text(f"Nothing to suggest from {count(report.runs, 'run')} with {count(report.calls, 'call')}.")
    for one in report.suggestions:
        with st.container(border=True, key=f"suggestion_{one.key}"):
            _one(one, report.policy, saved, stale)
    notes = report.notes[1:] if report.runs_guarded else report.notes  # the first says the same
    if notes:
        with st.expander("What was looked at and not suggested", icon=":material/info:", key="notes"):
            for note in notes:
                st.text(plain(note, 400))


def _one(one: Suggestion, looked: GuardPolicy, saved: _policy.Saved, stale: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.text(plain(one.title, 200), width="stretch")
        st.button(
            "Accept",
            key=f"accept_{one.key}",
            type="primary",
            icon=":material/check:",
            disabled=stale,
            on_click=_accept,
            args=(one, saved),
            help="The draft has moved on since: look again."
            if stale
            else "Puts it into the draft. Nothing is saved yet.",
        )
    if one.warning:
        st.text(f"⚠ {plain(one.warning, 240)}")
    st.caption(_preview(one))
    with st.expander("Evidence", icon=":material/fact_check:", key=f"evidence_{one.key}"):
        for sentence in describe_changes(looked, one.policy):
            st.text(f"Change: {plain(sentence, 300)}")
        for number, fact in enumerate(one.evidence):
            of = "" if fact.of is None else f" of {fact.of:,}"
            st.text(f"{fact.n:,}{of}: {plain(fact.text, 400)}")
            for place, example in enumerate(fact.examples[:3]):
                with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                    st.button(
                        "Open run",
                        key=f"example_{one.key}_{number}_{place}",
                        type="tertiary",
                        on_click=_traces_link.open_run,
                        args=(example.run_id,),
                    )
                    said = f"call {example.seq} of {plain(example.tool_name, 60)}: {plain(example.text, 200)}"
                    st.text(said, width="stretch")
        if one.covers:
            st.caption(lit(one.covers, 240))


def _preview(one: Suggestion) -> str:
    """Replayed: what this change alone would do. Gain and harm in one line."""

    def step(name: str, what: str) -> str:
        a, b = getattr(one.before, name), getattr(one.after, name)
        return f"{what} {a:,} → {b:,}" if a != b else f"{what} {a:,} as before"

    return "Replayed: " + ", ".join(
        (
            step("runs_nudged", "runs nudged"),
            step("runs_blocked", "runs ended"),
            step("calls_avoidable", "calls spared"),
            step("calls_lost", "calls lost"),
        )
    )


def _accept(one: Suggestion, saved: _policy.Saved) -> None:
    now = _knobs_draft.current(saved.policy)
    try:
        _knobs_draft.put(accept(now, [one]), saved.policy, now)
    except PolicyError as error:
        st.session_state["_pushed"] = plain(error, 240)
        _knobs_draft.say_next("This does not go together with the draft.", ":material/error:")
    else:
        _knobs_draft.say_next("In the draft, not saved yet.", ":material/check:")
    st.session_state["_draft_moved"] = True
