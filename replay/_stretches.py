"""Stretches of calls that went round in a circle: which calls, no more.

SQL finds the candidates; only what needs texts or a look at whole sequences is done in Python, on the
few runs where it may matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..guard import GuardPolicy
from ._facts import Facts, span_of
from ._mask import mask_error
from ._sql import arrow, sql_text
from ._types import IncidentKind

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["Stretch", "call_table", "call_texts", "cycles_in", "find_stretches", "keep_members"]

_REPEATS = 3  # calls that make a stretch
_LAPS = 3
_PERIODS = range(2, 6)
_TEXT_LIMIT = 4_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """The calls of one incident. `run`: number of the run; `seqs`: its calls in order of counting."""

    kind: IncidentKind
    run: int
    seqs: tuple[int, ...]
    period: int = 1  # different calls of one lap
    folded: int = 0  # loops and retry storms that are part of a cycle


def find_stretches(
    facts: Facts, store: duckdb.DuckDBPyConnection, runs: Collection[int] | None = None
) -> list[Stretch]:
    """All stretches of the store, or of these runs, by run and first call."""
    con = facts.cursor()
    # Incidents do not depend on a policy: counting is the default one's.
    counted = facts.counted(store, GuardPolicy())
    only = ""
    if runs is not None:
        con.execute("CREATE TEMP TABLE some_runs AS SELECT unnest($runs) AS run", {"runs": sorted(runs)})
        low, high = (min(runs), max(runs)) if runs else (0, 0)
        only = f"WHERE run BETWEEN {low:d} AND {high:d} AND run IN (SELECT run FROM some_runs)"  # noqa: S608
    # Only errors of one kind go round with calls that differ; for all else a call occurs twice in its run.
    con.execute(f"CREATE TEMP VIEW all_calls AS SELECT * FROM {counted} {only}")  # noqa: S608
    con.execute(f"CREATE TEMP TABLE calls AS SELECT * FROM ({counted.busy(0)}) {only}")  # noqa: S608

    def plain(kind: IncidentKind, statement: str) -> list[Stretch]:
        found = arrow(con, sql_text(statement))
        pairs = zip(found.column("run").to_pylist(), found.column("seqs").to_pylist(), strict=True)
        return [Stretch(kind, run, tuple(seqs)) for run, seqs in pairs]

    repeats = [
        *plain(IncidentKind.LOOP, "loops"),
        *plain(IncidentKind.RETRY_STORM, "retry_storms"),
    ]
    cycles = _cycles(con)
    errors = _same_errors(facts, store, con)
    cycles, repeats, errors = _fold_into(cycles, repeats, errors)
    taken = {(one.run, seq) for one in (*cycles, *repeats) for seq in one.seqs}
    # Two different arguments taking turns are the same error only if nothing else tells of them.
    errors = [one for one in errors if one.period > 2 or not any((one.run, seq) in taken for seq in one.seqs)]
    twins = plain(IncidentKind.TWINS, "twins")
    return sorted([*repeats, *cycles, *errors, *twins], key=lambda one: (one.run, one.seqs, one.kind))


def _cycles(con: duckdb.DuckDBPyConnection) -> list[Stretch]:
    found: list[Stretch] = []
    table = arrow(con, sql_text("cycle_candidates"))
    columns = (table.column(name).to_pylist() for name in ("run", "agent", "seq", "key", "result"))
    for (run, _), group in groupby(zip(*columns, strict=True), key=lambda row: row[:2]):
        calls = list(group)
        symbols: list[Any] = [
            # A call without arguments or result equals no other.
            (key, result) if key is not None and result is not None else (seq,)
            for _, _, seq, key, result in calls
        ]
        for first, last, period in cycles_in(symbols):
            seqs = tuple(call[2] for call in calls[first : last + 1])
            found.append(Stretch(IncidentKind.CYCLE, run, seqs, period))
    return found


def cycles_in(symbols: Sequence[Any]) -> list[tuple[int, int, int]]:
    """(first, last, period) of stretches that repeat with period 2 to 5 for at least three laps.

    Stretches are maximal, shortest period first, and do not overlap. A lap of one symbol only is
    no cycle but a loop.
    """
    taken = [False] * len(symbols)
    found: list[tuple[int, int, int]] = []
    for period in _PERIODS:
        start: int | None = None
        for at in range(period, len(symbols) + 1):
            same = at < len(symbols) and symbols[at] == symbols[at - period] and not taken[at]
            if same and start is None and not taken[at - period]:
                start = at - period
            elif not same and start is not None:
                last = at - 1
                if (
                    last - start + 1 >= _LAPS * period
                    and len(set(symbols[start : start + period])) > 1
                    and not any(taken[start : last + 1])
                ):
                    found.append((start, last, period))
                    taken[start : last + 1] = [True] * (last - start + 1)
                start = None
    return sorted(found)


def _same_errors(
    facts: Facts, store: duckdb.DuckDBPyConnection, con: duckdb.DuckDBPyConnection
) -> list[Stretch]:
    table = arrow(con, sql_text("error_stretches"))
    if not table.num_rows:
        return []
    texts = call_texts(facts, store, ((0, 0, run, seq) for run, seq in _pairs(table)), _TEXT_LIMIT)
    masked = {
        (row["run"], row["seq"]): None
        if row["error_text"] is None
        else mask_error(row["error_text"], row["arguments"])
        for row in texts
    }
    names = ("run", "agent", "tool", "stretch", "seq", "key")
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    found: list[Stretch] = []
    for (run, *_), group in groupby(rows, key=lambda row: row[:4]):
        calls = [(seq, key, masked.get((run, seq))) for *_, seq, key in group]
        for text, part in groupby(calls, key=lambda call: call[2]):
            stretch = list(part)
            # Arguments that were not recorded may be anything; they make nothing different.
            different = len({key for _, key, _ in stretch if key is not None})
            if text is not None and len(stretch) >= _REPEATS and different >= 2:
                seqs = tuple(seq for seq, _, _ in stretch)
                found.append(Stretch(IncidentKind.SAME_ERROR, run, seqs, different))
    return found


def _fold_into(
    cycles: list[Stretch], repeats: list[Stretch], errors: list[Stretch]
) -> tuple[list[Stretch], list[Stretch], list[Stretch]]:
    """Leave out what is no incident without the calls of a cycle; the cycles say how many loops that is."""
    owner = {(one.run, seq): number for number, one in enumerate(cycles) for seq in one.seqs}
    folded = [0] * len(cycles)

    def alone(one: Stretch) -> bool:
        inside = [owner[one.run, seq] for seq in one.seqs if (one.run, seq) in owner]
        if not inside or len(one.seqs) - len(inside) >= _REPEATS:
            return True
        if one.kind is not IncidentKind.SAME_ERROR:
            folded[inside[0]] += 1
        return False

    repeats = [one for one in repeats if alone(one)]
    errors = [one for one in errors if alone(one)]
    cycles = [
        Stretch(one.kind, one.run, one.seqs, one.period, count)
        for one, count in zip(cycles, folded, strict=True)
    ]
    return cycles, repeats, errors


def _pairs(table: pa.Table) -> Iterable[tuple[int, int]]:
    return zip(table.column("run").to_pylist(), table.column("seq").to_pylist(), strict=True)


def call_table(calls: Iterable[tuple[int, int, int, int]]) -> pa.Table:
    """An Arrow table of a few calls: incident, number, run, seq."""
    import pyarrow as pa

    columns = list(zip(*calls, strict=True)) or [()] * 4
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return pa.Table.from_arrays(arrays, ["incident", "number", "run", "seq"])


def keep_members(facts: Facts, stretches: Sequence[Stretch], first: int) -> None:
    """Add the calls of the stretches, in order, to the table `member_rows` of the facts' database.

    Columns: incident (of the stretches, from `first`), number (from 1), run, seq, by_tool.
    """
    import pyarrow as pa

    columns = (
        pa.array(range(first, first + len(stretches)), pa.int64()),
        pa.array([one.run for one in stretches], pa.int32()),
        pa.array([one.seqs for one in stretches], pa.list_(pa.int32())),
        pa.array([one.kind is IncidentKind.SAME_ERROR for one in stretches], pa.bool_()),
    )
    con = facts.cursor()
    con.register("stretches", pa.Table.from_arrays(columns, ["incident", "run", "seqs", "by_tool"]))
    con.execute(
        "CREATE TABLE IF NOT EXISTS member_rows "
        "(incident BIGINT, number BIGINT, run INTEGER, seq INTEGER, by_tool BOOLEAN)"
    )
    con.execute(
        "INSERT INTO member_rows "
        "SELECT incident, generate_subscripts(seqs, 1) AS number, run, unnest(seqs) AS seq, by_tool "
        "FROM stretches"
    )
    con.unregister("stretches")


def call_texts(
    facts: Facts, store: duckdb.DuckDBPyConnection, calls: Iterable[tuple[int, int, int, int]], limit: int
) -> list[dict[str, Any]]:
    """Who made the calls and what they said (sql/incident_heads.sql); texts cut at `limit` characters."""
    wanted = call_table(calls)
    span = span_of(facts, wanted)
    if span is None:
        return []
    store.register("wanted_calls", wanted)
    store.register("run_names", facts.runs)
    try:
        return arrow(store, sql_text("incident_heads"), {"limit": limit, **span}).to_pylist()
    finally:
        store.unregister("wanted_calls")
        store.unregister("run_names")
