"""The calls of one run with their verdicts."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from .._engine import ACTIONS, Judging
from .._facts import Facts, facts_of
from .._sql import rows, sql_text
from ._types import RunCall, RunCalls

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import duckdb

    from ...guard import GuardPolicy

__all__ = ["calls_with_ids", "run_calls", "verdicts_of"]

Verdict = tuple[str, int, bool]  # action, count, exact
_FIELDS = tuple(field.name for field in fields(RunCall) if field.name not in ("action", "count", "exact"))


def run_calls(
    con: duckdb.DuckDBPyConnection,
    run_id: str,
    policy: GuardPolicy,
    *,
    actions: Collection[str] = (),
    failed: bool = False,
    span: tuple[str, str] | None = None,
    limit: int = 100,
    offset: int = 0,
    text_limit: int = 20_000,
) -> RunCalls:
    """Calls of a run in the order of counting, `limit` of them from `offset` on; those that never ended
    come last.

    `actions` leaves calls with these verdicts, `failed` those that failed, `span` (trace id, span id)
    those of a span. Texts are cut at `text_limit` characters.
    """
    facts = facts_of(con)
    verdicts = verdicts_of(facts, con, policy, [run_id]).get(run_id, {})
    conditions, params = (
        ["TRUE"],
        {"run_id": run_id, "limit": limit, "offset": offset, "text_limit": text_limit},
    )
    if actions:
        wanted = frozenset(actions)
        conditions.append("c.seq IN (SELECT unnest($seqs))")
        params["seqs"] = [seq for seq, verdict in verdicts.items() if verdict[0] in wanted]
    if failed:
        conditions.append("c.outcome IN ('schema_error', 'general_tool_error')")
    if span is not None:
        conditions.append("c.trace_id = $trace_id AND c.span_id = $span_id")
        params["trace_id"], params["span_id"] = span
    found = _rows(con, " AND ".join(conditions), params)
    return RunCalls(_calls(found, verdicts), found[0]["total"] if found else 0)


def calls_with_ids(
    con: duckdb.DuckDBPyConnection,
    run_id: str,
    policy: GuardPolicy,
    call_ids: Sequence[str],
    text_limit: int,
) -> tuple[RunCall, ...]:
    """The calls of a run under these call ids."""
    if not call_ids:
        return ()
    params: dict[str, Any] = {"run_id": run_id, "limit": 2_000, "offset": 0, "text_limit": text_limit}
    found = _rows(con, "c.call_id IN (SELECT unnest($ids))", {**params, "ids": list(call_ids)})
    return _calls(found, verdicts_of(facts_of(con), con, policy, [run_id]).get(run_id, {}))


def _rows(con: duckdb.DuckDBPyConnection, condition: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    return rows(con, sql_text("traces_run_calls").replace("TRUE /* which */", condition), params)


def _calls(found: Sequence[dict[str, Any]], verdicts: Mapping[int, Verdict]) -> tuple[RunCall, ...]:
    made: list[RunCall] = []
    for row in found:
        action, count, exact = verdicts.get(row["seq"], (None, 0, False))
        values = {name: row[name] for name in _FIELDS}
        made.append(RunCall(**values, action=action, count=count, exact=exact))
    return tuple(made)


def verdicts_of(
    facts: Facts, con: duckdb.DuckDBPyConnection, policy: GuardPolicy, run_ids: Sequence[str]
) -> dict[str, dict[int, Verdict]]:
    """Action, count and exact of the finished calls of runs: by run id, then by seq."""
    memory = facts.cursor()
    found = memory.execute(
        "SELECT run, run_id FROM runs WHERE run_id IN (SELECT unnest($ids))", {"ids": list(run_ids)}
    ).fetchall()
    names: dict[int, str] = dict(found)
    if not names:
        return {}
    judging = Judging(facts, con, policy, list(names))
    table = judging.arrow("call_verdicts", {"shown": list(names)}, "run IN (SELECT unnest($shown))")
    columns = [table.column(name).to_pylist() for name in ("run", "seq", "action", "count", "exact")]
    made: dict[str, dict[int, Verdict]] = {run_id: {} for run_id in names.values()}
    for run, seq, action, count, exact in zip(*columns, strict=True):
        made[names[run]][seq] = (ACTIONS[action], count, exact)
    return made
