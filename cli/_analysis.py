"""`loopscope replay`, `sweep`, `incidents`, `errors`: what the guard says of the recorded calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from ..guard import LoopscopeError
from ._coverage import print_coverage
from ._filters import Agent, Model, Run, Service, Since, Tool, Until, filters_of
from ._impact import print_impact
from ._options import (
    Block,
    Db,
    Format,
    FormatOption,
    Nudge,
    PolicyFile,
    load_policy,
    policy_line,
    threshold_range,
)
from ._output import console, print_csv, print_json, print_table
from ._store import reading

__all__ = ["errors", "incidents", "replay", "sweep"]

_SHORT_KEY = 10  # characters of an incident's key in a table; `report --incident` takes 6 or more
_MOST_PAIRS = 10_000  # of thresholds in a sweep

_TOTALS = {
    "runs": "runs",
    "calls": "calls",
    "runs_nudged": "runs nudged",
    "runs_blocked": "runs blocked",
    "calls_nudged": "calls nudged",
    "calls_blocked": "calls blocked",
    "calls_after_block": "calls after a block",
    "calls_avoidable": "  avoidable: their result was known already",
    "calls_lost": "  lost: they brought something new",
    "calls_unjudged": "  unjudged: failed, or content not recorded",
}


def replay(
    db: Db,
    policy: PolicyFile = None,
    nudge: Nudge = None,
    block: Block = None,
    service: Service = None,
    agent: Agent = None,
    tool: Tool = None,
    model: Model = None,
    run: Run = None,
    since: Since = None,
    until: Until = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Count what the guard would have done with the recorded calls."""
    from .. import replay as engine

    filters = filters_of(service, agent, tool, model, run, since, until)
    rules = load_policy(db, policy, nudge, block)
    with reading(db) as connection:
        result = engine.replay(connection, rules, filters).to_json()
        found = None if format is Format.CSV else engine.impact(connection, rules, filters)
    if found is not None:
        result["impact"] = found.effect_json()
    if format is Format.JSON:
        print_json(result)
        return
    totals, exact = result["totals"], result["totals"]["exact"]
    rows = [{"what": key, "total": totals[key], "exact": exact[key]} for key in _TOTALS]
    if format is Format.CSV:
        print_csv(("what", "total", "exact"), rows)
        return
    for row in rows:
        row["what"] = _TOTALS[row["what"]]
    print_table({"what": "", "total": "total", "exact": "of it exact"}, rows, title=policy_line(rules))
    console().print(
        "Exact: up to and including each run's first nudge or block that the recorded agent did not see. "
        "The rest is projected: after that, a live agent might have done something else.",
        style="dim",
    )
    print_coverage(result["coverage"])
    if found is not None:
        print_impact(found)
    incidents_found = result["incidents"]
    if incidents_found:
        console().print(
            f"\nIncidents: {len(incidents_found):,}; see them with: loopscope incidents --db {db}"
        )


