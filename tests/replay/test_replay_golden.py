"""Golden rows of the statements that count and judge: a small table in, every row out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from loopscope.replay._sql import sql_text

# unit, ord, key, result, outcome: three runs. Run 1 loops with other work between, and gets another answer
# once; run 2 lies in run 1 and starts late; nothing in run 3 happens twice.
CALLS = [
    (1, 1, 10, 7, 1),
    (1, 2, 10, 7, 1),
    (1, 3, 11, 8, 1),
    (1, 4, 10, 7, 3),  # a general error: neither counts nor resets
    (1, 5, 10, 7, 1),
    (1, 6, 10, 9, 1),
    (1, 7, 10, 7, 1),
    (2, 1, 20, 7, 1),
    (3, 1, 30, 7, 1),
    (3, 2, 31, 7, 1),
    (3, 3, None, 7, 1),
]
# A tool of its own for the second call of run 3.
TOOL_OF = {(3, 2): 1}


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """`counting` and `nesting` as sql/calls.sql wants them, then the tables made of them, in their order."""
    with duckdb.connect(":memory:") as con:
        columns = "unit INTEGER, ord INTEGER, key BIGINT, result BIGINT, outcome TINYINT, tool INTEGER"
        con.execute(f"CREATE TABLE made ({columns})")
        con.executemany(
            "INSERT INTO made VALUES (?, ?, ?, ?, ?, ?)", [(*row, TOOL_OF.get(row[:2], 0)) for row in CALLS]
        )
        con.execute(
            """
            CREATE TABLE counting AS
            SELECT
                unit AS run, ord AS seq, NULL AS turn, tool, 0 AS agent, 0 AS service, 0 AS dialect,
                0 AS kind, outcome, 0 AS seen, FALSE AS truncated, unit, ord, key, key AS slot, key AS series,
                FALSE AS err, 0 AS resets_before, 0 AS successes_before, result,
                100 * unit + 10 * ord AS start_ns,
                100 * unit + 10 * ord + 5 AS end_ns, key IS NOT NULL AND outcome = 1 AS counted,
                key IS NOT NULL AND outcome = 1 AS judgeable, FALSE AS unlike
            FROM made
            """
        )
        con.execute("CREATE TABLE nesting AS SELECT 2 AS run, 1 AS ancestor, 199 AS run_start_ns")
        con.execute(f"CREATE TABLE again AS {sql_text('again')}", {"first": 1, "last": 3})
        con.execute(f"CREATE TABLE loud AS {sql_text('calls')}")
        con.execute("CREATE TABLE busy_units AS SELECT DISTINCT unit FROM loud")
        con.execute(f"CREATE TABLE quiet_calls AS {sql_text('quiet_calls')}")
        con.execute("CREATE VIEW calls AS SELECT * FROM loud UNION ALL SELECT * FROM quiet_calls")
        con.execute("CREATE VIEW busy_calls AS SELECT * FROM calls")
        yield con


def rows(
    con: duckdb.DuckDBPyConnection, query: str, params: dict[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    return con.execute(query, params or {}).fetchall()


SAID = "SELECT unit, ord, count, streak, judged, top FROM {} ORDER BY unit, ord"


def test_only_calls_that_occur_twice_are_compared(con: duckdb.DuckDBPyConnection) -> None:
    assert rows(con, "SELECT unit, ord FROM again ORDER BY unit, ord") == [(1, n) for n in (1, 2, 4, 5, 6, 7)]


def test_calls_of_busy_units(con: duckdb.DuckDBPyConnection) -> None:
    assert rows(con, SAID.format("loud")) == [
        (1, 1, 1, 1, 1, 3),
        (1, 2, 2, 1, 0, 3),
        (1, 3, 1, 3, 1, 3),
        (1, 4, 2, 1, 2, 3),  # the count so far, and nothing to judge
        (1, 5, 3, 1, 0, 3),
        (1, 6, 1, 6, 1, 3),
        (1, 7, 1, 7, 0, 3),  # counts from 1 again, though the run knew the answer
        (2, 1, 1, 1, 1, 3),  # in a run with a count of 3
    ]


def test_calls_of_quiet_units(con: duckdb.DuckDBPyConnection) -> None:
    assert rows(con, SAID.format("quiet_calls")) == [
        (3, 1, 1, 1, 1, 1),
        (3, 2, 1, 2, 1, 1),
        (3, 3, 0, None, 2, 1),
    ]


def test_both_tables_have_one_shape(con: duckdb.DuckDBPyConnection) -> None:
    assert rows(con, "SELECT column_name FROM duckdb_columns() WHERE table_name = 'loud'") == rows(
        con, "SELECT column_name FROM duckdb_columns() WHERE table_name = 'quiet_calls'"
    )


def thresholds(nudge: int | None, block: int | None, **more: Any) -> dict[str, Any]:
    """Of two tools; the second one is exempt."""
    return {
        "tools": [0, 1],
        "nudges": [nudge] * 2,
        "blocks": [block] * 2,
        "error_nudges": [None] * 2,
        "error_blocks": [None] * 2,
        "exempt": [False, True],
        **more,
    }


def test_verdicts(con: duckdb.DuckDBPyConnection) -> None:
    query = (
        f"{sql_text('verdicts')} SELECT unit, ord, action, exact, touched FROM verdicts ORDER BY unit, ord"
    )
    found = rows(con, query, {**thresholds(2, 3), "resets": [False] * 2, "wide": False})
    assert found == [
        (1, 1, 0, True, True),
        (1, 2, 1, True, True),
        (1, 3, 0, False, True),
        (1, 4, 3, False, True),
        (1, 5, 2, False, True),
        (1, 6, 4, False, True),
        (1, 7, 4, False, True),
        (2, 1, 4, False, True),  # started after the block around it
        (3, 1, 0, True, False),
        (3, 2, 0, True, False),
        (3, 3, 3, True, False),
    ]


def test_totals(con: duckdb.DuckDBPyConnection) -> None:
    query = sql_text("verdicts", "totals")
    found = con.execute(query, {**thresholds(2, 3), "resets": [False] * 2, "wide": False, "by": "all"})
    names = [column[0] for column in found.description or ()]
    (row,) = found.fetchall()
    assert {name: value for name, value in zip(names, row, strict=True) if value} == {
        "runs": 2,
        "calls": 8,
        "runs_nudged": 1,
        "runs_blocked": 1,
        "calls_nudged": 1,
        "calls_blocked": 1,
        "calls_avoidable": 1,
        "calls_lost": 2,
        "exact_runs": 1,
        "exact_calls": 2,
        "exact_runs_nudged": 1,
        "exact_calls_nudged": 1,
    }


def swept(con: duckdb.DuckDBPyConnection, *names: str, **more: Any) -> list[tuple[Any, ...]]:
    values = thresholds(2, 3, own_nudge=[False] * 2, own_block=[False] * 2, **more)
    query = sql_text(*names)
    used = {name: value for name, value in values.items() if f"${name}" in query}
    return sorted(rows(con, query, used), key=str)


def test_a_sweep_of_blocks(con: duckdb.DuckDBPyConnection) -> None:
    # cell, runs and calls blocked, avoidable, lost, unjudged
    assert swept(con, "sweep_base", "sweep_blocks", cells=[0, 2, 3, 4]) == [
        (2, 1, 1, 2, 3, 1),
        (3, 1, 1, 1, 2, 0),
    ]


def test_a_sweep_of_nudges(con: duckdb.DuckDBPyConnection) -> None:
    # cell, level, calls, runs: what a block at 3 takes away and puts back, and all without a block
    assert swept(con, "sweep_base", "sweep_nudges", cells=[0, 3], cap=3, lowest=2) == [
        (3, 2, 0, 1),
        (3, 3, -1, 0),
        (3, 3, 0, -1),
        (None, 2, 1, 0),
        (None, 3, 0, 1),
        (None, 3, 1, 0),
    ]


def test_a_threshold_of_one_in_quiet_units(con: duckdb.DuckDBPyConnection) -> None:
    assert swept(con, "sweep_quiet", cap=3) == [(None, 1, 0, 1), (None, 1, 1, 0)]
