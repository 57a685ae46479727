"""The reload path, `repair_messages`: rows 89-98 of the table of cases, and what holds for all histories."""

from __future__ import annotations

import copy
import json
import re
from itertools import pairwise
from typing import Any

import pytest
from broken_histories import Turn, broken, conversations, write
from hypothesis import given, settings
from hypothesis import strategies as st

from loopscope.guard import RepairKind, SanitizeResult, repair_messages, sanitize_messages
from loopscope.guard.messages import FORMATS, Call, MessageFormat, Result, format_of

K = RepairKind


def U(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def A(content: Any = None, *calls: Any, **more: Any) -> dict[str, Any]:
    """An assistant message; a call is an id, or (id, function)."""
    listed = []
    for call in calls:
        call_id, name = call if isinstance(call, tuple) else (call, "f")
        listed.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}})
    return {"role": "assistant", "content": content, **({"tool_calls": listed} if listed else {}), **more}


def T(call_id: Any, content: str = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def repaired(messages: list[Any], **options: Any) -> SanitizeResult:
    before = copy.deepcopy(messages)
    result = repair_messages(messages, **options)
    assert messages == before, "the input was modified"
    again = repair_messages(result.messages, **{**options, "format": result.format})
    assert (again.messages, again.repairs) == (result.messages, ()), "row 99: not idempotent"
    return result


def kinds(result: SanitizeResult) -> list[K]:
    return [repair.kind for repair in result.repairs]


# -- the table of cases --------------------------------------------------------------------------------


def test_row_57_second_result_goes() -> None:
    result = repaired([U("q"), A(None, "k"), T("k", "one"), T("k", "two")])
    assert result.messages == [U("q"), A(None, "k"), T("k", "one")]
    assert kinds(result) == [K.DROPPED_DUPLICATE_RESULT]


def test_row_58_one_id_on_two_different_calls() -> None:
    result = repaired([U("q"), A(None, ("k", "f"), ("k", "g")), T("k", "1"), T("k", "2")])
    assert result.messages == [U("q"), A(None, ("k", "f"), ("k_d2", "g")), T("k", "1"), T("k_d2", "2")]


def test_row_77_padded_ids_match() -> None:
    history = [U("q"), A(None, "  k "), T("k")]
    assert repaired(history).messages == history


def test_row_78_a_result_without_an_id_for_the_one_call_that_waits() -> None:
    result = repaired([U("q"), A(None, "k"), T(None, "x")])
    assert result.messages == [U("q"), A(None, "k"), T("k", "x")]
    assert repaired([U("q"), A("y"), T(None, "x")]).messages == [U("q"), A("y")]


def test_row_89_two_turns_with_calls_become_one() -> None:
    result = repaired([U("q"), A(None, "a"), A(None, "b"), T("a"), T("b")])
    assert result.messages == [U("q"), A(None, "a", "b"), T("a"), T("b")]
    assert kinds(result) == [K.MERGED_MESSAGES]


def test_row_90_text_and_call() -> None:
    result = repaired([U("q"), A("text"), A("", "a"), T("a")])
    assert result.messages == [U("q"), A("text", "a"), T("a")]


def test_row_91_turns_with_a_result_between_stay_apart() -> None:
    history = [U("q"), A(None, "a"), T("a"), A(None, "b"), T("b")]
    assert repaired(history).messages == history


def test_row_92_texts_are_joined_by_a_line_break() -> None:
    assert repaired([U("q"), A(" one "), A("two\n"), A("three")]).messages == [U("q"), A("one\ntwo\nthree")]


@pytest.mark.parametrize(
    "interim",
    [
        {"codex_reasoning_items": [{"id": "rs_1"}]},
        {"codex_message_items": [1]},
        {"finish_reason": "incomplete"},
    ],
)
def test_row_93_interim_output_of_codex_stays_apart(interim: dict[str, Any]) -> None:
    history = [U("q"), A("one", **interim), A("two", **interim), U("x")]
    assert repaired(history).messages == history


def test_row_94_users() -> None:
    assert repaired([U("a"), U("b")]).messages == [U("a\n\nb")]
    assert repaired([U(""), U("b")]).messages == [U("b")]
    assert repaired([U("a"), U("")]).messages == [U("a")]
    picture = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    history = [U("a"), U(picture), U("b")]
    assert repaired(history).messages == history


def test_row_95_a_user_after_results_is_fine() -> None:
    history = [U("q"), A(None, "k"), T("k"), U("n")]
    result = repaired(history)
    assert result.repairs == ()
    assert all(one is other for one, other in zip(result.messages, history, strict=True))


def test_row_96_a_call_that_nothing_answers() -> None:
    result = repaired([U("q"), A("text", "k"), U("n")])
    assert result.messages == [U("q"), A("text"), U("n")]
    assert kinds(result) == [K.DROPPED_UNPAIRED_CALL]
    result = repaired([U("q"), A(None, "k"), U("n")])
    assert result.messages == [U("q\n\nn")]
    assert kinds(result) == [K.DROPPED_UNPAIRED_CALL, K.MERGED_MESSAGES]


def test_row_97_the_cursor() -> None:
    """Two messages were stored; they became one: the next to store is the third."""
    result = repaired([U("a"), U("b"), A("new")])
    assert result.cursor(2) == 1
    assert result.messages[result.cursor(2)] == A("new")
    assert result.sources == ((0, 1), (2,))
    assert [result.position_of(index) for index in range(4)] == [0, 0, 1, None]


def test_row_97_a_merge_over_the_cursor_loses_nothing() -> None:
    result = repaired([U("a"), U("stored"), U("new"), A("x")])
    assert result.cursor(2) == 0  # the message that holds "new", too
    assert result.cursor(0) == 0
    assert result.cursor(3) == 1
    assert result.cursor(4) == 2


def test_row_97_messages_that_went() -> None:
    result = repaired([U("q"), A(None, "k"), T("zz"), A("x"), U("n")])
    assert result.messages == [U("q"), A("x"), U("n")]
    assert result.sources == ()  # nothing was merged
    assert (result.cursor(3), result.cursor(5)) == (1, 3)
    assert [result.position_of(index) for index in range(5)] == [0, None, None, 1, 2]


def test_row_98_empty_calls_go() -> None:
    result = repaired([U("q"), A("x", tool_calls=[]), A("y")])
    assert result.messages == [U("q"), A("x\ny")]
    assert "tool_calls" not in result.messages[1]
    assert repaired([U("q"), A("x", tool_calls=None), U("n")]).messages == [U("q"), A("x"), U("n")]


# -- beyond the table ----------------------------------------------------------------------------------


def test_an_interrupted_turn_that_was_replayed_is_one() -> None:
    result = repaired([U("q"), A("run", "k"), A("retry", "k"), T("k")])
    assert result.messages == [U("q"), A("run\nretry", "k"), T("k")]


def test_a_late_result_is_moved_not_dropped() -> None:
    result = repaired([U("q"), A(None, "k"), U("n"), T("k", "late")])
    assert result.messages == [U("q"), A(None, "k"), T("k", "late"), U("n")]
    assert kinds(result) == [K.MOVED_RESULT]


def test_pending_calls_stay() -> None:
    history = [U("q"), A(None, "k")]
    assert repaired(history, pending_call_ids=["k"]).messages == history
    assert repaired(history).messages == [U("q")]


def test_a_pending_call_keeps_its_id() -> None:
    """Its result will come under that id, even if another call of the turn has it too."""
    history = [U("q"), A(None, ("k", "f"), ("k", "g"))]
    assert repaired(history, pending_call_ids=["k"]).messages == history
    answered = repaired([*history, T("k")], pending_call_ids=["k"])
    assert [one["id"] for one in answered.messages[1]["tool_calls"]] == ["k", "k"]


def test_only_the_calls_without_an_answer_go() -> None:
    result = repaired([U("q"), A(None, "a", "b", "c"), T("b"), U("n")])
    assert result.messages == [U("q"), A(None, "b"), T("b"), U("n")]


def test_what_a_dropped_result_stood_between_is_merged() -> None:
    result = repaired([U("q"), A("one"), T("zz"), A("two")])
    assert result.messages == [U("q"), A("one\ntwo")]


def test_the_first_reasoning_is_kept() -> None:
    one, two = A("a", reasoning_content="first"), A("b", reasoning_content="second")
    assert repaired([U("q"), one, two]).messages == [U("q"), A("a\nb", reasoning_content="first")]
    assert repaired([U("q"), A("a"), two]).messages == [U("q"), A("a\nb", reasoning_content="second")]
    assert repaired([U("q"), A("a", reasoning_content=""), two]).messages[1]["reasoning_content"] == "second"


def test_content_in_blocks_is_kept_in_blocks() -> None:
    part = {"type": "text", "text": "one"}
    result = repaired([U("q"), A([part]), A("two", "k"), T("k")])
    assert result.messages == [U("q"), A([part, {"type": "text", "text": "two"}], "k"), T("k")]


def test_exempt_messages_stay_apart() -> None:
    history = [U("a"), U("summary", summary=True), U("b"), U("c")]
    result = repaired(history, exempt=lambda message: message.get("summary"))
    assert result.messages == [U("a"), U("summary", summary=True), U("b\n\nc")]


def test_messages_of_different_people_stay_apart() -> None:
    history = [U("a", name="ann"), U("b", name="bob")]
    assert repaired(history).messages == history


def test_a_system_message_between_keeps_turns_apart() -> None:
    history = [U("a"), {"role": "system", "content": "s"}, U("b")]
    assert repaired(history).messages == history


def test_sdk_objects() -> None:
    class Object:
        def __init__(self, **fields: Any) -> None:
            self.__dict__.update(fields)

    call = Object(id="k", type="function", function=Object(name="f", arguments="{}"))
    lost = Object(id="z", type="function", function=Object(name="f", arguments="{}"))
    messages = [
        U("q"),
        Object(role="assistant", content="x", tool_calls=[call]),
        Object(role="tool", tool_call_id="k", content="r"),
        Object(role="assistant", content="y", tool_calls=[lost]),
    ]
    result = repair_messages(messages)
    assert result.messages[1] is messages[1]
    assert result.messages[3] == {"role": "assistant", "content": "y"}
    assert messages[3].tool_calls == [lost]


def test_an_empty_history() -> None:
    assert repaired([]).messages == []
    assert repair_messages([]).cursor(0) == 0


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format"):
        repair_messages([], format="morse")  # type: ignore[arg-type]


# -- other formats -------------------------------------------------------------------------------------


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def back(call_id: str, text: str = "r") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def test_anthropic() -> None:
    history = [U("q"), A([use("a"), use("b")]), U([back("a")]), U("go on")]
    result = repaired(history, format="anthropic")
    assert result.messages == [U("q"), A([use("a")]), U([back("a"), {"type": "text", "text": "go on"}])]
    interrupted = repaired([U("q"), A([use("a")]), U("n")], format="anthropic")
    joined = [U([{"type": "text", "text": "q\n\nn"}])]
    assert interrupted.messages == joined
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert repaired([U("q"), A([thought, use("a")]), U("n")], format="anthropic").messages == joined


def test_gemini() -> None:
    def turn(role: str, *parts: Any) -> dict[str, Any]:
        return {"role": role, "parts": list(parts)}

    call = {"functionCall": {"name": "f", "args": {}}}
    reply = {"functionResponse": {"name": "f", "response": {"output": "r"}}}
    history = [turn("user", {"text": "q"}), turn("model", {"text": "x"}, call), turn("user", {"text": "n"})]
    result = repaired(history)
    assert result.messages == [
        turn("user", {"text": "q"}),
        turn("model", {"text": "x"}),
        turn("user", {"text": "n"}),
    ]
    whole = [
        turn("user", {"text": "q"}),
        turn("model", call),
        turn("user", reply),
        turn("model", {"text": "done"}),
    ]
    assert repaired(whole).messages == whole


def test_bedrock() -> None:
    def turn(role: str, *content: Any) -> dict[str, Any]:
        return {"role": role, "content": list(content)}

    call = {"toolUse": {"toolUseId": "a", "name": "f", "input": {}}}
    history = [turn("user", {"text": "q"}), turn("assistant", call), turn("user", {"text": "n"})]
    assert repaired(history).messages == [turn("user", {"text": "q"}, {"text": "n"})]


def test_responses_items_are_not_merged() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "a", "output": "r"}
    history = [U("q"), U("also"), reasoning, call, output]
    assert repaired(history).messages == history
    assert repaired([U("q"), reasoning, call, U("n")]).messages == [U("q"), U("n")]
    [kept] = repaired([output], previous_response_id="resp_1").messages
    assert kept is output


