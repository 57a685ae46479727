"""The case table of the sanitizer, one test a row, with the better answer where ours differs.

Rows 55-88 are about `sanitize_messages`, 99-105 about idempotence, ids and Anthropic; E1-E8 are the worked
examples, and the holes (a)-(f) those that the sanitizer this one re-creates still had.
"""

from __future__ import annotations

import pytest
from histories import (
    A,
    S,
    T,
    U,
    as_json,
    assistant,
    call,
    kinds,
    responses_call,
    responses_output,
    said,
    sanitized,
    show,
    tool_result,
    use,
    user,
)
from openai.types.chat import ChatCompletionMessage

from loopscope.guard import is_stub_result

CODEX = {"codex_reasoning_items": [{"type": "reasoning", "id": "rs_1"}]}
IDS = {"call_id": "call_1", "response_item_id": "fc_1"}

# name: (history, what it becomes, the repairs); None: it comes back as it is
ROWS = {
    "row55": ([], None, []),
    "row56": ([U(), A("k1", "k2"), T("k2", "b"), T("k1", "a"), A(text="done")], None, []),
    "row57": ([U(), A("k"), T("k", "one"), T("k", "two")], "Uq A[k] T(k)one", ["dropped_duplicate_result"]),
    # The original drops the second call. They are different calls: both stay, one is renamed.
    "row58": (
        [U(), A("k:f", "k:g"), T("k", "1"), T("k", "2")],
        "Uq A[k,k_d2] T(k)1 T(k_d2)2",
        ["renamed_call_id"],
    ),
    "row59": ([U(), A("k1", "k2"), T("k1", "a"), T("k2", "b")], None, []),
    "row60": (
        [U(), A("k"), T("k", "a"), T("zz", "x"), U("n")],
        "Uq A[k] T(k)a Un",
        ["dropped_orphan_result"],
    ),
    "row61": ([U(), A("k:look")], "Uq A[k] ~T(k)", ["added_stub_result"]),
    "row62": (
        [U(), A("k1", "k2"), T("k1", "a"), T("zz", "x")],
        "Uq A[k1,k2] T(k1)a ~T(k2)",
        ["added_stub_result", "dropped_orphan_result"],
    ),
    # Real results first, then stubs in the order of the calls (the original sorts them).
    "row63": (
        [U(), A("b", "a", "c"), T("a", "A"), U("n")],
        "Uq A[b,a,c] T(a)A ~T(b) ~T(c) Un",
        ["added_stub_result", "added_stub_result"],
    ),
    # Moved, not replaced by a stub.
    "row64": ([U(), A("k"), U("n"), T("k", "late")], "Uq A[k] T(k)late Un", ["moved_result"]),
    "row65": (
        [U(), T("k", "early"), A("k"), T("k", "real"), U("n")],
        "Uq A[k] T(k)real Un",
        ["dropped_duplicate_result"],
    ),
    "row66": (
        [U(), A("o"), T("o", "old"), U("n"), A("o", "n"), T("n", "new")],
        "Uq A[o] T(o)old Un A[o,n] T(n)new ~T(o)",
        ["added_stub_result"],
    ),
    "row67": (
        [A("k"), U("n"), A("k"), T("k", "real")],
        "A[k] ~T(k) Un A[k] T(k)real",
        ["added_stub_result"],
    ),
    "row68": (
        [U(), A("k", text="run"), A("k", text="retry"), T("k", "r")],
        "Uq A[k]run ~T(k) A[k]retry T(k)r",
        ["added_stub_result"],
    ),
    "row69": ([one for n in range(50) for one in (A("same"), T("same", f"r{n}"))], None, []),
    "row70": (
        [
            one
            for n in range(2)
            for one in (A(call("f:0"), call("f:1")), T("f:0", f"a{n}"), T("f:1", f"b{n}"))
        ],
        None,
        [],
    ),
    "row71": (
        [A("k"), T("k", "1"), A("k"), T("k", "2"), T("k", "2")],
        "A[k] T(k)1 A[k] T(k)2",
        ["dropped_duplicate_result"],
    ),
    "row72": ([A(call("fc_1", call_id="call_1")), T("call_1")], None, []),
    "row72b": ([A(call("fc_1", call_id="call_1")), T("fc_1")], None, []),
    "row73": (
        [A(call("fc_1", call_id="call_1")), T("call_1", "1"), T("fc_1", "1 again")],
        "A[fc_1] T(call_1)1",
        ["dropped_duplicate_result"],
    ),
    "row74": (
        [A(call("fc_1", call_id="call_1"), call("fc_2", call_id="call_2")), T("call_1", "1"), T("fc_2", "2")],
        None,
        [],
    ),
    "row75": (
        [
            A(*(call(f"call_{n}", response_item_id=f"fc_{n}") for n in range(4))),
            *(T(f"fc_{n}", f"r{n}") for n in range(4)),
        ],
        None,
        [],
    ),
    "row76": ([A("call_1|fc_1"), T("call_1")], None, []),
    "row76b": ([A("call_1|fc_1"), T("fc_1")], None, []),
    "row76c": ([A("call_1"), T("call_1|fc_1")], None, []),
    "row77": ([A("  k "), T("  k ")], None, []),
    "row77b": ([A("  k "), T("k")], None, []),
    # Exactly one call is waiting, so the result is its; with none or two it cannot be told whose it is.
    "row78": ([U(), A("k"), T("", "a")], "Uq A[k] T(k)a", ["rewrote_id"]),
    "row78b": (
        [U(), A("k1", "k2"), T(None, "a"), U("n")],
        "Uq A[k1,k2] ~T(k1) ~T(k2) Un",
        ["added_stub_result", "added_stub_result", "dropped_orphan_result"],
    ),
    "row78c": ([U(), A("k"), T("k", "a"), T("  ", "b")], "Uq A[k] T(k)a", ["dropped_orphan_result"]),
    "row78d": ([U(), A("k1", "k2"), T("", "b"), T("k1", "a")], "Uq A[k1,k2] T(k2)b T(k1)a", ["rewrote_id"]),
    "row79": ([U(), A(text="hi", tool_calls=[]), U("n")], "Uq A[]hi Un", ["removed_empty_tool_calls"]),
    "row79b": ([U(), A(text="hi", tool_calls=None)], "Uq A[]hi", ["removed_empty_tool_calls"]),
    # Nothing that empties a turn is left, but two calls that are one become one.
    "row80": (
        [U(), A("k", "k", text="t"), T("k", "1"), U("n")],
        "Uq A[k]t T(k)1 Un",
        ["dropped_duplicate_call"],
    ),
    # Never an empty turn: filled where another follows, dropped at the end.
    "row81": (
        [U(), A(text=None, tool_calls=[]), U("n")],
        "Uq A[][no content] Un",
        ["removed_empty_tool_calls", "filled_empty_content"],
    ),
    "row81b": ([U(), A(tool_calls=[])], "Uq", ["removed_empty_tool_calls", "removed_empty_tool_calls"]),
    "row82": (
        [U(), {"role": "critic", "content": "bad"}, A(text="a")],
        "Uq A[]a",
        ["dropped_unknown_role"],
    ),
    "row83": ([A(call("k", "")), T("k")], "A[k] T(k)r", ["fixed_function_name"]),
    "row84": ([A(call("k", "multi_tool_use.parallel")), T("k")], "A[k] T(k)r", ["fixed_function_name"]),
    "row85": ([U(), A(text=" "), U("n")], "Uq A[][no content] Un", ["filled_empty_content"]),
    "row85b": ([U(), A(text="")], None, []),
    "row85c": ([U(""), A(text="a")], "U[no content] A[]a", ["filled_empty_content"]),
    "row86": ([U(), A(reasoning_content="hm"), U("n"), A(**CODEX), U("m")], None, []),
    "row87": ([A("k:f"), T("k", name="g"), U()], "A[k] T(k)r Uq", ["fixed_result_name"]),
    "row87b": ([A("k:f"), T("k"), U()], None, []),
    "row101": (
        [A("a|fc_1:f", "a|fc_1:g"), T("a|fc_1", "1"), T("a|fc_1", "2")],
        "A[a|fc_1,a_d2|fc_1] T(a|fc_1)1 T(a_d2|fc_1)2",
        ["renamed_call_id"],
    ),
    "row101b": (
        [A("k_d2"), T("k_d2", "0"), A("k:f", "k:g"), T("k", "1"), T("k", "2")],
        "A[k_d2] T(k_d2)0 A[k,k_d3] T(k)1 T(k_d3)2",
        ["renamed_call_id"],
    ),
    "row102": (
        [
            A(call("k", "f", '{"a": 1, "b": 2}'), call("k", "f", '{"b":2,"a":1}')),
            T("k", "1"),
        ],
        "A[k] T(k)1",
        ["dropped_duplicate_call"],
    ),
}
EXAMPLES = {
    "E1": "row57",
    "E2": "row58",
    "E3": ([U(), A("k", text="x"), T("k", "1"), A("k", text="y"), T("k", "2")], None, []),
    "E4": "row63",
    "E5": "row64",
    # The only result there is: moved behind its call.
    "E6": ([U(), T("k", "early"), A("k"), U("n")], "Uq A[k] T(k)early Un", ["moved_result"]),
    "E7": "row68",
    "E8": "row72b",
}
HOLES = {
    "a-system-message-between-results": (
        [U(), A("a", "b"), T("a", "A"), S("note"), T("b", "B"), U("n")],
        "Uq A[a,b] T(a)A T(b)B Snote Un",
        ["moved_result"],
    ),
    "d-emptied-turn": "row81",
    "e-stubs-in-call-order": "row63",
}


