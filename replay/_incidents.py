"""Incidents: stretches of calls that went round in a circle, with what they cost and how they ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ._engine import OUTCOMES, Judging
from ._facts import Facts, facts_of
from ._filters import ALL, Filters, runs_with
from ._mask import mask, mask_error
from ._sql import arrow, rows, sql_text
from ._stretches import Stretch, call_table, call_texts, find_stretches
from ._types import Incident, IncidentKind

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["Found", "agent_spans", "all_incidents", "find_incidents", "mark"]

_KEY_VERSION = 1
_SAMPLE = 2_000  # characters of a sample text

Found = tuple[Incident, Stretch]


def find_incidents(
    con: duckdb.DuckDBPyConnection, filters: Filters = ALL, policy: GuardPolicy | None = None
) -> list[Incident]:
    """All incidents that touch the filter, most repeated calls first.

    They do not depend on thresholds. With a `policy` each incident also says where that policy's
    nudge and block fall.
    """
    facts = facts_of(con)
    found = [pair for pair in all_incidents(facts, con) if _touches(filters, pair[0])]
    if filters.models:
        runs = set(runs_with(filters, facts, con))
        found = [pair for pair in found if pair[1].run in runs]
    if policy is not None:
        return mark(facts, con, found, policy)
    return [incident for incident, _ in found]


def all_incidents(facts: Facts, store: duckdb.DuckDBPyConnection) -> list[Found]:
    """Every incident of the store with its calls, most repeated calls first. Worked out once per state."""
    with facts.lock:
        if "incidents" not in facts.memo:
            facts.memo["incidents"] = _describe(facts, store, find_stretches(facts, store))
        return facts.memo["incidents"]


def mark(
    facts: Facts, store: duckdb.DuckDBPyConnection, found: Sequence[Found], policy: GuardPolicy
) -> list[Incident]:
    """The incidents with where the policy's nudge and block fall."""
    if not found:
        return []
    judging = Judging(facts, store, policy, {stretch.run for _, stretch in found})
    judging.con.register("members", call_table(_members(stretch for _, stretch in found)))
    marks = {row["incident"]: row for row in judging.arrow("incident_marks", {}).to_pylist()}
    marked: list[Incident] = []
    for number, (incident, _) in enumerate(found):
        row = marks[number]
        marked.append(
            replace(
                incident,
                nudge_at=row["nudge_at"],
                block_at=row["block_at"],
                after_block=row["after_block"],
                after_block_avoidable=row["after_block_avoidable"],
                exact=bool(row["exact"]),
            )
        )
    return marked


def _touches(filters: Filters, incident: Incident) -> bool:
    return (
        (filters.since is None or incident.last_ns >= filters.since)
        and (filters.until is None or incident.first_ns < filters.until)
        and (not filters.services or incident.service_name in filters.services)
        and (not filters.agents or incident.agent_name in filters.agents)
        and (not filters.tools or not set(filters.tools).isdisjoint(incident.tools))
        and (not filters.run_ids or incident.run_id in filters.run_ids)
        and (not filters.sessions or incident.session_id in filters.sessions)
        and (not filters.dialects or incident.dialect in filters.dialects)
    )


def _members(stretches: Iterable[Stretch]) -> Iterable[tuple[int, int, int, int]]:
    for incident, stretch in enumerate(stretches):
        for number, seq in enumerate(stretch.seqs, 1):
            yield incident, number, stretch.run, seq


def _describe(facts: Facts, store: duckdb.DuckDBPyConnection, stretches: list[Stretch]) -> list[Found]:
    if not stretches:
        return []
    import pyarrow as pa

    members = call_table(_members(stretches))
    by_tool = [stretch.kind is IncidentKind.SAME_ERROR for stretch in stretches for _ in stretch.seqs]
    con = facts.cursor()
    # The facts alone know time and tool; counting is not asked for.
    con.execute("CREATE TEMP VIEW calls AS SELECT * FROM facts")
    con.register("members", members.append_column("by_tool", pa.array(by_tool)))
    spans = arrow(con, sql_text("incident_facts"))
    costs = _costs(store, spans)
    ended_ok = _ended_ok(store, set(spans.column("run_id").to_pylist()))
    heads: dict[int, list[dict[str, Any]]] = {}
    wanted = (
        (incident, number, run, seq)
        for incident, number, run, seq in _members(stretches)
        if number <= (stretches[incident].period if stretches[incident].kind is IncidentKind.CYCLE else 1)
    )
    for row in call_texts(facts, store, wanted, _SAMPLE):
        heads.setdefault(row["incident"], []).append(row)
    found: list[Found] = []
    for span in spans.to_pylist():
        number = span["incident"]
        if number in heads:  # else the store was pruned under our feet
            incident = _incident(facts, stretches[number], span, heads[number], costs.get(number), ended_ok)
            found.append((incident, stretches[number]))
    found.sort(key=lambda pair: (-pair[0].repeated_calls, -pair[0].last_ns, pair[0].key))
    return found


