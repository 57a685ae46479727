"""Cases from public reports: what a span says, and what must come of it, from the wire to the answer.

Small data of our own pins each rule; every file of kind otel or dashboard of the optional corpus is held to
what it expects.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from shared_corpus import corpus

from loopscope.cli import main
from loopscope.collector import Spool, Store, examine, traces_json_to_protobuf
from loopscope.guard import GuardPolicy
from loopscope.replay import call_verdicts, error_breakdown

FACTS = ("span_id", "tool_name", "arguments", "result", "outcome", "content_state", "fingerprint")
TRACE = "5b8efff798038103d269b633813fc60c"


def span(
    number: int, name: str, attributes: dict[str, str], *, parent: int = 0, code: int = 0
) -> dict[str, Any]:
    start = 1_760_000_000_000_000_000 + number * 1_000_000_000
    return {
        "traceId": TRACE,
        "spanId": f"{number + 1:016x}",
        "parentSpanId": f"{parent + 1:016x}" if number != parent else "",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + (60_000_000_000 if number == parent else 500_000_000)),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        "status": {"code": code} if code else {},
    }


def agent_with(*calls: tuple[str, str, str], code: int = 0) -> list[dict[str, Any]]:
    """Spans of an agent and its calls: (tool, arguments, result)."""
    spans = [span(0, "invoke_agent demo", {"gen_ai.operation.name": "invoke_agent"})]
    for number, (tool, arguments, result) in enumerate(calls, start=1):
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": f"c{number}",
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": result,
        }
        spans.append(span(number, f"execute_tool {tool}", attributes, code=code))
    return spans


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "traces.duckdb")


def request(spans: list[dict[str, Any]]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def put(store: Store, spans: list[dict[str, Any]]) -> None:
    """As an agent does: into the spool."""
    Spool(store.path).write([("traces", traces_json_to_protobuf(request(spans)))])


def take_in(store: Store, spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Import the spans; the calls with what the guard says of each."""
    file = store.path.with_name("spans.json")
    file.write_text(json.dumps(request(spans)), encoding="utf-8")
    assert main(["import", str(file), "--db", str(store.path)]) == 0
    with store.lease() as con:
        assert con.execute("SELECT count(*) FROM spans").fetchall() == [(len(spans),)]
        rows = con.execute(f"SELECT {', '.join(FACTS)} FROM tool_calls ORDER BY seq").fetchall()
        verdicts = {row["span_id"]: row for row in call_verdicts(con, GuardPolicy()).to_pylist()}
    calls = [dict(zip(FACTS, row, strict=True)) for row in rows]
    return [call | {"guard": verdicts[call["span_id"]]["action"]} for call in calls]


FAILED = json.dumps({"content": [{"type": "text", "text": "push is disabled"}], "isError": True})
HALF = '{"path":"a.txt","text":"aaaaaaaaaaaaaaaa'


def test_a_failure_in_the_result_of_a_span_that_says_ok(store):
    calls = take_in(store, agent_with(*[("push_branch", '{"branch": "x"}', FAILED)] * 4, code=1))
    assert [(call["outcome"], call["guard"]) for call in calls] == [("general_tool_error", "not_counted")] * 4
    with store.lease() as con:
        found = error_breakdown(con)
    assert (found.calls, found.failed, found.counted) == (4, 4, 0)


def test_arguments_that_stop_in_the_middle_are_kept_and_marked(store):
    """Two equal halves share a fingerprint, and both say that the whole is unknown."""
    whole = HALF + '"}'
    calls = take_in(store, agent_with(*((("write_file", text, "ok")) for text in (HALF, HALF, whole))))
    assert [call["arguments"] for call in calls] == [HALF, HALF, whole]
    assert [call["content_state"] for call in calls] == ["truncated", "truncated", "full"]
    assert calls[0]["fingerprint"] == calls[1]["fingerprint"] != calls[2]["fingerprint"]


