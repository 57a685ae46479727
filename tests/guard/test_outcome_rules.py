"""A user's own rules for outcomes: asked first, on the calls they are for, and nowhere else."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_values import outcome_rules

from loopscope.guard import (
    Action,
    Classification,
    DuplicateCallGuard,
    ErrorKind,
    GuardPolicy,
    Outcome,
    OutcomeFacts,
    OutcomeRule,
    PolicyError,
    RecordedCall,
    classify_outcome,
)
from loopscope.guard._outcome_rules import MAX_CHARS, MAX_RULES

OK, SCHEMA, GENERAL = Outcome.SUCCESS, Outcome.SCHEMA_ERROR, Outcome.GENERAL_TOOL_ERROR
K = ErrorKind
LEADING_ERROR = OutcomeRule(text_pattern="Error", on_success=True, outcome=GENERAL)


def met(rule: OutcomeRule, tool: str | None = None, **facts: Any) -> bool:
    """Does the rule say something else than the built-in rules?"""
    given_facts = OutcomeFacts(**facts)
    return classify_outcome(given_facts, [rule], tool) != classify_outcome(given_facts)


@pytest.mark.parametrize(
    ("rule", "facts", "expected"),
    [
        ({"tool": "x"}, {"error_text": "boom"}, True),
        ({"tool": "y"}, {"error_text": "boom"}, False),
        ({"error_type": "Timeout"}, {"error_type": "requests.exceptions.Timeout"}, True),
        ({"error_type": "requests.exceptions.Timeout"}, {"error_type": "requests.exceptions.Timeout"}, True),
        ({"error_type": "exceptions.Timeout"}, {"error_type": "requests.exceptions.Timeout"}, False),
        ({"error_type": "Time"}, {"error_type": "Timeout"}, False),
        ({"error_type": "Timeout"}, {"error_type": "<class 'a.Timeout'>"}, True),
        ({"error_type": "Timeout"}, {}, False),
        ({"http_status": 409}, {"http_status": 409}, True),
        ({"http_status": 409}, {"error_text": "HTTP 409 Conflict"}, True),
        ({"http_status": 409}, {"error_text": "see page 409"}, False),
        ({"text_pattern": "no such (table|column)"}, {"error_text": "SQL: no such column: a"}, True),
        ({"text_pattern": "no such (table|column)"}, {"result": '{"error": "no such table"}'}, True),
        ({"text_pattern": "^gone"}, {"result": '{"error": "gone"}'}, True),
        ({"text_pattern": "no such (table|column)"}, {"result": "no such row"}, False),
        ({"tool": "x", "http_status": 409}, {"http_status": 404}, False),
        ({"tool": "x", "http_status": 409, "text_pattern": "a"}, {"http_status": 409}, False),
    ],
)
def test_all_conditions_have_to_hold(rule, facts, expected):
    assert met(OutcomeRule(**rule, outcome=OK), "x", failed=True, **facts) is expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("Error: no seats", True),
        ('"Error: no seats"', True),
        ('[{"type": "text", "text": "Error: no seats"}]', True),
        ('{"content": [{"type": "text", "text": "Error: no seats"}], "isError": false}', True),
        ("No Error", False),
        ("ok\nError", False),
        ('{"error": "Error"}', False),
        ('["Error"]', False),
        ('[{"type": "text", "text": "ok"}, {"type": "text", "text": "Error"}]', False),
        ('[{"type": "image", "text": "Error"}]', False),
        ("", False),
        ("[" * 100_000, False),
    ],
)
def test_a_successful_result_is_asked_at_its_start_only(result, expected):
    assert met(LEADING_ERROR, failed=False, result=result) is expected


def test_a_rule_for_failures_never_sees_a_success_and_the_other_way_round():
    failure = OutcomeRule(text_pattern="Error", outcome=SCHEMA)
    assert not met(failure, failed=False, result="Error")
    assert not met(failure, result="Error")
    assert not met(OutcomeRule(tool="x", outcome=SCHEMA), "x", failed=False, result="Error")
    success = OutcomeRule(text_pattern="Error", on_success=True, outcome=SCHEMA)
    assert not met(success, failed=True, result="Error")
    assert not met(success, failed=False)
    envelope = json.dumps({"isError": True, "content": [{"type": "text", "text": "Error"}]})
    assert met(failure, failed=False, result=envelope)


def test_what_is_unknown_stays_unknown():
    rules = [OutcomeRule(tool="x", outcome=SCHEMA), LEADING_ERROR]
    assert classify_outcome(OutcomeFacts(), rules, "x") == Classification(None)
    assert GuardPolicy(outcome_rules=rules).classify_recorded(RecordedCall("x", "{}", "Error", None)) == (
        None,
        None,
    )


def test_the_first_rule_wins_and_all_come_before_the_built_in_ones():
    rules = [
        OutcomeRule(tool="x", text_pattern="busy", outcome=OK),
        OutcomeRule(tool="x", outcome=SCHEMA),
        OutcomeRule(text_pattern="busy", outcome=GENERAL, kind=K.UNAVAILABLE),
    ]
    facts = OutcomeFacts(failed=True, error_text="busy", jsonrpc_code=-32602, http_status=400)
    assert classify_outcome(facts).outcome is SCHEMA
    assert classify_outcome(facts, rules, "x") == Classification(OK)
    assert classify_outcome(facts, rules, "y") == Classification(GENERAL, K.UNAVAILABLE, 400)
    assert classify_outcome(facts, rules[::-1], "x").outcome is GENERAL
    assert classify_outcome(facts, rules[:2], None) == classify_outcome(facts)


@pytest.mark.parametrize(
    ("rule", "facts", "kind"),
    [
        ({"outcome": SCHEMA}, {"error_text": "rate limit"}, K.VALIDATION),
        ({"outcome": SCHEMA, "kind": K.NOT_FOUND}, {"error_text": "rate limit"}, K.NOT_FOUND),
        ({"outcome": GENERAL}, {"error_text": "rate limit exceeded"}, K.RATE_LIMIT),
        ({"outcome": GENERAL}, {"http_status": 422}, K.TOOL_FAILURE),
        ({"outcome": GENERAL}, {}, K.UNKNOWN),
        ({"outcome": OK}, {"error_text": "exit 1"}, None),
    ],
)
def test_the_kind_where_a_rule_names_none(rule, facts, kind):
    policy = GuardPolicy(outcome_rules=[OutcomeRule(tool="x", **rule)])
    found = classify_outcome(OutcomeFacts(failed=True, **facts), policy.outcome_rules, "x")
    assert (found.outcome, found.kind) == (rule["outcome"], kind)
    built_in = classify_outcome(OutcomeFacts(failed=True, **facts))
    recorded = RecordedCall(
        "x",
        "{}",
        None,
        built_in.outcome,
        error_message=facts.get("error_text"),
        http_status=built_in.http_status,
        error_kind=built_in.kind,
    )
    assert policy.classify_recorded(recorded) == (found.outcome, found.kind)
    assert policy.classify_recorded(recorded._replace(error_kind=None)) == (found.outcome, found.kind)


def test_the_kind_of_a_success_that_is_none_is_read_off_its_text():
    found = classify_outcome(OutcomeFacts(failed=False, result="Error: request timed out"), [LEADING_ERROR])
    assert found == Classification(GENERAL, K.TIMEOUT)


def test_a_recorded_call_stands_where_no_rule_applies():
    call = RecordedCall("x", "{}", "boom", "general_tool_error", error_kind="network")
    for policy in (GuardPolicy(), GuardPolicy(outcome_rules=[LEADING_ERROR])):
        assert policy.classify_recorded(call) == (GENERAL, K.NETWORK)
    assert GuardPolicy().classify_recorded(call._replace(error_kind=None)) == (GENERAL, None)
    with pytest.raises(ValueError, match="nonsense"):
        GuardPolicy().classify_recorded(call._replace(outcome="nonsense"))


def test_recorded_calls_count_by_the_rules():
    policy = GuardPolicy(
        outcome_rules=[OutcomeRule(error_type="Busy", outcome=SCHEMA), LEADING_ERROR],
    )
    guard = DuplicateCallGuard(policy)
    busy = RecordedCall("x", "{}", "busy", GENERAL, error_type="lib.Busy", error_kind="tool_failure")
    lead = RecordedCall("y", "{}", "Error: none", OK)
    counts = [guard.observe_recorded(one) for one in (busy, lead) * 3]
    assert counts[::2] == [(Action.ALLOW, 1), (Action.ALLOW, 2), (Action.NUDGE, 3)]
    assert counts[1::2] == [(Action.NOT_COUNTED, 0)] * 3


facts_values = st.builds(
    OutcomeFacts,
    failed=st.sampled_from([True, False, None]),
    result=st.none()
    | st.text(max_size=30)
    | st.sampled_from(["took 3 ms", '"12"', "#x", '{"isError": true}']),
    error_text=st.none() | st.text(max_size=30),
    error_type=st.none() | st.text(max_size=12),
    http_status=st.none() | st.integers(100, 599),
)


@given(st.lists(outcome_rules(), max_size=4), facts_values, st.none() | st.text(max_size=3))
@settings(deadline=None, max_examples=300)
def test_recorded_and_live_calls_come_to_the_same(rules, facts, tool):
    built_in = classify_outcome(facts)
    found = classify_outcome(facts, rules, tool)
    recorded = RecordedCall(
        tool or "",
        "{}",
        facts.result,
        built_in.outcome,
        error_type=facts.error_type,
        error_message=facts.error_text,
        http_status=built_in.http_status,
        error_kind=built_in.kind,
    )
    outcome, kind = GuardPolicy(outcome_rules=rules).classify_recorded(recorded)
    if tool:
        assert (outcome, kind) == (found.outcome, found.kind)
    assert (found.outcome is None) == (built_in.outcome is None)
    assert (found.kind is None) == (found.outcome in (None, OK))


WRONG = [
    ({"outcome": "sucess", "tool": "x"}, "outcome must be one of success, schema_error, general_tool_error"),
    ({"outcome": "success"}, "needs at least one of tool, error_type, http_status and text_pattern"),
    ({"outcome": "success", "tool": "x", "kind": "timeout"}, "a success has no error kind"),
    ({"outcome": "schema_error", "tool": "x", "kind": "late"}, "kind must be one of validation, "),
    ({"outcome": "schema_error", "tool": ""}, "tool must be a text that is not empty, not ''"),
    ({"outcome": "schema_error", "error_type": 5}, "error_type must be a text that is not empty, not 5"),
    ({"outcome": "schema_error", "http_status": 42}, "http_status must be from 100 to 599, not 42"),
    ({"outcome": "schema_error", "http_status": True}, "http_status must be a whole number, not True"),
    ({"outcome": "schema_error", "text_pattern": "("}, "text_pattern: '(': not a regular expression"),
    ({"outcome": "schema_error", "text_pattern": "(a+)+"}, "could take too long"),
    ({"outcome": "schema_error", "tool": "x", "on_success": True}, "on_success needs a text_pattern"),
    ({"outcome": "schema_error", "text_pattern": "a", "on_success": 1}, "on_success must be true or false"),
    (
        {"outcome": "schema_error", "text_pattern": "a", "http_status": 409, "on_success": True},
        "a success has no error_type and no http_status",
    ),
]


@pytest.mark.parametrize(("entry", "says"), WRONG)
def test_a_wrong_rule_is_refused_in_python_and_in_a_file(entry, says):
    with pytest.raises(PolicyError) as raised:
        OutcomeRule(**entry)
    assert says in str(raised.value)
    good = {"tool": "x", "outcome": "success"}
    with pytest.raises(PolicyError) as raised:
        GuardPolicy.from_dict({"version": 1, "outcome_rules": [good, entry]})
    assert str(raised.value).startswith("outcome_rules[2]: ")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("x", "outcome_rules must be"),
        (5, "outcome_rules must be"),
        ([5], "outcome_rules must be"),
        ([{"tool": "x"}], "outcome_rules[1]: outcome is missing"),
        ([{"tol": "x"}], "unknown key outcome_rules[1].tol; did you mean outcome_rules[1].tool?"),
        ([{"_pattern": "x"}], "unknown key outcome_rules[1]._pattern"),
        ([{"tool": str(n), "outcome": "success"} for n in range(MAX_RULES + 1)], "at most 64 are allowed"),
        ([{"text_pattern": str(n), "outcome": "success"} for n in range(17)], "17 text patterns; at most 16"),
    ],
)
def test_a_wrong_list_of_rules_is_refused(rules, says):
    with pytest.raises(PolicyError) as raised:
        GuardPolicy.from_dict({"version": 1, "outcome_rules": rules})
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("rules", ["x", 5, [5], [{"tool": "x", "outcome": "success"}]])
def test_the_policy_takes_nothing_but_rules(rules):
    with pytest.raises(PolicyError, match="outcome_rules must be a list of OutcomeRule"):
        GuardPolicy(outcome_rules=rules)


def test_rules_in_a_file():
    text = """version = 1
