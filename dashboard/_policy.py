"""The saved policy: one TOML file beside the database, the file that the live guard loads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from ..guard import GuardPolicy, PolicyError
from ._data import database
from ._text import count, plain

__all__ = ["POLICY_VARIABLE", "Saved", "file", "loading_lines", "name", "saved", "warn"]

POLICY_VARIABLE = "LOOPSCOPE_POLICY"


@dataclass(frozen=True, slots=True)
class Saved:
    """The policy in force on all pages."""

    policy: GuardPolicy
    path: Path
    exists: bool
    problem: str | None  # why the file could not be used; the defaults are in force then

    @property
    def in_force(self) -> bool:
        """Whether `policy` is what the file says, and not the defaults."""
        return self.exists and self.problem is None


def file() -> Path:
    """Where the policy is saved: `LOOPSCOPE_POLICY`, else `<database>.policy.toml`."""
    named = os.environ.get(POLICY_VARIABLE)
    return Path(named) if named else database().with_suffix(".policy.toml")


def saved() -> Saved:
    """Read the saved policy; without a file, or with a bad one, the defaults."""
    path = file()
    if not path.exists():
        return Saved(GuardPolicy(), path, False, None)
    try:
        return Saved(GuardPolicy.from_file(path), path, True, None)
    except (PolicyError, OSError) as error:
        return Saved(GuardPolicy(), path, True, str(error))


def name(policy: GuardPolicy) -> str:
    """ "nudge 3, block 5, 1 tool exception"."""
    nudge, block = policy.nudge_threshold, policy.block_threshold
    text = f"nudge {nudge if nudge else 'off'}, block {block if block else 'off'}"
    return f"{text}, {count(len(policy.tools), 'tool exception')}" if policy.tools else text


def loading_lines(path: Path) -> str:
    """The two lines that load a saved policy in an agent."""
    return (
        "from loopscope.guard import DuplicateCallGuard, GuardPolicy\n"
        f"guard = DuplicateCallGuard(GuardPolicy.from_file({str(path)!r}))"
    )


def warn() -> None:
    """Says on every page that the saved policy cannot be used."""
    found = saved()
    if found.problem:
        with st.container(border=True, key="policy_problem"):
            st.markdown(":material/warning: **The saved policy cannot be read; the defaults are in force.**")
            st.text(plain(found.problem, 600))
