"""What would other thresholds have caught, and what would they have broken?"""

from __future__ import annotations

import streamlit as st

from loopscope.dashboard import (
    _data,
    _filters,
    _first,
    _knobs_draft,
    _knobs_shelf,
    _policy,
    _rules,
    _snippets,
    _suggestions,
    _tuning,
)

view, saved = _filters.current_view(), _policy.saved()


def main() -> None:
    st.session_state.pop("_draft_moved", None)
    with _data.reader() as ask:
        with _first.counting(ask):
            seen = ask.impact(saved.policy, view.filters)
        ask.release()
    if not seen.totals.calls:
        _snippets.nothing_here(
            view,
            "Two sliders stand here, and what they would have done to every recorded run "
            "the moment you move them.",
        )
        return
    _tuning.draw(view, saved)
    _suggestions.draw(view, saved)
    _rules.draw(view, saved)
    _knobs_shelf.draw(view, saved)
    _knobs_draft.put_below()


main()
