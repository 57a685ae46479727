"""The policy file: a small TOML file that the dashboard writes and an agent reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ._canonical import DEFAULT_METADATA_KEYS
from ._exceptions import PolicyError
from ._outcome import Outcome
from ._policy import INHERIT, GuardPolicy, ToolPolicy, show, tool_path

__all__ = [
    "POLICY_FILE_VERSION",
    "policy_from_toml",
    "policy_to_dict",
    "policy_to_toml",
    "read_policy",
    "write_policy",
]

POLICY_FILE_VERSION = 1

_OFF = "off"
_KEYS = (
    "version",
    "nudge_threshold",
    "block_threshold",
    "counted_outcomes",
    "metadata_keys",
    "scope",
    "strip_annotations",
    "tools",
)
_TOOL_KEYS = ("nudge_threshold", "block_threshold", "exempt")


def policy_to_dict(policy: GuardPolicy) -> dict[str, Any]:
    """The policy as plain data: str, int, bool, list and dict, in a fixed order."""
    tools: dict[str, dict[str, Any]] = {}
    for name in sorted(policy.tools):
        tool = policy.tools[name]
        entry: dict[str, Any] = {}
        if tool.nudge_threshold is not INHERIT:
            entry["nudge_threshold"] = _OFF if tool.nudge_threshold is None else tool.nudge_threshold
        if tool.block_threshold is not INHERIT:
            entry["block_threshold"] = _OFF if tool.block_threshold is None else tool.block_threshold
        if tool.exempt:
            entry["exempt"] = True
        tools[name] = entry
    return {
        "version": POLICY_FILE_VERSION,
        "nudge_threshold": _OFF if policy.nudge_threshold is None else policy.nudge_threshold,
        "block_threshold": _OFF if policy.block_threshold is None else policy.block_threshold,
        "counted_outcomes": [outcome.value for outcome in Outcome if outcome in policy.counted_outcomes],
        "metadata_keys": sorted(set(policy.metadata_keys) - DEFAULT_METADATA_KEYS),
        "scope": policy.scope,
        "strip_annotations": policy.strip_annotations,
        "tools": tools,
    }


def policy_to_toml(policy: GuardPolicy) -> str:
    """The text of a policy file."""
    data = policy_to_dict(policy)
    tools = data.pop("tools")
    lines = [f"{key} = {_toml(value)}" for key, value in data.items()]
    for name, entry in tools.items():
        lines += ["", f"[tools.{_toml(name)}]", *(f"{key} = {_toml(value)}" for key, value in entry.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return _toml_string(str(value))


def _toml_string(text: str) -> str:
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
    _check_keys("", data, _KEYS)
    version = data.pop("version", None)
    if version is None:
        raise PolicyError(f"version is missing; write version = {POLICY_FILE_VERSION} at the top")
    if version != POLICY_FILE_VERSION or isinstance(version, bool):
        raise PolicyError(
            f"version {show(version)} is not understood; this Loopscope reads version {POLICY_FILE_VERSION}"
        )
    tools = data.pop("tools", {})
    if not isinstance(tools, dict):
        raise PolicyError(f"tools must be tables like [tools.search], not {show(tools)}")
    for key in ("nudge_threshold", "block_threshold"):
        if key in data:
            data[key] = _threshold(key, data[key])
    return GuardPolicy(**data, tools={name: _tool(name, entry) for name, entry in tools.items()})


def _tool(name: str, entry: object) -> ToolPolicy:
    if not isinstance(entry, dict):
        raise PolicyError(
            f"{tool_path(name)[:-1]} must be a table, not {show(entry)}; "
            f"write [tools.{_toml(name)}] and its keys below"
        )
    prefix = tool_path(name)
    _check_keys(prefix, entry, _TOOL_KEYS)
    values = {
        key: _threshold(prefix + key, value) if key.endswith("_threshold") else value
        for key, value in entry.items()
    }
    return ToolPolicy(**values)


def _threshold(key: str, value: object) -> Any:
    if value == _OFF:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyError(f'{key} must be a whole number of calls or "off", not {show(value)}')
    return value


def _check_keys(prefix: str, data: dict[str, Any], known: Iterable[str]) -> None:
    known = tuple(known)
    for key in data:
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
            shown = key if key.isprintable() and key else show(key)
            raise PolicyError(f"unknown key {prefix}{shown}; did you mean {prefix}{near[0]}?")


def read_policy(path: str | os.PathLike[str]) -> GuardPolicy:
    """Read a policy file. Raises PolicyError, its message led by the path."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PolicyError(f"{os.fspath(path)}: not a TOML file: not UTF-8 text") from None
    except OSError as error:
        raise PolicyError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from None
    try:
        return policy_from_toml(text)
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