def cases(table):
    found = ((name, ROWS[case] if isinstance(case, str) else case) for name, case in table.items())
    return [pytest.param(*case, id=name) for name, case in found]


@pytest.mark.parametrize(("messages", "expected", "repairs"), cases(ROWS | EXAMPLES | HOLES))
def test_case(messages, expected, repairs):
    result = sanitized(messages)
    assert kinds(result) == repairs
    assert show(result.messages) == (show(messages) if expected is None else expected)


def test_row61_not_while_the_call_is_pending():
    messages = [U(), A("k1", "k2"), T("k1", "a")]
    assert sanitized(messages, pending_call_ids=["k2"]).repairs == ()
    assert kinds(sanitized(messages, pending_call_ids=["k1"])) == ["added_stub_result"]


def test_hole_f_a_call_at_the_end_that_runs_just_now():
    messages = [U(), A("k", text="on it")]
    assert sanitized(messages, pending_call_ids={" k "}).repairs == ()


def test_row61_the_stub_names_the_function_and_says_that_it_is_one():
    result = sanitized([U(), A("k:look")])
    stub = result.messages[-1]
    assert (stub["role"], stub["tool_call_id"], stub["name"]) == ("tool", "k", "look")
    assert is_stub_result(stub["content"])
    assert result.origins == (0, 1, None)
    assert result.repairs[0].message_index == 1
    assert result.repairs[0].call_id == "k"


