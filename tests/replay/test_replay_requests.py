"""Verdicts on refused requests, the totals, and what they cover."""

from __future__ import annotations

import json

import pytest
from refused_histories import DUPLICATE, LOOP, MISSING, ORPHAN, asks, gives, says
from replay_rows import call, database
from request_rows import analysed, asked, judged, refused, sent

from loopscope.guard import GuardPolicy
from loopscope.replay import Filters

NO_RESULT = (
    "Error code: 400 - An assistant message with 'tool_calls' must be followed by tool messages responding "
    "to each 'tool_call_id'."
)
USER = says("user", "where is my refund?")
ROUND = [USER, asks("call_aaaa"), gives("call_aaaa")]


def test_twins_in_one_turn_are_prevented_by_dropping_alone() -> None:
    history = [USER, asks("call_aaaa", "call_aaaa"), gives("call_aaaa"), gives("call_aaaa")]
    found = judged(refused(history, DUPLICATE.format("call_aaaa"), at=1))
    assert (found.verdict, found.error_class, found.judged_as) == ("prevented", "duplicate_call_id", "openai")
    assert found.prevented_by_dedup
    assert set(found.repairs) == {"dropped_duplicate_call", "dropped_duplicate_result"}


def test_a_result_that_stands_twice_is_prevented_by_dropping_alone() -> None:
    found = judged(refused([*ROUND, gives("call_aaaa")], DUPLICATE.format("call_aaaa"), at=1))
    assert (found.verdict, found.repairs) == ("prevented", ("dropped_duplicate_result",))
    assert found.prevented_by_dedup


def test_an_id_of_an_earlier_round_is_refused_only_where_the_refusal_proves_it() -> None:
    again = [*ROUND, asks("call_aaaa", text="once more"), gives("call_aaaa", "still nothing")]
    found = judged(refused(again, DUPLICATE.format("call_aaaa"), at=1))
    assert (found.verdict, found.repairs) == ("prevented", ("renamed_call_id",))
    assert not found.prevented_by_dedup
    assert "proven by its refusal" in (found.reason or "")
    # The same history is nothing to complain of where it was answered.
    assert analysed(sent(again, at=1)).totals.broken == 0


def test_a_missing_result_gets_a_stub() -> None:
    history = [USER, asks("call_aaaa"), says("user", "hello?")]
    found = judged(refused(history, MISSING.format("call_aaaa"), at=1))
    assert (found.verdict, found.repairs, found.prevented_by_dedup) == (
        "prevented",
        ("added_stub_result",),
        False,
    )


def test_an_orphan_is_dropped() -> None:
    found = judged(refused([USER, gives("call_aaaa")], ORPHAN, at=1))
    assert (found.verdict, found.repairs) == ("prevented", ("dropped_orphan_result",))


@pytest.mark.parametrize(
    ("history", "error", "why", "words"),
    [
        (ROUND, DUPLICATE.format("call_aaaa"), "contradicted", "call_aaaa stands once"),
        (
            ROUND,
            DUPLICATE.format("call_bbbb"),
            "contradicted",
            "names call_bbbb, which the recorded messages do not hold",
        ),
        (ROUND, MISSING.format("call_zzzz"), "contradicted", "names call_zzzz, which"),
        (ROUND, MISSING.format("call_aaaa"), "contradicted", "as recorded call and result stand together"),
        # Another call's fault is no reason for what is said of this one.
        (
            [*ROUND, asks("call_bbbb"), says("user", "hello?")],
            MISSING.format("call_aaaa"),
            "contradicted",
            "as recorded call and result stand together",
        ),
        ([USER], ORPHAN, "contradicted", "speaks of a result, but the recorded messages hold none"),
        ([USER], NO_RESULT, "contradicted", "speaks of a call, but the recorded messages hold none"),
        (
            [USER, {"role": "assistant"}, gives("call_aaaa")],
            ORPHAN,
            "truncated",
            "only the role was recorded",
        ),
        (
            [USER, {"role": "assistant", "parts": []}, gives("call_aaaa")],
            ORPHAN,
            "truncated",
            "only the role was recorded",
        ),
        (
            [USER, asks("call_aaaa"), {"role": "tool", "content": "x"}, says("user", "hm")],
            MISSING.format("call_aaaa"),
            "without_ids",
            "1 call or result was recorded without an id",
        ),
    ],
)
def test_undetermined_where_the_recording_is_not_what_was_sent(
    history: list, error: str, why: str, words: str
) -> None:
    found = judged(refused(history, error, at=1))
    assert (found.verdict, found.undetermined, found.repairs) == ("undetermined", why, ())
    assert words in (found.reason or "")


