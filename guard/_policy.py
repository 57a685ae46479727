"""The knobs of the duplicate-call guard, checked once, when a policy is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from os import PathLike
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ._canonical import DEFAULT_METADATA_KEYS, canonical_arguments, fingerprint, result_hash
from ._exceptions import PolicyError
from ._outcome import Classification, ErrorKind, Outcome, OutcomeFacts
from ._outcome_rules import OutcomeRule, apply_rules, check_rules
from ._patterns import check_patterns
from ._policy_checks import (
    check_bool,
    check_choice,
    check_names,
    check_outcomes,
    check_thresholds,
    show,
    tool_path,
)
from ._recorded import RecordedCall
from ._result_view import ResultView

__all__ = ["INHERIT", "GuardPolicy", "Inherit", "Scope", "Thresholds", "ToolPolicy", "ToolRules"]

Scope = Literal["run", "trace", "session"]


class Inherit(Enum):
    """The type of `INHERIT`."""

    INHERIT = "inherit"

    def __repr__(self) -> str:
        return "INHERIT"


INHERIT = Inherit.INHERIT
"""A tool's threshold that is not set: the policy's own applies."""


class Thresholds(NamedTuple):
    """The counts at which a tool's calls are nudged and blocked; None is off."""

    nudge: int | None
    block: int | None


class ToolRules(NamedTuple):
    """What applies to one tool: the policy's knobs with the tool's own merged in.

    Attributes:
        thresholds: of the equal results in a row.
        error_thresholds: of the equal general errors in a row; None where these are not
            counted on their own.
        exempt: always allowed, never counted.
        resets: a success sets the counts of other tools back.
        metadata_keys: argument names left out of the fingerprint.
        view: what is left out of results; None for nothing.
    """

    thresholds: Thresholds
    error_thresholds: Thresholds | None
    exempt: bool
    resets: bool
    metadata_keys: frozenset[str]
    view: ResultView | None


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """What is different for one tool.

    Attributes:
        nudge_threshold: a count of at least 1, None for "never", or INHERIT.
        block_threshold: likewise.
        exempt: calls of this tool are always allowed and never counted.
        error_nudge_threshold: as `nudge_threshold`, for equal general errors.
        error_block_threshold: likewise.
        resets: a success of this tool changes the world: what other tools returned before is
            forgotten, for all agents, so that asking again is no repeat. Counts of tools that
            reset are kept, or two of them in turn would never be seen to repeat.
        metadata_keys: argument names left out of this tool's fingerprints, beside the policy's.
        ignored_result_keys: keys left out of this tool's results, beside the policy's.
        ignored_result_patterns: passages left out of this tool's results, after the policy's.
    """

    nudge_threshold: int | Inherit | None = INHERIT
    block_threshold: int | Inherit | None = INHERIT
    exempt: bool = False
    error_nudge_threshold: int | Inherit | None = INHERIT
    error_block_threshold: int | Inherit | None = INHERIT
    resets: bool = False
    metadata_keys: Collection[str] = frozenset()
    ignored_result_keys: Collection[str] = frozenset()
    ignored_result_patterns: Collection[str] = ()


_DEFAULT_OUTCOMES = frozenset({Outcome.SUCCESS, Outcome.SCHEMA_ERROR})


