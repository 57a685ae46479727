"""The policy: what it refuses, and the file it is written to and read from."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_values import policies

from loopscope.guard import (
    DEFAULT_METADATA_KEYS,
    INHERIT,
    GuardPolicy,
    LoopscopeError,
    Outcome,
    OutcomeRule,
    PolicyError,
    ToolPolicy,
    fingerprint,
    result_hash,
)


def test_defaults():
    policy = GuardPolicy()
    assert policy.thresholds_for("anything") == (3, 5)
    assert policy.counted_outcomes == {Outcome.SUCCESS, Outcome.SCHEMA_ERROR}
    assert policy.metadata_keys == DEFAULT_METADATA_KEYS
    assert not policy.is_exempt("anything")


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({"nudge_threshold": 0}, "nudge_threshold must be at least 1, not 0"),
        ({"block_threshold": -1}, "block_threshold must be at least 1, not -1"),
        ({"nudge_threshold": 5}, "nudge_threshold (5) must be below block_threshold (5)"),
        (
            {"nudge_threshold": 3, "block_threshold": 2},
            "nudge_threshold (3) must be below block_threshold (2)",
        ),
        ({"nudge_threshold": True}, "nudge_threshold must be a whole number"),
        ({"block_threshold": 5.0}, "block_threshold must be a whole number"),
        ({"block_threshold": "5"}, "block_threshold must be a whole number"),
        ({"tools": {"x": ToolPolicy(nudge_threshold=5)}}, "tools.x.nudge_threshold (5) must be below"),
        ({"tools": {"x": ToolPolicy(block_threshold=3)}}, "tools.x.nudge_threshold (3) must be below"),
        ({"tools": {"x": ToolPolicy(block_threshold=0)}}, "tools.x.block_threshold must be at least 1"),
        ({"tools": {"x": ToolPolicy(exempt=1)}}, "tools.x.exempt must be true or false"),
        ({"tools": {"x": {"exempt": True}}}, "tools must map tool names to ToolPolicy"),
        ({"tools": ["x"]}, "tools must map tool names to ToolPolicy"),
        ({"counted_outcomes": "success"}, "counted_outcomes must be a list of names"),
        ({"counted_outcomes": ["sucess"]}, "'sucess' is not an outcome; there are success, schema_error"),
        ({"metadata_keys": "trace"}, "metadata_keys must be a list of names"),
        ({"metadata_keys": [1]}, "metadata_keys must be a list of names"),
        ({"scope": "agent"}, 'scope must be "run", "trace" or "session", not \'agent\''),
        ({"shadow": 1}, "shadow must be true or false"),
        ({"error_nudge_threshold": 0}, "error_nudge_threshold must be at least 1, not 0"),
        (
            {"error_nudge_threshold": 3, "error_block_threshold": 3},
            "error_nudge_threshold (3) must be below error_block_threshold (3)",
        ),
        (
            {"error_block_threshold": 4, "tools": {"x": ToolPolicy(error_nudge_threshold=4)}},
            "tools.x.error_nudge_threshold (4) must be below tools.x.error_block_threshold (4)",
        ),
        ({"tools": {"x": ToolPolicy(resets=1)}}, "tools.x.resets must be true or false"),
        ({"tools": {"x": ToolPolicy(metadata_keys="a")}}, "tools.x.metadata_keys must be a list of names"),
        ({"ignored_result_keys": "a"}, "ignored_result_keys must be a list of names"),
        ({"ignored_result_patterns": "a"}, "ignored_result_patterns must be a list of regular expressions"),
        (
            {"ignored_result_patterns": [b"a"]},
            "ignored_result_patterns must be a list of regular expressions",
        ),
        ({"ignored_result_patterns": ["["]}, "ignored_result_patterns: '[': not a regular expression"),
        ({"strip_annotations": "yes"}, "strip_annotations must be true or false"),
    ],
)
def test_policies_that_contradict_themselves_are_refused(knobs, says):
    with pytest.raises(PolicyError) as caught:
        GuardPolicy(**knobs)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LoopscopeError)


def test_off_is_none_and_needs_no_partner():
    assert GuardPolicy(nudge_threshold=None, block_threshold=1).thresholds_for("x") == (None, 1)
    assert GuardPolicy(nudge_threshold=9, block_threshold=None).thresholds_for("x") == (9, None)
    assert GuardPolicy(nudge_threshold=None, block_threshold=None).thresholds_for("x") == (None, None)


def test_a_tools_own_thresholds_are_merged_with_the_defaults():
    policy = GuardPolicy(
        nudge_threshold=3,
        block_threshold=5,
        tools={
            "poll": ToolPolicy(nudge_threshold=10, block_threshold=None),
            "late": ToolPolicy(block_threshold=8),
            "mute": ToolPolicy(nudge_threshold=None),
            "free": ToolPolicy(exempt=True),
        },
    )
    assert policy.thresholds_for("poll") == (10, None)
    assert policy.thresholds_for("late") == (3, 8)
    assert policy.thresholds_for("mute") == (None, 5)
    assert policy.thresholds_for("POLL") == (3, 5)
    assert [name for name in policy.tools if policy.is_exempt(name)] == ["free"]


def test_a_policy_cannot_be_changed_behind_its_own_back():
    tools = {"x": ToolPolicy(exempt=True)}
    policy = GuardPolicy(tools=tools)
    tools["y"] = ToolPolicy(nudge_threshold=99)
    assert set(policy.tools) == {"x"}
    with pytest.raises(TypeError):
        policy.tools["z"] = ToolPolicy()  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.nudge_threshold = 1  # type: ignore[misc]


def test_a_policy_can_be_copied_pickled_replaced_and_used_as_a_key():
    policy = GuardPolicy(tools={"x": ToolPolicy(block_threshold=9)}, metadata_keys=["t"])
    for twin in (copy.copy(policy), copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert twin == policy
        assert hash(twin) == hash(policy)
        assert twin.thresholds_for("x") == (3, 9)
    other = dataclasses.replace(policy, block_threshold=7)
    assert other.thresholds_for("y") == (3, 7)
    assert other.metadata_keys == policy.metadata_keys
    assert {policy: 1, other: 2}[policy] == 1


def test_hashes_follow_what_they_name():
    policy = GuardPolicy()
    assert policy.policy_hash == GuardPolicy(counted_outcomes=["schema_error", "success"]).policy_hash
    code = "from loopscope.guard import GuardPolicy; print(GuardPolicy().policy_hash)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == policy.policy_hash


def tool(**knobs):
    return {"tools": {"x": ToolPolicy(**knobs)}}


# Knobs that judge a count, and knobs that change one. The second number: is it a count that can be had
# from stored fingerprints and result hashes?
JUDGING = [
    {"block_threshold": 6},
    {"nudge_threshold": None},
    {"shadow": True},
    tool(exempt=True),
    tool(nudge_threshold=1, block_threshold=9),
    {**tool(error_nudge_threshold=1), "error_nudge_threshold": 2},
]
COUNTING = [
    ({"counted_outcomes": ["success"]}, True),
    ({"metadata_keys": ["t"]}, True),
    ({"strip_annotations": False}, True),
    ({"scope": "trace"}, False),
    ({"scope": "session"}, False),
    ({"error_nudge_threshold": 3}, False),
    ({"ignored_result_keys": ["t"]}, False),
    ({"ignored_result_patterns": ["t"]}, False),
    ({"outcome_rules": [OutcomeRule(tool="x", outcome=Outcome.SCHEMA_ERROR)]}, False),
    ({"outcome_rules": [OutcomeRule(tool="x", outcome=Outcome.SUCCESS)]}, False),
    (tool(error_block_threshold=3), False),
    (tool(resets=True), False),
    (tool(metadata_keys=["t"]), False),
    (tool(ignored_result_keys=["t"]), False),
    (tool(ignored_result_patterns=["t"]), False),
]


@pytest.mark.parametrize("knobs", JUDGING)
def test_knobs_that_judge_a_count_change_the_policy_and_not_its_rule(knobs):
    policy = GuardPolicy(**knobs)
    bare = GuardPolicy(error_nudge_threshold=3) if "error_nudge_threshold" in knobs else GuardPolicy()
    assert policy.policy_hash != bare.policy_hash
    assert policy.rule_id == bare.rule_id
    assert policy.set_based == bare.set_based


@pytest.mark.parametrize(("knobs", "set_based"), COUNTING)
def test_knobs_that_change_a_count_change_the_rule(knobs, set_based):
    policy = GuardPolicy(**knobs)
    assert policy.policy_hash != GuardPolicy().policy_hash
    assert policy.rule_id != GuardPolicy().rule_id
    assert policy.set_based is set_based


def test_all_rules_have_ids_of_their_own():
    assert len({GuardPolicy(**knobs).rule_id for knobs, _ in COUNTING}) == len(COUNTING)


def test_which_tools_errors_are_counted_apart_is_part_of_the_rule():
    off = {"error_nudge_threshold": None, "error_block_threshold": None}
    everywhere = GuardPolicy(error_nudge_threshold=3)
    but_one = GuardPolicy(error_nudge_threshold=3, tools={"x": ToolPolicy(**off)})
    assert but_one.rule_id != everywhere.rule_id
    named = GuardPolicy(error_nudge_threshold=3, tools={"x": ToolPolicy(error_nudge_threshold=7)})
    assert named.rule_id == everywhere.rule_id


def test_a_policy_says_which_stored_hashes_it_cannot_use():
    policy = GuardPolicy(
        tools={"x": ToolPolicy(metadata_keys=["t", "_nonce"]), "y": ToolPolicy(ignored_result_keys=["t"])}
    )
    assert [policy.changes_fingerprints(name) for name in "xyz"] == [True, False, False]
    assert [policy.changes_results(name) for name in "xyz"] == [False, True, False]
    assert policy.fingerprint("x", {"t": 1}) == policy.fingerprint("x", {}) == fingerprint("x", {})
    assert policy.fingerprint("y", {"t": 1}) == fingerprint("y", {"t": 1})
    assert policy.result_hash("y", '{"t": 1}') == policy.result_hash("y", {"t": 2}) != result_hash("{}")
    assert policy.result_hash("z", '{"t": 1}') == result_hash('{"t": 1}')
    assert policy.result_hash("y", None) is None
    # What is known by its form is never taken for a text.
    patterns = GuardPolicy(ignored_result_patterns=["nothing"])
    assert (
        patterns.result_hash("x", '{"t":1}') == result_hash('{"t":1}') != patterns.result_hash("x", {"t": 1})
    )


FILE = """\
version = 1
nudge_threshold = "off"
block_threshold = 4
counted_outcomes = ["success"]
metadata_keys = ["trace_id"]