def test_row79_the_key_goes_and_the_callers_dict_stays():
    mine = A(text="hi", tool_calls=[], refusal=None)
    result = sanitized([U(), mine])
    assert result.messages[1] == {"role": "assistant", "content": "hi", "refusal": None}
    assert mine["tool_calls"] == []


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("", "invalid_tool_call"),
        ("   ", "invalid_tool_call"),
        (None, "invalid_tool_call"),
        ("multi_tool_use.parallel", "multi_tool_use_parallel"),
        ("!!look at--this??", "look_at--this"),
        ("x" * 80, "x" * 64),
        ("日本", "invalid_tool_call"),
    ],
)
def test_row83_row84_names(name, fixed):
    result = sanitized([A(call("k", name)), T("k", name=name) if name else T("k")])
    assert result.messages[0]["tool_calls"][0]["function"]["name"] == fixed
    assert result.messages[1]["tool_call_id"] == "k"
    assert result.messages[1].get("name") == (fixed if name else None)


def test_row87_an_absent_name_is_not_added():
    result = sanitized([A("k:f"), T("k", name="g"), A("k:f"), T("k")])
    assert result.messages[1]["name"] == "f"
    assert "name" not in result.messages[3]


@pytest.mark.parametrize("row", ["row57", "row58", "row63", "row66", "row72", "row83", "row102"])
def test_row88_objects_of_the_sdk_are_as_dicts(row):
    messages, expected, repairs = ROWS[row]
    given = [
        ChatCompletionMessage.model_validate(one) if one["role"] == "assistant" else one for one in messages
    ]
    result = sanitized(given)
    assert kinds(result) == repairs
    plain = [one if isinstance(one, dict) else one.model_dump(exclude_none=True) for one in result.messages]
    assert show(plain) == (show(messages) if expected is None else expected)
    as_json(plain)  # what was written anew holds no objects of the SDK


@pytest.mark.parametrize("name", list(ROWS))
def test_row99_twice_is_as_once(name):
    messages, _, _ = ROWS[name]
    once = sanitized(messages)
    twice = sanitized(once.messages)
    assert twice.messages == once.messages
    assert twice.repairs == ()


