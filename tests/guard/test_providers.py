"""The table of provider rules: whole, sourced, and found under the names that traces use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from loopscope.guard.messages import FORMATS, ErrorClass
from loopscope.guard.messages._provider_names import known_provider_rules, provider_rules
from loopscope.guard.messages._providers import PROVIDERS
from loopscope.guard.messages._rules import Rule, rule_class, rule_text

SOURCE = re.compile(r"[\w.-]+/[\w.-]+/(issues|pull)/\d+|https://[\w./-]+")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_rule_of_a_row_has_a_public_source(name: str):
    row = PROVIDERS[name]
    assert row.name == name
    assert row.formats
    assert set(row.formats) <= set(FORMATS)
    assert {rule for rule, _ in row.sources} == row.rules
    assert row.unsure <= row.rules
    for rule, sources in row.sources:
        assert sources, rule
        for source in sources:
            assert SOURCE.fullmatch(source), source


def test_a_row_without_rules_says_so():
    silent = [row for row in PROVIDERS.values() if not row.rules]
    assert {row.name for row in silent} == {"groq", "together", "cohere"}
    assert all("No rule" in row.note for row in silent)


def test_every_rule_has_a_class_and_a_sentence():
    for rule in Rule:
        assert rule_class(rule) not in (ErrorClass.OTHER, ErrorClass.REPEATED_CALLS)
        assert len(rule_text(rule)) > 10


def test_uniqueness_over_the_history_implies_that_within_a_turn():
    for row in PROVIDERS.values():
        if Rule.UNIQUE_IN_HISTORY in row.rules:
            assert Rule.UNIQUE_IN_TURN in row.rules
    assert PROVIDERS["anthropic"].unique_call_ids == "history"
    assert PROVIDERS["openai"].unique_call_ids == "turn"
    assert PROVIDERS["gemini"].unique_call_ids is None
    assert PROVIDERS["openai"].with_unique_call_ids("history").unique_call_ids == "history"
    assert PROVIDERS["anthropic"].with_unique_call_ids(None).unique_call_ids is None


NAMES = [
    # gen_ai.provider.name and gen_ai.system
    ("openai", None, "openai"),
    ("azure.ai.openai", None, "azure-openai"),
    ("az.ai.openai", None, "azure-openai"),
    ("aws.bedrock", None, "bedrock"),
    ("gcp.gemini", None, "gemini"),
    ("gcp.vertex_ai", None, "gemini"),
    ("gcp.gen_ai", None, "gemini"),
    ("vertex_ai", None, "gemini"),
    ("mistral_ai", None, "mistral"),
    ("moonshot_ai", None, "moonshot"),
    ("x_ai", None, "xai"),
    ("deepseek", None, "deepseek"),
    ("groq", None, "groq"),
    ("cohere", None, "cohere"),
    # with the API behind them
    ("openai.chat", None, "openai"),
    ("openai.responses", None, "openai-responses"),
    ("azure-openai.responses", None, "azure-openai-responses"),
    ("anthropic.messages", None, "anthropic"),
    ("google.generative-ai", None, "gemini"),
    ("google.vertex.chat", None, "gemini"),
    ("google.vertex.anthropic.messages", None, "anthropic"),
    ("mistral.chat", None, "mistral"),
    # SDKs and LiteLLM
    ("amazon-bedrock", None, "bedrock"),
    ("bedrock_converse", None, "bedrock"),
    ("hosted_vllm", None, "vllm"),
    ("fireworks_ai", None, "fireworks"),
    ("together_ai", None, "together"),
    ("ollama_chat", None, "ollama"),
    ("Z.AI", None, "zhipu"),
    # gateways and names that are not known: by the model
    ("openrouter", "anthropic/claude-sonnet-4.5", "anthropic"),
    ("openrouter", "deepseek/deepseek-chat", "deepseek"),
    ("openrouter:moonshotai/kimi-k2", None, "moonshot"),
    ("litellm", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock"),
    ("litellm", "vertex_ai/claude-opus-4", "anthropic"),
    ("my-proxy", "glm-4.6", "zhipu"),
    (None, "gpt-5-mini", "openai"),
    (None, "gemini-2.5-pro", "gemini"),
    (None, "us.amazon.nova-lite-v1:0", "bedrock"),
    (None, "claude-haiku-4-5", "anthropic"),
    (None, "mistral-medium-latest", "mistral"),
    (None, "MiniMax-M2", "minimax"),
    # the recorded provider before the model
    ("groq", "qwen/qwen3-32b", "groq"),
    ("aws.bedrock", "us.anthropic.claude-sonnet-4-5", "bedrock"),
    ("gcp.vertex_ai", "claude-opus-4@20250514", "anthropic"),
    # nothing tells
    ("openrouter", None, None),
    ("openrouter", "openai/gpt-oss-120b", None),
    ("nobody", "some-model", None),
    ("", "", None),
    (None, None, None),
]


@pytest.mark.parametrize(("name", "model", "expected"), NAMES)
def test_names(name: str | None, model: str | None, expected: str | None):
    found = provider_rules(name, model=model)
    assert (found.name if found else None) == expected


def test_the_format_chooses_between_the_rows_of_a_provider():
    def named(name: Any, form: Any) -> str:
        return known_provider_rules(name, format=form).name

    assert named("openai", "openai-responses") == "openai-responses"
    assert named("openai.responses", "openai-chat") == "openai"
    assert named("azure.ai.openai", "openai-responses") == "azure-openai-responses"
    assert named("deepseek", "anthropic") == "deepseek-anthropic"
    assert named("deepseek", "openai-responses") == "deepseek-responses"
    assert named("aws.bedrock", "anthropic") == "anthropic"
    assert named("aws.bedrock", "bedrock-converse") == "bedrock"
    # A provider that is not known to speak the format is judged by what it is known for.
    assert named("mistral", "anthropic") == "mistral"
    assert named(PROVIDERS["openai"], "openai-responses") == "openai-responses"


def test_a_named_model_tells_whether_its_template_wants_turns():
    def asks(model: str | None) -> bool:
        return Rule.TEMPLATE_ALTERNATION in known_provider_rules("llama.cpp", model=model).rules

    assert asks(None)
    assert asks("bartowski/Mistral-Nemo-Instruct-2407-GGUF")
    assert asks("gemma-2-9b-it")
    assert not asks("Qwen3-8B-Q4_K_M.gguf")


def test_a_fault_may_be_worded_as_another():
    row = PROVIDERS["openai"]
    assert ErrorClass.MISPLACED_RESULT in row.reported_as(ErrorClass.MISSING_RESULT)
    assert ErrorClass.MISPLACED_RESULT in row.reported_as(ErrorClass.ORPHAN_RESULT)
    assert ErrorClass.DUPLICATE_RESULT in row.reported_as(ErrorClass.DUPLICATE_CALL_ID)
    for one in ErrorClass:
        assert one in row.reported_as(one)
    assert ErrorClass.ARGUMENTS_JSON not in row.reported_as(ErrorClass.MISSING_RESULT)


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]):
    page = Path(__file__).resolve().parents[2] / "docs" / "providers.md"
    text = page.read_text(encoding="utf-8")
    example = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(example, str(page), "exec"), names)
    assert capsys.readouterr().out.startswith("id_word 1 ")
    assert names["result"].messages[1]["content"][0]["id"] == "a_1"
    assert all(f"### {name}\n" in text for name in PROVIDERS)