def test_undetermined_where_messages_are_missing_names_the_setting() -> None:
    found = judged(refused(None, DUPLICATE.format("call_aaaa"), at=1))
    assert (found.verdict, found.undetermined) == ("undetermined", "not_recorded")
    assert "its messages were not recorded" in (found.reason or "")
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in (found.reason or "")
    # The setting is on where other requests have messages: then it is not for want of it.
    found = judged(sent(ROUND, at=0), refused(None, DUPLICATE.format("call_aaaa"), at=1))
    assert found.undetermined == "not_recorded"
    assert "those of other requests of this dialect were" in (found.reason or "")


def test_undetermined_where_messages_are_cut() -> None:
    found = judged(refused(ROUND, DUPLICATE.format("call_aaaa"), at=1, content_state="truncated"))
    assert (found.verdict, found.undetermined) == ("undetermined", "truncated")
    assert "cut or with gaps" in (found.reason or "")


def test_undetermined_where_nobody_knows_whose_rules_hold() -> None:
    error = "messages: duplicate tool call id call_aaaa found"
    history = [USER, asks("call_aaaa", "call_aaaa"), gives("call_aaaa")]
    row = refused(
        history,
        error,
        at=1,
        provider="acme",
        model="acme-1",
        error_class="duplicate_call_id",
        http_status=400,
    )
    found = judged(row)
    assert (found.verdict, found.undetermined, found.judged_as) == ("undetermined", "no_rules", None)
    assert "whose rules hold" in (found.reason or "")


def test_provider_from_the_model_and_from_the_words_of_the_refusal() -> None:
    history = [USER, asks("call_aaaa"), says("user", "hello?")]
    by_model = judged(
        refused(history, MISSING.format("call_aaaa"), at=1, provider="my-gateway", model="deepseek-chat")
    )
    assert (by_model.judged_as, by_model.verdict) == ("deepseek", "prevented")
    by_words = judged(refused(history, MISSING.format("call_aaaa"), at=1, provider=None, model=None))
    assert (by_words.judged_as, by_words.verdict) == ("openai", "prevented")


def test_not_prevented_where_no_known_rule_is_broken() -> None:
    error = "Unexpected role 'user' after role 'tool'"
    found = judged(
        refused([*ROUND, says("assistant", "ok"), USER], error, at=1, provider="mistral", model="m")
    )
    assert (found.error_class, found.verdict) == ("role_order", "not_prevented")
    assert "breaks no rule" in (found.reason or "")


def test_class_other_is_never_judged() -> None:
    error = "Error code: 400 - This model's maximum context length is 8192 tokens."
    found = analysed(refused([*ROUND, gives("call_aaaa")], error, at=1))
    assert found.requests[0].verdict is None
    assert (found.totals.failed, found.totals.tool_related, found.totals.causes) == (1, 0, 0)
    assert found.by_class["other"].failed == 1


def _loop(length: int) -> list:
    return [call(run="run-1", at=index, end_ns=-1) for index in range(length)]


