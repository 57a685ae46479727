"""The policy file: a small TOML file that the dashboard writes and an agent reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from ._canonical import DEFAULT_METADATA_KEYS
from ._exceptions import PolicyError
from ._outcome import Outcome
from ._outcome_rules import OutcomeRule
from ._policy import GuardPolicy, ToolPolicy
from ._policy_checks import show, tool_path

__all__ = [
    "POLICY_FILE_VERSION",
    "check_keys",
    "parse_file",
    "policy_from_dict",
    "policy_from_toml",
    "policy_to_dict",
    "policy_to_toml",
    "read_policy",
    "write_policy",
]

POLICY_FILE_VERSION = 1

T = TypeVar("T")

_OFF = "off"
_KEYS = (
    "version",
    "nudge_threshold",
    "block_threshold",
    "error_nudge_threshold",
    "error_block_threshold",
    "counted_outcomes",
    "metadata_keys",
    "ignored_result_keys",
    "ignored_result_patterns",
    "scope",
    "shadow",
    "strip_annotations",
    "outcome_rules",
    "tools",
)
_TOOL_KEYS = (
    "nudge_threshold",
    "block_threshold",
    "error_nudge_threshold",
    "error_block_threshold",
    "exempt",
    "resets",
    "metadata_keys",
    "ignored_result_keys",
    "ignored_result_patterns",
)
_RULE_KEYS = ("tool", "error_type", "http_status", "text_pattern", "on_success", "outcome", "kind")
_DEFAULT_TOOL = ToolPolicy()


def policy_to_dict(policy: GuardPolicy) -> dict[str, Any]:
    """The policy as plain data: str, int, bool, list and dict, in a fixed order."""
    values = {key: _plain(key, getattr(policy, key)) for key in _KEYS[1:-1]}
    return {
        "version": POLICY_FILE_VERSION,
        **values,
        "tools": {name: _tool_to_dict(policy.tools[name]) for name in sorted(policy.tools)},
    }


def _tool_to_dict(tool: ToolPolicy) -> dict[str, Any]:
    return {
        key: _plain(key, getattr(tool, key))
        for key in _TOOL_KEYS
        if getattr(tool, key) != getattr(_DEFAULT_TOOL, key)
    }


def _plain(key: str, value: Any) -> Any:
    if value is None:
        return _OFF
    if key == "counted_outcomes":
        return [outcome.value for outcome in Outcome if outcome in value]
    if key == "metadata_keys":
        return sorted(value - DEFAULT_METADATA_KEYS)
    if key == "outcome_rules":
        return [_rule_to_dict(rule) for rule in value]
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def _rule_to_dict(rule: OutcomeRule) -> dict[str, Any]:
    values = {key: getattr(rule, key) for key in _RULE_KEYS}
    return {
        key: str(value) if isinstance(value, StrEnum) else value
        for key, value in values.items()
        if value is not None and value is not False
    }


def policy_to_toml(policy: GuardPolicy) -> str:
    """The text of a policy file."""
    data = policy_to_dict(policy)
    tools, rules = data.pop("tools"), data.pop("outcome_rules")
    lines = _pairs(data)
    for rule in rules:
        lines += ["", "[[outcome_rules]]", *_pairs(rule)]
    for name, entry in tools.items():
        lines += ["", f"[tools.{_toml(name)}]", *_pairs(entry)]
    return "\n".join(lines) + "\n"


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items()]


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return _toml_string(str(value))


def _toml_string(text: str) -> str:
    if "\\" in text and "'" not in text and text.isprintable():
        return f"'{text}'"  # regular expressions stay readable
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def policy_from_toml(text: str) -> GuardPolicy:
    """Read the text of a policy file.

    Raises:
        PolicyError: not TOML, another version, an unknown key, a wrong type or value.
    """
    import tomllib

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not a TOML file: {error}") from None
    except RecursionError:
        raise PolicyError("not a policy file: nested too deeply") from None
    return policy_from_dict(data)


def policy_from_dict(data: Mapping[str, Any]) -> GuardPolicy:
    """The policy in plain data, in the shape of the policy file.

    Raises:
        PolicyError: no version or another one, an unknown key, a wrong type or value.
    """
    if not isinstance(data, Mapping):
        raise PolicyError(f"a policy must be a table, not {show(data)}")
    values = dict(data)
    check_keys("", values, _KEYS)
    version = values.pop("version", None)
    if version is None:
        raise PolicyError(f"version is missing; write version = {POLICY_FILE_VERSION} at the top")
    if version != POLICY_FILE_VERSION or isinstance(version, bool):
        raise PolicyError(
            f"version {show(version)} is not understood; this Loopscope reads version {POLICY_FILE_VERSION}"
        )
    tools = values.pop("tools", {})
    if not isinstance(tools, Mapping):
        raise PolicyError(f"tools must be tables like [tools.search], not {show(tools)}")
    values = {key: _value("", key, value) for key, value in values.items()}
    if "outcome_rules" in values:
        values["outcome_rules"] = _rules(values["outcome_rules"])
    return GuardPolicy(**values, tools={name: _tool(name, entry) for name, entry in tools.items()})


def _rules(entries: object) -> list[OutcomeRule]:
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
        raise PolicyError(f"outcome_rules must be tables, each below [[outcome_rules]], not {show(entries)}")
    return [_rule(f"outcome_rules[{number}]", entry) for number, entry in enumerate(entries, 1)]


def _rule(name: str, entry: Mapping[str, Any]) -> OutcomeRule:
    check_keys(f"{name}.", entry, _RULE_KEYS)
    if "outcome" not in entry:
        raise PolicyError(f"{name}: outcome is missing; write what the call counts as")
    try:
        return OutcomeRule(**entry)
    except PolicyError as error:
        raise PolicyError(f"{name}: {error}") from None


def _tool(name: object, entry: object) -> ToolPolicy:
    if not isinstance(name, str):
        raise PolicyError(f"tools must be tables like [tools.search]; {show(name)} is no name")
    if not isinstance(entry, Mapping):
        raise PolicyError(
            f"{tool_path(name)[:-1]} must be a table, not {show(entry)}; "
            f"write [tools.{_toml(name)}] and its keys below"
        )
    prefix = tool_path(name)
    check_keys(prefix, entry, _TOOL_KEYS)
    return ToolPolicy(**{key: _value(prefix, key, value) for key, value in entry.items()})


def _value(prefix: str, key: str, value: object) -> Any:
    return _threshold(prefix + key, value) if key.endswith("_threshold") else value


def _threshold(key: str, value: object) -> Any:
    if value == _OFF:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyError(f'{key} must be a whole number of calls or "off", not {show(value)}')
    return value


def check_keys(prefix: str, data: Mapping[Any, Any], known: tuple[str, ...]) -> None:
    """Raises PolicyError for a key that is not known, naming the nearest one that is."""
    for key in data:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)
            shown = key if isinstance(key, str) and key and key.isprintable() else show(key)
            raise PolicyError(f"unknown key {prefix}{shown}; did you mean {prefix}{near[0]}?")


def read_policy(path: str | os.PathLike[str]) -> GuardPolicy:
    """Read a policy file. Raises PolicyError, its message led by the path."""
    return parse_file(path, policy_from_toml)


def parse_file(path: str | os.PathLike[str], parse: Callable[[str], T]) -> T:
    """What `parse` makes of a file's text. Raises PolicyError, its message led by the path."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"{os.fspath(path)}: not a TOML file: not UTF-8 text") from None
    except OSError as error:
        raise PolicyError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from None
    try:
        return parse(text)
    except PolicyError as error:
        raise PolicyError(f"{os.fspath(path)}: {error}") from None


def write_policy(policy: GuardPolicy, path: str | os.PathLike[str]) -> None:
    """Write a policy file through a temporary neighbour, so that no reader sees half of it."""
    target = Path(path)
    neighbour = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        neighbour.write_text(policy_to_toml(policy), encoding="utf-8")
        neighbour.replace(target)
    except OSError as error:
        with suppress(OSError):
            neighbour.unlink()
        raise PolicyError(f"{os.fspath(path)}: cannot be written: {error.strerror or error}") from None
