"""The lint beside requests that real providers answered, and cases built from public reports.

The corpus is optional; what it pins is pinned by `test_lint.py` with small histories too.
"""

from __future__ import annotations

import copy
import gzip
import json

from case_classes import CASE_CLASSES

from loopscope.guard.messages import detect_format, sanitize_messages
from loopscope.guard.messages._lint import lint_messages
from loopscope.guard.messages._rules import PAIRING_CLASSES

HOSTS = {
    "api.openai.com/v1/responses": ("openai", "openai-responses"),
    "api.openai.com/v1/chat": ("openai", "openai-chat"),
    "api.anthropic.com": ("anthropic", "anthropic"),
    "bedrock-runtime": ("aws.bedrock", "bedrock-converse"),
    "aiplatform.googleapis.com": ("gcp.vertex_ai", "gemini"),
    "generativelanguage.googleapis.com": ("gcp.gemini", "gemini"),
    "api.mistral.ai": ("mistral_ai", "openai-chat"),
    "api.groq.com": ("groq", "openai-chat"),
    "api.cohere.com": ("cohere", "openai-chat"),
    "api.deepseek.com/responses": ("deepseek", "openai-responses"),
}


def test_recorded_requests(corpus):
    """What was answered with 200 is clean and stays as it is; no refusal is taken for one about pairing."""
    path = corpus("real", "wire-requests", "wire.jsonl.gz")
    count = 0
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            request = row["request"]
            messages = request.get("messages") or request.get("input") or request["contents"]
            provider, form = next(value for key, value in HOSTS.items() if key in row["url"])
            assert detect_format(messages) == form
            earlier = request.get("previous_response_id")
            found = lint_messages(messages, provider, previous_response_id=earlier)
            count += 1
            if row["status"] != 200:
                assert not {one.error_class for one in found} & PAIRING_CLASSES
                continue
            assert found == (), row["path"]
            before = copy.deepcopy(messages)
            for name in (None, provider):
                result = sanitize_messages(messages, provider=name, previous_response_id=earlier)
                assert result.repairs == ()
                assert all(one is other for one, other in zip(result.messages, messages, strict=True))
            assert messages == before
    assert count == 93


def test_reported_cases(corpus):
    """Each case of a refusal shows exactly its classes; its repair shows none, and changes nothing twice."""
    judged = 0
    for path in sorted(corpus("cases").glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        if case["kind"] != "http400":
            continue
        given, expected = case["input"], case["expected"]
        messages, provider, form = given["messages"], given["provider"], given["format"]
        found = {one.error_class for one in lint_messages(messages, provider, form)}
        assert found == {CASE_CLASSES[name] for name in expected["http400"]["classes"]}, path.name
        result = sanitize_messages(messages, form, provider=provider)
        assert lint_messages(result.messages, provider, form) == ()
        if expected["sanitizer"]["must_change"] is False:
            assert result.messages == messages
        judged += 1
    assert judged
