"""Sessions over several traces and none: whatever comes in whatever order, the tables are the same."""

from __future__ import annotations

import json
import random

import duckdb
import pytest
from agent_logs import SECOND, START, claude_session, log, payload, span
from store_tools import dump, put_segment

from loopscope.collector import Spool, Store, fold, import_paths, prune

RECEIVED = START + 100 * SECOND
CALLS = (
    "SELECT call_id, arguments, result, outcome, seq, run_source FROM tool_calls ORDER BY start_ns, call_id"
)


def fold_groups(store: Store, requests, groups) -> dict:
    spool = Spool(store.path)
    with store.lease():
        for group in groups:
            for number in group:
                put_segment(
                    spool, [requests[number]], received_ns=RECEIVED + number, name=f"{number:06d}-h-1"
                )
            fold(store)
        return dump(store)


def rows(store: Store, query: str) -> list:
    with store.lease() as con:
        return con.execute(query).fetchall()


@pytest.fixture
def session():
    return [payload(*one) for one in claude_session()]


def test_logs_complete_the_spans_of_their_session(tmp_path, session):
    store = Store(tmp_path / "t.duckdb")
    fold_groups(store, session, [range(len(session))])
    failed = ("t1", '{"command": "make", "timeout": 5}', "no rule", "general_tool_error", 1, "agent_span")
    read = ("t2", '{"file_path": "/a", "offset": 3}', "text", "success", 2, "agent_span")
    listed = ("t3", '{"command": "ls"}', "a", "success", 1, "agent_span")
    # In the logs alone: no result, and its run is the session.
    alone = ("t4", '{"command": "ls"}', None, "success", 1, "conversation")
    assert rows(store, CALLS) == [failed, read, listed, alone]
    requests = rows(store, "SELECT status, http_status, input_tokens FROM llm_requests ORDER BY start_ns")
    assert requests == [("ok", None, 10), ("error", 400, None)]
    (unit,) = rows(store, "SELECT DISTINCT session_trace FROM log_rows")
    assert len(unit[0]) == 32
    assert rows(store, "SELECT DISTINCT trace_id FROM tool_calls WHERE call_id = 't4'") == [unit]
    assert rows(store, "SELECT DISTINCT trace_id FROM logs") == [(None,)]  # as it was sent


@pytest.mark.parametrize("seed", range(6))
def test_any_order_and_repetition(tmp_path, session, seed):
    expected = fold_groups(Store(tmp_path / "together.duckdb"), session, [range(len(session))])
    chance = random.Random(seed)
    order = list(range(len(session)))
    chance.shuffle(order)
    cuts = sorted(chance.sample(order, 3))
    groups = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    groups.append(chance.sample(order, 4))  # sent again
    assert fold_groups(Store(tmp_path / "pieces.duckdb"), session, groups) == expected


def test_large_sessions_are_put_off_and_come_out_the_same(tmp_path, session, monkeypatch):
    expected = fold_groups(Store(tmp_path / "together.duckdb"), session, [range(len(session))])
    monkeypatch.setattr("loopscope.collector._fold.LARGE_TRACE", 3)
    store = Store(tmp_path / "pieces.duckdb")
    spool = Spool(store.path)
    for number, one in enumerate(session):
        put_segment(spool, [one], received_ns=RECEIVED + number, name=f"{number:06d}-h-1")
        fold(store, settle=False)
    fold(store)
    assert dump(store) == expected


def test_two_sessions_are_two(tmp_path):
    store = Store(tmp_path / "t.duckdb")
    told = {"tool_name": "exec", "success": "true", "output": "x", "arguments": "{}"}
    requests = [
        payload("logs", log(at, "codex.tool_result", call_id="c", conversation__id=session, **told))
        for at, session in ((1, "a"), (2, "b"), (3, "a"))
    ]
    fold_groups(store, requests, [[0], [1], [2]])
    runs = rows(store, "SELECT run_id, seq, result FROM tool_calls ORDER BY start_ns")
    assert runs == [("conversation:a", 1, "x"), ("conversation:b", 1, "x"), ("conversation:a", 2, "x")]


def mcp(trace: int, session: str) -> tuple[str, bytes]:
    attributes = {
        "mcp__method__name": "tools/call",
        "gen_ai__tool__name": "search",
        "mcp__session__id": session,
    }
    one = span(
        trace, 1, "tools/call search", trace, trace + 0.5, "fastmcp", jsonrpc__request__id="1", **attributes
    )
    return payload("traces", one)


@pytest.mark.parametrize(
    "groups", [[[0, 1, 2, 3]], [[0], [1], [2], [3]], [[3, 1], [0, 2]], [[2], [3], [1, 0]]]
)
def test_an_mcp_session_over_several_traces_is_a_run(tmp_path, groups):
    requests = [mcp(1, "lasting"), mcp(2, "lasting"), mcp(3, "lasting"), mcp(4, "once")]
    store = Store(tmp_path / "t.duckdb")
    fold_groups(store, requests, groups)
    runs = rows(store, "SELECT run_id, run_source, seq FROM tool_calls ORDER BY start_ns")
    lasting = [("mcp_session:lasting", "mcp_session", number) for number in (1, 2, 3)]
    assert runs == [*lasting, (f"{4:032x}", "trace", 1)]
    assert rows(store, "SELECT count(*) FROM trace_rows WHERE stale") == [(0,)]


def test_a_database_of_version_1_has_its_sessions_joined(tmp_path, session):
    requests = [*session, mcp(7, "lasting"), mcp(8, "lasting"), mcp(9, "once")]
    expected = fold_groups(Store(tmp_path / "new.duckdb"), requests, [range(len(requests))])
    old = Store(tmp_path / "old.duckdb")
    fold_groups(old, requests, [range(len(requests))])
    with duckdb.connect(str(old.path)) as con:
        con.execute("DELETE FROM trace_rows WHERE trace_id = session_trace")
        con.execute("DELETE FROM tool_call_rows WHERE call_id = 't4'")
        con.execute("DELETE FROM llm_request_rows WHERE status = 'error'")
        for table, column in (
            ("log", "session_trace"),
            ("trace", "session_trace"),
            ("trace", "mcp_sessions"),
        ):
            con.execute(f"ALTER TABLE {table}_rows DROP COLUMN {column}")
        con.execute("UPDATE meta SET value = '1' WHERE key = 'schema_version'")
    fold(Store(old.path))
    assert dump(Store(old.path)) == expected


def test_a_session_is_pruned_whole(tmp_path, session):
    store = Store(tmp_path / "t.duckdb")
    expected = fold_groups(store, session, [range(len(session))])
    # Of the session one event is younger than the limit, so its spans and calls stay as well.
    assert not prune(store, START + 39 * SECOND)
    assert dump(store) == expected
    gone = prune(store, START + 60 * SECOND)
    assert (gone.spans, gone.logs, gone.calls, gone.requests) == (7, 6, 4, 2)
    assert rows(store, "SELECT count(*) FROM trace_rows") == [(0,)]


def test_an_imported_file_of_logs_says_what_is_in_it(tmp_path, session):
    path = tmp_path / "codex.jsonl"
    told = {"tool_name": "exec", "success": "true", "output": "x", "arguments": "{}", "conversation__id": "c"}
    lines = [log(at, "codex.tool_result", call_id=f"c{at}", **told) for at in (1, 2)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (file,) = import_paths(tmp_path / "t.duckdb", [path]).files
    assert (file.error, file.runs, file.calls, file.logs) == (None, 1, 2, 2)
