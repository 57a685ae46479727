"""`loopscope suggest`: what the policy could be changed to, and what that would have done."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..guard import GuardPolicy, LoopscopeError, describe_changes
from ._filters import Agent, Model, Run, Service, Since, Tool, Until, filters_of
from ._options import Db, Format, FormatOption, PolicyFile, load_policy, policy_line, saved_policy
from ._output import console, one_line, plural, print_json
from ._store import reading

if TYPE_CHECKING:
    from ..replay import HarmLimit, Suggestion, SuggestionReport
    from ..replay.suggestions import Example

__all__ = ["suggest"]

_SHORT_KEY = 10  # characters of an incident's key; `report --incident` takes 6 or more
_EXAMPLES = 2  # shown of each fact; the JSON has all


def suggest(
    db: Db,
    policy: PolicyFile = None,
    max_lost: Annotated[
        str,
        typer.Option(
            help="Calls that a block may cut off although they brought something new: a number, or a share "
            "such as 2%.",
        ),
    ] = "1%",
    max_runs_lost: Annotated[
        int | None, typer.Option(min=0, help="Blocked runs that may have gone on to something new.")
    ] = None,
    guarded: Annotated[
        bool, typer.Option("--guarded", help="Count runs in, too, that were recorded under a live guard.")
    ] = False,
    service: Service = None,
    agent: Agent = None,
    tool: Tool = None,
    model: Model = None,
    run: Run = None,
    since: Since = None,
    until: Until = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="Put this suggestion on the policy and write it; may be given again."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where --accept writes the policy.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Suggest changes to the policy, with evidence and what each would have done to the recorded runs."""
    from .. import replay as engine

    wanted = [key for text in accept or () for key in text.split(",") if key]
    if wanted and output is None:
        raise LoopscopeError("--accept needs a file to write: give -o policy.toml")
    if output is not None and not wanted:
        raise LoopscopeError("-o writes what --accept names; give --accept KEY as well")
    if format is Format.CSV:
        raise LoopscopeError("--format csv: suggestions are no table; choose table or json")
    limit = replace(_limit(max_lost, engine.HarmLimit), runs=max_runs_lost)
    filters = filters_of(service, agent, tool, model, run, since, until)
    rules = load_policy(db, policy)
    if output is not None:
        _check_output(output, force, policy, db)
    with reading(db) as connection:
        report = engine.suggestion_report(connection, rules, filters, harm_limit=limit, guarded=guarded)
    if output is not None:
        _write(report, wanted, output, policy, db)
    elif format is Format.JSON:
        print_json(report.to_json())
    else:
        _print(report, db)


def _limit(text: str, kind: type[HarmLimit]) -> HarmLimit:
    match = re.fullmatch(r"(\d{1,12})|(\d{1,3}(?:\.\d{1,6})?)%", text.strip())
    if match is None or (match[2] and float(match[2]) > 100):
        raise LoopscopeError(f"--max-lost {text!r}: give a number of calls such as 20, or a share such as 2%")
    return kind(calls=int(match[1]), share=None) if match[1] else kind(share=float(match[2]) / 100)


def _check_output(output: Path, force: bool, policy: Path | None, db: Path) -> None:
    """Refuse to write over a file that was not the policy read."""
    read = policy if policy is not None else saved_policy(db)
    if output.exists() and not force and not (read.exists() and output.samefile(read)):
        raise LoopscopeError(f"{output} is there already; --force writes over it")


