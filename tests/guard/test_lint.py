"""Each rule by a history that breaks it, and the one next to it that does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopscope.guard.messages import ErrorClass, format_of, sanitize_messages
from loopscope.guard.messages._lint import HistoryScan, lint_messages, lint_parsed, refusing_providers
from loopscope.guard.messages._provider_names import known_provider_rules
from loopscope.guard.messages._providers import PROVIDERS
from loopscope.guard.messages._rules import Rule, rule_class, rule_text

U = {"role": "user", "content": "q"}
DONE = {"role": "assistant", "content": "done"}


def call(key: Any, name: str = "f", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*keys: Any, text: Any = None, **more: Any) -> dict[str, Any]:
    made = [key if isinstance(key, dict) else call(key) for key in keys]
    return {"role": "assistant", "content": text, "tool_calls": made, **more}


def tool(key: Any, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": content}


def rules_of(messages: list[Any], provider: str, **how: Any) -> list[tuple[str, int, str | None]]:
    return [(one.rule, one.message_index, one.call_id) for one in lint_messages(messages, provider, **how)]


PAIR = [U, asks("k"), tool("k"), DONE]


@pytest.mark.parametrize(
    "provider", [name for name, row in PROVIDERS.items() if "openai-chat" in row.formats]
)
def test_a_plain_history_is_clean_everywhere(provider: str):
    history = [U, asks("abc123XYZ", text=""), tool("abc123XYZ"), DONE, U]
    assert lint_messages(history, provider) == ()


CHAT = [
    # provider, history, (rule, place, id) of every violation
    ("openai", [U, asks("k")], [("missing_result", 1, "k")]),
    ("openai", [U, asks("k"), U], [("missing_result", 1, "k")]),
    ("openai", [U, asks("a", "b"), tool("b"), U], [("missing_some_results", 1, "a")]),
    ("openai", [{"role": "system", "content": "s"}, tool("x"), U], [("orphan_result", 1, "x")]),
    ("openai", [U, asks("k"), tool("k"), tool("z")], [("unknown_result_id", 3, "z")]),
    ("openai", [U, asks("k"), tool("k"), tool("k")], [("duplicate_result", 3, "k")]),
    ("openai", [*PAIR, tool("k")], [("orphan_result", 4, "k")]),
    ("openai", [U, asks("k"), U, tool("k")], [("misplaced_result", 3, "k")]),
    ("openai", [U, tool("k"), asks("k"), U], [("misplaced_result", 1, "k")]),
    ("openai", [U, asks("a"), asks("b"), tool("a"), tool("b")], [("split_turn", 3, "a")]),
    ("openai", [U, asks("k"), {"role": "system", "content": "s"}, tool("k")], [("misplaced_result", 3, "k")]),
    ("openai", [U, asks("k", "k"), tool("k")], [("unique_in_turn", 1, "k")]),
    ("openai", [*PAIR, *PAIR], []),
    ("openai", [U, asks("k" * 41), tool("k" * 41)], [("id_max_40", 1, "k" * 41)]),
    ("openai", [U, asks(" k "), tool("k")], [("id_spelling", 2, "k")]),
    ("openai", [U, {**asks(call("k"), text="t"), "tool_calls": []}], [("empty_tool_calls", 1, None)]),
    ("openai", [U, {**DONE, "tool_calls": None}], []),
    ("openai", [U, {"role": "assistant", "content": None}, U], [("assistant_null", 1, None)]),
    ("openai", [U, {"role": "assistant", "content": ""}, U], []),
    ("openai", [U, asks("k"), tool("k", None)], [("result_null", 2, "k")]),
    ("openai", [U, asks("k"), tool("k", "")], []),
    ("openai", [U, asks(None), tool("")], [("id_present", 1, None), ("id_present", 2, "")]),
    ("azure-openai", [U, asks("k")], [("missing_result", 1, "k")]),
    ("deepseek", [U, asks("a", "b"), tool("a"), U], [("missing_some_results", 1, "b")]),
    ("deepseek", [U, {"role": "developer", "content": "s"}], [("known_roles", 1, None)]),
    ("deepseek", [*PAIR, *PAIR], []),
    ("moonshot", [U, asks("Shell:58"), U], [("missing_result", 1, "Shell:58")]),
    ("moonshot", [U, asks("Shell:0"), tool("Shell:0"), U], []),
    ("moonshot", [U, {"role": "assistant", "content": " "}, U], [("assistant_empty", 1, None)]),
    ("moonshot", [U, tool("x"), U], []),
    ("dashscope", [U, asks(call("k", arguments="{")), tool("k")], [("arguments_json", 1, "k")]),
    ("dashscope", [U, asks(call("k", arguments="")), tool("k")], [("arguments_blank", 1, "k")]),
    ("dashscope", [U, asks(call("k", arguments="[1]")), tool("k")], []),
    (
        "minimax",
        [U, asks("k"), tool("z"), U],
        [("missing_some_results", 1, "k"), ("unknown_result_id", 2, "z")],
    ),
    ("mistral", [U, asks("123456789"), tool("123456789"), U], [("user_after_tool", 3, None)]),
    ("mistral", [U, asks("call_1"), tool("call_1"), DONE], [("id_mistral", 1, "call_1")]),
    (
        "mistral",
        [U, asks("123456789", "abcdefghi"), tool("123456789"), DONE],
        [("result_count", 2, None)],
    ),
    ("mistral", [U, {"role": "assistant", "content": ""}, U], [("assistant_empty", 1, None)]),
    ("zhipu", [{"role": "system", "content": "s"}, asks("k"), tool("k")], [("needs_user", 0, None)]),
    ("zhipu", [U, asks("k"), tool("k"), asks("k"), tool("k")], []),
    ("llama.cpp", [U, U], [("template_alternation", 1, None)]),
    ("llama.cpp", [U, asks("k"), tool("k"), asks("k"), tool("k"), DONE, U], []),
    ("llama.cpp", [U, asks("k"), tool("k"), U], [("template_alternation", 3, None)]),
    ("llama.cpp", [U, asks(call("k", arguments="{")), tool("k")], [("arguments_json", 1, "k")]),
    ("llama.cpp", [U, asks(call("k", arguments='{"a": NaN}')), tool("k")], [("arguments_json", 1, "k")]),
    ("llama.cpp", [U, tool("x"), asks("k"), DONE], []),
    ("ollama", [U, asks("k"), tool("k")], [("content_present", 1, None)]),
    ("xai", [U, asks("k"), tool("k")], [("content_present", 1, None)]),
    ("xai", [U, asks("k", text=""), tool("k")], []),
    ("volcengine", [U, asks("k", text=""), tool("k", None)], [("content_present", 2, "k")]),
    ("vllm", [U, asks(call("k", arguments="{")), tool("k")], [("arguments_json", 1, "k")]),
    ("vllm", [U, asks(call("k", arguments="")), tool("k")], []),
    ("cerebras", [U, tool("x")], [("orphan_result", 1, "x")]),
    ("groq", [U, tool("x"), asks("k", "k")], []),
]


@pytest.mark.parametrize(("provider", "history", "expected"), CHAT)
def test_chat_rules(provider: str, history: list[Any], expected: list[Any]):
    assert rules_of(history, provider, format="openai-chat") == expected


def test_blank_ids_collide_at_deepseek_over_the_whole_history():
    history = [U, asks(""), tool(""), DONE, U, asks(""), tool("")]
    found = lint_messages(history, "deepseek")
    twice = [one for one in found if one.rule == "blank_id_twice"]
    assert [(one.error_class, one.message_index) for one in twice] == [(ErrorClass.DUPLICATE_CALL_ID, 5)]
    assert "blank_id_twice" not in {one.rule for one in lint_messages(history, "openai")}


def use(key: str, name: str = "f", value: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": name, "input": {} if value is None else value}


def gives(key: str, content: Any = "r") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": key, "content": content}


def said(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


TEXT = {"type": "text", "text": "t"}
ANTHROPIC = [
    ([U, said("assistant", use("a")), said("user", gives("a")), DONE], []),
    ([U, said("assistant", TEXT, use("a")), said("user", TEXT)], [("missing_result", 1, "a")]),
    ([U, said("assistant", use("a"), use("a")), said("user", gives("a"))], [("unique_in_turn", 1, "a")]),
    (
        [
            U,
            said("assistant", use("a")),
            said("user", gives("a")),
            said("assistant", use("a")),
            said("user", gives("a")),
        ],
        [("unique_in_history", 3, "a")],
    ),
    ([U, said("assistant", use("a")), said("user", TEXT, gives("a"))], [("results_first", 2, "a")]),
    ([U, said("assistant", use("a")), said("user", gives("a"), TEXT)], []),
    ([U, said("assistant", use("a")), said("user", gives("a"), gives("a"))], [("duplicate_result", 2, "a")]),
    ([U, said("user", gives("a"))], [("orphan_result", 1, "a")]),
    # Messages of one role in a row are one to this provider.
    (
        [
            U,
            said("assistant", use("a")),
            said("assistant", use("b")),
            said("user", gives("a")),
            said("user", gives("b")),
        ],
        [],
    ),
    ([U, said("assistant", use("a:b")), said("user", gives("a:b"))], [("id_word", 1, "a:b")]),
    ([U, said("assistant", use("a", value="{}")), said("user", gives("a"))], [("arguments_object", 1, "a")]),
    ([U, said("assistant"), U], [("empty_message", 1, None)]),
    ([U, said("assistant")], []),
    (
        [U, said("assistant", {"type": "text", "text": " "}, use("a")), said("user", gives("a"))],
        [("blank_text", 1, None)],
    ),
    ([U, {"role": "assistant", "content": ""}], []),
    (
        [U, said("assistant", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), U],
        [],
    ),
]


@pytest.mark.parametrize(("history", "expected"), ANTHROPIC)
def test_anthropic_rules(history: list[Any], expected: list[Any]):
    assert rules_of(history, "anthropic", format="anthropic") == expected


def test_deepseek_in_anthropics_format_has_a_row_of_its_own():
    history = [U, said("assistant", use("a"), use("a")), U]
    assert rules_of(history, "deepseek", format="anthropic") == [("unique_in_turn", 1, "a")]


def item(key: str, item_id: str | None = None, **more: Any) -> dict[str, Any]:
    made = {"type": "function_call", "call_id": key, "name": "f", "arguments": "{}", **more}
    return made if item_id is None else {**made, "id": item_id}


def output(key: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": key, "output": "r"}


REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
RESPONSES = [
    ([U, item("a"), item("b"), output("b"), output("a")], []),
    ([U, item("a"), U, output("a")], []),
    ([U, item("a"), U], [("missing_result", 1, "a")]),
    ([U, output("a")], [("orphan_result", 1, "a")]),
    ([U, item("a"), output("a"), output("a")], [("duplicate_result", 3, "a")]),
    ([U, item("a"), item("a"), output("a")], [("unique_in_turn", 2, "a")]),
    ([U, item("a", "fc_1"), output("a"), item("b", "fc_1"), output("b")], [("item_id_unique", 3, None)]),
    ([U, item("a", "call_1"), output("a")], [("item_id_prefix", 1, "a")]),
    ([U, item("a" * 65), output("a" * 65)], [("id_max_64", 1, "a" * 65)]),
    ([U, REASONING, item("a"), output("a")], []),
    ([U, REASONING, U], [("reasoning_followed", 1, None)]),
    ([U, REASONING], [("reasoning_followed", 1, None)]),
    ([U, {"type": "item_reference", "id": "fc_9"}, output("a")], []),
]


@pytest.mark.parametrize(("history", "expected"), RESPONSES)
def test_responses_rules(history: list[Any], expected: list[Any]):
    assert rules_of(history, "openai", format="openai-responses") == expected


def test_results_may_answer_calls_that_the_provider_keeps():
    assert rules_of([output("a"), U], "openai") == [("orphan_result", 0, "a")]
    assert rules_of([output("a"), U], "openai", previous_response_id="resp_1") == []


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def fc(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **more}}


def fr(name: str, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"r": 1}, **more}}


WORD = {"text": "t"}
GEMINI = [
    ([user(WORD), model(fc("f")), user(fr("f")), model(WORD)], []),
    ([user(WORD), model(fc("f"), fc("g")), user(fr("f"))], [("result_count", 2, None)]),
    ([user(WORD), model(fc("f")), user(WORD)], [("missing_result", 1, None)]),
    ([user(WORD), user(fr("f"))], [("orphan_result", 1, None)]),
    ([user(WORD), model(WORD), model(fc("f")), user(fr("f"))], [("call_turn_order", 2, None)]),
    ([model(fc("f")), user(fr("f"))], [("call_turn_order", 0, None)]),
    ([user(WORD), model(fc("f")), user(fr("g"))], [("result_name", 2, None)]),
    ([user(WORD), model(), user(WORD)], [("parts_present", 1, None)]),
    # Ids are free: they need not be there, nor be unique, nor agree.
    ([user(WORD), model(fc("f", id="1"), fc("f", id="1")), user(fr("f", id="1"), fr("f"))], []),
]


@pytest.mark.parametrize(("history", "expected"), GEMINI)
def test_gemini_rules(history: list[Any], expected: list[Any]):
    assert rules_of(history, "gcp.vertex_ai", format="gemini") == expected


def tool_use(key: str) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": key, "name": "f", "input": {}}}


def tool_result(key: str, **more: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": key, "content": [WORD], **more}}


BEDROCK = [
    (
        [
            said("user", WORD),
            said("assistant", tool_use("functions.f:0")),
            said("user", tool_result("functions.f:0")),
        ],
        [],
    ),
    ([said("user", WORD), said("user", WORD)], [("alternate", 1, None)]),
    ([said("assistant", WORD), said("user", WORD)], [("starts_with_user", 0, None)]),
    (
        [said("user", WORD), said("assistant", tool_use("a b")), said("user", tool_result("a b"))],
        [("id_bedrock", 1, "a b")],
    ),
    (
        [
            said("user", WORD),
            said("assistant", tool_use("a")),
            said("user", tool_result("a", content=[], status="error")),
        ],
        [("failed_result_empty", 2, "a")],
    ),
    (
        [said("user", WORD), said("assistant", tool_use("a"), tool_use("a")), said("user", tool_result("a"))],
        [("unique_in_turn", 1, "a")],
    ),
    (
        [said("user", WORD), said("assistant", {"text": " "}, WORD), said("user", WORD)],
        [("blank_text", 1, None)],
    ),
]


@pytest.mark.parametrize(("history", "expected"), BEDROCK)
def test_bedrock_rules(history: list[Any], expected: list[Any]):
    assert rules_of(history, "aws.bedrock", format="bedrock-converse") == expected


def test_every_rule_is_broken_by_a_history_above():
    """So that a rule that no history breaks is not in the table."""
    broken = {rule for _, _, expected in CHAT for rule, _, _ in expected}
    for table in (ANTHROPIC, RESPONSES, GEMINI, BEDROCK):
        broken |= {rule for _, expected in table for rule, _, _ in expected}
    assert set(Rule) - broken == {Rule.BLANK_ID_TWICE}
    assert {rule for row in PROVIDERS.values() for rule in row.rules} == set(Rule)


def test_pending_calls_need_no_result_yet():
    history = [U, asks("a", "b"), tool("a")]
    assert rules_of(history, "openai") == [("missing_some_results", 1, "b")]
    assert rules_of(history, "openai", pending_call_ids=["b"]) == []
    assert (
        rules_of(
            [U, asks("123456789", "bcdefghij"), tool("123456789")], "mistral", pending_call_ids={"bcdefghij"}
        )
        == []
    )


def test_a_history_of_another_format_can_be_judged_for_any_provider():
    """As a gateway would hand it on: who else would refuse this?"""
    history = [U, asks("k"), U]
    found = lint_messages(history, PROVIDERS["anthropic"], "openai-chat")
    assert [one.error_class for one in found] == [ErrorClass.MISSING_RESULT]


def test_details_are_plain_bounded_and_without_control_characters():
    key = "x\n" * 200
    found = lint_messages([U, asks(key), tool(key)], "openai")
    assert found
    for one in found:
        assert one.detail.isprintable()
        assert len(one.detail) < 300
        assert one.error_class is rule_class(Rule(one.rule))
        assert rule_text(Rule(one.rule)) in one.detail


def test_unknown_providers_are_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown provider 'nobody'.*anthropic"):
        lint_messages(PAIR, "nobody")
    with pytest.raises(ValueError, match="name the model"):
        lint_messages(PAIR, "openrouter")
    assert lint_messages(PAIR, "openrouter", model="openai/gpt-4o") == ()


def test_one_scan_serves_a_growing_history_and_all_providers():
    reader = format_of("openai-chat")
    history = [U, asks("k"), tool("k"), asks("a", "b", text=""), tool("a"), U, tool("b"), *PAIR]
    scan = HistoryScan("openai-chat")
    for at, raw in enumerate(history):
        scan.feed(reader.read(raw, at))
        parsed = [reader.read(one, n) for n, one in enumerate(history[: at + 1])]
        fresh = HistoryScan("openai-chat").extend(parsed)
        assert scan.findings() == fresh.findings()
        assert scan.broken() == {one.rule for one in scan.findings()}
        refusing = refusing_providers(scan.broken())
        for name, row in PROVIDERS.items():
            sure = row.without_rules(*row.unsure)
            rules = {Rule(one.rule) for one in lint_parsed(parsed, sure, "openai-chat")}
            assert set(refusing.get(name, ())) >= rules
            assert bool(rules) == (name in refusing), name


def test_a_refusal_may_prove_a_rule():
    history = [*PAIR, *PAIR]
    rules = known_provider_rules("deepseek")
    assert lint_messages(history, rules) == ()
    proven = rules.with_unique_call_ids("history")
    assert [one.error_class for one in lint_messages(history, proven)] == [ErrorClass.DUPLICATE_CALL_ID]
    assert lint_messages([U, asks("k", "k"), tool("k")], rules.with_unique_call_ids(None)) == ()


def test_odd_messages_are_never_a_crash():
    odd: list[Any] = [
        None,
        3,
        "text",
        [],
        {},
        {"role": None},
        {"role": "tool"},
        {"role": "assistant", "tool_calls": 7},
    ]
    deep: Any = "1"
    for _ in range(3000):
        deep = f"[{deep}"
    odd.append({"role": "assistant", "tool_calls": [call("k", arguments=deep), None, {"id": 7}]})
    for form in ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse"):
        for row in PROVIDERS.values():
            lint_messages(odd, row, form)  # pyright: ignore[reportArgumentType]
    assert json.dumps([one.rule for one in lint_messages(odd[-1:], "openai", "openai-chat")])


def chat(line: str) -> list[Any]:
    """A history in one line: U, A[x,y], T(x), each with words behind a colon."""
    out: list[Any] = []
    for part in line.split():
        head, _, word = part.partition(":")
        if head == "U":
            out.append({"role": "user", "content": word or "q"})
        elif head.startswith("A"):
            keys = [key for key in head[2:-1].split(",") if key]
            out.append(asks(*keys, text=word) if keys else {"role": "assistant", "content": word or "t"})
        else:
            out.append(tool(head[2:-1], word or "r"))
    return out


# The faults that agents were reported to send, beside what a strict provider says of each.
REPORTED = [
    ("E1 a second result", "U A[k] T(k):one T(k):two", ["duplicate_result"]),
    ("E3 an id that comes back", "U A[k]:x T(k):1 A[k]:y T(k):2", []),
    ("E4 partly answered", "U A[b,a,c] T(a) U", ["missing_result", "missing_result"]),
    ("E5 a result that came late", "U A[k] U T(k):late", ["misplaced_result"]),
    ("E6 a result before its call", "U T(k):early A[k] U", ["misplaced_result"]),
    ("E7 interrupted, then replayed", "U A[k]:run A[k]:retry T(k)", ["missing_result"]),
    ("60 an orphan behind a pair", "U A[k] T(k) T(zz) U", ["orphan_result"]),
    ("61 a last call", "U A[k]", ["missing_result"]),
    ("62 one answered, one orphan", "U A[k1,k2] T(k1) T(zz)", ["missing_result", "orphan_result"]),
    ("66 an old result beside a new call", "U A[o] T(o) U A[o,n] T(n)", ["missing_result"]),
    ("67 interrupted and asked again", "U A[k] U A[k] T(k)", ["missing_result"]),
    ("69 one id for all", "U" + " A[k] T(k)" * 50, []),
    ("70 ids that start again each turn", "U A[f0,f1] T(f0) T(f1) U A[f0,f1] T(f0) T(f1)", []),
    ("71 the last result once more", "U A[k] T(k) A[k] T(k) T(k)", ["duplicate_result"]),
    ("78 a result without an id", "U A[k] T(k) T()", ["id_format", "orphan_result"]),
    ("89 two turns, then their results", "U A[a] A[b] T(a) T(b)", ["misplaced_result"]),
    ("91 two rounds", "U A[a] T(a) A[b] T(b)", []),
]


@pytest.mark.parametrize(("name", "line", "classes"), REPORTED)
def test_reported_faults(name: str, line: str, classes: list[str]):
    history = chat(line)
    found = sorted(one.error_class.value for one in lint_messages(history, "deepseek", "openai-chat"))
    assert found == classes, name
    result = sanitize_messages(history, provider="deepseek")
    assert lint_messages(result.messages, "deepseek", "openai-chat") == ()
    assert bool(result.repairs) == bool(classes)
