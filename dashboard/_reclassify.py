"""Count a kind of failure in another way: an outcome rule for the draft policy, made from an error text."""

from __future__ import annotations

import re

import streamlit as st

from ..guard import ErrorKind, Outcome, OutcomeRule, PolicyError
from ..replay import ErrorGroup
from . import _knobs_draft, _policy
from ._text import lit, plain

__all__ = ["draw", "pattern_for"]

_MASKED = re.compile(r"<(?:arg|id|n|path|quoted|time)>")
_LONGEST = 120  # characters; a pattern may have 200, and escaping makes it longer
_COUNTS = {
    Outcome.SCHEMA_ERROR: "a schema error: counted",
    Outcome.GENERAL_TOOL_ERROR: "a general error: not counted, unless the policy counts failed calls",
    Outcome.SUCCESS: "a success: its text is a result like any other",
}


def pattern_for(text: str) -> str:
    """A regular expression for the longest part of a masked text that holds nothing volatile."""
    parts = [part for whole in _MASKED.split(text) for part in whole.splitlines()]
    longest = max((part.strip() for part in parts), key=len, default="")
    return re.escape(longest[:_LONGEST]).replace("\\ ", " ")


def draw(group: ErrorGroup, saved: _policy.Saved) -> None:
    """A form that makes the rule; it goes into the draft of the tuning page, not into the saved policy."""
    suggested = Outcome.GENERAL_TOOL_ERROR if group.outcome == "schema_error" else Outcome.SCHEMA_ERROR
    known = group.text is not None and bool(pattern_for(group.text))
    # A form for each text: what was typed for one is not for the other.
    key = f"{abs(hash((group.tool_name, group.error_kind, group.text))):x}"
    with st.expander("Reclassify: count these failures in another way", icon=":material/rule:"):
        st.caption("Adds a rule to the draft policy. Nothing changes until the draft is saved on Tuning.")
        outcome = st.selectbox(
            "Count it as",
            list(_COUNTS),
            index=list(_COUNTS).index(suggested),
            format_func=_COUNTS.__getitem__,
            key=f"rule_outcome_{key}",
        )
        only = st.toggle(f"Only of the tool {lit(group.tool_name, 60)}", value=True, key=f"rule_tool_{key}")
        pattern = st.text_input(
            "Where the text of the failure matches (regular expression)",
            value=pattern_for(group.text) if group.text is not None else "",
            key=f"rule_pattern_{key}",
            disabled=not known,
            help="The part of the text that does not change from call to call. Empty: whatever the text.",
            max_chars=200,
        )
        rule, problem = _made(group, outcome, only, pattern)
        if problem:
            st.caption(":material/error: This rule cannot be used.")
            st.text(plain(problem, 300))
        elif rule is not None and pattern and not all(re.search(pattern, one) for one in group.samples):
            st.caption(":material/warning: It does not match every sample above.")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.button(
                "Add to the draft policy",
                key="reclassify",
                type="primary",
                icon=":material/add:",
                disabled=rule is None,
                on_click=_add,
                args=(rule, saved),
            )
            # Kept as long as the rule stands here: a rerun may be cut short before it was read.
            added, problem = st.session_state.get("_reclassified") or (None, None)
            if rule is None or rule != added:
                pass
            elif problem:
                st.markdown(f":material/error: {lit(problem, 200)}", width="content")
            elif rule in _knobs_draft.rest(saved.policy).outcome_rules:
                st.markdown(":material/check: In the draft.", width="content")
            st.page_link("app_pages/tuning.py", label="See what it changes", icon=":material/tune:")


def _made(
    group: ErrorGroup, outcome: Outcome, only: bool, pattern: str
) -> tuple[OutcomeRule | None, str | None]:
    kind = None if outcome is Outcome.SUCCESS else _kind(group, outcome)
    try:
        rule = OutcomeRule(
            outcome=outcome, kind=kind, tool=group.tool_name if only else None, text_pattern=pattern or None
        )
    except PolicyError as error:
        return None, str(error)
    return rule, None


def _kind(group: ErrorGroup, outcome: Outcome) -> ErrorKind | None:
    """The kind it had, where that goes with the outcome; else what the rule says by itself."""
    kind = ErrorKind(group.error_kind)
    if outcome is Outcome.SCHEMA_ERROR or kind is ErrorKind.VALIDATION:
        return None
    return kind


def _add(rule: OutcomeRule, saved: _policy.Saved) -> None:
    _knobs_draft.add_rule(rule, saved.policy)
    st.session_state["_reclassified"] = rule, _knobs_draft.problem_of("rules")