def _write(
    report: SuggestionReport, wanted: Iterable[str], output: Path, policy: Path | None, db: Path
) -> None:
    from .. import replay as engine

    by_key = {one.key: one for one in report.suggestions}
    chosen: list[Suggestion] = []
    for key in dict.fromkeys(wanted):
        if key not in by_key:
            there = ", ".join(by_key) or "none"
            raise LoopscopeError(
                f"--accept {key}: there is no such suggestion for this policy and --max-lost; there are: "
                f"{there}"
            )
        chosen.append(by_key[key])
    accepted = engine.accept(report.policy, chosen)
    saved = saved_policy(db)
    base = (
        str(policy)
        if policy is not None
        else f"the saved {saved}"
        if saved.exists()
        else "the default policy"
    )
    accepted.to_file(output)
    out = console()
    changes = describe_changes(report.policy, accepted)
    out.print(f"Wrote {output}: {plural(len(changes), 'change')} on top of {base}")
    for change in changes:
        out.print(f"  {one_line(change, 1000)}")
    if output.resolve() == saved.resolve():
        out.print("\nIt is in force: the dashboard and the commands judge by it.")
    else:
        out.print(f"\nIt is not in force. To put it in force: -o {saved}")
    out.print("\nTo load it:")
    out.print(f"  policy = GuardPolicy.from_file({str(output)!r})")
    out.print("  guard = DuplicateCallGuard(policy)  # from loopscope.guard; one guard, one run")


def _print(report: SuggestionReport, db: Path) -> None:
    out = console()
    found = report.suggestions
    many = plural(len(found), "suggestion")
    out.print(
        f"{many} from {plural(report.runs, 'run')} with {plural(report.calls, 'call')}, for a policy with "
        f"{policy_line(report.policy)}"
    )
    for one in found:
        _print_one(report.policy, one)
    if report.notes:
        out.print()
    for note in report.notes:
        out.print(one_line(note, 1000), style="dim")
    if found:
        out.print(
            "\nExact: up to and including each run's first nudge or block that the recorded agent did "
            "not see. The rest is projected: after that, a live agent might have done something else.",
            style="dim",
        )
        out.print(
            f"To accept: loopscope suggest --db {db} --accept {found[0].key} -o policy.toml", style="dim"
        )


def _print_one(policy: GuardPolicy, one: Suggestion) -> None:
    out = console()
    out.print(f"\n{one.key}  {one_line(one.title, 300)}", style="bold")
    for line in (one.warning, one.covers):
        if line:
            out.print(f"  ! {line}", style="yellow")
    for change in describe_changes(policy, one.policy):
        out.print(f"  change: {one_line(change, 300)}")
    for fact in one.evidence:
        out.print(f"  · {one_line(fact.text, 500)}")
        _print_examples(fact.examples)
    before, after, exact_before, exact_after = one.before, one.after, one.before_exact, one.after_exact
    parts = [
        f"{words} {getattr(before, name):,} → {getattr(after, name):,} (exact "
        f"{getattr(exact_before, name):,} → {getattr(exact_after, name):,})"
        for words, name in (
            ("calls nudged", "calls_nudged"),
            ("runs blocked", "runs_blocked"),
            ("calls avoided", "calls_avoidable"),
            ("calls lost", "calls_lost"),
        )
    ]
    out.print(f"  replayed: {', '.join(parts)}")
    effect = one.effect
    out.print(
        f"  nudges: {effect.nudges_gone:,} go, {effect.nudges_stay:,} stay, {effect.nudges_new:,} come; "
        f"blocks: {effect.blocks_gone:,} go, {effect.blocks_stay:,} stay, {effect.blocks_new:,} come; on "
        f"calls that later gave another result: {effect.moved_before:,} → {effect.moved_after:,}"
    )
    for word, shown in (("goes", effect.gone), ("comes", effect.new)):
        _print_examples(shown, f"{word}: ")


def _print_examples(examples: Iterable[Example], word: str = "") -> None:
    for number, example in enumerate(examples):
        if number == _EXAMPLES:
            break
        incident = f", incident {example.incident[:_SHORT_KEY]}" if example.incident else ""
        console().print(
            f"      {word}run {one_line(example.run_id, 100)}, call {example.seq}: "
            f"{one_line(example.text, 200)}{incident}",
            style="dim",
        )