@pytest.mark.parametrize("keys", [("c", "c"), ("fc_1", "fc_2"), ("c", "fc_1"), ("fc_2", "c"), ("c", "fc_2")])
def test_row100_hole_b_two_calls_share_call_id_and_differ_in_id(keys):
    """No answered call may end without its result, whichever spelling the results have."""
    calls = [call("fc_1", "f", call_id="c"), call("fc_2", "g", call_id="c")]
    result = sanitized([U(), A(*calls), T(keys[0], "1"), T(keys[1], "2")])
    assert [one["id"] for one in result.messages[1]["tool_calls"]] == ["fc_1", "fc_2"]
    assert {one["content"] for one in result.messages[2:]} == {"1", "2"}
    ids = [one["tool_call_id"] for one in result.messages[2:]]
    assert len(set(ids)) == 2
    first = {"fc_1": 0, "fc_2": 1}
    owners = [first.get(one) for one in ids]
    # The result that named its call by the item id is that call's.
    for key, owner, content in zip(keys, owners, "12", strict=True):
        if key in first:
            assert owner in (first[key], None), (key, content)


def test_row100_in_responses_where_the_shared_id_is_the_one_that_counts():
    items = [
        responses_call("c", "f", id="fc_1"),
        responses_call("c", "g", id="fc_2"),
        responses_output("c", "1"),
        responses_output("c", "2"),
    ]
    result = sanitized(items)
    assert [one["call_id"] for one in result.messages] == ["c", "c_d2", "c", "c_d2"]
    assert [one.get("id") for one in result.messages[:2]] == ["fc_1", "fc_2"]


def test_row101_the_same_input_gives_the_same_ids():
    messages, _, _ = ROWS["row101"]
    assert as_json(sanitized(messages).messages) == as_json(sanitized(as_json(messages)).messages)


def test_row103_parallel_results_are_in_one_user_message():
    messages = [
        user(said("q")),
        assistant(use("a"), use("b")),
        user(tool_result("b")),
        user(tool_result("a")),
    ]
    result = sanitized(messages, format="anthropic")
    assert kinds(result) == ["moved_result"]
    assert result.messages[2:] == [user(tool_result("b"), tool_result("a"))]


def test_row104_an_unanswered_call_gets_a_stub_so_that_no_turn_is_emptied():
    messages = [user(said("q")), assistant(use("a", "look")), user(said("n"))]
    result = sanitized(messages, format="anthropic")
    assert kinds(result) == ["added_stub_result"]
    stub, rest = result.messages[2]["content"]
    assert (stub["type"], stub["tool_use_id"], stub["is_error"]) == ("tool_result", "a", True)
    assert is_stub_result(stub["content"])
    assert rest == said("n")


def test_row104_a_message_that_lost_all_its_results_is_filled_where_the_order_needs_it():
    messages = [user(said("q")), assistant(said("a")), user(tool_result("zz")), assistant(said("b"))]
    result = sanitized(messages, format="anthropic")
    assert kinds(result) == ["dropped_orphan_result", "filled_empty_content"]
    assert result.messages[2] == user(said("(tool result removed)"))
    at_the_end = sanitized(messages[:3], format="anthropic")
    assert at_the_end.messages == messages[:2]


def test_row105_ids_of_another_alphabet_are_a_matter_of_the_provider():
    messages = [
        user(said("q")),
        assistant(use("a:b"), use("a_b")),
        user(tool_result("a:b"), tool_result("a_b")),
    ]
    assert sanitized(messages, format="anthropic").repairs == ()


def test_hole_c_a_call_without_an_id_gets_one_and_its_result_too():
    messages = [
        U(),
        A(call("", "look", '{"q": 1}')),
        T("", "r"),
        U("n"),
        A(call(" ", "look", '{"q":1}')),
        U("m"),
    ]
    result = sanitized(messages)
    first = result.messages[1]["tool_calls"][0]["id"]
    second = result.messages[4]["tool_calls"][0]["id"]
    assert first.startswith("call_")
    assert second == f"{first}_d2"
    assert result.messages[2]["tool_call_id"] == first
    assert is_stub_result(result.messages[5]["content"])
    # The id does not change when the history grows: prompt caches hold.
    assert sanitized(messages[:3]).messages == result.messages[:3]


def test_an_id_that_a_repair_made_gives_way_to_one_that_comes_later():
    history = [U(), A("k:f", "k:g"), T("k", "1"), T("k", "2"), U()]
    assert show(sanitized(history).messages) == "Uq A[k,k_d2] T(k)1 T(k_d2)2 Uq"
    grown = sanitized([*history, A("k_d2:h"), T("k_d2", "3")]).messages
    assert show(grown) == "Uq A[k,k_d3] T(k)1 T(k_d3)2 Uq A[k_d2] T(k_d2)3"
