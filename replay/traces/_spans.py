"""The spans of a run as a tree in short: no texts but names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .._facts import facts_of
from .._sql import arrow, sql_text
from ._calls import Verdict, verdicts_of
from ._list import traces_of
from ._tree import Spans, SpanTree, build

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ...guard import GuardPolicy

__all__ = ["SPANS_AT_ONCE", "bounds_of", "span_tree"]

SPANS_AT_ONCE = 200_000
"""So many spans of a run are read, its first ones: a tree of them takes about 1 s to build."""


def span_tree(
    con: duckdb.DuckDBPyConnection,
    run_id: str,
    policy: GuardPolicy,
    *,
    whole: bool = False,
    limit: int = SPANS_AT_ONCE,
) -> SpanTree:
    """The spans of a run: of an agent's run those below its span, of any other those of its traces.

    `whole` gives all spans of the traces. Calls and requests that were recorded without a span (in log
    records) stand
    in the tree as if they had one.
    """
    traces = traces_of(con, [run_id])
    trace_ids = list(dict.fromkeys(row["trace_id"] for row in traces))
    if not trace_ids:  # a trace that is no run, or an agent's span without calls
        trace_ids = [run_id.partition("/")[0]]
    first, last = bounds_of(con, trace_ids)
    params = {"trace_ids": trace_ids, "limit": limit + 1}
    found = arrow(con, sql_text("traces_spans"), {**params, "first": first, "last": last})
    since, until = bounds_of(con, trace_ids, "derived")
    times = {"first": since, "last": until}
    calls = arrow(con, sql_text("traces_calls"), {**params, **times})
    requests = arrow(con, sql_text("traces_requests"), {**params, **times})
    spans = _spans(found, limit)
    run_ids = [one for one in calls.column("run_id").unique().to_pylist() if one]
    verdicts = verdicts_of(facts_of(con), con, policy, run_ids)
    _add_calls(spans, calls, verdicts)
    _add_requests(spans, requests)
    _mark_agents(spans, {*run_ids, *requests.column("run_id").unique().to_pylist(), run_id})
    trace_id, _, span_id = run_id.partition("/")
    top = spans.place.get((trace_id, span_id)) if span_id and not whole else None
    more = max(found.num_rows, calls.num_rows, requests.num_rows) > limit
    return build(spans, top, cut=more)


def bounds_of(
    con: duckdb.DuckDBPyConnection, trace_ids: list[str], what: Literal["start", "derived"] = "start"
) -> tuple[int, int]:
    """When the spans (or calls and requests) of these traces start, so that little is looked at: first,
    last."""
    found = con.execute(
        f"SELECT min(first_{what}_ns), max(last_{what}_ns) FROM trace_rows "  # noqa: S608 - one of two words
        "WHERE trace_id IN (SELECT unnest($ids))",
        {"ids": trace_ids},
    ).fetchall()[0]
    return (0, -1) if found[0] is None else (found[0], found[1])


def _spans(found: pa.Table, limit: int) -> Spans:
    columns = {name: found.column(name).to_pylist()[:limit] for name in found.column_names}
    spans = Spans()
    spans.trace_ids = columns["trace_id"]
    spans.span_ids = columns["span_id"]
    # A parent that starts after its child may lie behind the limit.
    number = len(columns["place"])
    spans.parents = [-1 if one is None or one >= number else one for one in columns["parent"]]
    spans.names = columns["name"]
    spans.starts = columns["start_ns"]
    spans.ends = columns["end_ns"]
    spans.failed = columns["failed"]
    spans.kinds = ["other"] * number
    spans.run_ids = [None] * number
    spans.verdicts = [None] * number
    spans.place = {key: place for place, key in enumerate(zip(spans.trace_ids, spans.span_ids, strict=True))}
    return spans


def _add_calls(spans: Spans, calls: pa.Table, verdicts: dict[str, dict[int, Verdict]]) -> None:
    names = ("trace_id", "span_id", "position", "run_id", "seq", "tool_name", "start_ns", "end_ns", "failed")
    for trace_id, span_id, position, run_id, seq, tool, start, end, failed in zip(
        *(calls.column(name).to_pylist() for name in names), strict=True
    ):
        verdict = verdicts.get(run_id, {}).get(seq)
        place = None if position else spans.place.get((trace_id, span_id))
        if place is None:
            # A call that stands only in messages is shown below the request that asked for it.
            above = spans.place.get((trace_id, span_id)) if position else None
            key = (trace_id, f"{span_id}#{position}" if position else span_id)
            place = spans.add(key, -1 if above is None else above, tool, start, end, recorded=False)
        else:
            spans.labels[place] = tool
        spans.kinds[place] = "call"
        spans.run_ids[place] = run_id
        spans.verdicts[place] = verdict
        if failed:
            spans.failed[place] = True


def _add_requests(spans: Spans, requests: pa.Table) -> None:
    names = ("trace_id", "span_id", "run_id", "model", "start_ns", "end_ns", "failed")
    for trace_id, span_id, run_id, model, start, end, failed in zip(
        *(requests.column(name).to_pylist() for name in names), strict=True
    ):
        place = spans.place.get((trace_id, span_id))
        if place is None:
            place = spans.add(
                (trace_id, span_id), -1, f"request to {model or 'a model'}", start, end, recorded=False
            )
        if spans.kinds[place] == "other":
            spans.kinds[place] = "request"
            spans.run_ids[place] = run_id
        if failed:
            spans.failed[place] = True


def _mark_agents(spans: Spans, run_ids: set[Any]) -> None:
    for run_id in run_ids:
        trace_id, _, span_id = str(run_id).partition("/")
        place = spans.place.get((trace_id, span_id)) if span_id else None
        if place is not None and spans.kinds[place] == "other":
            spans.kinds[place] = "agent"
            spans.run_ids[place] = run_id
