"""Stores on disk with a few calls, and labels in stores in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
from replay_rows import database

from loopscope.collector import Store, ToolCall
from loopscope.replay import Incident, find_incidents


def store_with(folder: Path, calls: Sequence[ToolCall], name: str = "t.duckdb") -> Store:
    """A store file with these calls."""
    store = Store(folder / name)
    with store.write() as con:
        database(calls, con=con)
    return store


def say(con: duckdb.DuckDBPyConnection, labels: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
    """Put labels (incident key → verdict) into a store in memory."""
    for key, verdict in labels.items():
        con.execute("INSERT INTO labels VALUES (?, ?, NULL, TIMESTAMP '2026-01-01')", [key, verdict])
    return con


def by_run(con: duckdb.DuckDBPyConnection) -> dict[str, Incident]:
    """The only incident of each run."""
    found = find_incidents(con)
    assert len(found) == len({one.run_id for one in found})
    return {one.run_id: one for one in found}
