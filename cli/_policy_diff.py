"""`loopscope policy diff`: what differs between two policies, in words and on the recorded calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..guard import GuardPolicy, LoopscopeError, PolicyError, describe_changes
from ._filters import Agent, Model, Run, Service, Since, Tool, Until, filters_of, flags_given
from ._impact import PARTS, money, seconds, tokens
from ._options import Format, FormatOption, default_db, saved_policy
from ._output import console, one_line, print_csv, print_json, print_table
from ._store import reading

if TYPE_CHECKING:
    from ..replay import Effect, PolicyComparison, Spent

__all__ = ["diff", "print_changes"]

_WORDS = {
    "allow": "allowed",
    "nudge": "nudged",
    "block": "blocked",
    "not_counted": "not counted",
    "after_block": "after a block",
}
_EXAMPLES = 10  # lost calls that the table shows


def diff(
    before: Annotated[str, typer.Argument(help="A policy file, `default`, or `saved`.", metavar="BEFORE")],
    after: Annotated[str, typer.Argument(help="A policy file, `default`, or `saved`.", metavar="AFTER")],
    db: Annotated[
        Path | None,
        typer.Option("--db", help="A database: say also which recorded calls are judged differently."),
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
    """Say in words what differs between two policies, and with --db what that changes.

    `default` is the policy without any file, `saved` the one that the dashboard saved beside the database.
    """
    old, new = (_policy(name, db) for name in (before, after))
    given = flags_given(service, agent, tool, model, run, since, until)
    if db is None:
        if given:
            raise LoopscopeError(f"{given[0]} chooses recorded calls: give their database with --db")
        _print_words(old, new, format)
        return
    from .. import replay as engine

    filters = filters_of(service, agent, tool, model, run, since, until)
    with reading(db) as connection:
        found = engine.compare_policies(connection, old, new, filters)
    words = describe_changes(old, new)
    if format is Format.JSON:
        print_json({**found.to_json(), "words": words})
    elif format is Format.CSV:
        print_csv(("what", "before", "after"), _figures(found))
    else:
        print_changes(old, new, same="The two say the same.")
        _print_table(found)


def _policy(name: str, db: Path | None) -> GuardPolicy:
    if name == "default":
        return GuardPolicy()
    if name != "saved":
        return GuardPolicy.from_file(name)
    file = saved_policy(db or default_db())
    if not file.exists():
        raise PolicyError(f"no policy is saved beside the database: {file} is not there")
    return GuardPolicy.from_file(file)


def print_changes(before: GuardPolicy, after: GuardPolicy, *, same: str) -> None:
    """A line for each difference; `same` where there is none."""
    for change in describe_changes(before, after) or [same]:
        print(one_line(change, 1000))  # noqa: T201


def _print_words(before: GuardPolicy, after: GuardPolicy, format: Format) -> None:
    words = describe_changes(before, after)
    if format is Format.JSON:
        from .. import replay as engine

        print_json({"schema_version": engine.SCHEMA_VERSION, "words": words})
    elif format is Format.CSV:
        print_csv(("change",), [{"change": change} for change in words])
    else:
        print_changes(before, after, same="The two say the same.")


def _figures(found: PolicyComparison) -> Iterable[dict[str, Any]]:
    """Every figure of both, one a row."""
    sides = (found.before, found.after)
    for name, old in found.before.totals.to_json().items():
        yield {"what": name, "before": old, "after": getattr(found.after.totals, name)}
    for part in PARTS:
        old, new = (getattr(side.effect.after, part).to_json() for side in sides)
        for name, value in old.items():
            yield {"what": f"{part}.{name}", "before": value, "after": new[name]}


def _rows(found: PolicyComparison) -> Iterable[dict[str, Any]]:
    old, new = found.before, found.after
    for key, what in (
        ("runs_nudged", "runs nudged"),
        ("runs_blocked", "runs ended"),
        ("calls_nudged", "calls nudged"),
        ("calls_after_block", "calls after a block"),
    ):
        yield _row(what, getattr(old.totals, key), getattr(new.totals, key))
    for part, words in PARTS.items():
        says = words.replace("avoidable:", "spared:")
        one, other = (getattr(side.effect.after, part) for side in (old, new))
        if part != "rest":
            yield _row(f"  {says}", one.calls, other.calls)
        elif one.requests or other.requests:
            yield _row(f"  {says}", one.requests, other.requests)
        if one.wall_ns or other.wall_ns:
            yield _row("    time", one.wall_ns, other.wall_ns, seconds)
        if one.requests or other.requests:
            yield {
                "what": "    tokens",
                "before": tokens(one),
                "after": tokens(other),
                "change": _tokens(one, other),
            }
            yield {
                "what": "    cost",
                "before": money(one),
                "after": money(other),
                "change": _cost(one, other),
            }


def _tokens(one: Spent, other: Spent) -> str:
    """ "+1,200 in, -30 out"; of sides that are known in part, of what is known."""
    if one.requests and one.input_tokens is None and one.output_tokens is None:
        return "not known"
    if other.requests and other.input_tokens is None and other.output_tokens is None:
        return "not known"
    changes = [
        f"{(getattr(other, name) or 0) - (getattr(one, name) or 0):+,} {word}"
        for name, word in (("input_tokens", "in"), ("output_tokens", "out"))
        if (getattr(other, name) or 0) != (getattr(one, name) or 0)
    ]
    return ", ".join(changes)


def _cost(one: Spent, other: Spent) -> str:
    if any(side.requests and side.cost is None for side in (one, other)):
        return "not known"
    change = (other.cost or 0) - (one.cost or 0)
    if abs(change) < 0.00005:
        return ""
    digits = 2 if abs(change) >= 1 else 4
    return f"{'+' if change > 0 else '-'}${abs(change):,.{digits}f}"


def _row(what: str, before: int, after: int, shown: Callable[[int], str] = "{:,}".format) -> dict[str, Any]:
    sign = "+" if after > before else "-"
    change = "" if before == after else f"{sign}{shown(abs(after - before))}"
    return {"what": what, "before": shown(before), "after": shown(after), "change": change}


def _print_table(found: PolicyComparison) -> None:
    out = console()
    totals = found.after.totals
    out.print()
    if not totals.calls:
        out.print("No finished call is recorded that this could change.")
        return
    if not found.calls_changed:
        out.print(f"No verdict changes: {totals.calls:,} calls in {totals.runs:,} runs are judged alike.")
        return
    projected = found.calls_changed - found.calls_changed_exact
    out.print(
        f"The verdict changes for {found.calls_changed:,} of {totals.calls:,} calls, in "
        f"{found.runs_changed:,} of {totals.runs:,} runs ({found.calls_changed_exact:,} exact, "
        f"{projected:,} projected)."
    )
    out.print(
        f"Gain: {_more(found.newly_avoided, found.no_longer_avoided, 'needless calls spared')}. "
        f"Harm: {_more(found.newly_lost, found.no_longer_lost, 'calls lost that brought something new')}. "
        f"Runs newly ended: {found.runs_newly_blocked:,}; no longer ended: {found.runs_spared:,}."
    )
    out.print()
    print_table({"what": "", "before": "before", "after": "after", "change": "change"}, _rows(found))
    out.print()
    print_table(
        {"verdict": "verdict", "calls": "calls", "runs": "runs", "exact": "of them exact"},
        [
            {
                "verdict": f"{_WORDS[one.before]} → {_WORDS[one.after]}",
                "calls": one.calls,
                "runs": one.runs,
                "exact": one.exact_calls,
            }
            for one in found.changes
        ],
    )
    out.print()
    print_table(
        {
            "tool": "tool",
            "changed": "calls changed",
            "avoidable": "spared",
            "lost": "lost",
            "blocked": "runs ended",
        },
        [
            {
                "tool": one.name,
                "changed": one.calls_changed,
                "avoidable": _arrow(one.before, one.after, "avoidable"),
                "lost": _arrow(one.before, one.after, "lost"),
                "blocked": f"{one.before.runs_blocked:,} → {one.after.runs_blocked:,}",
            }
            for one in found.by_tool
            if one.calls_changed
        ],
    )
    lost = [one for one in found.examples if one.after == "after_block" and one.judged == "lost"][:_EXAMPLES]
    if lost:
        out.print("\nNewly lost, for example:")
        print_table(
            {
                "run": "run",
                "call": "call",
                "tool": "tool",
                "arguments": "arguments",
                "result": "what it returned",
            },
            [
                {
                    "run": one.run_id[:20],
                    "call": one.call,
                    "tool": one.tool_name,
                    "arguments": one.arguments,
                    "result": one.result,
                }
                for one in lost
            ],
            optional=("arguments",),
        )


def _more(more: int, fewer: int, what: str) -> str:
    """ "3 more calls lost", "3 fewer calls lost", "5 more calls lost, 3 fewer": no balance."""
    if fewer and not more:
        return f"{fewer:,} fewer {what}"
    return f"{more:,} more {what}" + (f", {fewer:,} fewer" if fewer else "")


def _arrow(before: Effect, after: Effect, part: str) -> str:
    return f"{getattr(before.after, part).calls:,} → {getattr(after.after, part).calls:,}"