@pytest.mark.parametrize(
    ("length", "verdict"), [(4, "prevented_by_guard"), (2, "not_prevented"), (0, "undetermined")]
)
def test_a_refused_loop_is_the_guards_to_prevent(length: int, verdict: str) -> None:
    row = refused(None, LOOP, at=100, provider="dashscope", model="qwen-max", error_class="repeated_calls")
    found = analysed(row, calls=_loop(length))
    assert found.requests[0].verdict == verdict
    assert found.requests[0].undetermined == ("not_recorded" if verdict == "undetermined" else None)
    assert getattr(found.totals, verdict) == 1
    assert found.totals.prevented == 0


def test_a_refused_loop_is_judged_by_the_policy_given() -> None:
    row = refused(None, LOOP, at=100, provider="dashscope", model="qwen-max", error_class="repeated_calls")
    found = judged(row, calls=_loop(4), policy=GuardPolicy(nudge_threshold=6, block_threshold=9))
    assert found.verdict == "not_prevented"


def _mixed() -> list:
    twins = [USER, asks("call_aaaa", "call_aaaa"), gives("call_aaaa"), gives("call_aaaa")]
    cut = [USER, asks("call_bbbb"), says("user", "hello?")]
    return [
        sent(ROUND, "run-0", at=0),
        refused(twins, DUPLICATE.format("call_aaaa"), "run-1", at=1),
        refused(cut, MISSING.format("call_bbbb"), "run-2", at=2),
        refused(None, ORPHAN, "run-3", at=3),
        refused(ROUND, "Error code: 429 - slow down", "run-4", at=4, http_status=429),
        refused([*ROUND, says("assistant", "ok")], "Unexpected role 'user' after role 'tool'", "run-5", at=5),
        refused(None, LOOP, "run-1", at=100, error_class="repeated_calls"),
    ]


def test_totals_add_up() -> None:
    found = analysed(*_mixed(), calls=_loop(4))
    totals = found.totals
    assert (totals.requests, totals.failed, totals.tool_related) == (7, 6, 5)
    assert (totals.prevented, totals.prevented_by_dedup, totals.prevented_by_guard) == (2, 1, 1)
    assert (totals.not_prevented, totals.undetermined) == (1, 1)
    assert totals.tool_related == (
        totals.prevented + totals.prevented_by_guard + totals.not_prevented + totals.undetermined
    )
    assert sum(counts.failed for counts in found.by_class.values()) == totals.failed
    assert sum(counts.causes for counts in found.by_class.values()) == totals.causes == 5
    assert found.by_repair == {
        "added_stub_result": 1,
        "dropped_duplicate_call": 1,
        "dropped_duplicate_result": 1,
    }
    coverage = found.coverage
    assert (coverage.requests, coverage.without_messages, coverage.failed_without_messages) == (7, 2, 2)
    assert (coverage.passed, coverage.passed_checked, coverage.passed_waiting) == (1, 1, 0)


def test_only_failed_requests_can_be_asked_for() -> None:
    found = analysed(*_mixed(), passed=False)
    assert (found.totals.broken, found.totals.latent, found.by_provider) == (None, None, ())
    assert found.coverage.passed_checked is None
    assert found.totals.failed == 6


def test_filters_and_limit_bound_the_lists_and_not_the_counts() -> None:
    con = database(requests=_mixed())
    found = asked(con, filters=Filters(run_ids=("run-1", "run-2")), limit=1)
    assert (found.totals.failed, len(found.requests), len(found.causes)) == (3, 1, 1)
    assert found.requests[0].error_class == "repeated_calls"


def test_json_is_plain_and_says_its_version() -> None:
    found = analysed(*_mixed(), calls=_loop(4)).to_json()
    assert json.loads(json.dumps(found))["totals"] == found["totals"]
    assert found["schema_version"] == 1
    assert {"coverage", "totals", "by_class", "by_repair", "requests", "causes"} <= found.keys()
    assert {"prevented", "prevented_by_dedup", "broken", "latent", "causes"} <= found["totals"].keys()


def test_an_empty_store_has_an_answer() -> None:
    found = analysed()
    assert (found.totals.requests, found.totals.broken, found.totals.latent) == (0, 0, 0)
    assert (found.requests, found.causes, found.by_class) == ((), (), {})
