"""The reasoned override: which repeats run, what the tool gets, and what the model is told."""

from __future__ import annotations

import json
import threading
import time
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_values import json_objects, respell

from loopscope.guard import (
    Decision,
    GuardPolicy,
    Outcome,
    OverrideAction,
    OverrideMessages,
    PolicyError,
    ReasonedOverrideGuard,
    ToolPolicy,
)

RUN, REFUSE = OverrideAction.RUN, OverrideAction.REFUSE
REASON = "_duplicate_reasoning"


def guard_after(*calls: Any, **options: Any) -> ReasonedOverrideGuard:
    """A guard that let these calls of one tool through."""
    guard = ReasonedOverrideGuard(**options)
    for arguments in calls:
        assert guard.before("find", arguments).action is RUN
    return guard


def ask(guard: ReasonedOverrideGuard, arguments: Any, tool: str = "find") -> Decision:
    return guard.before(tool, arguments)


# What is a repeat


def test_a_repeat_is_refused_and_says_how_to_go_on():
    guard = guard_after({"q": "cats"})
    decision = ask(guard, {"q": "cats"})
    assert (decision.action, decision.refusal, decision.stress) == (REFUSE, "no_reason", 0.1)
    assert decision.message is not None
    assert '"find"' in decision.message
    assert REASON in decision.message
    assert ask(guard_after(), {"q": "cats"}) == Decision(RUN, {"q": "cats"}, None, 0.0, None)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ('{"q":"x"}', '{ "q" : "x" }'),
        ('{"q":"x"}', {"q": "x"}),
        ("<q>x</q>", "<q> x </q>"),
        ('{"q":"1"}', "<q>1</q>"),
        ("alpha", " alpha\n"),
        ("", "   "),
        ("", None),
        ("[1, 2]", "[1,2]"),
        (json.dumps('{"q":"x"}'), '{"q":"x"}'),
        ('{"q":"x","_nonce":1}', '{"q":"x","_nonce":2}'),
    ],
)
def test_equal_calls_are_repeats(first, second):
    assert ask(guard_after(first), second).action is REFUSE
    assert ask(guard_after(second), first).action is REFUSE


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"q":"x"}', '{"q":"X"}'),
        ('{"q":1}', "<q>1</q>"),
        ('{"n":1}', '{"n":true}'),
        ('{"n":1}', '{"n":1.0}'),
        ('{"q":null}', "{}"),
        ("{}", ""),
        ("alpha", "beta"),
        ("[1]", "[2]"),
    ],
)
def test_different_calls_are_not(first, second):
    assert ask(guard_after(first), second).action is RUN


def test_calls_in_between_other_outcomes_and_other_tools_do_not_matter():
    guard = guard_after("a", "b", "c")
    guard.after(Outcome.GENERAL_TOOL_ERROR)
    assert ask(guard, "a").action is REFUSE
    assert ask(guard, "a", tool="other").action is RUN


# Reasons


def with_reason(reason: Any, **arguments: Any) -> dict[str, Any]:
    return {**arguments, REASON: reason}


def test_a_new_reason_lets_a_repeat_run_and_is_then_used():
    guard = guard_after({"q": 1})
    assert ask(guard, with_reason("the index was stale", q=1)).action is RUN
    decision = ask(guard, with_reason("the index was stale", q=1))
    assert (decision.action, decision.refusal) == (REFUSE, "used_reason")
    assert decision.message is not None
    assert '"the index was stale"' in decision.message
    assert ask(guard, with_reason("rebuilt since", q=1)).action is RUN


def test_a_reason_counts_as_used_from_any_call_that_ran():
    guard = guard_after(with_reason("r", q=1))  # on a first call, of another tool
    guard.before("other", {})
    assert guard.before("other", with_reason("r")).refusal == "used_reason"


def test_a_refused_call_leaves_nothing_behind():
    guard = guard_after({"q": 1}, with_reason("r", q=2))
    assert ask(guard, with_reason("r", q=1)).action is REFUSE
    assert ask(guard, with_reason("s", q=1)).action is RUN
    assert ask(guard, with_reason("s", q=2)).action is REFUSE


@pytest.mark.parametrize("reason", [None, "", "   ", "\u200b", 7, ["stale"], {"why": "stale"}, True])
def test_what_is_no_text_is_no_reason(reason):
    assert ask(guard_after({"q": 1}), with_reason(reason, q=1)).refusal == "no_reason"


@pytest.mark.parametrize(
    "other",
    [
        "Straße is Stale",
        "  straße   is\n stale ",
        "STRASSE IS STALE",
        "ﬆraße is stale",
        "straße\u00a0is stale",
    ],
)
def test_blanks_case_and_unicode_form_do_not_make_a_reason_new(other):
    guard = guard_after({"q": 1}, with_reason("straße is stale", q=1))
    assert ask(guard, with_reason(other, q=1)).refusal == "used_reason"


def test_other_words_do():
    guard = guard_after({"q": 1}, with_reason("the file was stale", q=1))
    assert ask(guard, with_reason("the file is stale", q=1)).action is RUN


