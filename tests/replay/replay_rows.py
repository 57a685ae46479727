"""Small stores in memory for the tests of replay: calls and requests written as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace

import duckdb

from loopscope.collector import LlmRequest, ToolCall
from loopscope.collector._schema import create_schema
from loopscope.guard import FINGERPRINT_VERSION, fingerprint, result_hash, scope_key

START = 1_760_000_000_000_000_000
SECOND = 1_000_000_000


def call(
    tool: str = "search_docs",
    args: str | None = '{"q": "refund"}',
    result: str | None = "no hits",
    outcome: str | None = "success",
    *,
    run: str = "run-1",
    agent: str | None = "support-bot",
    at: float | None = None,
    **more: object,
) -> ToolCall:
    """A finished call. `at`: seconds after START; `database` numbers the calls of a run in order."""
    values: dict[str, object] = {
        "trace_id": f"trace-{run}",
        "span_id": "",
        "position": 0,
        "run_id": run,
        "parent_run_id": None,
        "run_source": "conversation",
        "session_id": None,
        "service_name": "shop",
        "agent_name": agent,
        "turn": None,
        "tool_name": tool,
        "call_id": None,
        "arguments": args,
        "result": result,
        "outcome": outcome,
        "error_kind": {"schema_error": "validation", "general_tool_error": "timeout"}.get(outcome or ""),
        "error_type": None,
        "error_message": None,
        "http_status": None,
        "start_ns": -1 if at is None else START + round(at * SECOND),
        "end_ns": -1,
        "fingerprint": None,
        "result_hash": None,
        "scope_key": None,
        "content_state": "missing" if args is None or result is None else "full",
        "recorded_verdict": None,
        "dialect": "otel_genai",
    }
    values.update(more)
    made = ToolCall(**values)  # type: ignore[arg-type]
    made.fingerprint = fingerprint(tool, args)
    made.result_hash = result_hash(result)
    made.scope_key = None if made.fingerprint is None else scope_key(run, agent, made.fingerprint)
    return made


def request(run: str = "run-1", *, at: float = 0.0, took: float = 0.5, **more: object) -> LlmRequest:
    """An answered request."""
    values: dict[str, object] = {
        "trace_id": f"trace-{run}",
        "span_id": f"llm-{run}-{at}",
        "run_id": run,
        "run_source": "conversation",
        "session_id": None,
        "service_name": "shop",
        "agent_name": "support-bot",
        "turn": None,
        "provider": "openai",
        "model": "gpt-x",
        "input_messages": None,
        "output_messages": None,
        "input_tokens": 100,
        "output_tokens": 10,
        "cost": None,
        "status": "ok",
        "http_status": None,
        "error_type": None,
        "error_text": None,
        "error_class": None,
        "content_state": "missing",
        "start_ns": START + round(at * SECOND),
        "end_ns": START + round((at + took) * SECOND),
        "dialect": "otel_genai",
    }
    values.update(more)
    return LlmRequest(**values)  # type: ignore[arg-type]


def number(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """The calls with seq (per run, as given), span ids and times where they have none."""
    done: list[ToolCall] = []
    last: dict[str, int] = {}
    for index, one in enumerate(calls):
        start = START + index * SECOND if one.start_ns == -1 else one.start_ns
        end = start + SECOND // 2 if one.end_ns == -1 else one.end_ns
        seq = None
        if end is not None:
            seq = last[one.run_id] = last.get(one.run_id, 0) + 1
        done.append(
            replace(one, seq=seq, start_ns=start, end_ns=end, span_id=one.span_id or f"span-{index:04d}")
        )
    return done


def database(
    calls: Sequence[ToolCall] = (),
    requests: Sequence[LlmRequest] = (),
    spans: Sequence[tuple[str, str, int, int | None, int]] = (),
    *,
    con: duckdb.DuckDBPyConnection | None = None,
) -> duckdb.DuckDBPyConnection:
    """A store in memory. `spans`: (trace_id, span_id, start_ns, end_ns, status_code)."""
    if con is None:
        con = duckdb.connect(":memory:")
        create_schema(con)
    contents: dict[str, int] = {}

    def stored(text: str | None, key: str) -> dict[str, object]:
        if text is None or len(text) <= 1_000:
            return {key: text, f"{key}_content": None}
        contents.setdefault(text, result_hash(text) or 0)
        return {key: None, f"{key}_content": contents[text]}

    for one in number(calls):
        row: dict[str, object] = {field.name: getattr(one, field.name) for field in fields(one)}
        for key in ("arguments", "result", "error_message"):
            row.update(stored(row[key], key))  # type: ignore[arg-type]
        row["fingerprint_version"] = FINGERPRINT_VERSION
        _insert(con, "tool_call_rows", row)
    for asked in requests:
        row = {field.name: getattr(asked, field.name) for field in fields(asked)}
        for side in ("input", "output"):
            messages = row.pop(f"{side}_messages")
            keys = None
            if messages is not None:
                keys = [contents.setdefault(text, result_hash(text) or 0) for text in messages]  # type: ignore[union-attr]
            row[f"{side}_parts"] = keys
        row.update(stored(row["error_text"], "error_text"))  # type: ignore[arg-type]
        _insert(con, "llm_request_rows", row)
    for text, key in contents.items():
        _insert(con, "contents", {"hash": key, "check_hash": 0, "text": text})
    for trace_id, span_id, start, end, status in spans:
        row = {
            "trace_id": trace_id,
            "span_id": span_id,
            "name": "invoke_agent",
            "kind": 1,
            "start_ns": start,
            "end_ns": end,
            "status_code": status,
            "attributes": "{}",
            "resource": "{}",
            "dropped_attributes": 0,
            "dropped_events": 0,
            "received_ns": 0,
        }
        _insert(con, "span_rows", row)
    return con


def _insert(con: duckdb.DuckDBPyConnection, table: str, row: dict[str, object]) -> None:
    names = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    con.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
