"""Precision and recall of thresholds over labelled incidents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Any

from ...guard import INHERIT
from .._engine import Judging
from .._facts import facts_of
from .._filters import ALL, Filters
from .._incidents import Found, touching
from .._labelled import LabelVerdict, read_labels
from .._sql import arrow, sql_text
from .._sweep import is_policy, off_last
from .._types import SCHEMA_VERSION
from ._intervals import Ratio, ratio
from ._weak import weak_labels

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ...guard import GuardPolicy

__all__ = [
    "LabelCounts",
    "LabelScores",
    "Split",
    "SplitScore",
    "ThresholdScore",
    "score_pairs",
    "score_policy",
    "score_thresholds",
    "split_of",
]

_HELD_OUT = 3  # one group of so many is held out


class Split(StrEnum):
    """A part of the labelled incidents. Thresholds are chosen by the one, and tried on the other."""

    TUNING = "tuning"
    HELD_OUT = "held_out"
    ALL = "all"


def split_of(group: str) -> Split:
    """Where the incidents of a group belong: about a third of the groups are held out.

    Depends on the group alone: copies of one fault are never on both sides, and further data moves none.
    """
    return Split.HELD_OUT if int(group, 16) % _HELD_OUT == 0 else Split.TUNING


@dataclass(frozen=True, slots=True)
class SplitScore:
    """How an intervention divides labelled incidents: the loops and the others.

    `cut_off` incidents are in none of the four: their run had been blocked elsewhere before.
    """

    tp: int = 0  # true loops that it falls on
    fp: int = 0  # others that it falls on
    fn: int = 0  # true loops that it does not fall on
    tn: int = 0
    cut_off: int = 0
    exact: int = 0  # of tp + fp: the recorded agent had seen nothing else before; the rest is projected

    @property
    def n(self) -> int:
        """Incidents that were decided: tp + fp + fn + tn."""
        return self.tp + self.fp + self.fn + self.tn

    @property
    def precision(self) -> Ratio:
        """Of what it falls on, the true loops."""
        return ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> Ratio:
        """Of the true loops, what it falls on."""
        return ratio(self.tp, self.tp + self.fn)

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {
            **asdict(self),
            "projected": self.tp + self.fp - self.exact,
            "n": self.n,
            "precision": self.precision.to_json(),
            "recall": self.recall.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ThresholdScore:
    """One pair of default thresholds. `block`: by where the block falls; `nudge`: a nudge, or the block."""

    nudge_threshold: int | None
    block_threshold: int | None
    block: Mapping[Split, SplitScore]
    nudge: Mapping[Split, SplitScore]

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {
            "nudge": self.nudge_threshold,
            "block": self.block_threshold,
            "by_block": {split.value: score.to_json() for split, score in self.block.items()},
            "by_nudge": {split.value: score.to_json() for split, score in self.nudge.items()},
        }


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """The labels behind a score. The parts of `incidents`: `human` + `weak`, and `positive` + `negative`."""

    incidents: int  # labelled and decided, under the filter
    human: int
    weak: int  # 0 unless asked for
    positive: int  # true loops
    negative: int  # polling, legitimate repeats, retries that worked
    unsure: int  # left out
    unlabelled: int  # incidents under the filter without any of these labels
    without_incident: int  # human labels, in the whole store, whose incident is not found; left out
    groups: Mapping[Split, int]
    by_verdict: Mapping[str, int]  # human and weak together, without unsure

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {**asdict(self), "groups": {split.value: number for split, number in self.groups.items()}}


@dataclass(frozen=True, slots=True)
class LabelScores:
    """Scores of several pairs of thresholds over the same labelled incidents."""

    policy: GuardPolicy
    labels: LabelCounts
    rows: tuple[ThresholdScore, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict (docs/labels.md)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "policy": {**self.policy.to_dict(), "policy_hash": self.policy.policy_hash},
            "labels": self.labels.to_json(),
            "rows": [row.to_json() for row in self.rows],
        }


def score_policy(
    con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters = ALL, *, weak: bool = False
) -> LabelScores:
    """How well a policy's nudge and block tell true loops from the other labelled incidents: one row.

    With `weak`, incidents that nobody labelled count with the weak label they may have.
    """
    return _scores(con, policy, [(policy.nudge_threshold, policy.block_threshold)], filters, weak)


def score_thresholds(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    *,
    blocks: Iterable[int] = (),
    nudges: Iterable[int] = (),
    filters: Filters = ALL,
    weak: bool = False,
) -> LabelScores:
    """Curves: a row per block threshold with nudging off, then one per nudge threshold with blocking off.

    The other knobs of `policy` stay, thresholds of tools among them. What is no policy is left out. All is
    one pass over the calls of the labelled incidents' runs.
    """
    pairs: list[tuple[int | None, int | None]] = [(None, block) for block in sorted(set(blocks))]
    return _scores(con, policy, [*pairs, *((nudge, None) for nudge in sorted(set(nudges)))], filters, weak)


def score_pairs(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    nudges: Iterable[int | None],
    blocks: Iterable[int | None],
    filters: Filters = ALL,
    *,
    weak: bool = False,
) -> LabelScores:
    """A row per pair of thresholds, by nudge, then block, for the pairs that `sweep` has."""
    pairs = product(sorted(set(nudges), key=off_last), sorted(set(blocks), key=off_last))
    return _scores(con, policy, list(pairs), filters, weak)


def _scores(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    wanted: Sequence[tuple[int | None, int | None]],
    filters: Filters,
    weak: bool,
) -> LabelScores:
    pairs = [pair for pair in wanted if is_policy(policy, *pair)]
    facts = facts_of(con)
    chosen, counts = _labelled(con, filters, weak)
    scores: dict[int, tuple[dict[Split, SplitScore], dict[Split, SplitScore]]] = {}
    if pairs and chosen:
        judging = Judging(facts, con, policy)
        own = [policy.tools.get(name) for name in facts.tools]
        params: dict[str, Any] = {
            **{name: value for name, value in judging.thresholds.items() if name in _PER_TOOL},
            "own_nudge": [tool is not None and tool.nudge_threshold is not INHERIT for tool in own],
            "own_block": [tool is not None and tool.block_threshold is not INHERIT for tool in own],
            "cells": list(range(len(pairs))),
            "cell_nudges": [nudge or 0 for nudge, _ in pairs],
            "cell_blocks": [block or 0 for _, block in pairs],
        }
        labelled, calls = _tables(chosen)
        judging.con.register("labelled", labelled)
        judging.con.register("labelled_calls", calls)
        try:
            lowest = {"lowest": min(_limits(judging.thresholds, pairs), default=1)}
            judging.con.execute(f"CREATE TEMP TABLE label_calls AS {sql_text('label_calls')}", lowest)
            scores = _read(arrow(judging.con, sql_text("label_scores"), params).to_pylist())
        finally:
            judging.con.unregister("labelled")
            judging.con.unregister("labelled_calls")
    rows = (
        ThresholdScore(nudge, block, *scores.get(cell, (_nothing(), _nothing())))
        for cell, (nudge, block) in enumerate(pairs)
    )
    return LabelScores(policy, counts, tuple(rows))


def _limits(of_tools: Mapping[str, Any], pairs: Iterable[tuple[int | None, int | None]]) -> Iterator[int]:
    """Every threshold that a call can meet."""
    for name in ("nudges", "blocks", "error_nudges", "error_blocks"):
        yield from (limit for limit in of_tools[name] if limit is not None)
    for pair in pairs:
        yield from (limit for limit in pair if limit is not None)


_PER_TOOL = ("tools", "nudges", "blocks", "error_nudges", "error_blocks", "exempt")


def _labelled(
    con: duckdb.DuckDBPyConnection, filters: Filters, weak: bool
) -> tuple[list[tuple[Found, LabelVerdict]], LabelCounts]:
    """The incidents to score by, each with its verdict, and what they are."""
    said = read_labels(con)
    found = touching(facts_of(con), con, filters)
    offered = {one.key: one for one in weak_labels(con, filters)} if weak else {}
    chosen: list[tuple[Found, LabelVerdict]] = []
    human = unsure = 0
    by_verdict = {verdict.value: 0 for verdict in LabelVerdict if verdict is not LabelVerdict.UNSURE}
    groups: dict[Split, set[str]] = {Split.TUNING: set(), Split.HELD_OUT: set(), Split.ALL: set()}
    for one in found:
        # What a person is not sure of, no rule decides.
        label = said.get(one.incident.key) or offered.get(one.incident.key)
        if label is None:
            continue
        if label.verdict is LabelVerdict.UNSURE:
            unsure += 1
            continue
        human += one.incident.key in said
        chosen.append((one, label.verdict))
        by_verdict[label.verdict.value] += 1
        groups[split_of(one.incident.group)].add(one.incident.group)
        groups[Split.ALL].add(one.incident.group)
    positive = by_verdict[LabelVerdict.TRUE_LOOP.value]
    everything = found if filters == ALL else touching(facts_of(con), con, ALL)
    return chosen, LabelCounts(
        incidents=len(chosen),
        human=human,
        weak=len(chosen) - human,
        positive=positive,
        negative=len(chosen) - positive,
        unsure=unsure,
        unlabelled=len(found) - len(chosen) - unsure,
        without_incident=len(said.keys() - {one.incident.key for one in everything}),
        groups={split: len(names) for split, names in groups.items()},
        by_verdict=by_verdict,
    )


def _tables(chosen: Sequence[tuple[Found, LabelVerdict]]) -> tuple[pa.Table, pa.Table]:
    """incident, positive, split; and incident, run, seq of their calls."""
    import pyarrow as pa

    columns = (
        pa.array(range(len(chosen)), pa.int64()),
        pa.array([verdict is LabelVerdict.TRUE_LOOP for _, verdict in chosen], pa.bool_()),
        pa.array([split_of(one.incident.group).value for one, _ in chosen], pa.string()),
    )
    labelled = pa.Table.from_arrays(columns, ["incident", "positive", "split"])
    calls = [
        (number, one.stretch.run, seq) for number, (one, _) in enumerate(chosen) for seq in one.stretch.seqs
    ]
    arrays = [pa.array(column, pa.int64()) for column in zip(*calls, strict=True)]
    return labelled, pa.Table.from_arrays(arrays, ["incident", "run", "seq"])


def _read(rows: list[dict[str, Any]]) -> dict[int, tuple[dict[Split, SplitScore], dict[Split, SplitScore]]]:
    scores: dict[int, tuple[dict[Split, SplitScore], dict[Split, SplitScore]]] = {}
    for row in rows:
        pair = scores.setdefault(row["cell"], (_nothing(), _nothing()))
        for kind, by_split in zip(("block", "nudge"), pair, strict=True):
            caught, cut_off = row[f"{kind}_caught"], row[f"{kind}_cut_off"]
            missed = row["incidents"] - caught - cut_off
            part = SplitScore(cut_off=cut_off, exact=row[f"{kind}_exact"])
            if row["positive"]:
                part = replace(part, tp=caught, fn=missed)
            else:
                part = replace(part, fp=caught, tn=missed)
            for split in (Split(row["split"]), Split.ALL):
                by_split[split] = _sum(by_split[split], part)
    return scores


def _nothing() -> dict[Split, SplitScore]:
    return {split: SplitScore() for split in Split}


def _sum(one: SplitScore, other: SplitScore) -> SplitScore:
    return SplitScore(*(a + b for a, b in zip(asdict(one).values(), asdict(other).values(), strict=True)))