def test_composed_and_decomposed_letters_are_one():
    guard = guard_after({}, with_reason("caf\u00e9"))
    assert ask(guard, with_reason("cafe\u0301")).refusal == "used_reason"


def test_a_nonce_unlocks_nothing():
    assert ask(guard_after({"q": 1}), {"q": 1, "_nonce": 9}).refusal == "no_reason"


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (f'{{"q": 1.0, "{REASON}": "why"}}', '{"q": 1.0}'),
        (f"<q>x</q><{REASON}>why</{REASON}>", "<q>x</q>"),
        (f"alpha <{REASON}>why</{REASON}>", "alpha"),
        (json.dumps(f'{{"q": 2, "{REASON}": "why"}}'), json.dumps('{"q": 2}')),
    ],
)
def test_a_reason_may_come_in_json_xml_or_behind_plain_text(arguments, passed):
    guard = guard_after(passed)
    decision = ask(guard, arguments)
    assert (decision.action, decision.arguments) == (RUN, passed)
    assert ask(guard, arguments).refusal == "used_reason"


# What the tool gets

STRIPPED = [
    ({"q": 1, REASON: "r", "_nonce": 2, "_aura_reasoning": "z"}, {"q": 1}),
    (
        '{"_nonce": 1, "n": 1e2, "b": 12345678901234567890, "n": 2}',
        '{ "n": 1e2, "b": 12345678901234567890, "n": 2}',
    ),
    ('{"q": "a, \\"_nonce\\": 1", "\\u005fnonce": [{"x": "}"}]}', '{"q": "a, \\"_nonce\\": 1"}'),
    ('{"_nonce": 1}', "{}"),
    (' {\n "_nonce" : 1 ,\n "q" : 2\n}', '{\n "q" : 2}'),
    ("<_nonce>7</_nonce>\n<q>x</q>", "\n<q>x</q>"),
    ("a <_nonce>1</_nonce> <_aura_reasoning>w</_aura_reasoning>\n", "a"),
    ({"deep": {"_nonce": 1}, "_nonce": 2}, {"deep": {"_nonce": 1}}),
]


@pytest.mark.parametrize(("arguments", "passed"), STRIPPED)
def test_metadata_is_taken_out_before_the_tool_sees_it(arguments, passed):
    before = json.dumps(arguments)
    assert ask(guard_after(), arguments).arguments == passed
    assert json.dumps(arguments) == before


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        "",
        " {} ",
        '{"q": "_nonce"}',
        '["_nonce"]',
        '"_nonce"',
        "<_nonce>1</_nonce> alpha",
        "say <_nonce>",
        "say </_nonce>",
        "<a><_nonce>1</_nonce></a>",
        '{"a": {"_nonce": 1}}',
        '{"_nonce": 1',
        {"q": 1},
        [1, 2],
        7,
    ],
)
def test_arguments_without_metadata_come_back_as_they_are(arguments):
    assert ask(guard_after(), arguments).arguments is arguments


@given(json_objects, st.integers())
@settings(deadline=None, max_examples=200)
def test_taking_metadata_out_changes_no_other_member(members, seed):
    members = {key: value for key, value in members.items() if key != "_nonce"}
    text = respell({**members, "_nonce": [1, {"}": 2}]}, seed)
    passed = ask(guard_after(), text).arguments
    assert isinstance(passed, str)
    expected = json.loads(text)
    del expected["_nonce"]
    assert repr(json.loads(passed)) == repr(expected)


@given(st.text(alphabet="<>/_nonce a\n", max_size=60))
@settings(deadline=None)
def test_any_text_can_be_asked_about(text):
    guard = ReasonedOverrideGuard()
    assert ask(guard, text).action is RUN
    assert ask(guard, text).action is REFUSE


# Stress


def test_stress_rises_by_a_tenth_and_stops_at_one_and_a_half():
    guard = guard_after("a")
    levels = [ask(guard, "a").stress for _ in range(20)]
    assert levels[:4] == [0.1, 0.2, 0.3, 0.4]
    assert levels[13:] == [1.4, *[1.5] * 6]
    assert guard.stress == 1.5


def test_stress_rises_with_failed_tools_and_never_falls():
    guard = guard_after("a")
    for outcome in (Outcome.GENERAL_TOOL_ERROR, "schema_error", None, Outcome.SUCCESS):
        guard.after(outcome)
    assert guard.stress == 0.2
    assert ask(guard, "b").stress == 0.2
    with pytest.raises(ValueError, match="sucess"):
        guard.after("sucess")


# What the policy says


def test_exempt_tools_always_run_but_get_no_metadata():
    policy = GuardPolicy(tools={"find": ToolPolicy(exempt=True)})
    guard = ReasonedOverrideGuard(policy)
    assert [ask(guard, {"q": 1, "_nonce": n}) for n in range(3)] == [Decision(RUN, {"q": 1}, None, 0.0)] * 3


