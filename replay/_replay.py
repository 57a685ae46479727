"""The guard re-run over the store: `replay`, `call_verdicts`, `sweep`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._types import ALL, Coverage, Filters, Incident, SweepRow, Totals

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..guard import GuardPolicy

__all__ = ["ReplayResult", "call_verdicts", "replay", "sweep"]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What one policy would have done with the recorded calls."""

    policy: GuardPolicy
    filters: Filters
    coverage: Coverage
    totals: Totals
    exact: Totals  # each run up to and including its first intervention that the agent had not seen
    by_tool: dict[str, Totals]
    by_outcome: dict[str, Totals]  # success | schema_error | general_tool_error | unknown
    by_error_kind: dict[str, Totals]  # failed calls only
    incidents: tuple[Incident, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON of `loopscope replay --format json` as a dict (docs/replay.md)."""
        raise NotImplementedError


def replay(con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters = ALL) -> ReplayResult:
    """Verdicts of `policy` over the recorded calls, counted."""
    raise NotImplementedError


def call_verdicts(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    run_id: str | None = None,
    filters: Filters = ALL,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> pa.Table:
    """One row per finished call, ordered by run and seq.

    Columns: trace_id, span_id, position, run_id, agent_name, tool_name, seq, turn, start_ns, end_ns,
    outcome, error_kind, recorded_verdict, count, action (allow | nudge | block | not_counted |
    after_block), judged (avoidable | lost | unjudged | NULL: not after a block), exact (BOOLEAN).
    """
    raise NotImplementedError


def sweep(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    nudges: Iterable[int | None],
    blocks: Iterable[int | None],
    filters: Filters = ALL,
) -> list[SweepRow]:
    """Totals for every pair of default thresholds; pairs with nudge ≥ block are left out.

    Per-tool thresholds and exemptions of `policy` stay as they are.
    """
    raise NotImplementedError
