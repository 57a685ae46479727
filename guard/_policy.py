"""The knobs of the duplicate-call guard, checked once, when a policy is made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from os import PathLike
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ._canonical import DEFAULT_METADATA_KEYS
from ._exceptions import PolicyError
from ._outcome import Outcome

__all__ = ["INHERIT", "GuardPolicy", "Inherit", "Thresholds", "ToolPolicy"]


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


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """What is different for one tool.

    Attributes:
        nudge_threshold: a count of at least 1, None for "never", or INHERIT.
        block_threshold: likewise.
        exempt: calls of this tool are always allowed and never counted.
    """

    nudge_threshold: int | Inherit | None = INHERIT
    block_threshold: int | Inherit | None = INHERIT
    exempt: bool = False


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
        scope: what one count spans. "run" is the only scope so far.
        strip_annotations: in replay, compare results without the note that a guard left in
            the recording. The live guard sees no notes and never strips.

    Raises:
        PolicyError: a threshold below 1, a nudge threshold that is not below the block
            threshold (after merging a tool's own), or a value of the wrong type.
    """

    nudge_threshold: int | None = 3
    block_threshold: int | None = 5
    counted_outcomes: Collection[Outcome] = _DEFAULT_OUTCOMES
    tools: Mapping[str, ToolPolicy] = field(default_factory=dict)
    metadata_keys: Collection[str] = DEFAULT_METADATA_KEYS
    scope: Literal["run"] = "run"
    strip_annotations: bool = True

    def __post_init__(self) -> None:
        put = object.__setattr__  # the dataclass is frozen; this is its constructor
        put(self, "counted_outcomes", _outcomes(self.counted_outcomes))
        put(self, "metadata_keys", DEFAULT_METADATA_KEYS | _names("metadata_keys", self.metadata_keys))
        if not isinstance(self.tools, Mapping):
            raise PolicyError(f"tools must map tool names to ToolPolicy, not be {show(self.tools)}")
        put(self, "tools", MappingProxyType(dict(self.tools)))
        if self.scope != "run":
            raise PolicyError(f'scope must be "run", not {show(self.scope)}')
        _check_bool("strip_annotations", self.strip_annotations)
        _check_thresholds("", self.nudge_threshold, self.block_threshold)
        merged: dict[str, Thresholds] = {}
        for name, tool in self.tools.items():
            if not isinstance(name, str) or not isinstance(tool, ToolPolicy):
                raise PolicyError(
                    f"tools must map tool names to ToolPolicy; {show(name)} maps to {show(tool)}"
                )
            _check_bool(f"{tool_path(name)}exempt", tool.exempt)
            nudge = self.nudge_threshold if tool.nudge_threshold is INHERIT else tool.nudge_threshold
            block = self.block_threshold if tool.block_threshold is INHERIT else tool.block_threshold
            _check_thresholds(tool_path(name), nudge, block)
            merged[name] = Thresholds(nudge, block)  # type: ignore[arg-type]
        put(self, "_merged", merged)
        put(self, "_default", Thresholds(self.nudge_threshold, self.block_threshold))
        put(self, "_exempt", frozenset(name for name, tool in self.tools.items() if tool.exempt))

    def thresholds_for(self, tool_name: str) -> Thresholds:
        """The thresholds that apply to a tool: its own where it has any, else the policy's."""
        return self._merged.get(tool_name, self._default)  # type: ignore[attr-defined]

    def is_exempt(self, tool_name: str) -> bool:
        """Are calls of this tool always allowed?"""
        return tool_name in self._exempt  # type: ignore[attr-defined]

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
    def from_toml(cls, text: str) -> GuardPolicy:
        """Read the text of a policy file. Raises PolicyError with the key that is wrong."""
        from ._policy_file import policy_from_toml

        return policy_from_toml(text)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> GuardPolicy:
        """Read a policy file. Raises PolicyError with the path and the key that is wrong."""
        from ._policy_file import read_policy

        return read_policy(path)

    @property
    def policy_hash(self) -> str:
        """16 hexadecimal digits that are equal for equal policies, in every process and version."""
        return _stable_hash(self.to_dict())

    @property
    def rule_id(self) -> str:
        """16 hexadecimal digits that name the counting rule: the knobs that change a count.

        Thresholds and exemptions are not among them: they only judge a count.
        """
        counting = ("counted_outcomes", "metadata_keys", "scope", "strip_annotations")
        return _stable_hash({key: value for key, value in self.to_dict().items() if key in counting})

    def __hash__(self) -> int:
        return hash(self.policy_hash)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled or copied.
        arguments = (
            self.nudge_threshold,
            self.block_threshold,
            self.counted_outcomes,
            dict(self.tools),
            self.metadata_keys,
            self.scope,
            self.strip_annotations,
        )
        return GuardPolicy, arguments


def _stable_hash(value: object) -> str:
    from json import dumps

    return blake2b(dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def tool_path(name: object) -> str:
    """`tools.<name>.`, for messages of one line whatever the tool is called."""
    plain = isinstance(name, str) and name.isprintable() and 0 < len(name) <= 80
    return f"tools.{name if plain else show(name)}."


def show(value: object) -> str:
    """A value for a message: its repr, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_bool(key: str, value: object) -> None:
    if not isinstance(value, bool):
        raise PolicyError(f"{key} must be true or false, not {show(value)}")


def _check_threshold(key: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyError(f"{key} must be a whole number of calls, or None for off, not {show(value)}")
    if value < 1:
        raise PolicyError(
            f'{key} must be at least 1, not {value}; None (in a policy file: "off") turns it off'
        )


def _check_thresholds(prefix: str, nudge: object, block: object) -> None:
    _check_threshold(f"{prefix}nudge_threshold", nudge)
    _check_threshold(f"{prefix}block_threshold", block)
    if isinstance(nudge, int) and isinstance(block, int) and nudge >= block:
        raise PolicyError(
            f"{prefix}nudge_threshold ({nudge}) must be below {prefix}block_threshold ({block}), "
            "or no call would ever be nudged"
        )


def _names(key: str, value: object) -> frozenset[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise PolicyError(f"{key} must be a list of names, not {show(value)}")
    names = list(value)
    for name in names:
        if not isinstance(name, str):
            raise PolicyError(f"{key} must be a list of names; {show(name)} is not one")
    return frozenset(names)


def _outcomes(value: object) -> frozenset[Outcome]:
    outcomes: set[Outcome] = set()
    for name in _names("counted_outcomes", value):
        try:
            outcomes.add(Outcome(name))
        except ValueError:
            known = ", ".join(Outcome)
            raise PolicyError(
                f"counted_outcomes: {show(name)} is not an outcome; there are {known}"
            ) from None
    return frozenset(outcomes)
