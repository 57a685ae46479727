"""Importing end to end: reports, totals, whole or not at all, again without a change."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from importing import Message, answer, asks, logs, says
from test_import_otlp import log_request, trace_request

from loopscope.collector import Spool, Store, import_paths, traces_json_to_protobuf
from loopscope.collector.importers import FileReport, ImportReport, _stage
from loopscope.guard import ImportFileError, LoopscopeError, SpoolError, StoreError

LOG: list[Message] = [
    says("user", "Where is my order?"),
    asks(("c1", "find_order", '{"id": 7}')),
    answer("c1", "Error: none such"),
    asks(("c2", "find_order", '{"id": 8}')),
    answer("c2", "SECRET RESULT"),
    says("assistant", "It is on its way."),
]
TAU = [{"task_id": 1, "trial": 0, "reward": 1.0, "info": {}, "traj": LOG}]
TAU2 = {"info": {}, "tasks": [], "simulations": [{"id": "s1", "task_id": "1", "messages": LOG}]}
BASE_TABLES = ("span_rows", "log_rows", "tool_call_rows", "llm_request_rows")


def save(path: Path, data: Any, *, lines: bool = False, packed: bool = False) -> Path:
    text = "\n".join(map(json.dumps, data)) if lines else json.dumps(data)
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def tables(db: Path) -> dict[str, list[Any]]:
    """All that is stored, but when it was received."""
    out = {}
    with Store(db, create=False).lease() as con:
        for table in BASE_TABLES:
            columns = "* EXCLUDE (received_ns)" if table in ("span_rows", "log_rows") else "*"
            out[table] = con.execute(f"SELECT {columns} FROM {table} ORDER BY ALL").fetchall()
    return out


def query(db: Path, sql: str) -> list[tuple[Any, ...]]:
    with Store(db, create=False).lease() as con:
        return con.execute(sql).fetchall()


def counts(report: FileReport) -> tuple[str | None, int, int, int, int, int]:
    return report.format, report.runs, report.calls, report.requests, report.spans, report.logs


def single(report: ImportReport) -> FileReport:
    assert report.errors == []
    (file,) = report.files
    return file


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


FILES: dict[str, tuple[Any, bool, tuple[str, int, int, int, int, int]]] = {
    "chat.json": (LOG, False, ("openai-chat", 1, 2, 3, 6, 0)),
    "chat.jsonl": ([{"messages": LOG}, {"messages": LOG[:3]}], True, ("openai-chat", 2, 3, 4, 9, 0)),
    "lists.jsonl": ([LOG, LOG[:3]], True, ("openai-chat", 2, 3, 4, 9, 0)),
    "messages.jsonl": (LOG, True, ("openai-chat", 1, 2, 3, 6, 0)),
    "wrappers.json": (
        [{"trajectory": LOG}, {"conversation": LOG[:3]}],
        False,
        ("openai-chat", 2, 3, 4, 9, 0),
    ),
    "tau.json": (TAU, False, ("tau-bench", 1, 2, 3, 6, 0)),
    "tau.jsonl": (TAU, True, ("tau-bench", 1, 2, 3, 6, 0)),
    "tau2.json": (TAU2, False, ("tau2-bench", 1, 2, 3, 6, 0)),
    "otlp.json": (trace_request(1, 2), False, ("otlp-json", 0, 0, 0, 2, 0)),
    "otlp.jsonl": ([{}, trace_request(1), trace_request(2)], True, ("otlp-json", 0, 0, 0, 2, 0)),
    "logs.jsonl": ([log_request("a"), log_request("b", None)], True, ("otlp-json", 0, 0, 0, 0, 2)),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_every_format_comes_in_and_comes_in_once(tmp_path: Path, db: Path, name: str, packed: bool):
    data, lines, expected = FILES[name]
    path = save(tmp_path / name, data, lines=lines, packed=packed)
    report = import_paths(db, [path])
    file = single(report)
    assert counts(file) == expected
    assert not file.already_there
    totals = report.totals
    assert (totals.runs, totals.calls, totals.requests, totals.spans, totals.logs) == expected[1:]
    before = tables(db)
    assert len(before["span_rows"]) == file.spans
    assert len(before["log_rows"]) == file.logs

    moved = tmp_path / "elsewhere" / f"renamed-{name}"
    moved.parent.mkdir()
    path.rename(moved)
    again = single(import_paths(db, [moved]))
    assert counts(again) == expected
    assert again.already_there
    assert tables(db) == before
    assert Spool(db).pending() == []


def test_protobuf_files_come_in(tmp_path: Path, db: Path):
    data = traces_json_to_protobuf(trace_request(1, 2))
    (tmp_path / "bare.pb").write_bytes(data)
    (tmp_path / "framed.pb").write_bytes(len(data).to_bytes(4, "big") + data)
    (tmp_path / "packed.pb.gz").write_bytes(gzip.compress(data))
    report = import_paths(db, [tmp_path])
    assert [counts(file)[0] for file in report.files] == ["otlp-proto"] * 3
    assert len(tables(db)["span_rows"]) == 2


def test_explicit_formats_decide(tmp_path: Path, db: Path):
    path = save(tmp_path / "a.json", TAU)
    outcomes = "SELECT outcome, count(*) FROM tool_calls GROUP BY 1 ORDER BY 1"
    assert single(import_paths(db, [path], format="openai-chat")).format == "openai-chat"
    assert query(db, outcomes) == [("success", 2)]
    other = db.with_name("u.duckdb")
    assert single(import_paths(other, [path], format="tau-bench")).format == "tau-bench"
    assert query(other, outcomes) == [("general_tool_error", 1), ("success", 1)]
    error = import_paths(db, [path], format="otlp-json").errors[0]
    assert "read as otlp-json, but it looks like tau-bench" in str(error)
    with pytest.raises(ImportFileError, match="no such format: 'excel'"):
        import_paths(db, [path], format="excel")


def test_equal_conversations_of_one_file_are_two_runs(tmp_path: Path, db: Path):
    path = save(tmp_path / "a.jsonl", [{"messages": LOG}] * 2 + [{"messages": LOG, "id": "x"}], lines=True)
    assert single(import_paths(db, [path])).runs == 3
    # The same conversation in another file is the same run.
    other = save(tmp_path / "b.json", LOG)
    report = import_paths(db, [other])
    assert single(report).already_there
    assert query(db, "SELECT count(DISTINCT run_id), count(*) FROM tool_calls") == [(3, 6)]


def test_runs_know_their_source_and_calls_their_order(tmp_path: Path, db: Path):
    import_paths(db, [save(tmp_path / "tau.json", TAU)])
    rows = query(
        db,
        "SELECT run_source, dialect, service_name, agent_name, seq, turn, tool_name, call_id, arguments,"
        " result, outcome, content_state FROM tool_calls ORDER BY seq",
    )
    common = ("transcript", "tau-bench", "tau-bench", "assistant")
    assert rows == [
        (*common, 1, 1, "find_order", "c1", '{"id": 7}', "Error: none such", "general_tool_error", "full"),
        (*common, 2, 2, "find_order", "c2", '{"id": 8}', "SECRET RESULT", "success", "full"),
    ]
    ((run_id,),) = query(db, "SELECT DISTINCT run_id FROM tool_calls")
    assert run_id.startswith("tau-bench/1/0/")


def test_an_unanswered_call_is_not_counted(tmp_path: Path, db: Path):
    import_paths(db, [save(tmp_path / "a.json", LOG[:2])])
    assert query(db, "SELECT seq, outcome, result, end_ns FROM tool_calls") == [(None, None, None, None)]


def test_content_is_left_out_on_request(tmp_path: Path, db: Path, monkeypatch: pytest.MonkeyPatch):
    path = save(tmp_path / "a.json", LOG)
    for target, options, variable in (
        (db, {"capture_content": False}, None),
        (db.with_name("u.duckdb"), {}, "false"),
    ):
        if variable:
            monkeypatch.setenv("LOOPSCOPE_CAPTURE_CONTENT", variable)
        assert single(import_paths(target, [path], **options)).calls == 2
        assert query(target, "SELECT DISTINCT tool_name, arguments, result FROM tool_calls") == [
            ("find_order", None, None)
        ]
        assert b"SECRET" not in target.read_bytes()
    assert "SECRET" in str(tables(make(db.with_name("v.duckdb"), path)))


def make(db: Path, path: Path) -> Path:
    import_paths(db, [path], capture_content=True)
    return db


GOOD_LINE = json.dumps(trace_request(1))
CUT_GZIP = gzip.compress("\n".join(json.dumps(trace_request(n)) for n in range(1, 500)).encode())[:-30]
BAD: dict[str, tuple[bytes, str]] = {
    "random.bin": (bytes(range(200, 256)) * 50, "neither JSON nor OTLP protobuf"),
    "empty.jsonl": (b"", "the file is empty"),
    "blank.jsonl": (b"\n \n", "no data"),
    "nothing.jsonl": (b"[]\n{}\n", "nothing but empty"),
    "cut.jsonl.gz": (
        CUT_GZIP,
        "the gzip file is cut off",
    ),
    "middle.jsonl": (f"{GOOD_LINE}\n{GOOD_LINE[:80]}\n{GOOD_LINE}\n".encode(), "line 2: not valid JSON"),
    "end.jsonl": (f"{GOOD_LINE}\n{GOOD_LINE[:80]}".encode(), "cut off in the value that begins on line 2"),
    "other.json": (b'{"rows": [1]}', "of no format that can be imported (an object with the keys 'rows')"),
    "mixed.jsonl": (f"{GOOD_LINE}\n{json.dumps({'messages': LOG})}".encode(), "line 2: not an OTLP request"),
    "mixed2.jsonl": (
        f"{json.dumps(LOG)}\n{GOOD_LINE}".encode(),
        "line 2: otlp-json in a file of openai-chat",
    ),
    "chat.jsonl": (json.dumps({"messages": LOG}).encode() + b'\n{"messages": [7]}', "line 2"),
    "chat2.json": (json.dumps([{"messages": LOG}, {"messages": [LOG[0], "x"]}]).encode(), "message 2"),
    "deep.json": (b'{"messages": ' + b"[" * 200_000, "nested too deeply"),
    "deeper.json": (
        b'{"messages": [{"role": "tool", "content": ' + b"[" * 900 + b"]" * 900 + b"}]}",
        "",  # read, or refused as too deep: never a traceback
    ),
    "number.jsonl": (b'{"resourceSpans": [], "x": ' + b"7" * 9000 + b"}", "number too long"),
    "ids.json": (GOOD_LINE.replace("5b8e", "zzzz").encode(), "traceId"),
    "old.json": (b'\xff{"messages": []}', "neither JSON nor OTLP protobuf"),
    "latin.json": (b'{"messages": [{"role": "user", "content": "\xe4"}]}', "not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_clear_line_and_nothing_of_it_comes_in(tmp_path: Path, db: Path, name: str):
    data, what = BAD[name]
    bad = tmp_path / name
    bad.write_bytes(data)
    good = save(tmp_path / "good.json", LOG)
    report = import_paths(db, [bad, good])
    assert [file.path for file in report.files] == [bad, good]
    refused, accepted = report.files
    assert counts(accepted) == ("openai-chat", 1, 2, 3, 6, 0)
    assert accepted.error is None
    if name != "deeper.json":
        assert isinstance(refused.error, ImportFileError)
        message = str(refused.error)
        assert message.startswith(f"{bad}: ")
        assert what in message
        assert "\n" not in message
        assert message.isprintable()
        assert refused.error.path == str(bad)
        assert len(tables(db)["span_rows"]) == 6
    assert report.ok == (refused.error is None)


def test_a_bad_file_alone_leaves_no_database_behind(tmp_path: Path, db: Path):
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    for path in (bad, tmp_path / "absent.json"):
        assert len(import_paths(db, [path]).errors) == 1
    assert sorted(tmp_path.iterdir()) == [bad]


def test_a_bad_end_after_many_segments_leaves_nothing(tmp_path: Path, db: Path):
    path = tmp_path / "a.jsonl"
    with path.open("w") as out:
        for n in range(40):
            out.write(json.dumps(trace_request(n + 1, text="x" * 300_000)) + "\n")
        out.write('{"resourceSpans": [')
    (error,) = import_paths(db, [path]).errors
    assert "cut off" in str(error)
    assert not db.exists()
    assert Spool(db).pending() == []


def test_a_disk_that_fills_up_half_way_leaves_nothing(
    tmp_path: Path, db: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(_stage, "_PAYLOAD_BYTES", 1000)
    monkeypatch.setattr(_stage, "_SEGMENT_BYTES", 1000)
    path = save(
        tmp_path / "a.jsonl", [{"messages": [*LOG, says("user", str(n))]} for n in range(9)], lines=True
    )
    write, written = Spool.write, []

    def fill_up(self: Spool, *args: Any, **options: Any) -> Path:
        if len(written) == 3:
            raise SpoolError("the disk is full")
        written.append(write(self, *args, **options))
        return written[-1]

    monkeypatch.setattr(Spool, "write", fill_up)
    with pytest.raises(SpoolError, match="the disk is full"):
        import_paths(db, [path])
    assert len(written) == 3
    assert Spool(db).pending() == []
    monkeypatch.undo()
    assert single(import_paths(db, [path])).runs == 9


def test_folders_are_searched_and_what_is_no_trace_is_told(tmp_path: Path, db: Path):
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    save(folder / "a.json", LOG)
    save(folder / "deep" / "b.json.gz", TAU, packed=True)
    (folder / "package.json").write_text('{"name": "x"}')
    (folder / "README.md").write_text("no trace")
    (folder / "tsconfig.json").write_text("{ // comment\n}")
    (folder / "zero.json").write_text("")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    report = import_paths(db, [folder, folder / "a.json"])
    assert report.ok
    assert [file.path.name for file in report.files] == ["a.json", "b.json.gz"]
    assert [Path(where).name for where, _ in report.skipped] == ["package.json", "tsconfig.json", "zero.json"]
    assert report.totals.runs == 2


def test_a_cut_trace_in_a_folder_is_an_error_all_the_same(tmp_path: Path, db: Path):
    folder = tmp_path / "in"
    folder.mkdir()
    save(folder / "a.json", LOG)
    (folder / "b.json").write_text(GOOD_LINE[:100])
    report = import_paths(db, [folder])
    assert [file.ok for file in report.files] == [True, False]


@pytest.mark.parametrize("files", [{}, {"README.md": "x"}, {"a.json": '{"name": "x"}', "b.jsonl": "hello"}])
def test_a_folder_without_a_trace_is_an_error(tmp_path: Path, db: Path, files: dict[str, str]):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    report = import_paths(db, [folder])
    (error,) = report.errors
    assert "no trace file and no transcript in this folder" in str(error)
    assert report.files[0].path == folder
    assert not db.exists()


def test_a_database_that_cannot_be_used_is_said_before_anything_is_read(tmp_path: Path):
    path = save(tmp_path / "a.json", LOG)
    with pytest.raises(StoreError, match="no folder"):
        import_paths(tmp_path / "absent" / "t.duckdb", [path])
    garbage = tmp_path / "garbage.duckdb"
    garbage.write_bytes(b"not a database" * 100)
    with pytest.raises(LoopscopeError):
        import_paths(garbage, [path])


def test_names_that_carry_control_codes_are_shown_harmlessly(tmp_path: Path, db: Path):
    bad = tmp_path / "a\x1b[31m\n.json"
    bad.write_text('{"\\u001b[2J": 1}')
    message = str(import_paths(db, [bad]).errors[0])
    assert message.isprintable()


def test_progress_goes_from_nothing_to_all(tmp_path: Path, db: Path):
    paths = [save(tmp_path / f"{n}.json", [*LOG, says("user", "x" * 3_000_000)]) for n in range(2)]
    steps: list[tuple[int, int, Path]] = []
    import_paths(db, paths, progress=lambda done, total, path: steps.append((done, total, path)))
    reading = [step for step in steps if step[2] != db]
    storing = steps[len(reading) :]
    assert {step[2] for step in reading} == set(paths)
    assert {step[2] for step in storing} == {db}
    for phase, total in ((reading, sum(path.stat().st_size for path in paths)), (storing, storing[0][1])):
        assert {step[1] for step in phase} == {total}
        assert [step[0] for step in phase] == sorted(step[0] for step in phase)
        assert phase[-1][0] == total
    assert len(reading) > 4


def test_spans_and_logs_of_one_trace_are_counted_once_in_the_totals(tmp_path: Path, db: Path):
    (tmp_path / "spans.jsonl").write_text(GOOD_LINE)
    save(tmp_path / "more.jsonl", [trace_request(1), trace_request(2)], lines=True)
    report = import_paths(db, [tmp_path / "spans.jsonl", tmp_path / "more.jsonl"])
    assert report.ok
    assert len(tables(db)["span_rows"]) == 2


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), name=st.sampled_from(["x", "x.json", "x.pb", "x.gz"]))
def test_any_bytes_give_a_report_and_never_a_traceback(tmp_path: Path, data: bytes, name: str):
    path = tmp_path / name
    path.write_bytes(data)
    report = import_paths(tmp_path / "any.duckdb", [path])
    assert [file.error is None for file in report.files] == [report.ok]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0, 3000), what=st.binary(max_size=4), drop=st.integers(0, 40))
def test_a_damaged_file_comes_in_whole_or_not_at_all(tmp_path: Path, where: int, what: bytes, drop: int):
    whole = "\n".join(json.dumps({"messages": [*LOG, says("user", str(n))]}) for n in range(3)).encode()
    where %= len(whole)
    path = tmp_path / "a.jsonl"
    path.write_bytes(whole[:where] + what + whole[where + drop :])
    db = tmp_path / "damaged.duckdb"
    remove(db)
    report = import_paths(db, [path])
    if report.ok:
        assert report.totals.spans == len(tables(db)["span_rows"])
    else:
        assert not db.exists()
        assert Spool(db).pending() == []


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(logs(), min_size=1, max_size=4))
def test_a_second_import_changes_no_table(tmp_path: Path, conversations: list[list[Message]]):
    db = tmp_path / "again.duckdb"
    remove(db)
    path = save(tmp_path / "a.jsonl", [{"messages": log} for log in conversations], lines=True)
    first = import_paths(db, [path])
    before = tables(db)
    asked = [
        call
        for log in conversations
        for message in log
        for call in (*message.get("tool_calls", []), *([1] if "function_call" in message else []))
    ]
    assert first.totals.calls == len(before["tool_call_rows"]) == len(asked)
    second = import_paths(db, [path])
    assert tables(db) == before
    assert second.totals == first.totals
    assert single(second).already_there


def remove(db: Path) -> None:
    leftovers: Iterable[Path] = db.parent.glob(f"{db.name}*")
    for path in leftovers:
        if path.is_file():
            path.unlink()