# -- for all histories ---------------------------------------------------------------------------------

IDS = st.sampled_from(["a", "b", " a", "c|fc", "", None])
MESSAGES = st.lists(
    st.builds(U, st.sampled_from(["x", "", "y"]))
    | st.builds(lambda text, ids: A(text, *ids), st.sampled_from([None, "", "t"]), st.lists(IDS, max_size=3))
    | st.builds(T, IDS, st.sampled_from(["r", "s"]))
    | st.just({"role": "system", "content": "s"}),
    max_size=12,
)


@given(MESSAGES, st.sampled_from(FORMATS))
@settings(max_examples=150)
def test_any_history(messages: list[Any], format_name: str) -> None:
    """Repairing twice changes nothing, every call that stays is answered, and the sanitizer adds no stub."""
    result = repaired(messages, format=format_name)
    assert len(result.messages) == len(result.origins)
    assert len(result.sources) in (0, len(result.origins))
    assert 0 <= result.cursor(len(messages) // 2) <= len(result.messages)
    if format_name == "openai-chat":
        clean = sanitize_messages(result.messages, format=format_name)
        assert K.ADDED_STUB_RESULT not in kinds(clean)
        assert K.DROPPED_ORPHAN_RESULT not in kinds(clean)
        roles = [message["role"] for message in result.messages]
        assert not any(one == other == "assistant" for one, other in pairwise(roles))


@given(MESSAGES)
@settings(max_examples=150)
def test_no_word_is_lost(messages: list[Any]) -> None:
    """All that the user and the assistant said is still there."""
    result = repaired(messages, format="openai-chat")
    for role, words in (("user", "xy"), ("assistant", "t")):
        before = [m["content"] for m in messages if m["role"] == role and m["content"]]
        after = "".join(m["content"] for m in result.messages if m["role"] == role and m["content"])
        for word in words:
            assert sum(text.count(word) for text in before) == after.count(word)


def results_in(values: list[Any]) -> set[str]:
    """The words "result n" in what calls are given or results give."""
    found = (re.search(r"result \d+", json.dumps(value)) for value in values)
    return {match.group() for match in found if match}


@pytest.mark.parametrize("form", FORMATS)
@given(data=st.data())
@settings(max_examples=60)
def test_broken_histories_of_every_format(form: MessageFormat, data: st.DataObject) -> None:
    """Repaired twice as once; a result stays if its call is there; what is left needs no stub and no drop."""
    messages = data.draw(broken(form, whole=True))
    result = repaired(messages, format=form)
    read = format_of(form).read
    before = [block for raw in messages for block in read(raw, None).blocks]
    after = [block for raw in result.messages for block in read(raw, None).blocks]
    called = results_in(
        [block.arguments for block in before if isinstance(block, Call)]
    )  # it names its result
    given_back = results_in([block.content for block in before if isinstance(block, Result)])
    assert results_in([block.content for block in after if isinstance(block, Result)]) == called & given_back
    assert sum(isinstance(block, Call) for block in after) == sum(
        isinstance(block, Result) for block in after
    )
    clean = sanitize_messages(result.messages, format=form)
    assert not {K.ADDED_STUB_RESULT, K.DROPPED_ORPHAN_RESULT, K.MOVED_RESULT} & set(kinds(clean))


@pytest.mark.parametrize("form", FORMATS)
@given(turns=conversations())
@settings(max_examples=40)
def test_valid_histories_of_every_format(form: MessageFormat, turns: list[Turn]) -> None:
    messages = write(turns, form)
    result = repaired(messages, format=form)
    assert result.repairs == ()
    assert all(one is other for one, other in zip(result.messages, messages, strict=True))
