"""The knobs in groups: failed calls, tools, arguments and results, scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pandas as pd
import streamlit as st

from ..guard import (
    DEFAULT_METADATA_KEYS,
    INHERIT,
    ErrorKind,
    GuardPolicy,
    Outcome,
    OutcomeRule,
    PolicyError,
    ToolPolicy,
)
from . import _knobs_draft as draft
from . import _ui
from ._text import count, lit, plain

__all__ = ["draw"]

_OUTCOME_WORDS = {
    Outcome.SUCCESS: "successes",
    Outcome.SCHEMA_ERROR: "wrong arguments",
    Outcome.GENERAL_TOOL_ERROR: "failures",
}
_SCOPES = {"run": "One run", "trace": "One trace", "session": "One session"}
_INHERIT, _OFF = "as for all tools", "off"
_LEVELS = (*range(1, 16), 20, 30, 50, 100)
_THRESHOLDS = {
    "nudge_threshold": "Nudge at",
    "block_threshold": "Block at",
    "error_nudge_threshold": "Nudge at equal failures",
    "error_block_threshold": "Block at equal failures",
}


def draw(policy: GuardPolicy, saved: GuardPolicy, known: tuple[str, ...]) -> None:
    """Draw all groups. `policy`: the draft; `known`: the recorded tools."""
    mine = _marks(policy, saved)
    with st.expander(f"Failed calls{mine['failed']}", key="group_failed", icon=":material/error_outline:"):
        _failed(policy, saved, known)
    with st.expander(f"Tools{mine['tools']}", key="group_tools", icon=":material/build:"):
        _tools(policy, saved, known)
    title = f"Arguments and results{mine['texts']}"
    with st.expander(title, key="group_texts", icon=":material/data_object:"):
        _texts(policy, saved)
    with st.expander(f"Scope{mine['scope']}", key="group_scope", icon=":material/crop_free:"):
        _scope(policy, saved)


def _marks(policy: GuardPolicy, saved: GuardPolicy) -> dict[str, str]:
    """A dot behind each group in which the draft differs from the saved policy."""

    def differs(*names: str) -> str:
        return " •" if any(getattr(policy, name) != getattr(saved, name) for name in names) else ""

    return {
        "failed": differs(
            "error_nudge_threshold", "error_block_threshold", "counted_outcomes", "outcome_rules"
        ),
        "tools": differs("tools"),
        "texts": differs(
            "metadata_keys", "ignored_result_keys", "ignored_result_patterns", "strip_annotations"
        ),
        "scope": differs("scope", "shadow"),
    }


def _key(name: str) -> str:
    return f"knob{draft.generation()}_{name}"


def _changed(
    key: str, saved: GuardPolicy, change: Callable[[GuardPolicy, Any], GuardPolicy]
) -> Callable[[], None]:
    """The callback of a knob: its value goes into the draft, or the reason why not beneath it."""
    return lambda: draft.attempt(key, saved, lambda policy: change(policy, st.session_state[key]))


def _problem(key: str) -> None:
    found = draft.problem_of(key)
    if found:
        st.caption(f":red[:material/error:] Not used: {lit(found, 240)}")


def _number(name: str, label: str, value: int | None, saved: GuardPolicy, help: str) -> None:
    key = _key(name)
    st.number_input(
        label,
        1,
        100_000,
        value,
        key=key,
        placeholder="off",
        help=help,
        on_change=_changed(key, saved, lambda policy, now: replace(policy, **{name: now})),
        persist_state="session",
    )
    _problem(key)


def _failed(policy: GuardPolicy, saved: GuardPolicy, known: tuple[str, ...]) -> None:
    st.caption(
        "The same failure of one call, again and again, can have a count of its own. Empty: off. Where it is "
        "on, *Count failed calls too* has no say."
    )
    with st.grid(2, min_column_width=110, gap="small"):
        with st.container():
            _number(
                "error_nudge_threshold",
                "Nudge at equal failures",
                policy.error_nudge_threshold,
                saved,
                "Another error text starts the count again, a success ends it.",
            )
        with st.container():
            _number(
                "error_block_threshold",
                "Block at equal failures",
                policy.error_block_threshold,
                saved,
                "Another error text starts the count again, a success ends it.",
            )
    key = _key("counted_outcomes")
    st.pills(
        "What else counts",
        [Outcome.SUCCESS, Outcome.SCHEMA_ERROR],
        selection_mode="multi",
        default=[one for one in (Outcome.SUCCESS, Outcome.SCHEMA_ERROR) if one in policy.counted_outcomes],
        format_func=lambda one: _OUTCOME_WORDS[one].capitalize(),
        key=key,
        help="Calls that came to something else leave the count as it was.",
        on_change=_changed(
            key, saved, lambda policy, now: replace(policy, counted_outcomes=frozenset(now or ()))
        ),
        persist_state="session",
    )
    _problem(key)
    _rules(policy, saved, known)


def _rules(policy: GuardPolicy, saved: GuardPolicy, known: tuple[str, ...]) -> None:
    """What a call came to, by rules of one's own; the first one that applies decides."""
    st.markdown("**Rules for what a call came to**")
    rules = policy.outcome_rules
    if not rules:
        st.caption("None: the built-in rules decide. Here *exit code 1* of a search can become a success.")
    for number, rule in enumerate(rules):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.text(f"{number + 1}. {_in_words(rule)}", width="stretch")
            st.button(
                "Remove",
                key=_key(f"remove_rule_{number}"),
                type="tertiary",
                icon=":material/close:",
                on_click=_without_rule,
                args=(rule, saved),
            )
    with st.popover("Add a rule", icon=":material/add:", key="add_rule", width="stretch"):
        tool = st.selectbox(
            "Tool",
            [None, *known],
            format_func=lambda name: "Any tool" if name is None else plain(name, 80),
            key="rule_tool",
        )
        pattern = st.text_input("Text matches (regular expression)", key="rule_pattern")
        kind_of_error = st.text_input("Class of the exception", key="rule_error_type")
        status = st.number_input(
            "HTTP status", 100, 599, None, key="rule_status", placeholder="any", width="stretch"
        )
        on_success = st.toggle(
            "Ask about successes",
            key="rule_on_success",
            help="The pattern must match at the start of the result: for tools that report failures in "
            "results which look like successes.",
        )
        outcome = st.selectbox(
            "It is",
            list(Outcome),
            format_func=lambda one: {"success": "a success", "schema_error": "wrong arguments (counts)"}.get(
                one.value, "a failure (does not count)"
            ),
            key="rule_outcome",
        )
        kind = None
        if outcome is not Outcome.SUCCESS:
            kind = st.selectbox(
                "Kind of error",
                [None, *ErrorKind],
                format_func=lambda one: "as the built-in rules say" if one is None else one.replace("_", " "),
                key="rule_kind",
            )

        def add() -> None:
            key = "rules"
            draft.attempt(
                key,
                saved,
                lambda base: replace(
                    base,
                    outcome_rules=(
                        *base.outcome_rules,
                        OutcomeRule(
                            outcome=outcome,
                            kind=kind,
                            tool=tool,
                            error_type=kind_of_error or None,
                            http_status=None if status is None else int(status),
                            text_pattern=pattern or None,
                            on_success=on_success,
                        ),
                    ),
                ),
            )

        st.button("Add to the draft", type="primary", on_click=add, key="rule_add")
        _problem("rules")


