"""Every refused request of public recordings, judged; and requests that real providers answered."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from replay_rows import database
from request_rows import asked, refused, sent
from shared_corpus import corpus

from loopscope.collector import Store, import_paths
from loopscope.guard import GuardPolicy
from loopscope.replay import JudgedRequest, RequestAnalysis, analyse_requests
from loopscope.replay.requests._failed import resolve_rules

RENAMED = ("duplicate_call_id", "prevented", ("renamed_call_id",), "which an earlier call has")
NOT_RECORDED = "its messages were not recorded"
OTHERS_WERE = "though those of other requests of this dialect were"

# file → class, verdict, repairs, words of the reason or of what came before. The stories of one id in two
# rounds have the same arguments in both: rules allow that until the refusal proves that this provider does
# not, and then the second id is renamed. Nothing is doubled there, so nothing is prevented by dropping alone.
JUDGED: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "agent_framework": RENAMED,
    "google_adk": ("duplicate_call_id", "undetermined", (), NOT_RECORDED),
    "google_adk_semconv": RENAMED,
    "langfuse": RENAMED,
    "langsmith_otel": RENAMED,
    "logfire_pydantic_ai": RENAMED,
    "openinference_autogen": RENAMED,
    # The span of the refused request was recorded without the second call and its result.
    "openinference_google_adk": ("duplicate_call_id", "undetermined", (), "call_dup stands once"),
    "openinference_langchain": RENAMED,
    "openinference_llamaindex.part2": RENAMED,
    "openinference_openai_agents": ("missing_result", "undetermined", (), OTHERS_WERE),
    "openinference_pydantic_ai": RENAMED,
    "openinference_smolagents": (
        "missing_result",
        "undetermined",
        (),
        "call_z9, which the recorded messages",
    ),
    "openinference_strands": RENAMED,
    "openllmetry_langchain.part2": RENAMED,
    "openllmetry_openai": RENAMED,
    "openllmetry_openai_agents": ("missing_result", "undetermined", (), OTHERS_WERE),
    "otel_genai_latest": RENAMED,
    "otel_genai_legacy": RENAMED,
    "pydantic_ai_v2": RENAMED,
    "pydantic_ai_v5": RENAMED,
    "semantic_kernel": RENAMED,
    "strands_legacy": RENAMED,
    "synthetic_claude_code": ("duplicate_call_id", "undetermined", (), NOT_RECORDED),
    "vercel_ai_v5": RENAMED,
    "vercel_ai_v7_legacy": RENAMED,
}
# Recordings with requests of which none was refused.
ANSWERED = ("openinference_llamaindex", "openllmetry_langchain", "openllmetry_llamaindex")


def recorded(folder: Path, path: Path) -> RequestAnalysis:
    """The analysis of one recording with its logs."""
    logs = path.with_name(f"{path.stem}.logs.jsonl")
    import_paths(folder / "t.duckdb", [path, logs] if logs.exists() else [path])
    with Store(folder / "t.duckdb").lease() as con:
        return analyse_requests(con, GuardPolicy())


@pytest.mark.parametrize("name", JUDGED)
def test_refused_requests_of_every_dialect(name: str, tmp_path: Path) -> None:
    found = recorded(tmp_path, corpus("dialects", f"{name}.jsonl"))
    (request,) = found.requests
    error_class, verdict, repairs, words = JUDGED[name]
    assert (request.error_class, request.verdict, request.repairs) == (error_class, verdict, repairs)
    assert not request.prevented_by_dedup
    (cause,) = found.causes
    assert words in f"{request.reason} {cause.before}"
    assert (cause.requests, found.totals.causes, found.totals.tool_related) == (1, 1, 1)
    assert found.totals.broken == 0
    assert found.coverage.passed_against_rules == 0


@pytest.mark.parametrize("name", ANSWERED)
def test_answered_requests_are_not_broken(name: str, tmp_path: Path) -> None:
    found = recorded(tmp_path, corpus("dialects", f"{name}.jsonl"))
    assert (found.totals.failed, found.totals.broken) == (0, 0)
    assert found.coverage.passed_against_rules == 0
    # This one leaves out what the assistant asked for, so its histories cannot be checked.
    assert found.coverage.passed_not_recorded == (5 if name == "openllmetry_llamaindex" else 0)


def test_a_refusal_of_what_was_not_recorded_is_not_claimed(tmp_path: Path) -> None:
    """A coding agent's session: it counted four messages fewer than the session holds on disk.

    Calls that were cut off stand on disk, but were not sent again: without them every request that was
    answered keeps to the rules. Those since the compaction stand beside texts, and do not explain the four.
    """
    found = recorded(tmp_path, corpus("real", "pi-mono", "before-compaction.jsonl.gz"))
    (request,) = (one for one in found.requests if one.verdict is not None)
    assert (request.error_class, request.verdict, request.judged_as) == (
        "missing_result",
        "undetermined",
        "anthropic",
    )
    assert "as recorded call and result stand together" in (request.reason or "")
    assert (found.totals.tool_related, found.totals.broken) == (1, 0)
    assert found.coverage.passed_against_rules == 0
    assert found.coverage.passed_checked == found.coverage.passed == 465


def test_long_conversations_that_went_well_are_not_broken(tmp_path: Path) -> None:
    found = recorded(tmp_path, corpus("real", "tau-bench", "gpt-4o-airline.36-runs.json.gz"))
    assert (found.totals.requests, found.coverage.passed_checked) == (463, 463)
    assert (found.totals.broken, found.coverage.passed_against_rules) == (0, 0)
    assert {risk.provider: dict(risk.by_class) for risk in found.by_provider} == {
        "mistral": {"id_format": 352},
        "anthropic": {"duplicate_call_id": 51},
    }


# -- our own recordings --------------------------------------------------------------------------------

OWN: dict[str, tuple[int, tuple[str, ...], str]] = {
    "tickets_doubled_call": (
        1,
        ("dropped_duplicate_call", "dropped_duplicate_result"),
        "already held two calls",
    ),
    "travel_duplicate_id": (
        3,
        ("dropped_duplicate_result",),
        "1 message stands in the history a second time",
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_refused_requests_of_our_own_recordings(name: str, tmp_path: Path, samples: Path) -> None:
    found = recorded(tmp_path, samples / f"{name}.jsonl")
    requests, repairs, words = OWN[name]
    assert found.totals.prevented == found.totals.prevented_by_dedup == requests
    assert {request.repairs for request in found.requests} == {repairs}
    (cause,) = found.causes
    assert (cause.requests, words in cause.before) == (requests, True)
    assert (found.totals.broken, found.coverage.passed_against_rules) == (0, 0)


# -- requests on the wire ------------------------------------------------------------------------------

_HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "bedrock-runtime": "aws.bedrock",
    "googleapis.com": "gcp.gemini",
    "api.mistral.ai": "mistral_ai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.moonshot.ai": "moonshot",
    "api.cohere": "cohere",
    "huggingface": "huggingface",
    "openrouter.ai": "openrouter",
    "api.x.ai": "xai",
}


def wire() -> list[dict[str, Any]]:
    with gzip.open(corpus("real", "wire-requests", "wire.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def stored(at: int, exchange: dict[str, Any]) -> Any:
    """One exchange as the store would hold it."""
    body = exchange["request"]
    messages = next(body[key] for key in ("messages", "input", "contents") if key in body)
    provider = next((name for host, name in _HOSTS.items() if host in exchange["url"]), None)
    values = {"provider": provider, "model": body.get("model"), "dialect": "otel_genai"}
    if str(exchange["status"]) == "200":
        return sent(messages, f"run-{at}", at=at, **values)
    return refused(messages, json.dumps(exchange["error"]), f"run-{at}", at=at, **values)


def test_what_real_providers_answered_is_left_alone_and_none_of_their_refusals_is_claimed() -> None:
    exchanges = wire()
    whole = [one for one in exchanges if not one["request"].get("previous_response_id")]
    con = database(requests=[stored(at, one) for at, one in enumerate(whole)])
    found = asked(con)
    assert found.totals.requests == len(whole)
    assert (found.totals.failed, found.totals.prevented, found.totals.tool_related) == (3, 0, 0)
    assert [request.verdict for request in found.requests] == [None] * 3
    assert (found.broken, found.totals.broken) == ((), 0)
    assert found.coverage.passed_checked == found.coverage.passed == len(whole) - 3
    assert found.coverage.passed_against_rules == 0


def test_every_exchange_on_the_wire_is_judged_by_its_own_providers_rules() -> None:
    unknown = {
        one["url"]
        for at, one in enumerate(wire())
        if resolve_rules(stored(at, one).provider, one["request"].get("model")) is None
    }
    assert unknown == set()


def test_rows_are_given_out_whole(tmp_path: Path, samples: Path) -> None:
    request: JudgedRequest = recorded(tmp_path, samples / "travel_duplicate_id.jsonl").requests[0]
    assert (request.provider, request.model, request.http_status) == ("openai", "gpt-4o", 400)
    assert (request.messages, request.content_state, request.judged_as) == (7, "full", "openai")
    assert "Duplicate value for 'tool_call_id'" in (request.error_text or "")
