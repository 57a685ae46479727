"""`loopscope rules`: other frameworks' rules beside ours on the recorded runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..guard import LoopscopeError
from ._filters import Agent, Model, Run, Service, Since, Tool, Until, filters_of
from ._options import Db, Format, FormatOption, PolicyFile, load_policy
from ._output import console, one_line, print_csv, print_json, print_table
from ._store import reading

__all__ = ["rules"]

_COLUMNS = {
    "rule": "rule",
    "does": "does",
    "runs_noticed": "noticed",
    "runs_stopped": "stopped",
    "runs_stopped_exact": "of it exact",
    "calls_after_stop": "calls after",
    "calls_avoidable": "avoidable",
    "calls_lost": "lost",
    "calls_unjudged": "unjudged",
    "calls_refused": "refused",
    "refused_lost": "lost by it",
    "only_rule": "not by ours",
    "only_ours": "by ours only",
}
_LABELS = {"right": "right", "wrong": "wrong", "missed": "missed"}
_FIRST_TO_GO = ("does", "calls_unjudged", "refused_lost", "calls_refused", "only_ours", "only_rule")


def rules(
    db: Db,
    policy: PolicyFile = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", help="Only this rule; can be given several times.", metavar="NAME"),
    ] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A knob of a rule, such as roo-code.limit=2; a list is a,b. Can be given several times.",
            metavar="RULE.KNOB=VALUE",
        ),
    ] = None,
    service: Service = None,
    agent: Agent = None,
    tool: Tool = None,
    model: Model = None,
    run: Run = None,
    since: Since = None,
    until: Until = None,
    list_rules: Annotated[bool, typer.Option("--list", help="Only say which rules there are.")] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Run other frameworks' rules beside ours: what each would have stopped, and what that would cost."""
    from ..replay._coverage import runs_without_calls
    from ..replay._facts import facts_of
    from ..replay.rules import RULES, compare_rules, rule_info

    names = None if rule is None else [rule_info(name).name for name in rule]
    if list_rules:
        _print_list([info for name, info in RULES.items() if names is None or name in names], format)
        return
    options = _knobs(knob or [])
    filters = filters_of(service, agent, tool, model, run, since, until)
    guard_policy = load_policy(db, policy)
    with reading(db) as connection:
        found = compare_rules(connection, guard_policy, names, filters, options=options)
        quiet = runs_without_calls(connection, facts_of(connection), filters)
    rows = [one.to_json() for one in found]
    if format is Format.JSON:
        from ..replay import SCHEMA_VERSION

        data = {"schema_version": SCHEMA_VERSION, "policy": {**guard_policy.to_dict()}, "rules": rows}
        data["policy"]["policy_hash"] = guard_policy.policy_hash
        print_json(data)
        return
    flat = [_flat(row) for row in rows]
    if format is Format.CSV:
        print_csv(list(flat[0]) if flat else [], flat)
        return
    _print_table(flat, quiet)


def _knobs(given: list[str]) -> dict[str, dict[str, Any]]:
    """Raises LoopscopeError for what is not RULE.KNOB=VALUE, and NotFoundError for a rule there is not."""
    from ..replay.rules import check_options

    options: dict[str, dict[str, Any]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        rule, dot, knob = name.partition(".")
        # Names of rules hold dots themselves (hermes-0.19): the knob stands behind the last.
        if name.count(".") > 1:
            rule, dot, knob = name.rpartition(".")
        if not (equals and dot and knob):
            raise LoopscopeError(f"--set {text!r}: give RULE.KNOB=VALUE, e.g. roo-code.limit=2")
        options.setdefault(rule, {})[knob] = _value(value)
    check_options(options)
    return options


def _value(text: str) -> Any:
    low = text.strip().lower()
    if low in {"true", "yes", "on"}:
        return True
    if low in {"false", "no"}:
        return False
    if low in {"off", "none"}:
        return None
    if low.removeprefix("-").isdecimal():
        return int(low)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    agreement = row.pop("agreement") or {}
    labels = row.pop("labels") or {}
    lacking = row.pop("lacking")
    return {
        **row,
        **{
            name: agreement.get(name)
            for name in ("both", "only_rule", "only_ours", "only_rule_runs", "only_ours_runs")
        },
        **{f"labels_{name}": labels.get(name) for name in ("n", *_LABELS, "spared", "unsure", "cut_off")},
        **{f"without_{name}": lacking.get(name) for name in ("arguments", "result", "outcome", "turn")},
    }


def _print_table(rows: list[dict[str, Any]], quiet: int) -> None:
    out = console()
    if not rows or not rows[0]["calls"]:
        out.print("No finished tool calls are recorded. Import traces first: loopscope import PATH")
        return
    columns = dict(_COLUMNS)
    if any(row["labels_n"] for row in rows):
        columns |= {f"labels_{name}": heading for name, heading in _LABELS.items()}
    runs, calls = rows[0]["runs"], rows[0]["calls"]
    title = f"{runs:,} {'run' if runs == 1 else 'runs'} with {calls:,} finished calls"
    if quiet:  # `replay` counts these runs in
        title = f"{runs:,} of {runs + quiet:,} runs, with {calls:,} finished calls; {quiet:,} called no tool"
    print_table(columns, [_seen(row) for row in rows], title=title, optional=_FIRST_TO_GO)
    out.print(
        "Runs noticed and stopped; exact: no notice came before the stop. Then calls: those after the stop, "
        "had the run ended there, and those refused, had the agent gone on. They are projected: a live agent "
        "might have done something else. Last, runs that are stopped and not by our guard, and the reverse.",
        style="dim",
    )
    if any(row["labels_n"] for row in rows):
        labelled = rows[0]["labels_n"]
        out.print(f"Right, wrong, missed: of {labelled:,} labelled incidents.", style="dim")
    for name, words in _WITHOUT.items():
        needing = [row for row in rows if row[f"without_{name}"]]
        if needing:
            calls = needing[0][f"without_{name}"]
            who = ", ".join(row["rule"] for row in needing)
            out.print(
                one_line(f"{calls:,} of {rows[0]['calls']:,} calls are {words}: not seen by {who}.", 1000)
            )


def _seen(row: dict[str, Any]) -> dict[str, Any]:
    """The row without figures where the rule saw no call: 0 would say that it saw them and let them pass."""
    blind = any(row[f"without_{name}"] == row["calls"] for name in _WITHOUT)
    if not blind or row["runs_noticed"] or row["runs_stopped"]:
        return row
    return {name: row[name] for name in ("rule", "does")}


_WITHOUT = {
    "arguments": "without recorded arguments",
    "result": "without a recorded result",
    "outcome": "without a known outcome",
    "turn": "of a response that is not known",
}


def _print_list(infos: list[Any], format: Format) -> None:
    names = ("name", "framework", "does", "title", "needs", "says", "unseen", "source")
    rows = [{name: getattr(info, name) for name in names} for info in infos]
    if format is Format.JSON:
        print_json([{**row, "needs": list(row["needs"])} for row in rows])
    elif format is Format.CSV:
        print_csv(names, rows)
    else:
        print_table({"name": "rule", "framework": "framework", "does": "does", "title": ""}, rows)
        console().print(
            "docs/rules.md says of each what it compares, counts and does, and where that was read.",
            style="dim",
        )