[tools.check_status]
exempt = true

[tools."mcp/search docs"]
nudge_threshold = 2
block_threshold = "off"
"""


def test_reading_a_policy_file(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(FILE)
    policy = GuardPolicy.from_file(path)
    assert policy == GuardPolicy(
        nudge_threshold=None,
        block_threshold=4,
        counted_outcomes={Outcome.SUCCESS},
        metadata_keys=["trace_id"],
        tools={
            "check_status": ToolPolicy(exempt=True),
            "mcp/search docs": ToolPolicy(nudge_threshold=2, block_threshold=None),
        },
    )
    assert policy.tools["check_status"].nudge_threshold is INHERIT
    assert GuardPolicy.from_file(str(path)) == policy


def test_a_file_may_say_as_little_as_its_version():
    assert GuardPolicy.from_toml("version = 1") == GuardPolicy()


@given(policies())
@settings(deadline=None)
def test_every_policy_survives_its_file(policy):
    read = GuardPolicy.from_toml(policy.to_toml())
    assert read == policy
    assert read.policy_hash == policy.policy_hash
    assert read.to_toml() == policy.to_toml()
    assert GuardPolicy.from_dict(policy.to_dict()) == policy
    assert GuardPolicy.from_dict(json.loads(json.dumps(policy.to_dict()))).rule_id == policy.rule_id
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_writing_replaces_the_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "policy.toml"
    GuardPolicy().to_file(path)
    GuardPolicy(block_threshold=9).to_file(path)
    assert GuardPolicy.from_file(path).block_threshold == 9
    assert [entry.name for entry in tmp_path.iterdir()] == ["policy.toml"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nudge_threshold = 3", "version is missing"),
        ("version = 2", "version 2 is not understood; this Loopscope reads version 1"),
        ('version = "1"', "version '1' is not understood"),
        ("version = true", "version True is not understood"),
        ("version = 1\nnudge_treshold = 3", "unknown key nudge_treshold; did you mean nudge_threshold?"),
        ("version = 1\n[tool.x]\nexempt = true", "unknown key tool; did you mean tools?"),
        (
            "version = 1\n[tools.x]\nexcempt = true",
            "unknown key tools.x.excempt; did you mean tools.x.exempt?",
        ),
        ("version = 1\nnudge_threshold = 3.5", 'nudge_threshold must be a whole number of calls or "off"'),
        ("version = 1\nnudge_threshold = false", 'nudge_threshold must be a whole number of calls or "off"'),
        ("version = 1\nnudge_threshold = 0", "nudge_threshold must be at least 1"),
        ("version = 1\nnudge_threshold = 6", "nudge_threshold (6) must be below block_threshold (5)"),
        (
            "version = 1\n[tools.x]\nblock_threshold = 'never'",
            "tools.x.block_threshold must be a whole number",
        ),
        ("version = 1\n[tools.x]\nblock_threshold = 2", "tools.x.nudge_threshold (3) must be below"),
        ("version = 1\n[tools.x]\nexempt = 1", "tools.x.exempt must be true or false, not 1"),
        ("version = 1\ntools = 3", "tools must be tables like [tools.search]"),
        ("version = 1\n[tools]\nx = 3", "tools.x must be a table"),
        ("version = 1\ncounted_outcomes = ['sucess']", "counted_outcomes: 'sucess' is not an outcome"),
        ("version = 1\ncounted_outcomes = 'success'", "counted_outcomes must be a list of names"),
        ("version = 1\nscope = 'agent'", 'scope must be "run", "trace" or "session"'),
        (
            "version = 1\nignored_result_pattern = ['x']",
            "unknown key ignored_result_pattern; did you mean ignored_result_patterns?",
        ),
        ("version = 1\n[tools.x]\nreset = true", "unknown key tools.x.reset; did you mean tools.x.resets?"),
        (
            "version = 1\nerror_block_threshold = 'no'",
            'error_block_threshold must be a whole number of calls or "off"',
        ),
        ("version = 1\nignored_result_patterns = ['(a+)+']", "'(a+)+': could take too long"),
        ('version = 1\n"a\\nb" = 1', "unknown key 'a\\nb'; did you mean"),
        ('version = 1\n[tools."a\\nb"]\nexempt = 3', "tools.'a\\nb'.exempt must be true or false"),
        ("version = ", "not a TOML file: "),
        ("version = 1\nversion = 1", "not a TOML file: "),
        (f"version = {'[' * 5000}", "nested too deeply"),
    ],
)
def test_mistakes_in_a_file_are_one_clear_line(tmp_path, text, says):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(PolicyError) as caught:
        GuardPolicy.from_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "a policy must be a table"),
        ({}, "version is missing"),
        ({"version": 1, 3: 4}, "unknown key 3; did you mean"),
        ({"version": 1, "tools": {3: {}}}, "3 is no name"),
        ({"version": 1, "tools": {"x": {3: 4}}}, "unknown key tools.x.3; did you mean"),
        ({"version": 1, "nudge_threshold": None}, 'nudge_threshold must be a whole number of calls or "off"'),
        ({"version": 1, "metadata_keys": None}, "metadata_keys must be a list of names"),
    ],
)
def test_mistakes_in_plain_data(data, says):
    with pytest.raises(PolicyError) as caught:
        GuardPolicy.from_dict(data)
    assert says in str(caught.value)


def test_plain_data_is_not_changed():
    data = {"version": 1, "tools": {"x": {"exempt": True}}}
    assert GuardPolicy.from_dict(data).is_exempt("x")
    assert data == {"version": 1, "tools": {"x": {"exempt": True}}}


def test_patterns_are_readable_in_a_file():
    text = GuardPolicy(ignored_result_patterns=[r"\d+ ms", r"it's \d", "plain"]).to_toml()
    assert 'ignored_result_patterns = [\'\\d+ ms\', "it\'s \\\\d", "plain"]' in text


def test_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(PolicyError, match=r"absent\.toml: cannot be read: No such file"):
        GuardPolicy.from_file(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PolicyError, match=r"binary\.toml: not a TOML file: not UTF-8 text"):
        GuardPolicy.from_file(tmp_path / "binary.toml")
    with pytest.raises(PolicyError, match=r"cannot be written: No such file"):
        GuardPolicy().to_file(tmp_path / "no" / "folder.toml")
    with pytest.raises(PolicyError, match="cannot be"):
        GuardPolicy().to_file(tmp_path)


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_is_read_or_refused(text):
    try:
        GuardPolicy.from_toml(text)
    except PolicyError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most texts are refused, some are not
