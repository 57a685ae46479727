"""The rules by name."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...guard import GuardPolicy, LoopscopeError, NotFoundError
from . import (
    cline,
    crewai,
    crush,
    gemini,
    goose,
    hermes,
    openclaw,
    opencode,
    openhands,
    openlit,
    ours,
    qwen,
    roo,
)
from ._calls import CallRecord, rule_calls
from ._rule import RuleInfo, RuleVerdicts, fold

__all__ = ["RULES", "check_options", "rule_info", "run_rule"]

_MODULES = (
    ours,
    crewai,
    opencode,
    roo,
    cline,
    qwen,
    gemini,
    goose,
    openhands,
    hermes,
    crush,
    openclaw,
    openlit,
)

RULES: Mapping[str, RuleInfo] = MappingProxyType({one.name: one for part in _MODULES for one in part.RULES})
"""Every rule that can be run beside ours, by name."""


def rule_info(name: str) -> RuleInfo:
    """The rule of that name. Raises NotFoundError, which names the nearest one."""
    if name not in RULES:
        import difflib

        near = difflib.get_close_matches(name, RULES, n=1, cutoff=0.0)
        raise NotFoundError(f"there is no rule {name!r}; did you mean {near[0]}?")
    return RULES[name]


def check_options(options: Mapping[str, Mapping[str, Any]]) -> None:
    """Can rules be made with these knobs?

    Raises:
        NotFoundError: there is no such rule, or it has no such knob; names those that there are.
        LoopscopeError: the value of a knob is of no use.
    """
    for name, knobs in options.items():
        info = rule_info(name)
        known = _knobs(info)
        for knob in knobs:
            if knob not in known:
                has = f"it has {', '.join(known)}" if known else "it has none"
                raise NotFoundError(f"the rule {name} has no knob {knob!r}; {has}")
        for knob, value in knobs.items():
            _check_knob(f"{name}.{knob}", known[knob], value)


def _knobs(info: RuleInfo) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(info.make).parameters)


def _check_knob(name: str, knob: inspect.Parameter, value: Any) -> None:
    """Knobs are counts from 1 (or off, where the default is), switches, and lists of tools."""
    if isinstance(knob.default, bool):
        fits, wanted = isinstance(value, bool), "true or false"
    elif isinstance(knob.default, tuple):
        fits = isinstance(value, Collection) and not isinstance(value, str)
        wanted = "a list of tools"
    elif knob.name == "policy":
        fits, wanted = isinstance(value, GuardPolicy), "a policy; give it with --policy"
    else:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        fits = fits or (value is None and "None" in str(knob.annotation))
        wanted = "a whole number from 1"
    if not fits:
        raise LoopscopeError(f"{name} must be {wanted}, not {value!r}")


def run_rule(name: str, calls: Iterable[CallRecord], **options: Any) -> RuleVerdicts:
    """What a rule does on the calls of one run; `options` are knobs in place of its defaults.

    Raises:
        NotFoundError: there is no such rule, or it has no such knob.
        LoopscopeError: the value of a knob is of no use.
    """
    check_options({name: options})
    return fold(rule_info(name).rule(**options), rule_calls(calls))
