"""`loopscope requests`: failed LLM requests, and which of them a repaired history would have prevented."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ..guard import LoopscopeError, NotFoundError
from ._messages import known_provider
from ._options import Db, Format, FormatOption, PolicyFile, load_policy
from ._output import console, one_line, plural, print_csv, print_json, print_table
from ._store import reading

__all__ = ["requests"]

_SHOWN = 20  # rows of a table; JSON and CSV carry `--limit`
_VERDICTS = {
    "prevented": "would be prevented by the sanitizer",
    "prevented_by_dedup": "  of it by dropping doubles alone",
    "prevented_by_guard": "would be prevented by the guard",
    "not_prevented": "would not be prevented",
    "undetermined": "undetermined: see why below",
}
_SHORT = {
    "prevented": "preventable",
    "prevented_by_guard": "preventable by the guard",
    "not_prevented": "not preventable",
}

_NOT_CHECKED = {
    "passed_not_recorded": "recorded without messages or cut",
    "passed_without_ids": "recorded without call ids",
    "passed_against_rules": "that passed although their own provider should refuse them (docs/requests.md)",
    "passed_waiting": "for want of time",
}


def requests(
    db: Db,
    policy: PolicyFile = None,
    show: Annotated[
        str | None,
        typer.Option(
            "--show",
            metavar="SPAN",
            help="Show one history before and after the repair, by span id (its first 6 characters or more) "
            "or trace id/span id.",
        ),
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="With --show: judge by this provider's rules, e.g. mistral.")
    ] = None,
    passed: Annotated[
        bool,
        typer.Option(
            "--passed/--failed-only",
            help="Also check the requests that succeeded: which would another provider refuse, which would "
            "the repair change.",
        ),
    ] = True,
    limit: Annotated[int, typer.Option(min=1, help="Rows in JSON and CSV, newest first.")] = 1000,
    format: FormatOption = Format.TABLE,
) -> None:
    """List refused LLM requests: what was wrong with the history, and what would have prevented it."""
    from .. import replay as engine

    if provider is not None:
        known_provider(provider)
    rules = load_policy(db, policy)
    if show is not None:
        with reading(db) as connection:
            trace_id, span_id = _one_request(connection, show)
            try:
                found = engine.request_history(connection, trace_id, span_id, rules, provider=provider)
            except ValueError as error:
                raise LoopscopeError(f"--provider {provider!r}: {error}") from None
        _print_history(found.to_json(), format)
        return
    with reading(db) as connection, _progress() as tell:
        analysis = engine.analyse_requests(connection, rules, passed=passed, limit=limit, progress=tell)
    result = analysis.to_json()
    if format is Format.JSON:
        print_json(result)
    elif format is Format.CSV:
        rows = [{**row, "repairs": " ".join(row["repairs"])} for row in result["requests"]]
        print_csv(list(rows[0]) if rows else ["trace_id", "span_id", "error_class", "verdict"], rows)
    else:
        _print_analysis(result, str(db))


@contextmanager
def _progress() -> Iterator[Any]:
    """A bar on a terminal's stderr while many histories are checked; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with bar:
        task = bar.add_task("Checking histories", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _one_request(connection: Any, text: str) -> tuple[str, str]:
    trace_id, _, span_id = text.rpartition("/")
    query = "SELECT trace_id, span_id FROM llm_request_rows WHERE "
    # Whole, or its first characters, as with the key of an incident.
    query += "span_id = $span_id" if len(span_id) < 6 else "starts_with(span_id, $span_id)"
    params = {"span_id": span_id.lower()}
    if trace_id:
        query += " AND trace_id = $trace_id"
        params["trace_id"] = trace_id.lower()
    found = connection.execute(query + " LIMIT 2", params).fetchall()
    if not found:
        raise NotFoundError(f"--show {text!r}: no LLM request has this span id; see: loopscope requests")
    if len(found) > 1:
        raise NotFoundError(f"--show {text!r}: several spans are called so; give trace id/span id, whole")
    return found[0]


# -- tables -------------------------------------------------------------------------------------


def _print_analysis(result: Mapping[str, Any], db: str) -> None:
    totals, coverage = result["totals"], result["coverage"]
    out = console()
    if not totals["requests"]:
        out.print("No LLM request is recorded. Import traces first: loopscope import PATH")
        return
    out.print(_sentence(totals))
    if totals["tool_related"]:
        print_table(
            {"what": "", "requests": "requests"},
            [
                {"what": text, "requests": totals[key]}
                for key, text in _VERDICTS.items()
                if totals[key] or key == "prevented"
            ],
        )
    if result["by_class"]:
        out.print("\nBy class", style="bold")
        print_table(
            {
                "class": "class",
                "failed": "failed",
                "prevented": "preventable",
                "not_prevented": "not preventable",
                "undetermined": "undetermined",
                "causes": "causes",
            },
            [{"class": name, **counts} for name, counts in result["by_class"].items()],
        )
    if result["causes"]:
        out.print("\nCauses, newest first: one broken history, and what came just before it", style="bold")
        print_table(
            {
                "span": "span",
                "error_class": "class",
                "requests": "requests",
                "who": "agent",
                "provider": "provider",
                "verdict": "verdict",
                "before": "before it",
            },
            [
                {
                    **row,
                    "span": row["first_span_id"],
                    "who": row["agent_name"] or row["service_name"],
                    "verdict": _SHORT.get(row["verdict"], row["verdict"]),
                }
                for row in result["causes"][:_SHOWN]
            ],
            width=300,
            optional=("provider", "who"),
            wrap=True,
        )
        _say_rest(len(result["causes"]), totals["causes"])
        reasons = {
            one_line(row["reason"], 300): None
            for row in result["requests"]
            if row["verdict"] in ("undetermined", "not_prevented") and row["reason"]
        }
        for reason in list(reasons)[:5]:
            out.print(f"  {reason}", style="dim")
        first = result["causes"][0]["first_span_id"]
        out.print(
            f"\nOne history, before and after: loopscope requests --show {first} --db {db}", style="dim"
        )
    _print_passed(result, out)
    missing = coverage["without_messages"]
    if missing:
        out.print(f"\nOf {totals['requests']:,} requests {missing:,} were recorded without messages.")
        for dialect in coverage["dialects"]:
            if dialect["hint"]:
                out.print(f"  {one_line(dialect['dialect'])}: {dialect['hint']}", style="dim")


def _print_passed(result: Mapping[str, Any], out: Any) -> None:
    totals, coverage = result["totals"], result["coverage"]
    if totals["latent"] is None or not coverage["passed"]:
        return
    out.print(
        f"\nOf {coverage['passed']:,} requests that succeeded, {coverage['passed_checked']:,} had a history "
        f"to check: the repair would have changed {totals['broken']:,} of them (it should change none), and "
        f"{totals['latent']:,} would be refused by at least one other provider."
    )
    left = [f"{coverage[key]:,} {why}" for key, why in _NOT_CHECKED.items() if coverage[key]]
    if left:
        out.print(f"  Not checked: {', '.join(left)}.", style="dim")
    if result["by_provider"]:
        print_table(
            {"provider": "provider", "requests": "would refuse", "classes": "over"},
            [
                {
                    **risk,
                    "classes": ", ".join(f"{name} {number:,}" for name, number in risk["by_class"].items()),
                }
                for risk in result["by_provider"]
            ],
        )


def _sentence(totals: Mapping[str, Any]) -> str:
    if not totals["failed"] and not totals["cancelled"]:
        return f"All {totals['requests']:,} recorded requests were answered."
    if not totals["failed"]:
        return f"None of {totals['requests']:,} requests failed, {totals['cancelled']:,} were cancelled."
    text = f"{totals['failed']:,} of {totals['requests']:,} requests failed"
    causes = totals["causes"]
    if not totals["tool_related"]:
        text += ", none of them over tool calls and results"
    else:
        text += (
            f", {totals['tool_related']:,} of them over tool calls and results ({plural(causes, 'cause')})"
        )
    return f"{text}; {totals['cancelled']:,} more were cancelled." if totals["cancelled"] else f"{text}."


def _say_rest(listed: int, known: int) -> None:
    shown = min(listed, _SHOWN)
    if shown < known:
        console().print(f"  {shown:,} of {known:,} causes; the others: --format json", style="dim")


def _print_history(history: Mapping[str, Any], format: Format) -> None:
    if format is Format.JSON:
        print_json(history)
        return
    rows = [
        {"list": side, **message, "mark": _mark(side, message)}
        for side in ("before", "after")
        for message in history[side]
    ]
    if format is Format.CSV:
        columns = ("list", "position", "origin", "role", "mark", "calls", "results", "text")
        print_csv(columns, [{key: row[key] for key in columns} for row in rows])
        return
    out = console()
    request = history["request"]
    if request is not None:
        when = datetime.fromtimestamp(request["start_ns"] / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        out.print(f"{when}: {one_line(request['error_text'] or request['error_type'] or 'failed', 300)}")
        if request["verdict"]:
            verdict = _SHORT.get(request["verdict"], request["verdict"])
            out.print(f"{verdict}: {one_line(request['reason'] or '', 600)}")
    if history["note"]:
        out.print(one_line(history["note"], 600))
    for side, heading in (("before", "As recorded"), ("after", "Repaired")):
        if not history[side]:
            continue
        total = history[f"messages_{side}"]
        shown = len(history[side])
        out.print(f"\n{heading}: {shown:,} of {total:,} messages" if shown < total else f"\n{heading}")
        print_table(
            {"position": "", "mark": "", "role": "role", "ids": "ids", "text": "message"},
            [
                {**row, "ids": " ".join(row["calls"] + row["results"]) or None}
                for row in rows
                if row["list"] == side
            ],
            width=100,
        )
    if any(row["mark"] for row in rows):
        out.print("- dropped   ~ changed   + added", style="dim")
    if history["violations_before"]:
        out.print("\nWhat is refused of the recorded history", style="bold")
        for violation in history["violations_before"]:
            out.print(
                f"  message {violation['position']}: {violation['error_class']}: "
                f"{one_line(violation['detail'], 300)}"
            )
    if history["repairs"]:
        out.print("\nRepairs", style="bold")
        for repair in history["repairs"]:
            out.print(f"  message {repair['origin']}: {repair['kind']}: {one_line(repair['detail'], 300)}")
    if history["violations_after"]:
        out.print("\nStill refused after the repair", style="bold")
        for violation in history["violations_after"]:
            out.print(f"  message {violation['position']}: {one_line(violation['detail'], 300)}")


def _mark(side: str, message: Mapping[str, Any]) -> str:
    """Text beside colour-free tables: - dropped, ~ changed, + made."""
    if side == "before":
        return "-" if message["dropped"] else "~" if message["changed"] else ""
    return "+" if message["origin"] is None else "~" if message["changed"] else ""