def sweep(
    db: Db,
    nudge: Annotated[str, typer.Option(help="Nudge thresholds, first:last, both included.")] = "2:8",
    block: Annotated[str, typer.Option(help="Block thresholds, first:last, both included.")] = "3:12",
    policy: PolicyFile = None,
    service: Service = None,
    agent: Agent = None,
    tool: Tool = None,
    model: Model = None,
    run: Run = None,
    since: Since = None,
    until: Until = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Totals for every pair of thresholds; pairs with nudge ≥ block are left out."""
    from .. import replay as engine

    filters = filters_of(service, agent, tool, model, run, since, until)
    rules = load_policy(db, policy)
    nudges, blocks = threshold_range("--nudge", nudge), threshold_range("--block", block)
    if len(nudges) * len(blocks) > _MOST_PAIRS:
        raise LoopscopeError(
            f"--nudge {nudge} with --block {block} are {len(nudges) * len(blocks):,} pairs; "
            f"a sweep takes at most {_MOST_PAIRS:,}, so narrow one of them"
        )
    with reading(db) as connection:
        rows = [row.to_json() for row in engine.sweep(connection, rules, nudges, blocks, filters)]
    _print_rows(
        rows,
        format,
        {
            "nudge": "nudge",
            "block": "block",
            "runs_nudged": "runs nudged",
            "runs_blocked": "runs blocked",
            "calls_nudged": "calls nudged",
            "calls_after_block": "after block",
            "calls_avoidable": "avoidable",
            "calls_lost": "lost",
            "calls_unjudged": "unjudged",
        },
        json_value={"schema_version": engine.SCHEMA_VERSION, "rows": rows},
        empty="No pair of thresholds is left: nudge must be below block.",
    )


def incidents(
    db: Db,
    policy: PolicyFile = None,
    nudge: Nudge = None,
    block: Block = None,
    kind: Annotated[
        str | None, typer.Option(help="Only one kind: loop, cycle, retry_storm, same_error or twins.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="Only incidents with this label: true_loop, polling, legitimate_repeat, retry_that_worked, "
            "unsure, or none for those without one. May be given several times."
        ),
    ] = None,
    service: Service = None,
    agent: Agent = None,
    tool: Tool = None,
    model: Model = None,
    run: Run = None,
    since: Since = None,
    until: Until = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List the incidents, worst first: where agents went round in circles.

    Incidents do not depend on thresholds; the columns nudge and block say where those of the policy fall.
    """
    from .. import replay as engine
    from ..replay._words import ended_in_short

    kinds = [member.value for member in engine.IncidentKind]
    if kind is not None and kind not in kinds:
        raise LoopscopeError(f"--kind {kind!r}: there is no such kind; choose one of {', '.join(kinds)}")
    filters = filters_of(service, agent, tool, model, run, since, until)
    filters = replace(filters, labels=tuple(engine.label_filter(text) for text in label or ()))
    rules = load_policy(db, policy, nudge, block)
    with reading(db) as connection:
        incidents = engine.find_incidents(connection, filters, rules)
        labels = engine.read_labels(connection)
    rows = [
        {**one.to_json(), "how_it_ended": ended_in_short(one)}
        for one in incidents
        if kind is None or one.kind.value == kind
    ]
    for row in rows:
        said = labels.get(row["key"])
        row["label"] = said.verdict.value if said else None
        row["label_note"] = said.note if said else None
        row["short_key"] = row["key"][:_SHORT_KEY]
        row["which"] = " → ".join(row["tools"]) or row["tool_name"]
        row["who"] = row["agent_name"] or row["service_name"]
        row["seconds"] = (row["last_ns"] - row["first_ns"]) / 1e9
    columns = {
        "short_key": "key",
        "kind": "kind",
        "service_name": "service",
        "who": "agent",
        "which": "tool",
        "calls": "calls",
        "repeated_calls": "repeats",
        "seconds": "seconds",
        "nudge_at": "nudge",
        "block_at": "block",
        "how_it_ended": "ended",
        **({"label": "label"} if labels else {}),
        "sample_arguments": "arguments",
    }
    json_rows = [
        {k: v for k, v in row.items() if k not in ("short_key", "which", "who", "seconds", "how_it_ended")}
        for row in rows
    ]
    _print_rows(
        rows,
        format,
        columns,
        json_value={"schema_version": engine.SCHEMA_VERSION, "incidents": json_rows},
        empty="No incidents with that label."
        if label
        else "No incidents that these options leave."
        if filters != engine.Filters()
        else "No incidents: nothing was repeated three times. `loopscope replay` says what that covers.",
        csv_rows=json_rows,
        optional=("service_name", "seconds", "how_it_ended", "who", "calls"),
    )
    if rows and format is Format.TABLE:
        console().print(
            f"\nA report of one: loopscope report --incident {rows[0]['short_key']} --db {db} -o report.html",
            style="dim",
        )


def errors(
    db: Db,
    policy: PolicyFile = None,
    service: Service = None,
    agent: Agent = None,
    tool: Tool = None,
    model: Model = None,
    run: Run = None,
    since: Since = None,
    until: Until = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """List failed calls by tool and kind, and whether the guard counts them."""
    from .. import replay as engine

    filters = filters_of(service, agent, tool, model, run, since, until)
    with reading(db) as connection:
        result = engine.error_breakdown(connection, filters, policy=load_policy(db, policy)).to_json()
    rows = result["by_tool"]
    _print_rows(
        rows,
        format,
        {
            "tool_name": "tool",
            "error_kind": "kind",
            "outcome": "outcome",
            "calls": "calls",
            "counted": "counted by the guard",
        },
        json_value=result,
        empty="No failed calls.",
        title=f"{result['failed']:,} of {result['calls']:,} finished calls failed; "
        f"the guard counts {result['counted']:,} of them",
    )
    if rows and format is Format.TABLE:
        print_table(
            {
                "calls": "calls",
                "tool_name": "tool",
                "error_kind": "kind",
                "text": "text, volatile parts masked",
            },
            result["groups"][:20],
            width=90,
        )
        print_coverage(result["coverage"])


def _print_rows(
    rows: list[dict[str, Any]],
    format: Format,
    columns: Mapping[str, str],
    *,
    json_value: object,
    empty: str,
    title: str | None = None,
    csv_rows: Iterable[Mapping[str, Any]] | None = None,
    optional: Sequence[str] = (),
) -> None:
    if format is Format.JSON:
        print_json(json_value)
    elif format is Format.CSV:
        all_rows = list(rows if csv_rows is None else csv_rows)
        print_csv(list(all_rows[0]) if all_rows else list(columns), all_rows)
    elif rows:
        print_table(columns, rows, title=title, optional=optional)
    else:
        console().print(f"{title}. {empty}" if title else empty)
