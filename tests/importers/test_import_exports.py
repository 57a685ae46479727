"""Exports of other tracing tools: the same run out of each of them, and never twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import export_files as ours
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from export_files import ARGUMENTS, BEGUN, CALLS, RESULT, ROOT, TRACE, query, save
from test_import_paths import single, tables

from loopscope.collector import import_paths
from loopscope.collector.importers._spans import (
    json_object,
    opened_repr,
    span_id_of,
    status_of,
    time_of,
    trace_id_of,
)

FILES: dict[str, tuple[str, Callable[[], Any], bool]] = {
    "langfuse.json": ("langfuse", ours.langfuse, False),
    "langfuse-api.json": ("langfuse", lambda: ours.langfuse()["trace"] | ours.langfuse(), False),
    "langfuse-page.json": ("langfuse", lambda: {"data": ours.langfuse_observations(), "meta": {}}, False),
    "langfuse.jsonl": ("langfuse", ours.langfuse_observations, True),
    "langsmith.jsonl": ("langsmith", ours.langsmith, True),
    "langsmith.json": ("langsmith", ours.langsmith, False),
    "langsmith-page.json": ("langsmith", lambda: {"runs": ours.langsmith(), "cursors": {}}, False),
    "langsmith-tree.json": (
        "langsmith",
        lambda: ours.langsmith()[0] | {"child_runs": ours.langsmith()[1:]},
        False,
    ),
    "mlflow.json": ("mlflow", ours.mlflow, False),
    "mlflow.jsonl": ("mlflow", lambda: [ours.mlflow()], True),
    "mlflow-artifact.json": ("mlflow", lambda: ours.mlflow()["data"], False),
    "phoenix.json": ("phoenix", lambda: {"data": ours.phoenix(), "next_cursor": None}, False),
    "phoenix-trace.json": ("phoenix", lambda: {"traceId": TRACE, "spans": ours.phoenix()}, False),
    "phoenix.jsonl": ("phoenix", ours.phoenix, True),
    "jaeger.json": ("jaeger", ours.jaeger, False),
    "jaeger.jsonl": ("jaeger", lambda: ours.jaeger()["data"], True),
}
LOOP = ("search", ARGUMENTS, RESULT, "success")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


@pytest.mark.parametrize("name", FILES)
def test_an_export_gives_the_run_that_was_recorded(tmp_path: Path, db: Path, name: str):
    format, make, lines = FILES[name]
    path = save(tmp_path / name, make(), lines=lines)
    report = import_paths(db, [path])
    file = single(report)
    # A Jaeger span always has a duration: it cannot tell of a call that never ended.
    open_calls = 0 if format == "jaeger" else 1
    assert (file.format, file.runs, file.calls, file.requests) == (format, 1, 4 + open_calls, 1)
    assert file.skipped == []

    rows = [(tool, json.loads(args), *rest) for tool, args, *rest in query(db, CALLS)]
    assert [row[:4] for row in rows[:3]] == [LOOP] * 3
    assert [row[4] for row in rows[:4]] == [1, 2, 3, 4]
    assert rows[3][3] == "general_tool_error"
    assert "no such index" in rows[3][5]
    assert [(row[2], row[3], row[4]) for row in rows[4:]] == [(None, None, None)] * open_calls

    ((model, given, got),) = query(db, "SELECT model, input_tokens, output_tokens FROM llm_requests")
    assert (model, given, got) == ("gpt-4o", 12, 3)
    if not name.startswith(("langfuse-page", "langfuse.jsonl", "mlflow-artifact")):  # there, nothing tells
        assert query(db, "SELECT DISTINCT session_id FROM tool_calls") == [("s1",)]

    if format != "langsmith":  # its ids are UUIDs
        numbers = range(1, 7 - (format == "jaeger"))
        assert ids(db) == [(TRACE, ROOT), *[(TRACE, ours.span_id(number)) for number in numbers]]
    before = tables(db)
    again = single(import_paths(db, [path]))
    assert again.already_there
    assert tables(db) == before


def ids(db: Path) -> list[tuple[str, str]]:
    return query(db, "SELECT trace_id, span_id FROM spans ORDER BY ALL")


def otlp_spans() -> dict[str, Any]:
    """The trace as it was recorded: more than any export tells."""

    def text(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": value}}

    spans = [
        {
            "traceId": TRACE,
            "spanId": ours.span_id(number),
            "name": "execute_tool search",
            "startTimeUnixNano": str((BEGUN + number) * 10**9),
            "endTimeUnixNano": str((BEGUN + number) * 10**9 + 7),
            "attributes": [
                text("gen_ai.operation.name", "execute_tool"),
                text("gen_ai.tool.name", "search"),
                text("gen_ai.tool.call.id", f"recorded{number}"),
                text("gen_ai.tool.call.arguments", json.dumps(ARGUMENTS)),
                text("gen_ai.tool.call.result", RESULT),
            ],
        }
        for number in (2, 3, 4)
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


@pytest.mark.parametrize("first", ["export", "otlp"])
@pytest.mark.parametrize("name", ["langfuse.json", "mlflow.json", "phoenix.json", "jaeger.json"])
def test_a_trace_by_export_and_by_otlp_is_one_and_what_was_recorded_wins(
    tmp_path: Path, db: Path, name: str, first: str
):
    export = save(tmp_path / name, FILES[name][1]())
    otlp = save(tmp_path / "otlp.json", otlp_spans())
    for path in (export, otlp) if first == "export" else (otlp, export):
        import_paths(db, [path])
    ended = query(
        db, "SELECT call_id, end_ns - start_ns FROM tool_calls WHERE outcome = 'success' ORDER BY 1"
    )
    assert ended == [(f"recorded{number}", 7) for number in (2, 3, 4)]
    before = tables(db)
    assert single(import_paths(db, [export])).already_there
    assert tables(db) == before


def test_a_later_export_replaces_an_earlier_one(tmp_path: Path, db: Path):
    import_paths(db, [save(tmp_path / "a.jsonl", ours.langfuse_observations(), lines=True)])
    later = ours.langfuse_observations()
    later[2]["output"] = "a"  # in the order of words before what it replaces
    import_paths(db, [save(tmp_path / "b.jsonl", later, lines=True)])
    assert [row[2] for row in query(db, CALLS)][:2] == ["a", RESULT]


def test_content_is_left_out_on_request(tmp_path: Path, db: Path):
    for name in ("langfuse.json", "langsmith.jsonl", "mlflow.json", "phoenix.json", "jaeger.json"):
        _, make, lines = FILES[name]
        save(
            tmp_path / name,
            json.loads(json.dumps(make()).replace(TRACE, name[:2].encode().hex() * 8)),
            lines=lines,
        )
    import_paths(db, [tmp_path], capture_content=False)
    found = "SELECT tool_name, arguments, result, count(*) FROM tool_calls GROUP BY ALL"
    assert query(db, found) == [("search", None, None, 24)]
    assert b"SECRET" not in db.read_bytes()


# -- Parquet ------------------------------------------------------------------------------------------------


def phoenix_rows() -> list[dict[str, Any]]:
    """As Phoenix saves its data frame: columns for prefixes, nested values for lists."""
    rows = []
    for span in ours.phoenix():
        row = {key: value for key, value in span.items() if key not in ("context", "attributes", "events")}
        row |= {f"context.{key}": value for key, value in span["context"].items()}
        attributes = span["attributes"]
        flat = {
            "attributes.tool.name": attributes.get("tool.name", attributes.get("tool", {}).get("name")),
            "attributes.input.value": attributes.get("input.value", attributes.get("input", {}).get("value")),
            "attributes.output.value": attributes.get(
                "output.value", attributes.get("output", {}).get("value")
            ),
            "attributes.llm.model_name": attributes.get("llm", {}).get("model_name"),
            "attributes.llm.token_count.prompt": attributes.get("llm", {})
            .get("token_count", {})
            .get("prompt"),
            "attributes.llm.token_count.completion": 3 if "llm" in attributes else None,
            "attributes.llm.input_messages": [{"message.role": "user", "message.content": "hi"}]
            if "llm" in attributes
            else None,
            "events": [
                {"name": event["name"], "timestamp": event["timestamp"], "attributes": event["attributes"]}
                for event in span["events"]
            ],
        }
        rows.append(row | flat)
    return rows


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    table = pa.Table.from_pylist(rows)
    for name in ("start_time", "end_time"):
        index = table.schema.get_field_index(name)
        times = pa.array(
            [time_of(value) for value in table.column(name).to_pylist()], pa.timestamp("ns", "UTC")
        )
        table = table.set_column(index, name, times)
    pq.write_table(table, path)
    return path


def test_phoenix_data_frames_come_in(tmp_path: Path, db: Path):
    path = parquet(tmp_path / "spans.parquet", phoenix_rows())
    file = single(import_paths(db, [tmp_path]))
    assert (file.format, file.calls, file.requests, file.spans) == ("phoenix", 5, 1, 7)
    rows = [(tool, json.loads(args), *rest) for tool, args, *rest in query(db, CALLS)]
    assert [row[:4] for row in rows[:3]] == [LOOP] * 3
    assert rows[3][3] == "general_tool_error"
    assert rows[4][3] is None
    ((messages, start),) = query(db, "SELECT input_messages, start_ns FROM llm_requests")
    assert [json.loads(message) for message in messages] == [{"role": "user", "content": "hi"}]
    assert start == (BEGUN + 1) * 10**9
    assert single(import_paths(db, [path])).already_there


def test_a_bulk_export_of_langsmith_comes_in(tmp_path: Path, db: Path):
    rows = [
        {key: json.dumps(value) if isinstance(value, dict) else value for key, value in row.items()}
        for row in ours.langsmith()
    ]
    file = single(import_paths(db, [parquet(tmp_path / "runs.parquet", rows)]))
    assert (file.format, file.calls, file.requests) == ("langsmith", 5, 1)
    assert [json.loads(row[1]) for row in query(db, CALLS)] == [ARGUMENTS] * 5


def test_other_and_damaged_parquet_is_refused_in_one_line(tmp_path: Path, db: Path):
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), other)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(parquet(tmp_path / "good.parquet", phoenix_rows()).read_bytes()[:-40])
    report = import_paths(db, [other, cut, tmp_path / "good.parquet"])
    assert [file.ok for file in report.files] == [False, False, True]
    assert "of no format that can be imported" in str(report.errors[0])
    assert "the Parquet file is damaged" in str(report.errors[1])
    assert all("\n" not in str(error) for error in report.errors)


# -- particulars --------------------------------------------------------------------------------------------


def test_langfuse_gives_back_what_opentelemetry_recorded(tmp_path: Path, db: Path):
    """What came to Langfuse over OTLP: attributes, resource and scope stand in the metadata, also as text."""
    metadata = {
        "attributes": {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup",
            "gen_ai.tool.call.id": "c7",
        },
        "resourceAttributes": {"service.name": "shop"},
        "scope": {"name": "agent_framework", "version": "1"},
    }
    rows = [
        ours.observation(2, "SPAN", "x", input='{"q": 1}', output="ok", metadata=json.dumps(metadata)),
        # Marks of a tool on what an older server calls a span: its ids, or LangChain's tool message.
        ours.observation(
            3,
            "SPAN",
            "Web-Search",
            input="{'q': 1}",
            output={"type": "tool", "content": "ok", "tool_call_id": "c8"},
        ),
    ]
    import_paths(db, [save(tmp_path / "a.jsonl", rows, lines=True)])
    found = query(db, "SELECT tool_name, call_id, arguments, result, service_name, dialect FROM tool_calls")
    assert sorted(found) == [
        ("Web-Search", "c8", '{"q": 1}', "ok", None, "langfuse"),
        ("lookup", "c7", '{"q": 1}', "ok", "shop", "agent_framework"),
    ]


def test_traces_without_their_observations_are_told(tmp_path: Path, db: Path):
    trace = {"id": TRACE, "timestamp": ours.iso(0), "observations": ["a", "b"]}
    whole = ours.langfuse()
    file = single(import_paths(db, [save(tmp_path / "a.json", [trace, whole])]))
    assert [why for _, why in file.skipped] == [
        "an observation that is only named; export observations, or traces one by one"
    ] * 2
    assert file.calls == 5


def test_a_langsmith_run_that_came_by_opentelemetry_keeps_its_span_id(tmp_path: Path, db: Path):
    padded = f"00000000-0000-0000-{ROOT[:4]}-{ROOT[4:]}"
    row = ours.run(0, "tool", "search", ARGUMENTS, {"output": "ok"}, id=padded, trace_id=None)
    row["trace_id"] = f"{TRACE[:8]}-{TRACE[8:12]}-{TRACE[12:16]}-{TRACE[16:20]}-{TRACE[20:]}"
    import_paths(db, [save(tmp_path / "a.json", [row])])
    assert ids(db) == [(TRACE, ROOT)]


def test_old_mlflow_traces_come_in(tmp_path: Path, db: Path):
    span = {
        "name": "search",
        "context": {"span_id": f"0x{ROOT}", "trace_id": f"0x{TRACE}"},
        "parent_id": None,
        "start_time": BEGUN * 10**9,
        "end_time": BEGUN * 10**9 + 5,
        "status_code": "OK",
        "status_message": "",
        "attributes": {
            "mlflow.spanType": "TOOL",
            "mlflow.spanInputs": ARGUMENTS,
            "mlflow.spanOutputs": RESULT,
        },
        "events": [],
    }
    trace = {"info": {"request_id": TRACE}, "data": {"spans": [span]}}
    file = single(import_paths(db, [save(tmp_path / "a.json", trace)]))
    assert file.format == "mlflow"
    assert ids(db) == [(TRACE, ROOT)]
    assert query(db, CALLS)[0][:4] == ("search", '{"q": "x"}', RESULT, "success")


def test_spans_that_the_console_exporter_printed_come_in(tmp_path: Path, db: Path):
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    span = {
        "name": "execute_tool search",
        "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{ROOT}", "trace_state": "[]"},
        "kind": "SpanKind.CLIENT",
        "parent_id": None,
        "start_time": "2023-11-14T22:13:20.000000Z",
        "end_time": "2023-11-14T22:13:21.000000Z",
        "status": {"status_code": "ERROR", "description": "no such index"},
        "attributes": attributes | {"gen_ai.tool.call.arguments": '{"q": "x"}'},
        "events": [],
        "links": [],
        "resource": {"attributes": {"service.name": "shop"}, "schema_url": ""},
    }
    other = {**span, "context": {**span["context"], "span_id": "0x00f067aa0ba902b8"}}
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(span, indent=4) + "\n" + json.dumps(other, indent=4))
    file = single(import_paths(db, [path]))
    assert (file.format, file.calls) == ("otel-console", 2)
    found = query(db, "SELECT outcome, error_message, service_name FROM tool_calls")
    assert found == [("general_tool_error", "no such index", "shop")] * 2
    assert query(db, "SELECT DISTINCT kind FROM spans") == [(3,)]
    ((attributes,),) = query(db, "SELECT DISTINCT attributes FROM spans")
    assert json.loads(attributes)["loopscope.copied_from"] == "otel-console"


BAD: dict[str, tuple[Any, str]] = {
    "langfuse": ([ours.langfuse_observations()[0], {"a": 1}], "neither a Langfuse trace nor an observation"),
    "langsmith": ([ours.langsmith()[0], {"a": 1}], "not a LangSmith run"),
    "mlflow": ([ours.mlflow(), {"a": 1}], "not an MLflow trace"),
    "mlflow ids": ({"info": {"trace_id": ""}, "data": {"spans": [{"name": "n"}]}}, "has no ids"),
    "phoenix": ([ours.phoenix()[0], {"a": 1}], "not a span of Phoenix"),
    "phoenix ids": (
        [{"name": "n", "context.trace_id": TRACE, "start_time": ours.iso(1)}],
        "export the data frame with its index",
    ),
    "jaeger": ([*ours.jaeger()["data"], {"a": 1}], "not a Jaeger trace"),
    "jaeger id": ({"data": [{"traceID": TRACE, "spans": [{}], "processes": {}}]}, "without a spanID"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_export_is_one_clear_line_and_the_rest_goes_in(tmp_path: Path, db: Path, name: str):
    data, what = BAD[name]
    bad = save(tmp_path / "bad.json", data)
    good = save(tmp_path / "good.json", ours.langfuse())
    report = import_paths(db, [bad, good])
    assert [file.ok for file in report.files] == [False, True]
    assert what in str(report.errors[0])
    assert "\n" not in str(report.errors[0])
    assert {trace for trace, _ in ids(db)} == {TRACE}
    assert len(ids(db)) == 7


def test_ids_of_every_spelling():
    raw = bytes.fromhex(TRACE)
    dashed = f"{TRACE[:8]}-{TRACE[8:12]}-{TRACE[12:16]}-{TRACE[16:20]}-{TRACE[20:]}"
    for text in (TRACE, TRACE.upper(), f"0x{TRACE}", dashed, "CvdlGRbNQ92ESOshHIAxnA=="):
        assert trace_id_of(text) == raw
    assert trace_id_of(ROOT) == bytes(8) + bytes.fromhex(ROOT)  # 64 bits, as old tracers have
    for text in (ROOT, f"0x{ROOT}", "APBnqgupArc="):
        assert span_id_of(text) == bytes.fromhex(ROOT)
    for text in ("", "0" * 32, "run 7", dashed + "0", "CvdlGRbNQ92ESOshHIAxn*=="):
        assert trace_id_of(text) == trace_id_of(text) != raw
        assert any(trace_id_of(text))
        assert len(trace_id_of(text)) == 16
    # A UUID is longer than a span id: its hash, not a piece that it may share with others.
    assert span_id_of(dashed) not in (raw[:8], raw[8:])
    assert span_id_of("0" * 16) != bytes(8)


def test_values_of_every_spelling():
    assert time_of(None, "2023-11-14T22:13:20Z") == BEGUN * 10**9
    assert time_of("2023-11-14 22:13:20.000000 UTC") == BEGUN * 10**9
    assert time_of(str(BEGUN * 10**9)) == time_of(BEGUN) == BEGUN * 10**9
    assert time_of("soon", float("nan"), True) is None
    assert [status_of(v) for v in ("STATUS_CODE_OK", "ok", 2, "ERROR", "StatusCode.ERROR", None, "x")] == [
        1,
        1,
        2,
        2,
        2,
        0,
        0,
    ]
    assert json_object(json.dumps(json.dumps({"a": 1}))) == {"a": 1}
    assert json_object("[1]") == json_object("{") == json_object(None) == {}
    assert opened_repr("{'a': (1, None)}") == {"a": (1, None)}
    assert opened_repr("{__import__('os'): 1}") is None
    assert opened_repr("{" * 5000) is None
