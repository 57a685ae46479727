"""Incidents: stretches of calls that went round in a circle, with what they cost and how they ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ._counting import OUTCOMES
from ._engine import Judging
from ._facts import Facts, facts_of
from ._filters import ALL, Filters, runs_with
from ._labelled import UNLABELLED, Label, read_labels
from ._mask import mask, mask_error
from ._sql import arrow, rows, sql_text
from ._stretches import Stretch, call_texts, find_stretches, keep_members
from ._types import Incident, IncidentKind

if TYPE_CHECKING:
    import duckdb

    from ..guard import GuardPolicy

__all__ = ["Found", "agent_spans", "all_incidents", "find_incidents", "mark", "touching"]

_KEY_VERSION = 1
_SAMPLE = 2_000  # characters of a sample text


@dataclass(frozen=True, slots=True)
class Found:
    """An incident, its calls, and its number in the table `member_rows`."""

    incident: Incident
    stretch: Stretch
    number: int


def find_incidents(
    con: duckdb.DuckDBPyConnection,
    filters: Filters = ALL,
    policy: GuardPolicy | None = None,
    *,
    limit: int | None = None,
) -> list[Incident]:
    """All incidents that touch the filter, most repeated calls first; at most `limit`.

    They do not depend on thresholds. With a `policy` each incident also says where that policy's
    nudge and block fall.
    """
    facts = facts_of(con)
    found = touching(facts, con, filters)[:limit]
    if policy is not None:
        return mark(facts, con, found, policy)
    return [one.incident for one in found]


def touching(facts: Facts, store: duckdb.DuckDBPyConnection, filters: Filters) -> list[Found]:
    """The incidents under the filter, most repeated calls first."""
    found = [one for one in all_incidents(facts, store) if _touches(filters, one.incident)]
    if filters.models:
        runs = set(runs_with(filters, facts, store))
        found = [one for one in found if one.stretch.run in runs]
    if filters.labels:
        labels = read_labels(store)
        wanted = set(filters.labels)
        found = [one for one in found if _said(labels.get(one.incident.key)) in wanted]
    return found


def _said(label: Label | None) -> str:
    return UNLABELLED if label is None else label.verdict.value


def all_incidents(facts: Facts, store: duckdb.DuckDBPyConnection) -> list[Found]:
    """Every incident of the store with its calls, most repeated calls first. Worked out once per state."""
    with facts.lock:
        if facts.found is None:
            memory = facts.memory
            known = memory.found  # in which generation, what, and how many numbers were given
            latest = facts.generation == memory.generation
            if known is not None and known[0] == facts.generation:
                facts.found = known[1]
            elif known is not None:
                # What went round in a circle did so inside one run: only those that changed are looked at,
                # also where somebody still asks about an older generation.
                changed = memory.changed_since(*sorted((known[0], facts.generation)))
                kept = [one for one in known[1] if one.stretch.run not in changed]
                facts.found = kept + _described(facts, store, changed)
                facts.found.sort(key=_order)
            else:
                facts.found = _described(facts, store, None)
                facts.found.sort(key=_order)
            if latest:
                memory.found = facts.generation, facts.found
        return facts.found


def _described(facts: Facts, store: duckdb.DuckDBPyConnection, runs: frozenset[int] | None) -> list[Found]:
    stretches = find_stretches(facts, store, runs)
    first = facts.memory.stretches
    facts.memory.stretches += len(stretches)
    return _describe(facts, store, stretches, first)


def _order(one: Found) -> tuple[int, int, str]:
    return -one.incident.repeated_calls, -one.incident.last_ns, one.incident.key


def mark(
    facts: Facts, store: duckdb.DuckDBPyConnection, found: Sequence[Found], policy: GuardPolicy
) -> list[Incident]:
    """The incidents with where the policy's nudge and block fall."""
    if not found:
        return []
    # With few of them, only their runs are judged.
    few = {one.stretch.run for one in found} if len(found) <= _FEW else None
    judging = Judging(facts, store, policy, few)
    judging.con.execute("CREATE TEMP VIEW members AS SELECT * FROM member_rows")
    where, params = "TRUE", {}
    if few is not None:
        where, params = "m.incident IN (SELECT unnest($wanted))", {"wanted": [one.number for one in found]}
    columns = judging.arrow("incident_marks", params, where).to_pydict()
    numbers = columns.pop("incident")
    rows_by_number = dict(zip(numbers, zip(*columns.values(), strict=True), strict=True))
    return [
        _marked(one.incident, *rows_by_number[one.number]) for one in found if one.number in rows_by_number
    ]


_FEW = 200
_MARKS = ("nudge_at", "block_at", "after_block", "after_block_avoidable", "exact")
_PLAIN = tuple(field.name for field in fields(Incident) if field.name not in _MARKS)


def _marked(incident: Incident, *marks: Any) -> Incident:
    """`dataclasses.replace`, which takes four times as long; there may be 100,000 incidents."""
    made = object.__new__(Incident)
    put = object.__setattr__
    for name in _PLAIN:
        put(made, name, getattr(incident, name))
    for name, value in zip(_MARKS, marks, strict=True):
        put(made, name, value)
    return made


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


def _describe(
    facts: Facts, store: duckdb.DuckDBPyConnection, stretches: list[Stretch], first: int
) -> list[Found]:
    """Incidents of the stretches, numbered from `first`, in no order."""
    if not stretches:
        return []
    keep_members(facts, stretches, first)
    con = facts.cursor()
    con.execute(f"CREATE TEMP VIEW members AS SELECT * FROM member_rows WHERE incident >= {first:d}")  # noqa: S608
    # The facts alone know time and tool; counting is not asked for.
    con.execute("CREATE TEMP VIEW calls AS SELECT * FROM facts")
    spans = arrow(con, sql_text("incident_facts"))
    costs = _costs(store, spans)
    ended_ok = _ended_ok(store, set(spans.column("run_id").to_pylist()))
    heads: dict[int, list[dict[str, Any]]] = {}
    wanted = (
        (incident, number, one.run, seq)
        for incident, one in enumerate(stretches, first)
        for number, seq in enumerate(one.seqs[: one.period if one.kind is IncidentKind.CYCLE else 1], 1)
    )
    for row in call_texts(facts, store, wanted, _SAMPLE):
        heads.setdefault(row["incident"], []).append(row)
    found: list[Found] = []
    for span in spans.to_pylist():
        number = span["incident"]
        if number in heads:  # else the store was pruned under our feet
            stretch = stretches[number - first]
            incident = _incident(facts, stretch, span, heads[number], costs.get(number), ended_ok)
            found.append(Found(incident, stretch, number))
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
    stopped_at = span["stopped_at"]
    ending = "another_result" if another else "other_work" if other else "run_ended"
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
        resolved=stopped_at is None and bool(another or other),
        ending=ending if stopped_at is None else "stopped_by_guard",
        interleaved=span["last_seq"] - span["first_seq"] + 1 > calls,
        soft_failure=stretch.kind is not IncidentKind.TWINS
        and stopped_at is None
        and span["run_id"] in ended_ok,
        stopped_at=stopped_at,
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
