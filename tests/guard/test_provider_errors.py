"""What a provider's refusal says: every row of the catalogue, in every dress, and what is none of it."""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from case_classes import CASE_CLASSES
from hypothesis import given
from hypothesis import strategies as st
from shared_corpus import corpus

from loopscope.guard import ErrorClass, classify_provider_error
from loopscope.guard.messages._error_texts import compiled, error_texts

HERE = Path(__file__).parent


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


# Refusals quoted from public threads (ids shortened), with the row of the catalogue and what is in them.
CASES = [
    (
        line["row"],
        line["status"],
        line["text"],
        ErrorClass(line["class"]),
        line["provider"],
        tuple(line.get("ids", ())),
        tuple(map(tuple, line.get("positions", ()))),
    )
    for line in _lines("provider_texts.jsonl")
]
# Refusals that are about other things, some in the same words.
NOT_OURS = [(line["status"], line["text"]) for line in _lines("other_refusals.jsonl")]
CASE_IDS = [f"{case[0]}-{case[3]}-{number}" for number, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
def test_row(case: Any) -> None:
    row, status, text, error_class, provider, ids, positions = case
    found = classify_provider_error(status, text)
    assert (found.text_id, found.error_class, found.provider) == (row, error_class, provider)
    assert found.call_ids == ids
    assert found.positions == positions


def test_every_row_has_a_case() -> None:
    tried = {(case[0], case[3]) for case in CASES}
    rows = {(row.id, row.error_class) for row in error_texts()} - {
        ("K3", ErrorClass.DUPLICATE_CALL_ID),  # no public text
        ("X12", ErrorClass.EMPTY_CONTENT),  # below, in its envelope
    }
    assert rows <= tried
    catalogue = [
        *(f"O{n}" for n in range(1, 14)),
        *(f"A{n}" for n in range(1, 9)),
        *(f"G{n}" for n in range(1, 6)),
    ]
    catalogue += [
        *(f"D{n}" for n in range(1, 8)),
        "K1",
        "K2",
        "K3",
        "Q1",
        "Q2",
        "Q3",
        *(f"M{n}" for n in range(1, 5)),
    ]
    catalogue += [*(f"B{n}" for n in range(1, 6)), "X1", "X2", "X3", "X4", "X6", "X7", "X8", "X9"]
    assert set(catalogue) <= {row.id for row in error_texts()}


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
@pytest.mark.parametrize(
    "dress",
    [
        lambda text: text.replace("'", '"'),
        lambda text: text.replace('"', "'"),
        lambda text: text.replace("'", "`"),
        lambda text: re.sub("[`'\"]", "", text),
        lambda text: text.replace("`", "'"),
        lambda text: text.replace("preceding", "preceeding").replace("preceeding", "preceding"),
        lambda text: text.replace("preceding", "preceeding"),
        str.upper,
        str.lower,
        lambda text: text.replace(" ", "\n   "),
    ],
    ids=[
        "double",
        "single",
        "backtick",
        "bare",
        "no-backtick",
        "preceding",
        "preceeding",
        "upper",
        "lower",
        "wrapped",
    ],
)
def test_the_class_does_not_hang_on_quotes_case_or_spelling(case: Any, dress: Any) -> None:
    _, status, text, error_class, _, _, _ = case
    if text.startswith("{"):
        pytest.skip("is JSON")
    assert classify_provider_error(status, dress(text)).error_class == error_class


def _openrouter(text: str) -> dict[str, Any]:
    raw = json.dumps({"error": {"message": text, "type": "invalid_request_error"}})
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}


