"""`loopscope score`: how well thresholds tell true loops from other incidents, by labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._filters import Agent, Model, Run, Service, Since, Tool, Until, filters_of
from ._options import Db, Format, FormatOption, PolicyFile, load_policy, threshold_range
from ._output import console, plural, print_csv, print_json, print_table
from ._store import reading

if TYPE_CHECKING:
    from ..replay import LabelCounts, Ratio, SplitScore, ThresholdScore

__all__ = ["score", "share"]

_FEW = 10  # labelled incidents under which intervals are too wide to tell thresholds apart
_LEGEND = (
    "Precision: of the incidents that it falls on, the true loops. Recall: of the true loops, those that it "
    "falls on. In brackets 95 % Wilson intervals. The lines of one threshold have the other one off. "
    "Cut off: the run had been blocked elsewhere before; in neither share. "
    "Exact: catches before which the recorded agent had seen nothing else; the rest is projected."
)


def score(
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
    weak: Annotated[
        bool,
        typer.Option("--weak", help="Count weak labels, too, where nobody labelled (see `labels --weak`)."),
    ] = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="JSON and CSV: a row for every pair of thresholds as well.")
    ] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Precision and recall of thresholds over labelled incidents, with 95 % intervals.

    A threshold catches an incident if its nudge, or block, falls on one of the incident's calls.
    """
    from .. import replay as engine

    filters = filters_of(service, agent, tool, model, run, since, until)
    rules = load_policy(db, policy)
    nudges, blocks = threshold_range("--nudge", nudge), threshold_range("--block", block)
    with reading(db) as connection:
        at_policy = engine.score_policy(connection, rules, filters, weak=weak)
        curves = engine.score_thresholds(
            connection, rules, blocks=blocks, nudges=nudges, filters=filters, weak=weak
        )
        grid = engine.score_pairs(connection, rules, nudges, blocks, filters, weak=weak) if pairs else None
    by_block = [row for row in curves.rows if row.block_threshold is not None]
    by_nudge = [row for row in curves.rows if row.nudge_threshold is not None]
    if format is Format.JSON:
        head = at_policy.to_json()
        print_json(
            {
                "schema_version": head["schema_version"],
                "policy": head["policy"],
                "labels": head["labels"],
                "at_policy": head["rows"][0],
                "blocks": [row.to_json() for row in by_block],
                "nudges": [row.to_json() for row in by_nudge],
                **({} if grid is None else {"pairs": [row.to_json() for row in grid.rows]}),
            }
        )
        return
    if format is Format.CSV:
        rows = [*at_policy.rows, *curves.rows, *(() if grid is None else grid.rows)]
        print_csv(_SCORE_COLUMNS, _flat(rows))
        return
    _print_scores(at_policy.labels, at_policy.rows[0], by_block, by_nudge, db)


_COUNTS = ("n", "tp", "fp", "fn", "tn", "cut_off", "exact", "projected")
_SHARES = ("precision", "recall")
_SCORE_COLUMNS = (
    *("by", "nudge", "block", "split", *_COUNTS),
    *(f"{share}{end}" for share in _SHARES for end in ("", "_low", "_high")),
)


def _flat(rows: Sequence[ThresholdScore]) -> list[dict[str, Any]]:
    """A line per pair of thresholds, intervention and split. An intervention that is off has none."""
    lines: list[dict[str, Any]] = []
    for row in rows:
        for by, threshold in (("block", row.block_threshold), ("nudge", row.nudge_threshold)):
            for split, scored in getattr(row, by).items() if threshold is not None else ():
                values = scored.to_json()
                line = {
                    "by": by,
                    "nudge": row.nudge_threshold,
                    "block": row.block_threshold,
                    "split": split.value,
                    **{name: values[name] for name in _COUNTS},
                }
                for share in _SHARES:
                    line[share] = values[share]["value"]
                    line[f"{share}_low"], line[f"{share}_high"] = values[share]["low"], values[share]["high"]
                lines.append(line)
    return lines


def _print_scores(
    counts: LabelCounts,
    at_policy: ThresholdScore,
    by_block: Sequence[ThresholdScore],
    by_nudge: Sequence[ThresholdScore],
    db: Path,
) -> None:
    out = console()
    out.print(_coverage(counts))
    if not counts.incidents:
        out.print(
            f"Nothing to score by. Label incidents first: loopscope incidents --db {db}, then "
            "loopscope label KEY VERDICT; or see what the recording suggests: loopscope labels --weak"
        )
        return
    if counts.incidents < _FEW:
        out.print("Too few labels to choose by; label more.")
    for by, rows in (("block", by_block), ("nudge", by_nudge)):
        lines = _folded([_line(row, by) for row in rows])
        if getattr(at_policy, f"{by}_threshold") is not None:
            lines.append({**_line(at_policy, by), "threshold": f"policy: {_named(at_policy)}"})
        out.print()
        print_table(
            {
                "threshold": f"{by} at",
                "tuning_precision": "tuning: precision",
                "tuning_recall": "recall",
                "held_out_precision": "held out: precision",
                "held_out_recall": "recall",
                "cut_off": "cut off",
                "exact": "exact",
            },
            lines,
            title=f"By where the {by} falls" + (" (a nudge, or the block)" if by == "nudge" else ""),
            optional=("exact", "cut_off"),
        )
    out.print(f"\n{_LEGEND}", style="dim")


def _coverage(counts: LabelCounts) -> str:
    from ..replay import Split

    text = (
        f"{plural(counts.incidents, 'labelled incident')} of {plural(counts.groups[Split.ALL], 'group')}: "
        f"{plural(counts.positive, 'true loop')}, {plural(counts.negative, 'other')}"
    )
    if counts.weak:
        text += f"; {counts.human:,} labelled by people, {counts.weak:,} by weak rules"
    left = [
        f"{number:,} {what}"
        for number, what in (
            (counts.unsure, "unsure"),
            (counts.unlabelled, "without a label"),
            (counts.without_incident, "with a label but no incident"),
        )
        if number
    ]
    return f"{text}. Left out: {', '.join(left)}." if left else f"{text}."


def _named(row: ThresholdScore) -> str:
    def name(value: int | None) -> str:
        return "off" if value is None else str(value)

    return f"{name(row.nudge_threshold)}/{name(row.block_threshold)}"


def _line(row: ThresholdScore, by: str) -> dict[str, Any]:
    scores: dict[str, SplitScore] = {split.value: one for split, one in getattr(row, by).items()}
    everything = scores["all"]
    line: dict[str, Any] = {"threshold": str(getattr(row, f"{by}_threshold"))}
    for split in ("tuning", "held_out"):
        line[f"{split}_precision"] = share(scores[split].precision)
        line[f"{split}_recall"] = share(scores[split].recall)
    line["cut_off"] = everything.cut_off
    line["exact"] = f"{everything.exact:,} of {everything.tp + everything.fp:,}"
    return line


def _folded(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring thresholds that score alike, on one line: "6-12"."""
    folded: list[dict[str, Any]] = []
    for _, alike in groupby(lines, lambda line: {**line, "threshold": None}):
        first, *others = alike
        ends = f"{first['threshold']}-{others[-1]['threshold']}" if others else first["threshold"]
        folded.append({**first, "threshold": ends})
    return folded


def share(one: Ratio) -> str:
    """ "7/8 88 % (53-98)"; of nothing "0/0"."""
    if one.value is None:
        return "0/0"
    return f"{one.hits:,}/{one.n:,} {one.value:.0%} ({one.low * 100:.0f}-{one.high * 100:.0f})"