def _without_rule(rule: OutcomeRule, saved: GuardPolicy) -> None:
    draft.attempt(
        "rules",
        saved,
        lambda base: replace(
            base, outcome_rules=tuple(one for one in base.outcome_rules if one is not rule and one != rule)
        ),
    )


def _in_words(rule: OutcomeRule) -> str:
    parts = [f"tool {rule.tool}" if rule.tool else "", f"class {rule.error_type}" if rule.error_type else ""]
    parts += [f"status {rule.http_status}" if rule.http_status else ""]
    if rule.text_pattern:
        where = "result begins with" if rule.on_success else "text has"
        parts.append(f"{where} {rule.text_pattern}")
    comes = _OUTCOME_WORDS[rule.outcome] + (f" ({rule.kind.replace('_', ' ')})" if rule.kind else "")
    return plain(f"{', '.join(part for part in parts if part)} → counts among {comes}", 200)


def _tools(policy: GuardPolicy, saved: GuardPolicy, known: tuple[str, ...]) -> None:
    special = {name: one for name, one in policy.tools.items() if one != ToolPolicy()}
    if special:
        _ui.table(
            pd.DataFrame([_row(name, one) for name, one in sorted(special.items())]),
            key="tool_exceptions",
            alt="Tools with exceptions",
            columns={
                "tool": st.column_config.TextColumn("Tool", width=130),
                "what": st.column_config.TextColumn("What is different", width=260),
            },
        )
    else:
        st.caption("No tool has exceptions. Choose one to give it thresholds or knobs of its own.")
    names = list(dict.fromkeys([*sorted(special), *known]))
    if not names:
        return
    name = st.selectbox(
        "Tool",
        names,
        index=None,
        format_func=lambda one: plain(one, 80),
        placeholder="Choose a tool",
        key="knob_tool",
        persist_state="session",
    )
    if name is not None:
        _tool(policy, saved, name)