@pytest.mark.parametrize(
    ("arguments", "state"),
    [
        ('{"a": ', "truncated"),
        ('{"a": [1, 2', "truncated"),
        ('{"a": "b\\', "truncated"),
        ('{"a": {"b": "c"}', "truncated"),
        ('{"a": tr', "truncated"),
        ('{"a": 1}', "full"),
        ("{'a': 1}", "full"),
        ("{curly text that is no JSON at all, as a whole}", "full"),
        ("plain text", "full"),
        ("", "full"),
    ],
)
def test_what_looks_cut(store, arguments, state):
    (call,) = take_in(store, agent_with(("f", arguments, "ok")))
    assert (call["arguments"], call["content_state"]) == (arguments, state)


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Another process keeps the database open to write; its PID."""
    code = (
        "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process.pid
    finally:
        process.communicate("")


def holds_while_locked(store: Store, spans: list[dict[str, Any]], calls: int, capsys, monkeypatch) -> None:
    """Writers write on, readers are told who holds the file, and all is there once it is free."""
    with store.lease():
        pass
    monkeypatch.setattr(Store.__init__, "__kwdefaults__", {**Store.__init__.__kwdefaults__, "timeout": 0.2})
    with held(store.path) as pid:
        with pytest.raises(duckdb.Error, match="Could not set lock"):  # the symptom, as reported
            duckdb.connect(str(store.path), read_only=True)
        put(store, spans)
        assert main(["errors", "--db", str(store.path)]) == 2
        said = capsys.readouterr().err.strip()
        assert len(said.splitlines()) == 1
        assert store.path.name in said
        assert f"PID {pid}" in said
        report = examine(store.path, timeout=0.1)
        assert report.holder is not None
        assert f"PID {pid}" in report.holder
        assert report.spool is not None
        assert report.spool.segments == 1
    assert main(["errors", "--db", str(store.path), "--format", "json"]) == 0  # by itself, once it is free
    json.loads(capsys.readouterr().out)
    with store.lease() as con:
        assert con.execute("SELECT count(*) FROM tool_calls").fetchall() == [(calls,)]
    assert Spool(store.path).pending() == []


def test_a_database_that_another_process_writes(store, capsys, monkeypatch):
    holds_while_locked(store, agent_with(("f", '{"a": 1}', "r")), 1, capsys, monkeypatch)


# -- the public cases -----------------------------------------------------------------------------


def public(kind: str) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text("utf-8")) for path in sorted(corpus("cases").glob("*.json"))]
    cases = [case for case in found if case["kind"] == kind]
    assert cases
    return cases


def test_public_cases_of_kind_otel(tmp_path):
    for case in public("otel"):
        store = Store(tmp_path / case["id"] / "traces.duckdb")
        store.path.parent.mkdir()
        calls = take_in(store, case["input"]["spans"])
        wanted = case["expected"]["calls"]
        assert len(calls) == len(wanted), case["id"]
        sent = [
            attribute["value"]["stringValue"]
            for one in case["input"]["spans"]
            for attribute in one["attributes"]
            if attribute["key"] == "gen_ai.tool.call.arguments"
        ]
        with store.lease() as con:
            errors = error_breakdown(con)
        assert [call["span_id"] for call in calls] == [one["spanId"] for one in case["input"]["spans"][1:]]
        for call, want, arguments in zip(calls, wanted, sent, strict=True):
            assert call["tool_name"] == want["tool"], case["id"]
            failed = call["outcome"] != "success"
            assert failed is want.get("is_error", False), case["id"]
            if failed:
                assert call["outcome"] == want["error_kind"], case["id"]
                assert (call["guard"] == "not_counted") is (want["error_kind"] == "general_tool_error")
            if want.get("arguments_raw_kept"):
                assert call["arguments"] == arguments, case["id"]
            assert (call["content_state"] == "truncated") is want.get("arguments_parse_error", False)
        assert errors.failed == sum(want.get("is_error", False) for want in wanted)


def test_public_cases_of_kind_dashboard(tmp_path, capsys, monkeypatch):
    for case in public("dashboard"):
        store = Store(tmp_path / case["id"] / "traces.duckdb")
        store.path.parent.mkdir()
        calls = case["expected"]["n_calls"]
        holds_while_locked(store, case["input"]["spans"], calls, capsys, monkeypatch)
