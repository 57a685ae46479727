"""Retries of one broken history are one cause, and each cause says what came just before it."""

from __future__ import annotations

from refused_histories import DUPLICATE, MISSING, ORPHAN, asks, gives, says
from replay_rows import call
from request_rows import analysed, refused, sent

from loopscope.replay import Cause
from loopscope.replay.requests._causes import repeated_whole

USER = says("user", "where is my refund?")
ROUND = [USER, asks("call_aaaa"), gives("call_aaaa")]
TWICE = [*ROUND, gives("call_aaaa")]


def only(*requests: object, **more: object) -> Cause:
    (cause,) = analysed(*requests, **more).causes
    return cause


def kinds(cause: Cause) -> list[str]:
    return [event.kind for event in cause.events]


def test_retries_and_the_requests_that_carry_the_fault_on_are_one_cause() -> None:
    error = DUPLICATE.format("call_aaaa")
    longer = [*TWICE, says("user", "please try again")]
    found = analysed(
        refused(TWICE, error, at=1),
        refused(TWICE, error, at=2),
        refused(longer, error, at=3),
        refused(TWICE, error, "run-2", at=4),
    )
    assert found.totals.causes == 2
    assert [(cause.run_id, cause.requests) for cause in found.causes] == [("run-2", 1), ("run-1", 3)]
    assert [request.cause for request in found.requests] == [1, 2, 2, 2]
    cause = found.causes[1]
    assert (cause.call_id, cause.error_class, cause.verdict) == (
        "call_aaaa",
        "duplicate_call_id",
        "prevented",
    )
    assert (cause.first_ns, cause.last_ns) == (found.requests[3].start_ns, found.requests[1].start_ns)


def test_another_fault_of_the_run_is_another_cause() -> None:
    cut = [*ROUND, asks("call_bbbb"), says("user", "hello?")]
    found = analysed(
        refused(TWICE, DUPLICATE.format("call_aaaa"), at=1), refused(cut, MISSING.format("call_bbbb"), at=2)
    )
    assert [cause.call_id for cause in found.causes] == ["call_bbbb", "call_aaaa"]


def test_retries_without_messages_are_one_cause() -> None:
    error = DUPLICATE.format("call_aaaa")
    assert only(refused(None, error, at=1), refused(None, error, at=2)).requests == 2


def test_runs_of_one_session_share_their_causes() -> None:
    error = DUPLICATE.format("call_aaaa")
    cause = only(
        refused(TWICE, error, "run-1", at=1, session_id="s"),
        refused(TWICE, error, "run-2", at=2, session_id="s"),
    )
    assert cause.requests == 2


def test_services_that_name_their_sessions_alike_share_nothing() -> None:
    error = DUPLICATE.format("call_aaaa")
    other = refused(TWICE, error, "run-2", at=2, session_id="s")
    other.service_name = "another service"
    found = analysed(refused(TWICE, error, "run-1", at=1, session_id="s"), other)
    assert [cause.requests for cause in found.causes] == [1, 1]


def test_history_shrank() -> None:
    long = [USER, *(says("user", f"page {number}") for number in range(20)), *ROUND[1:]]
    cause = only(sent(long, at=0), refused([USER, gives("call_aaaa"), says("user", "go on")], ORPHAN, at=1))
    (event,) = cause.events
    assert (event.kind, event.before, event.after) == ("history_shrank", 23, 3)
    assert cause.before == "The history shrank from 23 to 3 messages."


def test_messages_repeated_whole_with_their_tokens() -> None:
    before = sent(ROUND, at=0, input_tokens=300)
    loaded = [*ROUND, *ROUND, says("user", "go on")]
    cause = only(before, refused(loaded, DUPLICATE.format("call_aaaa"), at=1))
    # The call and its result came before; the model did not ask for them again.
    event = cause.events[0]
    assert (event.kind, event.messages) == ("messages_repeated", 3)
    assert event.tokens == 300  # the whole request before it, again


def test_a_single_result_that_stands_twice_is_a_repeat() -> None:
    cause = only(
        sent([USER], at=0, output=[asks("call_aaaa")]), refused(TWICE, DUPLICATE.format("call_aaaa"), at=1)
    )
    assert [(event.kind, event.messages) for event in cause.events] == [("messages_repeated", 1)]


def test_tokens_are_not_known_where_none_were_counted() -> None:
    cause = only(
        sent([USER], at=0, output=[asks("call_aaaa")], input_tokens=None),
        refused(TWICE, DUPLICATE.format("call_aaaa"), at=1),
    )
    assert cause.events[0].tokens is None


def test_an_answer_that_takes_an_id_again_is_the_models_and_no_repeat() -> None:
    again = [*ROUND, asks("call_aaaa"), gives("call_aaaa")]
    cause = only(
        sent(ROUND, at=0, output=[asks("call_aaaa")]), refused(again, DUPLICATE.format("call_aaaa"), at=1)
    )
    assert kinds(cause) == ["answer_reused_id"]
    assert "which an earlier call has" in cause.before


