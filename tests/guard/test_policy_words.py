"""What changes from one policy to another, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from policy_values import policies

from loopscope.guard import (
    INHERIT,
    ErrorKind,
    GuardPolicy,
    Outcome,
    OutcomeRule,
    ToolPolicy,
    describe_changes,
)

BASE = GuardPolicy(
    metadata_keys=["trace"],
    ignored_result_patterns=["a", "b"],
    tools={"poll": ToolPolicy(exempt=True), "search": ToolPolicy(nudge_threshold=2, block_threshold=None)},
)


def tools(**changes):
    return {"tools": {**BASE.tools, **changes}}


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({}, []),
        ({"nudge_threshold": 4}, ["Equal results in a row are nudged from 4 on (before: from 3 on)."]),
        ({"block_threshold": None}, ["Equal results in a row are never blocked (before: from 5 on)."]),
        (
            {"error_block_threshold": 8},
            ["Equal general errors in a row are blocked from 8 on (before: never)."],
        ),
        (
            {"counted_outcomes": [Outcome.SUCCESS, Outcome.GENERAL_TOOL_ERROR]},
            [
                "Schema errors are no longer counted among the equal results.",
                "General errors are counted among the equal results.",
            ],
        ),
        (
            {"metadata_keys": ["page"]},
            ["The argument 'page' is ignored.", "The argument 'trace' is no longer ignored."],
        ),
        ({"ignored_result_keys": ["ms"]}, ["The result key 'ms' is ignored."]),
        ({"ignored_result_patterns": ["a"]}, ["The result pattern 'b' is no longer ignored."]),
        ({"ignored_result_patterns": ["b", "a"]}, ["The result patterns are applied in another order."]),
        (
            {
                "outcome_rules": [
                    OutcomeRule(tool="fetch", http_status=409, outcome=Outcome.SCHEMA_ERROR),
                    OutcomeRule(
                        error_type="Busy",
                        text_pattern="lock",
                        outcome=Outcome.GENERAL_TOOL_ERROR,
                        kind=ErrorKind.UNAVAILABLE,
                    ),
                    OutcomeRule(text_pattern="Error", on_success=True, outcome=Outcome.GENERAL_TOOL_ERROR),
                ]
            },
            [
                "New outcome rule: failures of the tool 'fetch' with the HTTP status 409 are schema errors.",
                "New outcome rule: failures with the error type 'Busy' and a text like 'lock' "
                "are general errors of the kind unavailable.",
                "New outcome rule: results that begin with 'Error' are general errors.",
            ],
        ),
        ({"scope": "session"}, ["A count spans a session instead of a run."]),
        ({"shadow": True}, ["Shadow mode is on: the guard decides and changes nothing."]),
        (
            {"strip_annotations": False},
            ["Replay compares results with the notes that were recorded in them."],
        ),
        (tools(poll=ToolPolicy()), ["Tool 'poll': its calls are counted again."]),
        (
            tools(edit=ToolPolicy(resets=True)),
            ["Tool 'edit': a success of it sets the counts of other tools back."],
        ),
        (
            tools(search=ToolPolicy(nudge_threshold=INHERIT, block_threshold=9, metadata_keys=["page"])),
            [
                "Tool 'search': equal results in a row are nudged as the policy says (before: from 2 on).",
                "Tool 'search': equal results in a row are blocked from 9 on (before: never).",
                "Tool 'search': the argument 'page' is ignored.",
            ],
        ),
        (tools(new=ToolPolicy()), ["Tool 'new': it is listed, without exceptions."]),
    ],
)
def test_changes_are_plain_sentences(knobs, says):
    assert describe_changes(BASE, replace(BASE, **knobs)) == says


def test_outcome_rules_that_go_or_change_places():
    one = OutcomeRule(tool="fetch", outcome=Outcome.SUCCESS)
    other = OutcomeRule(http_status=409, outcome=Outcome.SCHEMA_ERROR)
    before = GuardPolicy(outcome_rules=[one, other])
    assert describe_changes(before, GuardPolicy(outcome_rules=[other])) == [
        "No longer an outcome rule: failures of the tool 'fetch' are successes."
    ]
    assert describe_changes(before, GuardPolicy(outcome_rules=[other, one])) == [
        "The outcome rules are asked in another order."
    ]


def test_names_from_a_file_cannot_break_a_line():
    policy = GuardPolicy(tools={"a\nb" * 90: ToolPolicy(exempt=True)}, metadata_keys=["\x1b[31m"])
    for sentence in describe_changes(GuardPolicy(), policy):
        assert sentence.isprintable()
        assert len(sentence) < 200


@given(policies(), policies())
@settings(deadline=None, max_examples=200)
def test_policies_differ_exactly_if_there_is_something_to_say(one, other):
    assert (describe_changes(one, other) == []) == (one == other)
    assert describe_changes(one, one) == []
    assert len(describe_changes(one, other)) == len(describe_changes(other, one))
    assert all(sentence.endswith(".") for sentence in describe_changes(one, other))