def test_ignored_argument_names_are_ignored_but_reach_the_tool():
    policy = GuardPolicy(metadata_keys=["trace"], tools={"find": ToolPolicy(metadata_keys=["page"])})
    guard = ReasonedOverrideGuard(policy)
    decision = ask(guard, {"q": 1, "trace": "a", "page": 1})
    assert decision.arguments == {"q": 1, "trace": "a", "page": 1}
    assert ask(guard, {"q": 1, "trace": "b", "page": 2}).action is REFUSE


def test_a_success_of_a_tool_that_resets_lets_other_calls_run_again():
    guard = ReasonedOverrideGuard(GuardPolicy(tools={"edit": ToolPolicy(resets=True)}))
    for outcome, action in ((Outcome.GENERAL_TOOL_ERROR, REFUSE), (Outcome.SUCCESS, RUN)):
        guard.before("test", with_reason("first"))
        guard.before("edit", {"line": str(outcome)})
        guard.after(outcome, tool_name="edit")
        assert guard.before("test", {}).action is action
    assert guard.before("edit", {"line": "success"}).action is REFUSE
    assert guard.before("test", with_reason("first")).refusal == "used_reason"


def test_in_shadow_mode_all_calls_run_and_the_decision_says_what_would_have_been():
    guard = ReasonedOverrideGuard(GuardPolicy(shadow=True))
    asked = [ask(guard, one) for one in ({}, {}, with_reason("r"), with_reason("r"))]
    assert [decision.refusal for decision in asked] == [None, "no_reason", None, "used_reason"]
    assert {(decision.action, decision.message, decision.stress) for decision in asked} == {(RUN, None, 0.0)}
    assert asked[3].arguments == {}
    guard.after(Outcome.GENERAL_TOOL_ERROR)
    assert guard.stress == 0.0


# Words of a user's own


def test_messages_in_a_users_own_words(tmp_path):
    (tmp_path / "refuse_used_reason.txt").write_text(f"{{tool_name}} heard '{{reason}}'; {REASON}?\n")
    guard = ReasonedOverrideGuard(messages=OverrideMessages.from_folder(tmp_path))
    guard.before("f{reason}", {})
    guard.before("f{reason}", with_reason("it {tool_name} broke"))
    decision = guard.before("f{reason}", with_reason("IT {tool_name} broke"))
    assert decision.message == f"f{{reason}} heard 'IT {{tool_name}} broke'; {REASON}?"
    first = ReasonedOverrideGuard()
    first.before("g", {})
    theirs = guard.before("f{reason}", {}).message
    ours = first.before("g", {}).message
    assert theirs is not None
    assert ours is not None
    assert theirs.replace("f{reason}", "g") == ours


def test_a_long_reason_is_quoted_in_part():
    guard = guard_after({}, with_reason("why " * 5_000))
    message = ask(guard, with_reason("why " * 5_000)).message
    assert message is not None
    assert "why …" in message
    assert len(message) < 1_000


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("no", REASON), f"the no_reason text must say {REASON}, where the model gives its reason"),
        ((REASON, "no"), f"the used_reason text must say {REASON}"),
        ((REASON * 200, REASON), "the no_reason text has 4000 characters; at most 3000 are allowed"),
    ],
)
def test_messages_that_cannot_be_used(texts, says):
    with pytest.raises(PolicyError, match=says):
        OverrideMessages(*texts)


def test_a_folder_without_messages_is_refused(tmp_path):
    with pytest.raises(PolicyError, match=r"no refuse_no_reason\.txt and no refuse_used_reason\.txt"):
        OverrideMessages.from_folder(tmp_path)
    (tmp_path / "refuse_no_reason.txt").write_text("no")
    with pytest.raises(PolicyError, match=f"{tmp_path}: the no_reason text"):
        OverrideMessages.from_folder(tmp_path)


# Several at once


def test_of_equal_calls_at_once_one_runs():
    for _ in range(20):
        guard = ReasonedOverrideGuard()
        start = threading.Barrier(8)
        seen: list[OverrideAction] = []

        def work(guard: ReasonedOverrideGuard = guard, start: Any = start, seen: Any = seen) -> None:
            start.wait()
            seen.append(guard.before("find", {"q": 1}).action)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(seen) == {RUN: 1, REFUSE: 7}
        assert guard.stress == 0.7


def test_of_equal_reasons_at_once_one_is_new():
    guard = guard_after({})
    guard._reasons = YieldingSet()  # lets other threads in between look-up and note
    guard._calls = YieldingSet(guard._calls)
    start = threading.Barrier(8)
    seen: list[Any] = []

    def work() -> None:
        start.wait()
        seen.append(guard.before("find", with_reason("r")).refusal)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(seen) == {None: 1, "used_reason": 7}


class YieldingSet(set[Any]):
    def __contains__(self, item: object) -> bool:
        found = super().__contains__(item)
        time.sleep(0.001)
        return found


def test_memory_does_not_grow_with_the_size_of_arguments_and_reasons():
    guard = ReasonedOverrideGuard()
    guard.before("find", {})
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for index in range(1_000):
            guard.before("find", {"q": index, "text": "x" * 2_000, REASON: f"{'y' * 2_000}{index}"})
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 1_000 < 400