ENVELOPES: dict[str, Any] = {
    "openai": lambda text: {"error": {"message": text, "type": "invalid_request_error", "param": None}},
    "bytes": lambda text: json.dumps({"error": {"message": text}}).encode(),
    "anthropic": lambda text: json.dumps(
        {"type": "error", "error": {"type": "invalid_request_error", "message": text}, "request_id": "req_1"}
    ),
    "gemini": lambda text: [{"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}],
    "gemini-in-text": lambda text: (
        "[API Error: " + json.dumps([{"error": {"code": 400, "message": text}}]) + "]"
    ),
    "xai": lambda text: {"code": "Client specified an invalid argument", "error": text},
    "fastapi": lambda text: {"detail": text},
    "openai-sdk-2": lambda text: f"Error code: 400 - { ({'error': {'message': text, 'param': None}})!r}",
    "openai-sdk-3": lambda text: f"Error code: 400 - {text}",
    "openai-repr": lambda text: repr(ValueError(f"Error code: 400 - {text}")).replace(
        "ValueError", "BadRequestError"
    ),
    "class-and-traceback": lambda text: (
        f"openai.BadRequestError: Error code: 400 - {text}\nTraceback (most recent"
        ' call last):\n  File "a.py", line 1, in f\n    raise x'
    ),
    "langsmith": lambda text: (
        f'OpenAIInvalidRequestError("Error code: 400 - {text}")Traceback (most recent call last):'
        "\n\n\n  File x"
    ),
    "pydantic-ai": lambda text: (
        "status_code: 400, model_name: gpt-4o-mini, body: "
        f"{ ({'message': text, 'type': 'invalid_request_error', 'param': 'messages', 'code': None})!r}"
    ),
    "litellm": lambda text: f"litellm.BadRequestError: OpenAIException - {text}",
    "litellm-adk": lambda text: f"BadRequestError: litellm.BadRequestError: OpenAIException - {text}",
    "litellm-json": lambda text: (
        "litellm.BadRequestError: AnthropicException - "
        + json.dumps({"type": "error", "error": {"message": text}})
        + ". Received Model Group=a\nAvailable Model Group Fallbacks=None LiteLLM Retried: 3 times"
    ),
    "litellm-proxy": lambda text: (
        "litellm.BadRequestError: Error code: 400 - "
        + repr(
            {
                "error": {
                    "message": "litellm.BadRequestError: AnthropicException - "
                    + json.dumps({"error": {"message": text}})
                }
            }
        )
    ),
    "openrouter": _openrouter,
    "openrouter-text": lambda text: f"Error code: 400 - {_openrouter(text)!r}",
    "openrouter-go": lambda text: (
        'POST "https://openrouter.ai/api/v1/chat/completions": 400 Bad Request '
        + json.dumps(_openrouter(text)["error"])
    ),
    "agents-sdk": lambda text: f"Error getting response: { ({'error': f'Error code: 400 - {text}'})!r}",
    "openllmetry-agents": lambda text: repr(
        {"message": "Error getting response", "data": {"error": f"Error code: 400 - {text}"}}
    ),
    "agent-framework": lambda text: (
        "ChatClientException("
        + repr(
            "<class 'agent_openai.Client'> service failed to complete the prompt: Error code: 400 - " + text
        )
        + ")"
    ),
    "semantic-kernel": lambda text: (
        "ServiceResponseException: (\"<class 'semantic_kernel.Chat'> service failed to"
        f' complete the prompt", BadRequestError({f"Error code: 400 - {text}"!r}))'
    ),
    "genkit": lambda text: f"INVALID_ARGUMENT: 400 {text}",
    "smolagents": lambda text: f"Error while generating output:\nError code: 400 - {text}",
    "spring": lambda text: (
        "org.springframework.ai.retry.NonTransientAiException: 400 - "
        + json.dumps({"error": {"message": text}})
    ),
    "claude-code": lambda text: (
        "Error: 400 " + json.dumps({"error": {"message": text}}) + "\n    at generate (a.js:1:2)"
    ),
    "botocore": lambda text: (
        "An error occurred (ValidationException) when calling the ConverseStream operation: " + text
    ),
    "botocore-dict": lambda text: repr({"Error": {"Message": text, "Code": "ValidationException"}}),
    "json-in-json": lambda text: {
        "error": {"code": 400, "message": json.dumps({"error": {"message": text}})}
    },
    "vercel": lambda text: {
        "name": "AI_APICallError",
        "responseBody": json.dumps({"error": {"message": text}}),
    },
}


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_envelopes(envelope: str) -> None:
    for row, status, text, error_class, _, ids, positions in CASES:
        if text.startswith("{"):
            continue
        body = ENVELOPES[envelope](text)
        for given_status in (None, status):
            found = classify_provider_error(given_status, body)
            assert found.error_class == error_class, (row, found)
            if error_class is ErrorClass.OTHER:
                continue
            assert found.text_id == row
            assert found.call_ids == ids
            assert found.positions == positions
            assert found.message.lstrip("'").startswith(text[:20].strip().lstrip("'"))


def test_a_refusal_names_places_in_its_param() -> None:
    body = {
        "error": {
            "message": "Invalid parameter: messages with role 'tool' must be a response to a preceeding"
            " message with 'tool_calls'.",
            "param": "messages.[3].role",
        }
    }
    assert classify_provider_error(400, body).positions == ((3, None),)


def test_the_provider_is_named_by_the_envelope_where_many_word_it_alike() -> None:
    text = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
    by_litellm = classify_provider_error(None, f"litellm.BadRequestError: MoonshotException - {text}")
    assert by_litellm.provider == "moonshot"
    raw = {
        "error": {
            "message": "Provider returned error",
            "metadata": {"raw": text, "provider_name": "Fireworks"},
        }
    }
    assert classify_provider_error(400, raw).provider == "fireworks"


def test_words_of_one_provider_alone_are_its_own_behind_any_gateway() -> None:
    """Claude on Vertex: the validator is Anthropic's."""
    raw = json.dumps(
        {"error": {"message": "messages.5.content.0.tool_use.id: String should match pattern '^[a-z]+$'"}}
    )
    body = {"message": "Provider returned error", "metadata": {"raw": raw, "provider_name": "Google"}}
    found = classify_provider_error(400, body)
    assert (found.provider, found.error_class, found.positions) == (
        "anthropic",
        ErrorClass.ID_FORMAT,
        ((5, 0),),
    )


def test_what_openrouter_hides_is_read() -> None:
    """The outer text says nothing, the inner one all; X12 has its words in `param`."""
    raw = json.dumps(
        {
            "error": {
                "code": "400",
                "message": "Param Incorrect",
                "param": "messages[2] assistant content must contain at least one part",
            }
        }
    )
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    found = classify_provider_error(400, body)
    assert (found.text_id, found.error_class, found.positions) == (
        "X12",
        ErrorClass.EMPTY_CONTENT,
        ((2, None),),
    )


@pytest.mark.parametrize(("status", "text"), NOT_OURS, ids=[text[:50] for _, text in NOT_OURS])
def test_other(status: int | None, text: str) -> None:
    for body in (
        text,
        {"error": {"message": text}},
        f"Error code: {status or 400} - {text}",
        json.dumps({"message": text}),
    ):
        found = classify_provider_error(status, body)
        assert found.error_class is ErrorClass.OTHER, found
        assert (found.call_ids, found.positions) == ((), ())


def test_an_echo_of_the_request_is_not_the_refusal() -> None:
    """Validators of the FastAPI kind send back what they refuse; a tool result may quote anything."""
    history = [{"role": "tool", "content": "messages.43.content.2: `tool_use` ids must be unique"}]
    body = {
        "detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required", "input": history}]
    }
    for given_body in (body, json.dumps(body), f"Error code: 422 - {body!r}"):
        assert classify_provider_error(422, given_body).error_class is ErrorClass.OTHER