def _row(name: str, one: ToolPolicy) -> dict[str, str]:
    parts = ["left alone"] if one.exempt else []
    parts += ["resets the others"] if one.resets else []
    for field, label in _THRESHOLDS.items():
        own = getattr(one, field)
        if own is not INHERIT:
            parts.append(f"{label.lower()} {_OFF if own is None else own}")
    for field, label in (
        ("metadata_keys", "argument"),
        ("ignored_result_keys", "result key"),
        ("ignored_result_patterns", "pattern"),
    ):
        if getattr(one, field):
            parts.append(f"{count(len(getattr(one, field)), label)} left out")
    return {"tool": plain(name, 80), "what": "; ".join(parts)}


def _tool(policy: GuardPolicy, saved: GuardPolicy, name: str) -> None:
    """The knobs of one tool."""
    own = draft.tool(policy, name)
    mark = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()

    def put(key: str, field: str, read: Callable[[Any], Any]) -> Callable[[], None]:
        return _changed(key, saved, lambda base, now: draft.with_tool(base, name, **{field: read(now)}))

    with st.grid(2, min_column_width=110, gap="small"):
        for field, label in _THRESHOLDS.items():
            key, value = _key(f"{mark}_{field}"), getattr(own, field)
            levels = (_INHERIT, _OFF, *sorted({*_LEVELS, *([value] if isinstance(value, int) else [])}))
            with st.container():
                st.selectbox(
                    label,
                    levels,
                    index=levels.index(_INHERIT if value is INHERIT else _OFF if value is None else value),
                    key=key,
                    on_change=put(key, field, _threshold),
                    persist_state="session",
                )
                _problem(key)
    key = _key(f"{mark}_exempt")
    st.toggle(
        "Leave it alone",
        value=own.exempt,
        key=key,
        help="Its calls are always allowed and never counted.",
        on_change=_exempt,
        args=(key, name),
    )
    key = _key(f"{mark}_resets")
    st.toggle(
        "Its success resets the others",
        value=own.resets,
        key=key,
        help="An edit before a rebuild: asking other tools again after it is no repeat.",
        on_change=put(key, "resets", bool),
        persist_state="session",
    )
    _names(mark + "_metadata_keys", "Arguments to leave out", own.metadata_keys, put, "metadata_keys")
    _names(
        mark + "_ignored_result_keys",
        "Result keys to leave out",
        own.ignored_result_keys,
        put,
        "ignored_result_keys",
    )
    key = _key(f"{mark}_ignored_result_patterns")
    patterns = tuple(own.ignored_result_patterns)
    st.text_area(
        "Patterns to leave out of results",
        "\n".join(map(_one_line, patterns)),
        height=80,
        key=key,
        placeholder=r"request id: \w+",
        on_change=put(key, "ignored_result_patterns", lambda text: _lines(text, patterns)),
        persist_state="session",
    )
    _problem(key)
    st.button(
        "Take all exceptions of this tool away",
        type="tertiary",
        icon=":material/close:",
        key=_key(f"{mark}_none"),
        disabled=own == ToolPolicy(),
        on_click=_no_exceptions,
        args=(policy, saved, name),
    )


