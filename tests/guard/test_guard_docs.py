"""docs/guard.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from loopscope.guard import (
    DuplicateCallGuard,
    ErrorKind,
    GuardPolicy,
    Outcome,
    ToolPolicy,
)

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "guard.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_first_example_prints_what_the_text_says(capsys):
    exec(blocks("python")[0], {})
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["allow 1", "allow 2", "nudge 3", "nudge 4", "block 5"]
    assert all(f"`{line}`" in TEXT for line in printed)


def test_the_table_of_calls_is_what_the_guard_says():
    rows = re.findall(r"^\| `(\w+) (\{.*?\})` \| `(.*?)` \| ([\w ]+) \| (\w+) \| (\d) \|", TEXT, re.MULTILINE)
    assert len(rows) == 6
    guard = DuplicateCallGuard()
    outcomes = {"success": Outcome.SUCCESS, "general error": Outcome.GENERAL_TOOL_ERROR}
    for tool, arguments, output, outcome, action, count in rows:
        verdict = guard.observe(tool_name=tool, arguments=arguments, output=output, outcome=outcomes[outcome])
        assert (verdict.action, verdict.count) == (action, int(count))


def test_the_policy_file_can_be_read_and_every_key_is_described():
    policy = GuardPolicy.from_toml(blocks("toml")[0])
    assert policy.tools == {
        "check_status": ToolPolicy(exempt=True),
        "mcp/search": ToolPolicy(nudge_threshold=2, block_threshold=None),
    }
    keys = [key for key in policy.to_dict() if key != "tools"]
    assert all(f"| `{key}` |" in TEXT for key in keys)


def test_every_outcome_and_error_kind_is_described():
    for name in (*Outcome, *ErrorKind):
        assert f"| `{name}` |" in TEXT