@pytest.mark.parametrize("status", [400, 422, 500, 502, None])
def test_statuses_under_which_histories_are_refused(status: int | None) -> None:
    body = "No tool output found for function call call_a1."
    assert classify_provider_error(status, body).error_class is ErrorClass.MISSING_RESULT


@pytest.mark.parametrize(
    "body", [None, "", b"", {}, [], 0, "null", "{", "{'a': ", b"\xff\xfe", {"error": None}]
)
def test_nothing_to_read(body: Any) -> None:
    found = classify_provider_error(400, body)
    assert (found.error_class, found.provider, found.text_id) == (ErrorClass.OTHER, None, None)


def test_the_message_is_the_innermost() -> None:
    text = "Rate limit reached for model"
    for envelope, wrap in ENVELOPES.items():
        assert classify_provider_error(None, wrap(text)).message.startswith(text), envelope


BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.binary(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "metadata", "raw", "body", "detail", "code", "status", "param"]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
PIECES = st.lists(
    st.sampled_from([case[2] for case in CASES])
    | st.sampled_from(
        ["{", "}", "'", '"', "\\", "{'error': ", "Error code: 400 - ", "b'", "Exception - ", "\0", "İ"]
    )
    | st.text(max_size=10),
    max_size=8,
).map("".join)