def test_an_answer_that_doubles_its_own_call() -> None:
    twins = asks("call_aaaa", "call_aaaa")
    cause = only(
        sent([USER], at=0, output=[twins]),
        refused([USER, twins, gives("call_aaaa"), gives("call_aaaa")], DUPLICATE.format("call_aaaa"), at=1),
    )
    assert kinds(cause) == ["answer_reused_id"]
    assert "two calls under the id call_aaaa" in cause.before


CUT = [USER, asks("call_aaaa"), says("user", "hello?")]


def test_interrupted_as_the_call_never_ended() -> None:
    running = call(call_id="call_aaaa", at=0, end_ns=None)
    cause = only(sent([USER], at=0), refused(CUT, MISSING.format("call_aaaa"), at=9), calls=[running])
    assert (kinds(cause), "never ended" in cause.before) == (["interrupted"], True)


def test_interrupted_as_the_call_was_cancelled() -> None:
    stopped = call(call_id="call_aaaa", at=0, outcome="general_tool_error", error_kind="cancelled")
    cause = only(sent([USER], at=0), refused(CUT, MISSING.format("call_aaaa"), at=9), calls=[stopped])
    assert (kinds(cause), "was cancelled" in cause.before) == (["interrupted"], True)


def test_interrupted_as_the_next_message_came_first() -> None:
    cause = only(sent([USER], at=0), refused(CUT, MISSING.format("call_aaaa"), at=9))
    assert (kinds(cause), "the next message came before a result" in cause.before) == (["interrupted"], True)


def test_a_call_that_ended_was_not_interrupted_its_result_was_lost() -> None:
    done = call(call_id="call_aaaa", at=0)
    cause = only(sent([USER], at=0), refused(CUT, MISSING.format("call_aaaa"), at=9), calls=[done])
    assert cause.events == ()
    assert "nothing unusual" in cause.before


def test_interrupted_as_the_request_before_did_not_finish() -> None:
    error = DUPLICATE.format("call_aaaa")
    never = sent([USER], at=0, end_ns=None)
    assert "never finished" in only(never, refused(TWICE, error, at=1)).before
    broke = refused([USER], None, at=0, http_status=None, error_type="CancelledError")
    assert "ended with CancelledError" in only(broke, refused(TWICE, error, at=1)).before


def test_another_provider_model_or_agent() -> None:
    error = DUPLICATE.format("call_aaaa")
    elsewhere = sent(ROUND, at=0, provider="anthropic", model="claude-sonnet-5")
    found = [
        event
        for event in only(elsewhere, refused(TWICE, error, at=1)).events
        if event.kind.startswith("other")
    ]
    assert [(event.kind, event.detail) for event in found] == [
        ("other_provider", "The conversation went from anthropic to openai.")
    ]
    smaller = sent(ROUND, at=0, model="gpt-small")
    assert "other_model" in kinds(only(smaller, refused(TWICE, error, at=1)))
    handed = sent(ROUND, at=0, agent_name="triage")
    assert "other_agent" in kinds(only(handed, refused(TWICE, error, at=1)))


def test_what_came_before_is_not_known() -> None:
    error = DUPLICATE.format("call_aaaa")
    orphan = only(refused([USER, gives("call_aaaa")], ORPHAN, at=1))
    assert orphan.before == "No request of this conversation was recorded before it."
    blank = only(sent(None, at=0), refused([USER, gives("call_aaaa")], ORPHAN, at=1))
    assert "the messages of the request before it were not recorded" in blank.before
    assert "its messages were not recorded" in only(refused(None, error, at=1)).before


def test_requests_of_others_are_not_what_came_before() -> None:
    other = sent([says("user", "x")] * 9, "run-2", at=0, provider="mistral", model="m")
    assert only(other, refused([USER, gives("call_aaaa")], ORPHAN, at=1)).events == ()


def test_another_conversation_of_the_session_is_not_what_came_before() -> None:
    prompt = says("system", "be nice")
    long = sent([prompt, *([says("user", "x"), says("assistant", "y")] * 9)], "run-1", at=0, session_id="s")
    orphan = [prompt, USER, gives("call_aaaa")]
    cause = only(long, refused(orphan, ORPHAN, "run-2", at=1, session_id="s"))
    assert (cause.events, "No request of this conversation" in cause.before) == ((), True)
    # In its own run it went on from that, whatever was left of it.
    cause = only(long, refused(orphan, ORPHAN, "run-1", at=1, session_id="s"))
    assert kinds(cause) == ["history_shrank"]


def test_a_user_may_say_the_same_again() -> None:
    talk = ((), ())
    assert repeated_whole([talk, talk, talk], [1, 2, 1], 0, None) == []
    assert repeated_whole([talk] * 4, [1, 2, 1, 2], 0, None) == [2, 3]


def test_only_what_is_new_since_the_request_before_counts_as_repeated() -> None:
    talk = ((), ())
    assert repeated_whole([talk] * 5, [1, 2, 1, 2, 3], 4, None) == []


def test_a_second_result_of_a_call_said_again_is_a_repeat() -> None:
    asked, answered = (("a",), ()), ((), ("a",))
    facts = [asked, answered, asked, answered, answered]
    assert repeated_whole(facts, [1, 2, 1, 2, 2], 2, {"a"}) == [4]
    assert repeated_whole(facts, [1, 2, 1, 2, 2], 2, set()) == [2, 3, 4]
