"""Public recordings of agents and tracing tools come in with the figures that their readers counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from shared_corpus import corpus
from test_import_corpus import COUNTED_ALL, judge, load, outcomes

from loopscope.collector import Store, import_paths

BASH = "ic_bash_multiturn"
# file: runs, calls, failed, without a result; (runs nudged, runs blocked, calls after a block) with errors
# left out of the count and with errors counted
INTERCODE: dict[str, tuple[tuple[int, int, int, int], tuple[int, int, int], tuple[int, int, int]]] = {
    f"bash__chat-bison-001__{BASH}_chat-bison-001_10_turns_fs_1": ((58, 166, 26, 44), (5, 2, 6), (6, 2, 6)),
    f"bash__chat-bison-001__{BASH}_chat-bison-001_10_turns_fs_2": ((53, 156, 24, 34), (6, 4, 10), (6, 4, 10)),
    f"bash__chat-bison-001__{BASH}_chat-bison-001_10_turns_fs_3": ((60, 240, 64, 38), (4, 3, 9), (6, 4, 14)),
    f"bash__chat-bison-001__{BASH}_chat-bison-001_10_turns_fs_4": ((27, 92, 24, 17), (3, 1, 5), (4, 2, 7)),
    f"bash__vicuna__{BASH}_vicuna_10_turns_fs_1": ((60, 530, 283, 0), (11, 5, 9), (21, 10, 20)),
    "bash__gpt-3.5__ic_bash_react_10_turns_fs_1": ((60, 290, 54, 0), (3, 3, 11), (6, 5, 18)),
    "bash__gpt-3.5__ic_bash_react_10_turns_fs_2": ((53, 303, 178, 0), (0, 0, 0), (8, 2, 4)),
    "ctf__ic_ctf_gpt-4_25_turns": ((4, 35, 0, 0), (0, 0, 0), (0, 0, 0)),
    # Its flag is null for every action, which says nothing: they are no failures, and count.
    "python__gpt-3.5__ic_python_multiturn_gpt-3.5_7_turns": ((117, 430, 0, 0), (45, 37, 54), (45, 37, 54)),
}


@pytest.mark.parametrize("name", INTERCODE)
def test_intercode(tmp_path: Path, name: str):
    (runs, calls, failed, missing), without_errors, with_errors = INTERCODE[name]
    figures, rows = load(tmp_path, "intercode", f"{name}.json.gz")
    assert figures == ("intercode", runs, calls)
    expected = {"success": calls - failed - missing, "general_tool_error": failed, None: missing}
    assert Counter(outcomes(rows)) == Counter({key: count for key, count in expected.items() if count})
    counted = [row for row in rows if row[5] is not None]
    for options, figure in (({}, without_errors), ({"counted_outcomes": COUNTED_ALL}, with_errors)):
        nudged, _, blocked, after = judge(counted, 3, 5, **options)
        assert (nudged, blocked, after) == figure


@pytest.mark.parametrize(
    ("name", "calls", "with_id", "again"),
    [
        ("ctf__misc__networking_1.traj", 4, 0, 0),
        ("ctf__pwn__warmup.traj", 7, 0, 0),
        ("function_calling_simple.traj", 5, 5, 0),
        ("replay__mm1867__function_calling__install-1__mm1867.traj.gz", 11, 11, 5),
    ],
)
def test_swe_agent(tmp_path: Path, name: str, calls: int, with_id: int, again: int):
    figures, rows = load(tmp_path, "swe-agent", name)
    assert figures == ("swe-agent", 1, calls)
    assert outcomes(rows) == {"success": calls}
    ids = [row[6] for row in rows if row[6] is not None]
    assert (len(ids), len(ids) - len(set(ids))) == (with_id, again)
    assert all(row[4] is not None for row in rows)
    assert judge(rows, 3, 5) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "calls"), [("basic.json", 1), ("basic_gui_mode.json", 4), ("wrong_initial_state.json", 3)]
)
def test_openhands(tmp_path: Path, name: str, calls: int):
    figures, rows = load(tmp_path, "openhands", name)
    assert figures == ("openhands", 1, calls)
    assert outcomes(rows) == {"success": calls}
    assert all(row[6] and row[6].startswith("toolu_") for row in rows)
    assert judge(rows, 3, 5) == (0, 0, 0, 0)


# file: requests, executed calls (tool, id), dialect of the calls, tokens given in all
LANGFUSE: dict[str, tuple[int, list[tuple[str, str]], str, int]] = {
    "agno-2025-06-11.trace.json.gz": (
        2,
        [("duckduckgo_search", "call_VybxG748CQId8Xxo6wb2pWy1")],
        "openinference",
        826,
    ),
    "koog-2025-08-26.trace.json": (
        2,
        [("ByeTool", "call_dOeEHJDI0liHrCdFWTpkTsuO"), ("HelloTool", "call_n2HaWg9KFP0BZDqXv6G4b3nJ")],
        "langfuse",
        215,
    ),
    # The server called the tool's run a span; the tool message that it gave says what it is.
    "langgraph-python-2025-08-22.trace.json": (
        2,
        [("Web-Search", "call_1oGK863sxQHlPreFhDdEs3yl")],
        "langfuse",
        168,
    ),
    "microsoft-agent-2025-12-17.trace.json": (
        2,
        [("get_weather", "call_CwaJHuXTm9dmHFQPlVbqyzJ0")],
        "agent_framework",
        293,
    ),
    "pydantic-ai-tools-2025-12-04.trace.json": (
        4,
        [
            ("get_dad_joke_suggestion", "call_WxZcCvSDhGT4RJHlcU01k10x"),
            ("get_one_liner_suggestion", "call_aRaObiWKKt6GzgDkkUl3bu1Q"),
            ("get_pun_suggestion", "call_X0OSgjUukT5inyEQvuZQnHrk"),
        ],
        "pydantic_ai",
        1315,
    ),
}


@pytest.mark.parametrize("name", LANGFUSE)
def test_langfuse(tmp_path: Path, name: str):
    requests, calls, dialect, tokens = LANGFUSE[name]
    db = tmp_path / "t.duckdb"
    path = corpus("real", "langfuse-framework-traces", name)
    (file,) = import_paths(db, [path]).files
    assert (file.format, file.runs, file.requests) == ("langfuse", 1, requests)
    assert import_paths(db, [path]).files[0].already_there
    with Store(db, create=False).lease() as con:
        rows: list[tuple[Any, ...]] = con.execute(
            "SELECT tool_name, call_id, dialect, outcome, content_state FROM tool_calls"
            " WHERE end_ns IS NOT NULL ORDER BY 1"
        ).fetchall()
        total = con.execute("SELECT sum(input_tokens)::INT FROM llm_requests").fetchall()
    assert rows == [(tool, call_id, dialect, "success", "full") for tool, call_id in calls]
    assert total == [(tokens,)]


def test_the_example_of_the_otlp_specification(tmp_path: Path):
    (file,) = import_paths(
        tmp_path / "t.duckdb", [corpus("real", "otlp-files", "opentelemetry-proto__examples_trace.json")]
    ).files
    assert (file.format, file.spans, file.error) == ("otlp-json", 1, None)