def _threshold(value: object) -> Any:
    return INHERIT if value == _INHERIT else None if value == _OFF else value


def _exempt(key: str, name: str) -> None:
    state = st.session_state
    others = [one for one in state.get("exempt", ()) if one != name]
    state["exempt"] = [*others, name] if state[key] else others


def _no_exceptions(policy: GuardPolicy, saved: GuardPolicy, name: str) -> None:
    tools = {one: own for one, own in policy.tools.items() if one != name}
    try:
        draft.put(replace(policy, tools=tools), saved, policy)
    except PolicyError as error:  # pragma: no cover - fewer exceptions never clash
        st.session_state["_pushed"] = str(error)


def _names(
    name: str,
    label: str,
    now: Iterable[str],
    put: Callable[..., Callable[[], None]],
    field: str,
    help: str = "",
) -> None:
    key = _key(name)
    values = sorted(now)
    st.multiselect(
        label,
        list(dict.fromkeys([*values, *(st.session_state.get(key) or ())])),
        default=values,
        format_func=lambda one: plain(one, 80),
        key=key,
        accept_new_options=True,
        placeholder="Type a name",
        help=help or None,
        on_change=put(key, field, frozenset),
        persist_state="session",
    )
    _problem(key)


def _one_line(pattern: str) -> str:
    return pattern.replace("\n", r"\n").replace("\r", r"\r")


def _lines(text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """One pattern a line; a pattern with a line end in it is shown as one line and stays what it was."""
    whole = {_one_line(pattern): pattern for pattern in known}
    return tuple(dict.fromkeys(whole.get(line, line) for line in (text or "").splitlines() if line.strip()))


def _texts(policy: GuardPolicy, saved: GuardPolicy) -> None:
    st.caption(
        "For all tools. What is noise for one tool is a page number for another: better give it per tool."
    )

    def put(key: str, field: str, read: Callable[[Any], Any]) -> Callable[[], None]:
        return _changed(key, saved, lambda base, now: replace(base, **{field: read(now)}))

    always = ", ".join(sorted(DEFAULT_METADATA_KEYS))
    _names(
        "metadata_keys",
        "Arguments to leave out",
        set(policy.metadata_keys) - DEFAULT_METADATA_KEYS,
        put,
        "metadata_keys",
        help=f"Names that mean nothing to the tool, at every depth. Always left out: {always}.",
    )
    _names(
        "ignored_result_keys",
        "Result keys to leave out",
        policy.ignored_result_keys,
        put,
        "ignored_result_keys",
        help="Keys of JSON results, at every depth: durations, process ids.",
    )
    key, patterns = _key("ignored_result_patterns"), tuple(policy.ignored_result_patterns)
    st.text_area(
        "Patterns to leave out of results",
        "\n".join(map(_one_line, patterns)),
        height=80,
        key=key,
        placeholder=r"\d+ ms",
        help="Regular expressions, one a line.",
        on_change=put(key, "ignored_result_patterns", lambda text: _lines(text, patterns)),
        persist_state="session",
    )
    _problem(key)
    key = _key("strip_annotations")
    st.toggle(
        "Compare without recorded notes",
        value=policy.strip_annotations,
        key=key,
        help="For recordings made under a guard. The live guard sees no notes.",
        on_change=put(key, "strip_annotations", bool),
        persist_state="session",
    )


def _scope(policy: GuardPolicy, saved: GuardPolicy) -> None:
    key = _key("scope")
    st.segmented_control(
        "One count spans",
        list(_SCOPES),
        default=policy.scope,
        required=True,
        format_func=_SCOPES.__getitem__,
        key=key,
        help="Wider: a repeat in the next run of the same trace or session counts on. Two turns that rightly "
        "read the same file then look like a loop.",
        on_change=_changed(key, saved, lambda base, now: replace(base, scope=now or "run")),
        persist_state="session",
    )
    key = _key("shadow")
    st.toggle(
        "Shadow mode",
        value=policy.shadow,
        key=key,
        help="The live guard decides and records, and changes nothing. Figures here stay the same.",
        on_change=_changed(key, saved, lambda base, now: replace(base, shadow=bool(now))),
        persist_state="session",
    )
