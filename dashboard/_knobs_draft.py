"""The draft policy: where it is kept, and how a link carries it.

Thresholds, exemptions and the switch for failed calls are widgets that the address is bound to. All other
knobs are one policy in the session, `rest`, which is valid at any time; what differs in it from the saved
policy goes into one compact parameter, so that a link opens the same draft.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from ..guard import GuardPolicy, Outcome, OutcomeRule, PolicyError, ToolPolicy
from ..replay import Filters

__all__ = [
    "PARAMETER",
    "add_rule",
    "asked_below",
    "assemble",
    "attempt",
    "back_one_step",
    "can_go_back",
    "current",
    "forget",
    "generation",
    "keep_in_link",
    "link_value",
    "looked_again",
    "one_run",
    "problem_of",
    "put",
    "put_below",
    "read_link",
    "remember",
    "rest",
    "say_next",
    "say_now",
    "stays_below",
    "tell_below",
    "tool",
    "with_tool",
]

PARAMETER = "draft"
_LONGEST_LINK = 2_000  # characters; some browsers and chats cut longer addresses
_MOST_BYTES = 200_000  # of a draft in a link
_STEPS = 20

_REST, _NOW, _GENERATION = "_draft_rest", "_draft_now", "_draft_generation"
_PROBLEMS, _UNDO = "_draft_problems", "_draft_undo"
_BELOW, _TOLD, _STAYS, _SAY = "_draft_below", "_draft_told", "_draft_stays", "_draft_say"


def rest(saved: GuardPolicy) -> GuardPolicy:
    """The policy that holds all knobs which are not in the address by themselves."""
    return st.session_state.get(_REST) or plain_rest(saved)


def plain_rest(policy: GuardPolicy) -> GuardPolicy:
    """A policy without what the bound widgets say: exemptions and whether failed calls count."""
    tools = {name: replace(one, exempt=False) for name, one in policy.tools.items()}
    return replace(
        policy,
        counted_outcomes=frozenset(policy.counted_outcomes) - {Outcome.GENERAL_TOOL_ERROR},
        tools={name: one for name, one in tools.items() if one != ToolPolicy()},
    )


def assemble(
    base: GuardPolicy, nudge: int | None, block: int | None, general: bool, exempt: list[str]
) -> GuardPolicy:
    """The draft. Raises PolicyError where thresholds do not go with a tool's own."""
    tools = dict(base.tools)
    for name in exempt:
        tools[name] = replace(tools.get(name, ToolPolicy()), exempt=True)
    outcomes = set(base.counted_outcomes) | ({Outcome.GENERAL_TOOL_ERROR} if general else set())
    return replace(
        base, nudge_threshold=nudge, block_threshold=block, counted_outcomes=frozenset(outcomes), tools=tools
    )


def _as_the_widgets_stand(base: GuardPolicy) -> GuardPolicy:
    """For callbacks, which run before widgets are drawn."""
    state = st.session_state
    nudge = state.get("nudge", base.nudge_threshold) if state.get("nudge_on", True) else None
    block = state.get("block", base.block_threshold) if state.get("block_on", True) else None
    return assemble(base, nudge, block, bool(state.get("general")), list(state.get("exempt", ())))


def attempt(key: str, saved: GuardPolicy, change: Callable[[GuardPolicy], GuardPolicy]) -> None:
    """Put one knob's change into the draft, or note under the knob's key why it cannot be."""
    problems = st.session_state.setdefault(_PROBLEMS, {})
    problems.pop(key, None)
    try:
        changed = change(rest(saved))
        _as_the_widgets_stand(changed)
    except PolicyError as error:
        problems[key] = str(error)
    else:
        _set_rest(changed, saved)


def _set_rest(policy: GuardPolicy, saved: GuardPolicy) -> None:
    policy = plain_rest(policy)
    known = plain_rest(saved)
    known = (
        replace(known, nudge_threshold=policy.nudge_threshold, block_threshold=policy.block_threshold)
        if _fits(known, policy)
        else known
    )
    if policy == known:
        st.session_state.pop(_REST, None)
    else:
        st.session_state[_REST] = policy


def _fits(known: GuardPolicy, policy: GuardPolicy) -> bool:
    try:
        replace(known, nudge_threshold=policy.nudge_threshold, block_threshold=policy.block_threshold)
    except PolicyError:
        return False
    return True


def problem_of(key: str) -> str | None:
    """Why what stands in a knob is not in the draft."""
    return st.session_state.get(_PROBLEMS, {}).get(key)


def generation() -> int:
    """Grows when the whole draft is replaced: part of the keys of knobs, so that they start afresh."""
    return st.session_state.get(_GENERATION, 0)


def put(policy: GuardPolicy, saved: GuardPolicy, before: GuardPolicy | None = None) -> None:
    """Make a policy the draft. Only from callbacks: widgets that are drawn cannot be moved.

    `before`: the draft that an undo brings back.
    """
    state = st.session_state
    if before is not None:
        state[_UNDO] = [*state.get(_UNDO, ())[-_STEPS + 1 :], before]
    state["nudge_on"], state["block_on"] = (
        policy.nudge_threshold is not None,
        policy.block_threshold is not None,
    )
    state["nudge"], state["block"] = policy.nudge_threshold or 3, policy.block_threshold or 5
    state["general"] = Outcome.GENERAL_TOOL_ERROR in policy.counted_outcomes
    state["exempt"] = [name for name, one in policy.tools.items() if one.exempt]
    state[_PROBLEMS] = {}
    state[_GENERATION] = generation() + 1
    _set_rest(policy, saved)


def remember(policy: GuardPolicy) -> None:
    """This is what the knobs have just made."""
    st.session_state[_NOW] = policy