@given(st.none() | st.integers(), BODIES | PIECES | PIECES.map(str.encode))
def test_never_raises(status: int | None, body: Any) -> None:
    found = classify_provider_error(status, body)
    assert isinstance(found.error_class, ErrorClass)
    assert all(isinstance(call_id, str) and call_id for call_id in found.call_ids)
    assert all(position.message >= 0 for position in found.positions)
    assert len(found.message) <= 2_000


class _Hostile(dict[str, Any]):
    def get(self, key: str, default: Any = None) -> Any:
        raise RuntimeError(key)


def test_a_hostile_object() -> None:
    assert classify_provider_error(400, _Hostile(error=1)).error_class is ErrorClass.OTHER


@pytest.mark.parametrize(
    "piece",
    [
        "{",
        "{'a':",
        '{"error":',
        "[",
        "'\\",
        "messages[",
        "messages.1.content.",
        "tool_call_id ",
        "Exception - ",
        "OpenAIException - ",
        "Error code: 400 - ",
        "BadRequestError(",
        "duplicate value for tool_call_id of ",
        "unexpected role a after ",
        "no tool call found for a ",
        "item a of type b was provided ",
        "call_a, ",
        "assistant message with tool_calls must be followed by tool messages responding to each tool_call_id",
        "status status ",
    ],
)
def test_a_megabyte_of_anything_costs_little(piece: str) -> None:
    """The text is bounded and no pattern backtracks: a second would be a thousand times too much."""
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    classify_provider_error(400, text)
    classify_provider_error(400, {"error": {"message": text}})
    assert time.process_time() - started < 1


def test_patterns_repeat_within_bounds() -> None:
    for row in error_texts():
        bare = re.sub(r"\\.|\[[^\]]*\]", "x", compiled(row).pattern)
        assert not re.search(r"\*|x\+x\+|\)\+", bare), row


def test_real_refusals_are_not_ours() -> None:
    """None of the 400s that real providers gave to recorded requests is about calls and results."""
    path = corpus("real/wire-requests/wire.jsonl.gz")
    refused = 0
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        exchange = json.loads(line)
        if exchange["status"] != 200:
            refused += 1
            found = classify_provider_error(exchange["status"], exchange["error"])
            assert found.error_class is ErrorClass.OTHER, found
    assert refused


def test_refusals_of_the_cases() -> None:
    """Public reports, rebuilt: what the provider answers is of a class that the case names."""
    seen = 0
    for path in sorted(corpus("cases").glob("*.json")):
        expected = json.loads(path.read_text(encoding="utf-8"))["expected"].get("http400") or {}
        if expected.get("error_text"):
            seen += 1
            found = classify_provider_error(expected["status"], expected["error_text"])
            wanted = {CASE_CLASSES[name] for name in expected["classes"]} or {ErrorClass.OTHER}
            assert found.error_class in wanted, path.name
    assert seen
