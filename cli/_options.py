"""Options that several commands share, spelled and explained once."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..guard import GuardPolicy, LoopscopeError, PolicyError
from ._output import print_note

__all__ = [
    "Block",
    "Db",
    "Format",
    "FormatOption",
    "Nudge",
    "PolicyFile",
    "default_db",
    "load_policy",
    "policy_line",
    "saved_policy",
]


class Format(StrEnum):
    """How a command prints what it found."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def default_db() -> Path:
    """`LOOPSCOPE_DB`, else traces.duckdb in the current folder."""
    return Path(os.environ.get("LOOPSCOPE_DB") or "traces.duckdb")


Db = Annotated[
    Path,
    typer.Option(
        "--db",
        help="The database file.",
        envvar="LOOPSCOPE_DB",
        show_default="traces.duckdb",
        default_factory=default_db,
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        help="A guard policy file (TOML). Not given: the one that the dashboard saved beside the database, "
        "else the defaults.",
    ),
]

Nudge = Annotated[str | None, typer.Option(help="Nudge threshold in place of the policy's; 'off' for none.")]
Block = Annotated[str | None, typer.Option(help="Block threshold in place of the policy's; 'off' for none.")]


def saved_policy(db: Path) -> Path:
    """Where the dashboard saves the policy: `LOOPSCOPE_POLICY`, else `<database>.policy.toml`."""
    named = os.environ.get("LOOPSCOPE_POLICY")
    return Path(named) if named else db.with_suffix(".policy.toml")


def policy_line(policy: GuardPolicy) -> str:
    """The thresholds in words."""

    def named(value: int | None) -> str:
        return "off" if value is None else f"at {value}"

    return f"nudge {named(policy.nudge_threshold)}, block {named(policy.block_threshold)}"


def load_policy(
    db: Path, file: Path | None, nudge: str | None = None, block: str | None = None
) -> GuardPolicy:
    """The policy of `file`, else the saved one, else the default, with the thresholds given beside it.

    `nudge` and `block` are whole numbers from 1, or "off". Raises PolicyError.
    """
    if file is None and saved_policy(db).exists():
        # The pages judge by this file; a command that did not would show other figures than they do.
        file = saved_policy(db)
        print_note(f"policy: {file}")
    policy = GuardPolicy.from_file(file) if file is not None else GuardPolicy()
    changes: dict[str, int | None] = {}
    if nudge is not None:
        changes["nudge_threshold"] = _threshold("--nudge", nudge)
    if block is not None:
        changes["block_threshold"] = _threshold("--block", block)
    return replace(policy, **changes) if changes else policy


def _threshold(option: str, text: str) -> int | None:
    if text.lower() in {"off", "none"}:
        return None
    try:
        return int(text)
    except ValueError:
        raise PolicyError(f"{option} {text!r}: give a whole number from 1, or 'off'") from None


def threshold_range(option: str, text: str) -> range:
    """Thresholds from the first to the last of "first:last". Raises LoopscopeError."""
    match = re.fullmatch(r"(\d{1,4})(?::(\d{1,4}))?", text)
    first = int(match[1]) if match else 0
    last = int(match[2] or match[1]) if match else 0
    if not match or first < 1 or last < first:
        raise LoopscopeError(f"{option} {text!r}: give first:last with 1 ≤ first ≤ last ≤ 9999, e.g. 2:8")
    return range(first, last + 1)
