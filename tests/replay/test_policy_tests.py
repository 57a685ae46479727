"""Tests of policies: reading files of cases, running them, writing them from incidents."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from replay_rows import call, database

from loopscope.guard import GuardPolicy, NotFoundError, PolicyError, ToolPolicy
from loopscope.replay import find_incidents
from loopscope.replay.policy_tests import (
    case_of_incident,
    parse_policy_tests,
    policy_tests_junit,
    read_policy_tests,
    run_policy_tests,
)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "policy_tests.toml"

LOOP = """
version = 1
[[cases]]
name = "loop"
calls = [{ tool = "search", arguments = { q = "x" }, result = "none", repeat = 6 }]
"""


def failures(text: str, policy: GuardPolicy | None = None) -> list[str]:
    return [
        str(one) for result in run_policy_tests(parse_policy_tests(text), policy) for one in result.failures
    ]


def test_the_example_holds_for_the_default_policy() -> None:
    results = run_policy_tests(read_policy_tests(EXAMPLE))
    assert len(results) >= 6
    assert [str(failure) for one in results for failure in one.failures] == []


def test_the_example_fails_for_a_policy_that_does_not_do_so() -> None:
    results = run_policy_tests(read_policy_tests(EXAMPLE, GuardPolicy(None, None)))
    failed = {one.case.name for one in results if not one.passed}
    assert "one search over and over" in failed
    assert "a poll whose answer moves is none" not in failed
    assert "tests run again after every edit, where edits reset the count" not in failed  # its own policy


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ('expect = [{ call = 3, action = "nudge", count = 3 }]', []),
        ('expect = [{ call = 6, action = "after_block" }]\nfirst_nudge = 3\nfirst_block = 5', []),
        ('expect = [{ call = 4, action = "block" }]', ["call 4: expected block, got nudge"]),
        ("expect = [{ call = 4, count = 5 }]", ["call 4: expected count 5, got count 4"]),
        (
            'expect = [{ call = 4, action = "nudge", count = 5 }]',
            ["call 4: expected nudge count 5, got nudge count 4"],
        ),
        ('first_block = "never"', ["expected no block, got the first block at call 5"]),
        ("first_nudge = 2", ["expected the first nudge at call 2, got the first nudge at call 3"]),
    ],
)
def test_what_does_not_hold_is_said(expected: str, said: list[str]) -> None:
    assert failures(LOOP + expected) == said


def test_a_missing_action_is_said() -> None:
    assert failures(LOOP + "first_block = 5", GuardPolicy(None, None)) == [
        "expected the first block at call 5, got no block"
    ]


def test_which_policy_is_tested(tmp_path: Path) -> None:
    GuardPolicy(2, 3).to_file(tmp_path / "strict.toml")
    own = LOOP.replace(
        'name = "loop"', 'name = "loop"\npolicy = { nudge_threshold = "off", block_threshold = 6 }'
    )
    (tmp_path / "cases.toml").write_text('policy = "strict.toml"\n' + LOOP + "first_block = 3\n")
    (tmp_path / "own.toml").write_text('policy = "strict.toml"\n' + own + "first_block = 6\n")
    assert run_policy_tests(read_policy_tests(tmp_path / "cases.toml"))[0].passed
    assert run_policy_tests(read_policy_tests(tmp_path / "own.toml"))[0].passed
    given = GuardPolicy(None, 4)  # goes before the file's, not before the case's
    assert not run_policy_tests(read_policy_tests(tmp_path / "cases.toml", given), given)[0].passed
    assert run_policy_tests(read_policy_tests(tmp_path / "own.toml", given), given)[0].passed


def test_what_a_call_can_be() -> None:
    text = """
    version = 1
    [[cases]]
    name = "all of it"
    calls = [
      { tool = "a", arguments = '{"x": 1}', results = ["1", "1", "2"], agent = "first" },
      { tool = "a", arguments = { x = 1 }, result = "2", agent = "second" },
      { tool = "a", error = "no such tool" },
      { tool = "a", arguments = {}, outcome = "unknown" },
      { repeat = 2, calls = [{ tool = "b", arguments = {}, result = { deep = [1, 2] } }] },
    ]
    expect = [
      { call = 2, count = 2 },
      { call = 3, count = 1 },
      { call = 4, count = 1 },
      { call = 5, action = "not_counted" },
      { call = 6, action = "not_counted" },
      { call = 8, count = 2 },
    ]
    """
    assert failures(text) == []
    (case,) = parse_policy_tests(text)
    assert [one.outcome for one in case.calls[4:6]] == ["general_tool_error", None]
    assert case.calls[4].arguments is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 1\ncases = [", "not a TOML file"),
        ("", "version is missing"),
        ("version = 2", "version 2 is not understood"),
        ("version = true", "version True is not understood"),
        ("version = 1", "cases is missing"),
        ("version = 1\ncases = 3", "cases is missing"),
        ("version = 1\ncase = []", "unknown key case; did you mean cases?"),
        (LOOP, "cases[1].expect is missing"),
        (LOOP.replace('"loop"', '""') + "first_block = 5", "cases[1].name is missing"),
        (LOOP + "first_blok = 5", "unknown key cases[1].first_blok; did you mean cases[1].first_block?"),
        (LOOP + "first_block = 7", "cases[1].first_block must be a number from 1 to 6"),
        (LOOP + 'first_block = "no"', "the calls of the case or \"never\", not 'no'"),
        (LOOP + "expect = [{ call = 0, count = 1 }]", "cases[1].expect[1].call must be a number from 1 to 6"),
        (LOOP + "expect = [{ call = 1 }]", "cases[1].expect[1].action is missing"),
        (LOOP + "expect = [{ call = 1, count = -1 }]", "count must be a whole number from 0"),
        (LOOP + 'expect = [{ call = 1, action = "stop" }]', "action must be one of allow, nudge, block"),
        (LOOP + "expect = 3", "cases[1].expect must be a list of tables"),
        (
            LOOP.replace("repeat = 6", "repeat = 0") + "first_block = 5",
            "calls[1].repeat must be a whole number",
        ),
        (
            LOOP.replace("repeat = 6", "repeat = 999999") + "first_block = 5",
            "a case has at most 100,000 calls",
        ),
        (LOOP.replace("tool =", "name =") + "first_block = 5", "unknown key cases[1].calls[1].name"),
        (LOOP.replace('tool = "search"', "tool = 3") + "first_block = 5", "calls[1].tool is missing"),
        (LOOP.replace("result =", "error = 'e', result =") + "first_block = 5", "give one of result"),
        (LOOP.replace("result =", "results =") + "first_block = 5", "results must be a list"),
        (
            LOOP.replace("repeat", "outcome = 'bad', repeat") + "first_block = 5",
            "outcome must be one of success",
        ),
        (
            LOOP.replace("result", "outcome = 'success', error") + "first_block = 5",
            "a call with an error is no",
        ),
        (LOOP.replace("repeat", "agent = 1, repeat") + "first_block = 5", "calls[1].agent must be a name"),
        (LOOP + "first_block = 5\npolicy = { nudge = 2 }", "cases[1].policy: unknown key nudge"),
        (LOOP + "first_block = 5\npolicy = 2", "cases[1].policy must name a policy file"),
        (
            LOOP + "first_block = 5" + LOOP.replace("version = 1", "") + "first_block = 5",
            "the name of another case",
        ),
        ("version = 1\n[[cases]]\nname = 'x'\ncalls = []\nfirst_block = 1", "calls must be a list of tables"),
    ],
)
def test_a_bad_file_is_refused_with_its_key(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse_policy_tests(text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_bad_case_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "cases.toml"
    file.write_text(LOOP + "first_block = 5\n\n[[cases]]\nname = 'second'\ncalls = 3\n")
    with pytest.raises(PolicyError, match=r"cases\.toml: cases\[2\]\.calls .* \(the case begins at line 8\)"):
        read_policy_tests(file)
    with pytest.raises(PolicyError, match="cannot be read"):
        read_policy_tests(tmp_path / "none.toml")
    file.write_bytes(b"\xff")
    with pytest.raises(PolicyError, match="not UTF-8"):
        read_policy_tests(file)


def test_groups_cannot_be_nested_without_end() -> None:
    calls = "[{ tool = 'a' }]"
    for _ in range(12):
        calls = f"[{{ calls = {calls} }}]"
    with pytest.raises(PolicyError, match="nested too deeply"):
        parse_policy_tests(f"version = 1\n[[cases]]\nname = 'x'\ncalls = {calls}\nfirst_block = 1")


def test_junit_names_files_cases_and_what_failed() -> None:
    text = LOOP.replace('"loop"', '"a <loop> \\u202e"') + "first_block = 4\n"
    results = {
        "a&b.toml": run_policy_tests(
            parse_policy_tests(text + LOOP.replace("version = 1", "") + "first_block = 5")
        )
    }
    tree = ElementTree.fromstring(policy_tests_junit(results))
    assert (tree.get("tests"), tree.get("failures")) == ("2", "1")
    suite = tree[0]
    assert suite.get("name") == "a&b.toml"
    failed, passed = suite
    assert failed.get("name") == "a <loop> \\u202e"
    assert failed[0].get("message") == "expected the first block at call 4, got the first block at call 5"
    assert len(passed) == 0


@pytest.mark.parametrize(
    "policy", [GuardPolicy(), GuardPolicy(None, None), GuardPolicy(tools={"a": ToolPolicy(2, 4)})]
)
def test_an_incident_becomes_a_case_that_holds(policy: GuardPolicy) -> None:
    odd = 'it\'s "odd" \\ \x00\x7f é\n'
    long = "x" * 5_000
    calls = [
        call("before"),
        *(call("a", '{"q": 1}', odd) for _ in range(3)),
        call("b", None, None, outcome=None),
        call("b", "{}", long + "1", outcome="general_tool_error"),
        call("b", "{}", long + "2", agent=None),
        *(call("a", '{"q": 1}', odd) for _ in range(4)),
    ]
    con = database(calls)
    (incident,) = [one for one in find_incidents(con) if one.kind == "loop"]
    text = case_of_incident(con, incident.key[:8], policy)
    assert text.startswith("# 2 texts are cut at 4,000 characters.\n[[cases]]\n")
    (case,) = parse_policy_tests("version = 1\n" + text)
    assert [one.tool for one in case.calls] == [*"aaa", *"bbb", *"aaaa"]
    assert case.calls[4].result != case.calls[5].result
    assert case.calls[3].outcome is None
    (result,) = run_policy_tests([case], policy)
    assert result.failures == ()
    strict = GuardPolicy(1, 2)
    assert not run_policy_tests([case], strict)[0].passed


def test_there_is_no_such_incident() -> None:
    with pytest.raises(NotFoundError):
        case_of_incident(database([call()]), "abcdef", GuardPolicy())
