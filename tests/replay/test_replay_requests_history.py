"""One request's history before and after the repair."""

from __future__ import annotations

import json

import pytest
from refused_histories import DUPLICATE, MISSING, asks, gives, says
from replay_rows import database
from request_rows import refused, sent

from loopscope.guard import NotFoundError
from loopscope.replay import RequestHistory, request_history

USER = says("user", "where is my refund?")
ROUND = [USER, asks("call_aaaa"), gives("call_aaaa")]


def history(row: object, **more: object) -> RequestHistory:
    con = database(requests=[row])  # type: ignore[list-item]
    return request_history(con, row.trace_id, row.span_id, **more)  # type: ignore[attr-defined,arg-type]


def test_a_dropped_result_is_marked_at_its_message() -> None:
    row = refused([*ROUND, gives("call_aaaa", "again")], DUPLICATE.format("call_aaaa"), at=1)
    found = history(row)
    assert (found.messages_before, found.messages_after, found.provider) == (4, 3, "openai")
    assert [(message.changed, message.dropped) for message in found.before] == [(False, False)] * 3 + [
        (True, True)
    ]
    assert [message.origin for message in found.after] == [0, 1, 2]
    (repair,) = found.repairs
    assert (repair.kind, repair.origin, repair.call_id) == ("dropped_duplicate_result", 3, "call_aaaa")
    assert [one.error_class for one in found.violations_before] == ["duplicate_result"]
    assert found.violations_after == ()
    assert json.loads(found.before[1].text) == asks("call_aaaa")
    assert (found.before[1].calls, found.before[2].results) == (("call_aaaa",), ("call_aaaa",))
    assert found.request is not None
    assert (found.request.verdict, found.note) == ("prevented", None)


def test_a_stub_has_no_origin_and_stands_where_it_was_put() -> None:
    row = refused([USER, asks("call_aaaa"), says("user", "hello?")], MISSING.format("call_aaaa"), at=1)
    found = history(row)
    assert [(message.role, message.origin) for message in found.after] == [
        ("user", 0),
        ("assistant", 1),
        ("tool", None),
        ("user", 2),
    ]
    assert found.after[2].changed
    assert "[no result recorded]" in found.after[2].text


def test_the_rule_that_the_refusal_proves_is_used_here_too() -> None:
    again = [*ROUND, asks("call_aaaa"), gives("call_aaaa")]
    found = history(refused(again, DUPLICATE.format("call_aaaa"), at=1))
    assert [repair.kind for repair in found.repairs] == ["renamed_call_id"]
    assert [one.rule for one in found.violations_before] == ["unique_in_history"]
    assert found.violations_after == ()


def test_another_provider_can_be_asked() -> None:
    row = sent([*ROUND, says("user", "thanks")], at=1)
    assert history(row).violations_before == ()
    found = history(row, provider="mistral")
    assert found.provider == "mistral"
    assert {one.error_class for one in found.violations_before} == {"id_format", "role_order"}
    assert found.violations_after == ()
    assert found.request is None


def test_texts_and_lists_are_bounded() -> None:
    long = [says("user", f"{number}: " + "x" * 500) for number in range(300)]
    cut = [*long[:100], *ROUND[1:], gives("call_aaaa"), *long[100:]]
    row = refused(cut, DUPLICATE.format("call_aaaa"), at=1)
    found = history(row, text_limit=100, message_limit=20)
    assert (found.messages_before, found.messages_after) == (303, 302)
    assert len(found.before) == 20
    assert {99, 100, 101, 102, 103, 104, 105, 302} <= {message.position for message in found.before}
    assert all(len(message.text) <= 100 for message in (*found.before, *found.after))
    assert found.before[0].cut


def test_a_foreign_form_says_so_and_keeps_the_recorded_text_before() -> None:
    call = {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "call_aaaa", "name": "f", "arguments": {}}],
    }
    part = {"type": "tool_call_response", "id": "call_aaaa", "response": "r"}
    result = {"role": "tool", "parts": [part, part]}
    found = history(refused([USER, call, result], DUPLICATE.format("call_aaaa"), at=1))
    assert (found.format, found.native) == ("openai-chat", False)
    assert json.loads(found.before[2].text) == result
    assert (found.before[2].changed, found.before[2].dropped) == (True, False)
    assert [message.origin for message in found.after] == [0, 1, 2]
    assert "shown as openai-chat" in (found.note or "")


def test_a_system_prompt_outside_the_list_is_kept() -> None:
    ask = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
    give = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r"}]}
    row = sent(
        [says("system", "be nice"), USER, ask, give], at=1, provider="anthropic", model="claude-sonnet-5"
    )
    found = history(row)
    assert (found.format, found.messages_before, found.messages_after) == ("anthropic", 4, 4)
    assert [message.origin for message in found.after] == [0, 1, 2, 3]
    assert not any(message.dropped or message.changed for message in found.before)


def test_nothing_recorded_names_the_setting() -> None:
    found = history(refused(None, DUPLICATE.format("call_aaaa"), at=1))
    assert (found.before, found.after, found.messages_before) == ((), (), 0)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in (found.note or "")
    assert json.dumps(found.to_json())


def test_no_such_request() -> None:
    with pytest.raises(NotFoundError, match="no LLM request"):
        request_history(database(), "t", "s")