def current(saved: GuardPolicy) -> GuardPolicy:
    """The draft as the knobs of this session stand, for the other parts of the page."""
    return st.session_state.get(_NOW) or saved


def asked_below(part: str, at_once: bool, saved: GuardPolicy, whole: bool) -> GuardPolicy | None:
    """The draft that a part below the knobs shows: the one it was last asked for.

    A part that asks `at_once` follows the draft with every run of the whole page that is not for
    `tell_below`.
    """
    below = st.session_state.setdefault(_BELOW, {})
    if at_once and (part not in below or (whole and not stays_below())):
        below[part] = current(saved)
    asked = below.get(part)
    st.session_state.setdefault(_TOLD, {})[part] = asked is not None and asked != current(saved)
    return asked


def looked_again(part: str, saved: GuardPolicy) -> None:
    """From now on the part shows the draft as it stands."""
    st.session_state.setdefault(_BELOW, {})[part] = current(saved)


def tell_below(draft: GuardPolicy) -> None:
    """Run the page once where a part has to say that it is of an older draft, or need not any more.

    Further moves of a slider redraw nothing below.
    """
    told = st.session_state.get(_TOLD, {})
    below = st.session_state.get(_BELOW, {})
    if any((asked != draft) != told.get(part, False) for part, asked in below.items()):
        st.session_state[_STAYS] = True
        st.rerun()


def put_below() -> None:
    """The whole page has been drawn."""
    st.session_state.pop(_STAYS, None)


def stays_below() -> bool:
    """Whether this run of the page is for `tell_below`: the parts below keep what they show."""
    return bool(st.session_state.get(_STAYS))


def say_next(text: str, icon: str) -> None:
    """For callbacks, which cannot draw: the words stand in a toast of the run that follows."""
    st.session_state[_SAY] = (text, icon)


def say_now() -> None:
    """What a callback had to say."""
    said = st.session_state.pop(_SAY, None)
    if said:
        st.toast(said[0], icon=said[1])


def one_run(filters: Filters) -> Filters:
    """The filter, narrowed to the run that the address names."""
    run = st.query_params.get("run")
    return replace(filters, run_ids=(run,)) if run else filters


def can_go_back() -> bool:
    """Is there a draft that an undo brings back?"""
    return bool(st.session_state.get(_UNDO))


def back_one_step(saved: GuardPolicy) -> None:
    """Bring back the draft before the last one that was put as a whole. For callbacks."""
    steps = st.session_state.get(_UNDO)
    if steps:
        put(steps.pop(), saved)


def forget() -> None:
    """Follow the saved policy again; it has just become what the draft was."""
    st.session_state.pop(_REST, None)
    st.session_state[_PROBLEMS] = {}
    st.session_state[_GENERATION] = generation() + 1


def tool(policy: GuardPolicy, name: str) -> ToolPolicy:
    """A tool's exceptions."""
    return policy.tools.get(name, ToolPolicy())


def with_tool(policy: GuardPolicy, name: str, **changes: Any) -> GuardPolicy:
    """The policy with other exceptions for one tool; none left: the tool is not named any more."""
    changed = replace(tool(policy, name), **changes)
    tools = {one: own for one, own in policy.tools.items() if one != name}
    if changed != ToolPolicy():
        tools[name] = changed
    return replace(policy, tools=tools)


def add_rule(rule: OutcomeRule, saved: GuardPolicy) -> None:
    """Put an outcome rule in front of the draft's own. For callbacks of any page."""
    attempt("rules", saved, lambda policy: replace(policy, outcome_rules=(rule, *policy.outcome_rules)))


def link_value(policy: GuardPolicy) -> str:
    """What differs from the default policy, as text for an address."""
    plain = GuardPolicy().to_dict()
    data = {key: value for key, value in policy.to_dict().items() if value != plain[key]}
    packed = zlib.compress(json.dumps(data, separators=(",", ":")).encode("utf-8", "surrogatepass"), 9)
    return base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def read_link(text: str) -> GuardPolicy:
    """The policy of `link_value`. Raises PolicyError."""
    try:
        packed = base64.urlsafe_b64decode(text[: 4 * _LONGEST_LINK] + "=" * (-len(text) % 4))
        engine = zlib.decompressobj()
        plain = engine.decompress(packed, _MOST_BYTES)
        if engine.unconsumed_tail or not engine.eof:
            raise ValueError("too long, or cut")
        data = json.loads(plain.decode("utf-8", "surrogatepass"))
        if not isinstance(data, dict):
            raise ValueError("not a table")
        return GuardPolicy.from_dict({"version": 1, **data})
    except (ValueError, zlib.error, binascii.Error, RecursionError) as error:
        raise PolicyError(f"the draft in this link cannot be read: {error}") from None


def keep_in_link(saved: GuardPolicy) -> str | None:
    """Take the draft from the link on the first visit; from then on keep the link up to date.

    Returns what there is to say of it.
    """
    state, address = st.session_state, st.query_params
    if "_draft_link_read" not in state:
        state["_draft_link_read"] = True
        asked = address.get(PARAMETER)
        if asked and _REST not in state:
            try:
                _set_rest(read_link(asked), saved)
            except PolicyError as error:
                address.pop(PARAMETER, None)
                return str(error)
    mine = state.get(_REST)
    value = "" if mine is None else link_value(mine)
    if not value or len(value) > _LONGEST_LINK:
        if PARAMETER in address:
            del address[PARAMETER]
        if value:
            return (
                "The draft is too long for a link and stays in this session. Save it under a name to share."
            )
    elif address.get(PARAMETER) != value:
        address[PARAMETER] = value
    return None