def _incident(
    facts: Facts,
    stretch: Stretch,
    span: dict[str, Any],
    heads: list[dict[str, Any]],
    cost: dict[str, Any] | None,
    ended_ok: set[str],
) -> Incident:
    head = heads[0]
    failed = span["outcome"] in (2, 3)
    error_text = head["error_text"] if failed else None
    another, other = span["another_result"], span["other_work"]
    calls = span["calls"]
    new = {IncidentKind.CYCLE: stretch.period, IncidentKind.SAME_ERROR: 1}.get(stretch.kind, 1)
    tools = tuple(dict.fromkeys(facts.tools[tool] for tool in span["tools"]))
    return Incident(
        key=_key(stretch.kind, head, span["key"], facts.names["agent"][span["agent"]]),
        kind=stretch.kind,
        run_id=span["run_id"],
        parent_run_id=head["parent_run_id"],
        run_source=head["run_source"],
        trace_id=head["trace_id"],
        span_id=head["span_id"],
        position=head["position"],
        session_id=head["session_id"],
        service_name=facts.names["service"][span["service"]],
        agent_name=facts.names["agent"][span["agent"]],
        tool_name=head["tool_name"],
        tools=tools,
        calls=calls,
        different_calls=stretch.period if stretch.kind in _SEVERAL else 1,
        folded_loops=stretch.folded,
        repeated_calls=calls - new,
        laps=calls // stretch.period if stretch.kind is IncidentKind.CYCLE else calls,
        first_ns=span["first_ns"],
        last_ns=span["last_ns"],
        tool_ns=span["tool_ns"],
        requests=cost["requests"] if cost else 0,
        input_tokens=cost["input_tokens"] if cost else None,
        output_tokens=cost["output_tokens"] if cost else None,
        cost=cost["cost"] if cost else None,
        resolved=bool(another or other),
        ending="another_result" if another else "other_work" if other else "run_ended",
        interleaved=span["last_seq"] - span["first_seq"] + 1 > calls,
        soft_failure=stretch.kind is not IncidentKind.TWINS and span["run_id"] in ended_ok,
        outcome=OUTCOMES[span["outcome"]] if span["outcome"] else None,
        error_kind=facts.names["kind"][span["kind"]],
        error_text=error_text,
        sample_arguments=head["arguments"],
        sample_result=head["result"],
        group=_group(stretch.kind, heads, failed),
        dialect=facts.names["dialect"][span["dialect"]] or "",
    )


_SEVERAL = (IncidentKind.CYCLE, IncidentKind.SAME_ERROR)


def _digest(*parts: object) -> str:
    text = "\x1f".join("\x00" if part is None else f"{len(str(part))}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _key(kind: IncidentKind, head: dict[str, Any], scope: int | None, agent: str | None) -> str:
    """Names the incident by its first call, which stays the same when the stretch grows."""
    first = (head["trace_id"], head["span_id"], head["position"])
    return _digest("key", _KEY_VERSION, kind.value, head["run_id"], agent, scope, *first)


def _group(kind: IncidentKind, heads: list[dict[str, Any]], failed: bool) -> str:
    """Equal for incidents of one fault: the same calls but for numbers and ids, with the same error."""
    calls = []
    for head in heads:
        masked_arguments = None
        if kind is not IncidentKind.SAME_ERROR and head["arguments"] is not None:
            masked_arguments = mask(head["arguments"])
        error = mask_error(head["error_text"], head["arguments"]) if failed and head["error_text"] else None
        calls.append(_digest(head["tool_name"], masked_arguments, error))
    return _digest("group", _KEY_VERSION, kind.value, *sorted(set(calls)))


def _costs(store: duckdb.DuckDBPyConnection, spans: Any) -> dict[int, dict[str, Any]]:
    store.register("stretches", spans.select(["incident", "run_id", "first_ns", "last_ns"]))
    try:
        return {row["incident"]: row for row in rows(store, sql_text("incident_requests"))}
    finally:
        store.unregister("stretches")


def _ended_ok(store: duckdb.DuckDBPyConnection, run_ids: set[str]) -> set[str]:
    """Of these runs, those whose agent span ended and reports no error."""
    return {run_id for run_id, status in agent_spans(store, run_ids).items() if status in ("ok", "unset")}


def agent_spans(store: duckdb.DuckDBPyConnection, run_ids: Iterable[str]) -> dict[str, str]:
    """How the agent spans behind runs ended: ok | unset | error | running. Other runs have none."""
    import pyarrow as pa

    names = sorted(run_ids)
    parts = [name.partition("/") for name in names]
    columns = (names, [part[0] for part in parts], [part[2] for part in parts])
    arrays = [pa.array(column, pa.string()) for column in columns]
    store.register("wanted_runs", pa.Table.from_arrays(arrays, ["run_id", "trace_id", "span_id"]))
    try:
        found = rows(store, sql_text("agent_spans"))
    finally:
        store.unregister("wanted_runs")
    states = {0: "unset", 1: "ok"}
    return {
        row["run_id"]: "running" if row["end_ns"] is None else states.get(row["status_code"], "error")
        for row in found
    }
