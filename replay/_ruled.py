"""What recorded calls came to by a policy's own rules for outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..guard import RecordedCall
from ._part import Part, runs_offered
from ._sql import arrow, filtered

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..guard import GuardPolicy
    from ._facts import Facts

__all__ = ["changed_outcomes"]

_BATCH = 500  # whole results may be large

_COLUMNS = (
    "tool_name",
    "outcome",
    "error_kind",
    "error_type",
    "http_status",
    "result",
    "result_content",
    "error_message",
    "error_message_content",
)


def changed_outcomes(
    facts: Facts,
    store: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    outcomes: tuple[str, ...],
    part: Part | None,
) -> pa.Table:
    """Calls that `outcome_rules` see as something else than was recorded: run, seq, outcome, kind (numbers).

    `outcomes` names the numbers of outcomes. Kinds that no recording has are added to the facts' names.
    """
    import pyarrow as pa

    with runs_offered(store, facts, part) as condition:
        found = _ruled(facts, store, policy, outcomes, condition) if policy.outcome_rules else []
        types = {name: pa.string() for name in _COLUMNS}
        types |= {
            "http_status": pa.int32(),
            "result_content": pa.int64(),
            "error_message_content": pa.int64(),
        }
        types |= {"ruled_outcome": pa.int8(), "ruled_kind": pa.int32()}
        columns = list(zip(*found, strict=True)) or [()] * len(types)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
        store.register("ruled_texts", pa.Table.from_arrays(arrays, list(types)))
        try:
            return arrow(store, filtered("changed_outcomes", condition))
        finally:
            store.unregister("ruled_texts")


def _ruled(
    facts: Facts,
    store: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    outcomes: tuple[str, ...],
    condition: str,
) -> list[tuple[Any, ...]]:
    """Different calls with what the rules say of them, where that is something else."""
    rules = policy.outcome_rules
    tools = {rule.tool for rule in rules}
    found: list[tuple[Any, ...]] = []
    texts = store.execute(
        filtered("ruled_texts", condition),
        {
            "tools": None if None in tools else sorted(tool for tool in tools if tool is not None),
            "successes": any(rule.on_success for rule in rules),
            "failures": not all(rule.on_success for rule in rules),
        },
    )
    while batch := texts.fetchmany(_BATCH):
        for *stored, result, error in batch:
            call = _recorded(stored, result, error)
            outcome, kind = policy.classify_recorded(call)
            if outcome is None or (outcome, kind) == (call.outcome, call.error_kind):
                continue
            found.append((*stored, outcomes.index(outcome), _number(facts, kind, outcome == "success")))
    return found


def _recorded(stored: list[Any], result: str | None, error: str | None) -> RecordedCall:
    tool_name, outcome, error_kind, error_type, http_status, *_ = stored
    return RecordedCall(
        tool_name,
        None,
        result,
        outcome,
        error_type=error_type,
        error_message=error,
        http_status=http_status,
        error_kind=error_kind,
    )


def _number(facts: Facts, kind: str | None, success: bool) -> int:
    """The number of a kind among the facts' names; as there, a success has none and others some."""
    name = None if success else str(kind or "unknown")
    names = facts.names["kind"]
    if name not in names:
        names.append(name)
    return names.index(name)