@dataclass(frozen=True)
class GuardPolicy:
    """The rules one guard follows. Immutable; a wrong value raises PolicyError at once.

    Attributes:
        nudge_threshold: equal results in a row from which guidance is appended; None is off.
        block_threshold: equal results in a row at which the run is stopped; None is off.
        counted_outcomes: outcomes that take part in counting; calls with others change nothing.
        tools: exceptions by exact tool name.
        metadata_keys: argument names left out of fingerprints at every depth. The names in
            DEFAULT_METADATA_KEYS are always among them; give only the further ones.
        scope: whose calls one count spans: a run, a trace or a session. Live, the host decides
            by giving one guard object to a run, a trace or a session; in replay it is the key
            by which calls are put together.
        strip_annotations: in replay, compare results without the note that a guard left in
            the recording. The live guard sees no notes and never strips.
        error_nudge_threshold: equal general errors in a row from which guidance is appended;
            None is off. Where one of the two is set, general errors of a call have a count of
            their own, whatever `counted_outcomes` says of them: another error text starts it
            again at 1, a success of the same call ends it, and nothing else touches it.
        error_block_threshold: equal general errors in a row at which the run is stopped.
        ignored_result_keys: keys left out of JSON results at every depth before these are
            compared. JSON results then compare by canonical form.
        ignored_result_patterns: regular expressions; what they match is left out of results
            before these are compared. At most 16 (see docs/guard.md for what bounds them).
        shadow: decide and change nothing: verdicts are those of a guard at work, outputs come
            back untouched, there is no guidance, and the host is never told to stop.
        outcome_rules: rules for what a call came to, asked in this order before the built-in
            ones. At most 64, and 16 of them with a pattern.

    Raises:
        PolicyError: a threshold below 1, a nudge threshold that is not below the block
            threshold (after merging a tool's own), a pattern that cannot be used, or a value
            of the wrong type.
    """

    nudge_threshold: int | None = 3
    block_threshold: int | None = 5
    counted_outcomes: Collection[Outcome] = _DEFAULT_OUTCOMES
    tools: Mapping[str, ToolPolicy] = field(default_factory=dict)
    metadata_keys: Collection[str] = DEFAULT_METADATA_KEYS
    scope: Scope = "run"
    strip_annotations: bool = True
    error_nudge_threshold: int | None = None
    error_block_threshold: int | None = None
    ignored_result_keys: Collection[str] = frozenset()
    ignored_result_patterns: Collection[str] = ()
    shadow: bool = False
    outcome_rules: Sequence[OutcomeRule] = ()

    _rules: Mapping[str, ToolRules] = field(init=False, repr=False, compare=False)
    _default: ToolRules = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__  # the dataclass is frozen; this is its constructor
        put(self, "counted_outcomes", check_outcomes("counted_outcomes", self.counted_outcomes))
        put(self, "metadata_keys", DEFAULT_METADATA_KEYS | check_names("metadata_keys", self.metadata_keys))
        put(self, "ignored_result_keys", check_names("ignored_result_keys", self.ignored_result_keys))
        patterns = check_patterns("ignored_result_patterns", self.ignored_result_patterns)
        put(self, "ignored_result_patterns", patterns)
        check_choice("scope", self.scope, ("run", "trace", "session"))
        check_bool("strip_annotations", self.strip_annotations)
        check_bool("shadow", self.shadow)
        put(self, "outcome_rules", check_rules("outcome_rules", self.outcome_rules))
        if not isinstance(self.tools, Mapping):
            raise PolicyError(f"tools must map tool names to ToolPolicy, not be {show(self.tools)}")
        tools = {name: _checked(name, tool) for name, tool in self.tools.items()}
        put(self, "tools", MappingProxyType(tools))
        put(self, "_default", self._merged(ToolPolicy(), ""))
        put(self, "_rules", {name: self._merged(tool, tool_path(name)) for name, tool in tools.items()})

    def _merged(self, tool: ToolPolicy, path: str) -> ToolRules:
        thresholds = _threshold_pair(path, self, tool, "")
        errors = _threshold_pair(path, self, tool, "error_")
        keys = frozenset(self.ignored_result_keys) | frozenset(tool.ignored_result_keys)
        patterns = tuple(dict.fromkeys((*self.ignored_result_patterns, *tool.ignored_result_patterns)))
        check_patterns(f"{path}ignored_result_patterns", patterns)
        return ToolRules(
            thresholds,
            None if errors == (None, None) else errors,
            tool.exempt,
            tool.resets,
            frozenset(self.metadata_keys) | frozenset(tool.metadata_keys),
            ResultView(keys, patterns) if keys or patterns else None,
        )

    def rules_for(self, tool_name: str) -> ToolRules:
        """What applies to a tool, its own exceptions merged in."""
        return self._rules.get(tool_name, self._default)

    def thresholds_for(self, tool_name: str) -> Thresholds:
        """The thresholds that apply to a tool: its own where it has any, else the policy's."""
        return self.rules_for(tool_name).thresholds

    def is_exempt(self, tool_name: str) -> bool:
        """Are calls of this tool always allowed?"""
        return self.rules_for(tool_name).exempt

    def fingerprint(self, tool_name: str, arguments: object) -> int | None:
        """`fingerprint` of a call as this policy compares calls."""
        return fingerprint(tool_name, arguments, metadata_keys=self.rules_for(tool_name).metadata_keys)

    def result_hash(self, tool_name: str, output: object) -> int | None:
        """`result_hash` of an output as this policy compares the results of a tool."""
        view = self.rules_for(tool_name).view
        return result_hash(output) if view is None else view.hash(output)

    def changes_fingerprints(self, tool_name: str) -> bool:
        """Does the policy leave more argument names out than the fingerprints in a store do?"""
        return self.rules_for(tool_name).metadata_keys != DEFAULT_METADATA_KEYS

    def changes_results(self, tool_name: str) -> bool:
        """Does the policy compare results by something else than the result hashes in a store?"""
        return self.rules_for(tool_name).view is not None

    def classify_recorded(self, call: RecordedCall) -> tuple[Outcome | None, ErrorKind | None]:
        """What a recorded call came to by this policy: its outcome and, for failures, the kind.

        What is recorded stands unless one of the `outcome_rules` applies. A call whose outcome is
        not known stays unknown.

        Raises:
            ValueError: the recorded outcome or kind is none that there is.
        """
        outcome = None if call.outcome is None else Outcome(call.outcome)
        kind = None if call.error_kind is None else ErrorKind(call.error_kind)
        if not self.outcome_rules or outcome is None:
            return outcome, kind
        result = call.result
        if result is not None and not isinstance(result, str):
            result = canonical_arguments(result, metadata_keys=())
        failed = outcome is not Outcome.SUCCESS
        facts = OutcomeFacts(failed, result, call.error_message, call.error_type, None, call.http_status)
        found = apply_rules(
            self.outcome_rules, call.tool_name, facts, Classification(outcome, kind, call.http_status)
        )
        return found.outcome, found.kind

    @property
    def set_based(self) -> bool:
        """Can counts be had from fingerprints and result hashes per run alone?

        True if only thresholds, exemptions, counted outcomes, the policy's own metadata keys,
        `strip_annotations` and `shadow` differ from the defaults. Any other policy needs
        recorded texts, or puts calls of several runs together.
        """
        return (
            self.scope == "run"
            and not self.outcome_rules
            and all(
                rules.error_thresholds is None
                and rules.view is None
                and not rules.resets
                and rules.metadata_keys == self._default.metadata_keys
                for rules in (self._default, *self._rules.values())
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """The policy as plain data, in the shape of the policy file."""
        from ._policy_file import policy_to_dict

        return policy_to_dict(self)

    def to_toml(self) -> str:
        """The policy as the text of a policy file; `from_toml` reads it back equal."""
        from ._policy_file import policy_to_toml

        return policy_to_toml(self)

    def to_file(self, path: str | PathLike[str]) -> None:
        """Write the policy file, whole or not at all. Raises PolicyError if it cannot be written."""
        from ._policy_file import write_policy

        write_policy(self, path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GuardPolicy:
        """The policy in plain data as `to_dict` gives it; what is absent has its default.

        Raises PolicyError with the key that is wrong.
        """
        from ._policy_file import policy_from_dict

        return policy_from_dict(data)

    @classmethod
    def from_toml(cls, text: str) -> GuardPolicy:
        """Read the text of a policy file. Raises PolicyError with the key that is wrong."""
        from ._policy_file import policy_from_toml

        return policy_from_toml(text)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> GuardPolicy:
        """Read a policy file. Raises PolicyError with the path and the key that is wrong."""
        from ._policy_file import read_policy

        return read_policy(path)

    @cached_property
    def policy_hash(self) -> str:
        """16 hexadecimal digits that are equal for equal policies, in every process and version."""
        return _stable_hash(_without_later_defaults(self.to_dict()))

    @cached_property
    def rule_id(self) -> str:
        """16 hexadecimal digits that name the counting rule: the knobs that change a count.

        Thresholds and exemptions are not among them: they only judge a count. Of the error
        thresholds it matters whether there are any, because general errors are then counted
        on their own.
        """
        data = _without_later_defaults(self.to_dict())
        rule = {key: data[key] for key in _COUNTING_KEYS if key in data}
        apart = {name: rules.error_thresholds is not None for name, rules in self._rules.items()}
        everywhere = self._default.error_thresholds is not None
        others = sorted(name for name, own in apart.items() if own != everywhere)
        if everywhere or others:
            rule["errors_apart"] = [everywhere, others]
        tools = {
            name: own
            for name, tool in data["tools"].items()
            if (own := {key: tool[key] for key in _COUNTING_TOOL_KEYS if key in tool})
        }
        return _stable_hash({**rule, "tools": tools} if tools else rule)

    def __hash__(self) -> int:
        return hash(self.policy_hash)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled or copied.
        knobs = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return _rebuilt, (type(self), {**knobs, "tools": dict(self.tools)})


_COUNTING_KEYS = (
    "counted_outcomes",
    "metadata_keys",
    "scope",
    "strip_annotations",
    "ignored_result_keys",
    "ignored_result_patterns",
    "outcome_rules",
)
_COUNTING_TOOL_KEYS = ("resets", "metadata_keys", "ignored_result_keys", "ignored_result_patterns")
# Knobs that came after the first policies were hashed. Left out of hashes while they are at their
# defaults, so that an old policy keeps its hash.
_LATER_DEFAULTS: dict[str, Any] = {
    "error_nudge_threshold": "off",
    "error_block_threshold": "off",
    "ignored_result_keys": [],
    "ignored_result_patterns": [],
    "shadow": False,
    "outcome_rules": [],
}

_EARLY = object()


def _without_later_defaults(data: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in data.items()
        if key not in _LATER_DEFAULTS or value != _LATER_DEFAULTS[key]
    }


def _stable_hash(value: object) -> str:
    from json import dumps

    return blake2b(dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def _rebuilt(kind: type[GuardPolicy], knobs: dict[str, Any]) -> GuardPolicy:
    return kind(**knobs)


def _checked(name: object, tool: object) -> ToolPolicy:
    """A tool's exceptions with their collections in one form."""
    if not isinstance(name, str) or not isinstance(tool, ToolPolicy):
        raise PolicyError(f"tools must map tool names to ToolPolicy; {show(name)} maps to {show(tool)}")
    path = tool_path(name)
    check_bool(f"{path}exempt", tool.exempt)
    check_bool(f"{path}resets", tool.resets)
    return replace(
        tool,
        metadata_keys=check_names(f"{path}metadata_keys", tool.metadata_keys) - DEFAULT_METADATA_KEYS,
        ignored_result_keys=check_names(f"{path}ignored_result_keys", tool.ignored_result_keys),
        ignored_result_patterns=check_patterns(
            f"{path}ignored_result_patterns", tool.ignored_result_patterns
        ),
    )


def _threshold_pair(path: str, policy: GuardPolicy, tool: ToolPolicy, kind: str) -> Thresholds:
    """The tool's own thresholds where it has any, else the policy's; `kind` is "" or "error_"."""
    pair = []
    for name in (f"{kind}nudge_threshold", f"{kind}block_threshold"):
        own = getattr(tool, name)
        pair.append(getattr(policy, name) if own is INHERIT else own)
    check_thresholds(path + kind, *pair)
    return Thresholds(*pair)
