"""The pages about the guards say what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from loopscope.guard import (
    DuplicateCallGuard,
    ErrorKind,
    GuardPolicy,
    Outcome,
    OutcomeRule,
    PolicyError,
    ToolPolicy,
    describe_changes,
)
from loopscope.guard._outcome_rules import MAX_CHARS, MAX_RULES
from loopscope.guard._patterns import MAX_PATTERNS, MAX_REPEAT, MAX_STEPS, MAX_TEXT

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUARD, POLICY, OVERRIDE = (
    (DOCS / name).read_text(encoding="utf-8") for name in ("guard.md", "policy.md", "reasoned-override.md")
)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_first_example_prints_what_the_text_says(capsys):
    exec(blocks(GUARD, "python")[0], {})
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["allow 1", "allow 2", "nudge 3", "nudge 4", "block 5"]
    assert all(f"`{line}`" in GUARD for line in printed)


def test_the_table_of_calls_is_what_the_guard_says():
    rows = re.findall(
        r"^\| `(\w+) (\{.*?\})` \| `(.*?)` \| ([\w ]+) \| (\w+) \| (\d) \|", GUARD, re.MULTILINE
    )
    assert len(rows) == 6
    guard = DuplicateCallGuard()
    outcomes = {"success": Outcome.SUCCESS, "general error": Outcome.GENERAL_TOOL_ERROR}
    for tool, arguments, output, outcome, action, count in rows:
        verdict = guard.observe(tool_name=tool, arguments=arguments, output=output, outcome=outcomes[outcome])
        assert (verdict.action, verdict.count) == (action, int(count))


def test_the_policy_file_can_be_read_and_every_key_is_described():
    policy = GuardPolicy.from_toml(blocks(POLICY, "toml")[0])
    assert policy.tools == {
        "check_status": ToolPolicy(exempt=True),
        "edit_file": ToolPolicy(resets=True),
        "mcp/search": ToolPolicy(
            nudge_threshold=2, block_threshold=None, metadata_keys=frozenset({"description"})
        ),
    }
    keys = [key for key in policy.to_dict() if key not in ("tools", "outcome_rules")]
    assert "| `[[outcome_rules]]` |" in POLICY
    assert all(f"| `{key}` |" in POLICY for key in keys)
    defaults = dict(re.findall(r"^\| `(\w+)` \| (\S.*?) \|", POLICY, re.MULTILINE))
    for line in GuardPolicy().to_toml().splitlines()[1:]:
        key, value = line.split(" = ")
        assert defaults[key].strip("`") == value


def test_the_example_of_changes_gives_the_sentence_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.toml").write_text(blocks(POLICY, "toml")[0])
    before = GuardPolicy.from_file("policy.toml")
    exec(blocks(POLICY, "python")[0], {})
    changes = describe_changes(before, GuardPolicy.from_file("policy.toml"))
    shown = re.findall(r'# \["(.*?)", …\]', POLICY)
    assert shown
    assert shown[0] in changes


def test_the_outcome_rules_of_the_text_do_what_it_says(capsys):
    policy = GuardPolicy.from_toml("version = 1\n" + blocks(POLICY, "toml")[1])
    assert len(policy.outcome_rules) == 4
    exec(blocks(POLICY, "python")[1], {"policy": policy})
    shown = re.findall(r"print\(.*\)  # (.*)", blocks(POLICY, "python")[1])
    assert capsys.readouterr().out.splitlines() == shown
    text = " ".join(POLICY.split())
    assert f"At most {MAX_RULES} rules, {MAX_PATTERNS} of them with a pattern" in text
    assert f"the first {MAX_CHARS:,} characters" in text
    for one in fields(OutcomeRule):
        assert not one.init or f"| `{one.name}` |" in POLICY


def test_what_bounds_a_pattern_is_what_the_text_says():
    text = " ".join(POLICY.split())
    for sentence in (
        f"at most {MAX_PATTERNS} for a tool",
        f"reach over at most {MAX_REPEAT} repeats",
        f"are at most {MAX_STEPS:,}",
        f"of more than {MAX_TEXT:,} characters, the first and the last {MAX_TEXT // 2:,}",
    ):
        assert sentence in text
    refused = ["(a+)+", r"(\w+\s?)*", ".*.*.*"]
    for pattern in refused[:2]:
        assert f"`{pattern}`" in POLICY
    for pattern in refused:
        with pytest.raises(PolicyError, match="could take too long"):
            GuardPolicy(ignored_result_patterns=[pattern])
    for pattern in (r"\d+:\d+:\d+", "id: .* time: .*"):
        assert f"`{pattern}`" in POLICY
        GuardPolicy(ignored_result_patterns=[pattern])


def test_the_example_of_the_override_prints_what_the_text_says(capsys):
    exec(blocks(OVERRIDE, "python")[0], {})
    assert capsys.readouterr().out == blocks(OVERRIDE, "text")[0]
    exec(blocks(OVERRIDE, "python")[1], {})


def test_every_outcome_and_error_kind_is_described():
    for name in (*Outcome, *ErrorKind):
        assert f"| `{name}` |" in GUARD
