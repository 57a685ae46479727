"""What fails, how, and does the guard count it?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..guard import GuardPolicy
from ._counting import OUTCOMES
from ._coverage import covered
from ._engine import Judging
from ._facts import Facts, facts_of
from ._filters import ALL, Filters, fact_filter
from ._mask import mask_error
from ._sql import rows, sql_text
from ._stretches import call_texts
from ._time import TIMED_FROM, bucket_width, untimed
from ._types import ErrorBreakdown, ErrorBucket, ErrorCell, ErrorGroup, NamedErrors, NotCountedReason

if TYPE_CHECKING:
    import duckdb

__all__ = ["error_breakdown"]

_SIGNATURES = 20_000  # different texts that are grouped
_TEXT_LIMIT = 1_000  # characters of a text that are looked at and shown
_SAMPLES = 3

_EXPLANATIONS = {
    "exempt": "the policy exempts the tool",
    "general_tool_error": "the tool or the network failed; trying again is what an agent should do",
    "no_outcome": "nothing was recorded of how the call ended",
    "no_arguments": "its arguments were not recorded",
    "no_result": "its result was not recorded",
    "outcome_not_counted": "the policy does not count calls that end this way",
}


def error_breakdown(
    con: duckdb.DuckDBPyConnection,
    filters: Filters = ALL,
    policy: GuardPolicy | None = None,
    *,
    buckets: int = 48,
    groups: int = 100,
) -> ErrorBreakdown:
    """Failed calls by tool and kind, over time, and grouped by masked text. No policy: the default one."""
    policy = policy or GuardPolicy()
    facts = facts_of(con)
    judging = Judging(facts, con, policy)
    where, params = fact_filter(filters, facts, con)
    kinds = [name or "unknown" for name in facts.names["kind"]]

    def ask(statement: str, **more: Any) -> list[dict[str, Any]]:
        return judging.arrow(statement, {**params, **more}, where).to_pylist()

    listed = [
        ErrorCell(
            tool_name=facts.tools[row["tool"]],
            error_kind=kinds[row["kind"]],
            outcome=OUTCOMES[row["outcome"]],
            calls=row["calls"],
            counted=row["counted"],
        )
        for row in ask("error_cells")
    ]
    cells = tuple(sorted(listed, key=lambda one: (-one.calls, one.tool_name, one.error_kind, one.outcome)))
    figures = ask("figures")[0]
    width = 0
    over_time: tuple[ErrorBucket, ...] = ()
    dated, timed, timed_params = figures, where, params
    if untimed(figures["first_ns"]):  # a made-up time would stretch the axis over decades
        since = replace(filters, since=max(filters.since or 0, TIMED_FROM))
        timed, timed_params = fact_filter(since, facts, con)
        dated = judging.arrow("figures", timed_params, timed).to_pylist()[0]
    if dated["calls"]:
        origin, width = bucket_width(dated["first_ns"], dated["last_ns"], buckets)
        found = judging.arrow("error_buckets", {**timed_params, "origin": origin, "width": width}, timed)
        over_time = tuple(
            ErrorBucket(origin + row["bucket"] * width, kinds[row["kind"]], row["calls"])
            for row in found.to_pylist()
        )
    failed = sum(cell.calls for cell in cells)
    grouped = _groups(facts, con, judging, where, params)
    return ErrorBreakdown(
        calls=figures["calls"],
        failed=failed,
        counted=sum(cell.counted for cell in cells),
        by_tool=cells,
        bucket_ns=width,
        buckets=over_time,
        groups=tuple(grouped[:groups]),
        groups_total=len(grouped),
        calls_grouped=sum(group.calls for group in grouped),
        not_counted=tuple(
            NotCountedReason(row["reason"], row["calls"], _EXPLANATIONS[row["reason"]])
            for row in ask("not_counted", counts_errors="general_tool_error" in policy.counted_outcomes)
        ),
        coverage=covered(facts, con, filters),
        by_agent=_most_first(
            NamedErrors(facts.names["agent"][row["agent"]], kinds[row["kind"]], row["calls"])
            for row in ask("error_named")
        ),
        by_model=_by_model(facts, con, judging, where, params, kinds) if failed else (),
        calls_untimed=failed - sum(bucket.calls for bucket in over_time),
    )


def _by_model(
    facts: Facts,
    store: duckdb.DuckDBPyConnection,
    judging: Judging,
    where: str,
    params: dict[str, Any],
    kinds: list[str],
) -> tuple[NamedErrors, ...]:
    store.register("failed_turns", judging.arrow("error_turns", params, where))
    store.register("run_names", facts.runs)
    try:
        found = rows(store, sql_text("error_models"))
    finally:
        store.unregister("failed_turns")
        store.unregister("run_names")
    return _most_first(NamedErrors(row["model"], kinds[row["kind"]], row["calls"]) for row in found)


def _most_first(found: Iterable[NamedErrors]) -> tuple[NamedErrors, ...]:
    return tuple(sorted(found, key=lambda one: (-one.calls, one.name or "", one.error_kind)))


def _groups(
    facts: Facts, store: duckdb.DuckDBPyConnection, judging: Judging, where: str, params: dict[str, Any]
) -> list[ErrorGroup]:
    import pyarrow as pa

    table = judging.arrow("error_signatures", {**params, "limit": _SIGNATURES}, where)
    signatures = table.to_pylist()
    if not signatures:
        return []
    wanted = ((number, 1, row["run"], row["seq"]) for number, row in enumerate(signatures))
    heads = {row["incident"]: row for row in call_texts(facts, store, wanted, _TEXT_LIMIT)}
    ids: dict[tuple[Any, ...], int] = {}
    samples: list[list[str]] = []
    runs: list[str] = []
    of_signature: list[int] = []
    for number, row in enumerate(signatures):
        head = heads.get(number, {"error_text": None, "arguments": None, "run_id": ""})
        text = head["error_text"]
        masked = None if text is None else mask_error(text, head["arguments"])
        group = ids.setdefault((row["tool"], row["kind"], row["outcome"], masked), len(ids))
        if group == len(samples):
            samples.append([])
            runs.append(head["run_id"])
        if text is not None and len(samples[group]) < _SAMPLES and text not in samples[group]:
            samples[group].append(text)
        of_signature.append(group)
    columns = table.select(["tool", "kind", "outcome", "result"])
    judging.con.register("signatures", columns.append_column("id", pa.array(of_signature, pa.int64())))
    found = judging.arrow("error_groups", params, where).to_pylist()
    names = {group: name for name, group in ids.items()}
    return [
        ErrorGroup(
            tool_name=facts.tools[names[row["id"]][0]],
            error_kind=facts.names["kind"][names[row["id"]][1]] or "unknown",
            outcome=OUTCOMES[names[row["id"]][2]],
            text=names[row["id"]][3],
            calls=row["calls"],
            runs=row["runs"],
            counted=row["counted"],
            first_ns=row["first_ns"],
            last_ns=row["last_ns"],
            samples=tuple(samples[row["id"]]),
            sample_run_id=runs[row["id"]],
        )
        for row in found
    ]