[[outcome_rules]]
tool = "sql"
text_pattern = 'no such (table|column): \\w+'
outcome = "schema_error"

[[outcome_rules]]
text_pattern = "Error"
on_success = true
outcome = "general_tool_error"
kind = "tool_failure"

[tools."sql"]
exempt = true
"""
    policy = GuardPolicy.from_toml(text)
    assert policy.outcome_rules == (
        OutcomeRule(tool="sql", text_pattern=r"no such (table|column): \w+", outcome=SCHEMA),
        OutcomeRule(text_pattern="Error", on_success=True, outcome=GENERAL, kind=K.TOOL_FAILURE),
    )
    written = policy.to_toml()
    assert written[written.index("[[") :] == text[text.index("[[") :]
    assert GuardPolicy.from_toml(written) == policy
    assert GuardPolicy(outcome_rules=[*policy.outcome_rules] * 2).outcome_rules == policy.outcome_rules
    assert "outcome_rules" not in GuardPolicy().to_toml()
    again = pickle.loads(pickle.dumps(policy))
    assert again == policy
    assert again.classify_recorded(RecordedCall("x", "{}", "Error", OK)) == (GENERAL, K.TOOL_FAILURE)


def test_the_order_of_rules_names_another_policy():
    rules = [OutcomeRule(tool="x", outcome=OK), OutcomeRule(http_status=409, outcome=SCHEMA)]
    one, other = GuardPolicy(outcome_rules=rules), GuardPolicy(outcome_rules=rules[::-1])
    assert one != other
    assert len({one.policy_hash, other.policy_hash, GuardPolicy().policy_hash}) == 3
    assert one.rule_id != other.rule_id


def test_only_the_beginning_of_a_long_text_is_read():
    rule = OutcomeRule(text_pattern="needle", outcome=OK)
    for before, expected in ((MAX_CHARS - 6, True), (MAX_CHARS - 5, False)):
        assert met(rule, failed=True, error_text="x" * before + "needle") is expected
