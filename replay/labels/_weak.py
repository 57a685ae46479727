"""Weak labels: what a recording itself suggests an incident was. Offered, never stored.

Each comes from one rule and says so. Rules look at what calls returned, not at thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...guard import GuardPolicy
from .._engine import Judging
from .._facts import Facts, facts_of
from .._filters import ALL, Filters
from .._incidents import Found, agent_spans, touching
from .._labelled import LabelVerdict, read_labels
from .._sql import arrow, sql_text
from .._text import duration, plural
from .._types import IncidentKind
from ._intervals import Ratio, ratio

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["WEAK_RULES", "RuleAgreement", "WeakLabel", "weak_agreement", "weak_labels"]

_FEW_RUNS = 1_000
_INCIDENT = 3  # calls, or laps of a cycle, that make an incident


@dataclass(frozen=True, slots=True)
class WeakLabel:
    """What a rule takes an incident for, and why: one sentence with numbers."""

    key: str  # of the incident
    verdict: LabelVerdict
    rule: str  # a key of WEAK_RULES
    evidence: str

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {**asdict(self), "verdict": self.verdict.value}


@dataclass(frozen=True, slots=True)
class RuleAgreement:
    """How often people say what a rule says, over the incidents that have both labels."""

    rule: str
    verdict: LabelVerdict
    offered: int  # incidents that the rule labels
    agree: Ratio  # of those with a decided label of a person: the same verdict
    same_side: Ratio  # ... a true loop or not, as the rule has it
    unsure: int  # a person labelled it "unsure"; in neither

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {**asdict(self), "verdict": self.verdict.value}


WEAK_RULES: Mapping[str, tuple[LabelVerdict, str]] = {
    "succeeded_later": (LabelVerdict.RETRY_THAT_WORKED, "a call that failed succeeded later in the run"),
    "failed_to_the_end": (
        LabelVerdict.TRUE_LOOP,
        "a call never succeeded, and nothing new came of the run",
    ),
    "work_between": (LabelVerdict.LEGITIMATE_REPEAT, "other calls brought new results between the repeats"),
    "changed_later": (
        LabelVerdict.POLLING,
        "the same call gave another result later, with little work meanwhile",
    ),
    "changed_after_work": (
        LabelVerdict.LEGITIMATE_REPEAT,
        "the same call gave another result after work",
    ),
    "run_ended_in_it": (LabelVerdict.TRUE_LOOP, "the run ended in it, and nothing new came of it"),
    "nothing_new_after": (LabelVerdict.TRUE_LOOP, "the run went on, and nothing new came of it"),
    "stop_costs_more": (LabelVerdict.LEGITIMATE_REPEAT, "a stop would have lost more than it saved"),
}
"""Verdict and meaning of each rule, in the order in which they are asked; the first that applies decides."""


def _few_runs(found: Sequence[Found]) -> set[int] | None:
    """The runs of the incidents, for `Judging`; None: too many to name."""
    runs = {one.stretch.run for one in found}
    return runs if len(runs) <= _FEW_RUNS else None


def weak_labels(con: duckdb.DuckDBPyConnection, filters: Filters = ALL) -> tuple[WeakLabel, ...]:
    """What the recording suggests of the incidents under the filter, most repeated calls first.

    Incidents of which it suggests nothing, and twins, have none. Labels of people play no part.
    """
    facts = facts_of(con)
    found = [one for one in touching(facts, con, filters) if one.incident.kind is not IncidentKind.TWINS]
    if not found:
        return ()
    evidence = _evidence(facts, con, found)
    spans = agent_spans(con, {one.incident.run_id for one in found})
    unended = {run for run, status in spans.items() if status == "running"}
    labels: list[WeakLabel] = []
    for number, one in enumerate(found):
        seen = _Seen(one, evidence[number], running=one.incident.run_id in unended)
        rule = next((rule for rule, asked in _RULES if asked(seen)), None)
        if rule is not None:
            verdict, _ = WEAK_RULES[rule]
            labels.append(WeakLabel(one.incident.key, verdict, rule, _SENTENCES[rule](seen)))
    return tuple(labels)


def weak_agreement(con: duckdb.DuckDBPyConnection, filters: Filters = ALL) -> tuple[RuleAgreement, ...]:
    """Each rule that labels an incident under the filter against the labels of people."""
    said = read_labels(con)
    by_rule: dict[str, list[WeakLabel]] = {}
    for one in weak_labels(con, filters):
        by_rule.setdefault(one.rule, []).append(one)
    found: list[RuleAgreement] = []
    for rule, (verdict, _) in WEAK_RULES.items():
        labels = by_rule.get(rule, [])
        both = [said[one.key].verdict for one in labels if one.key in said]
        decided = [human for human in both if human is not LabelVerdict.UNSURE]
        loop = LabelVerdict.TRUE_LOOP
        if labels:
            found.append(
                RuleAgreement(
                    rule=rule,
                    verdict=verdict,
                    offered=len(labels),
                    agree=ratio(decided.count(verdict), len(decided)),
                    same_side=ratio(
                        sum((human is loop) == (verdict is loop) for human in decided), len(decided)
                    ),
                    unsure=len(both) - len(decided),
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Seen:
    """An incident and what sql/weak_evidence.sql says of it."""

    found: Found
    row: Mapping[str, Any]
    running: bool  # its run has not ended, so nothing is known of its end

    @property
    def failed(self) -> bool:
        incident = self.found.incident
        return incident.kind in (IncidentKind.RETRY_STORM, IncidentKind.SAME_ERROR) or (
            incident.kind is IncidentKind.LOOP and incident.outcome == "schema_error"
        )

    @property
    def gaps(self) -> int:
        """Pauses between its calls, or between its laps."""
        return self.found.incident.laps - 1

    @property
    def nothing_new(self) -> bool:
        """The whole rest of the run is known, and brought nothing new."""
        row = self.row
        return not (row["new_after"] or row["unknown_after"] or row["cut"] or self.running)


# Asked in this order; keys of WEAK_RULES.
_RULES: tuple[tuple[str, Callable[[_Seen], bool]], ...] = (
    ("succeeded_later", lambda it: it.failed and it.row["succeeded_calls_later"] is not None),
    ("failed_to_the_end", lambda it: it.failed and it.nothing_new),
    ("work_between", lambda it: not it.failed and it.row["new_between"] >= it.gaps),
    (
        "changed_later",
        lambda it: (
            not it.failed
            and it.row["changed_calls_later"] is not None
            and it.row["new_between"] + it.row["new_before_change"] < it.gaps
        ),
    ),
    ("changed_after_work", lambda it: not it.failed and it.row["changed_calls_later"] is not None),
    (
        "run_ended_in_it",
        lambda it: (
            not it.failed and it.nothing_new and it.found.incident.ending in ("run_ended", "stopped_by_guard")
        ),
    ),
    ("nothing_new_after", lambda it: not it.failed and it.nothing_new),
    (
        "stop_costs_more",
        lambda it: (
            not it.failed
            and it.row["new_after"] > max(it.row["known_after"], it.found.incident.repeated_calls)
        ),
    ),
)


def _times(it: _Seen) -> str:
    incident = it.found.incident
    if incident.kind is IncidentKind.CYCLE:
        return f"{incident.laps:,} equal laps"
    return f"{incident.calls:,} equal results"


def _later(calls: int) -> str:
    return "with the next call" if calls == 1 else f"{calls:,} calls later"


def _others(number: int) -> str:
    return f"other calls brought {plural(number, 'new result')}"


def _rest(it: _Seen) -> str:
    what = "third lap" if it.found.incident.kind is IncidentKind.CYCLE else "third call"
    calls = it.row["calls_after"]
    return f"after its {what} the run made {'no more calls' if not calls else plural(calls, 'more call')}"


def _vain_rest(it: _Seen) -> str:
    return f"{_rest(it)}, none with a new result" if it.row["calls_after"] else _rest(it)


def _sentence_succeeded(it: _Seen) -> str:
    same = "the tool" if it.found.incident.kind is IncidentKind.SAME_ERROR else "the same call"
    return (
        f"It failed {it.found.incident.calls:,} times, then {same} succeeded"
        f" {_later(it.row['succeeded_calls_later'])}."
    )


def _sentence_changed(it: _Seen) -> str:
    work = it.row["new_between"] + it.row["new_before_change"]
    return (
        f"After {_times(it)} the same call gave another one {_later(it.row['changed_calls_later'])}"
        f" ({duration(it.row['changed_ns_later'])}); meanwhile {_others(work)}."
    )


_SENTENCES: Mapping[str, Callable[[_Seen], str]] = {
    "succeeded_later": _sentence_succeeded,
    "failed_to_the_end": lambda it: (
        f"It failed {it.found.incident.calls:,} times and never succeeded; {_vain_rest(it)}."
    ),
    "work_between": lambda it: f"Between its {_times(it)} {_others(it.row['new_between'])}.",
    "changed_later": _sentence_changed,
    "changed_after_work": _sentence_changed,
    "run_ended_in_it": lambda it: f"The run ended in it: {_vain_rest(it)}.",
    "nothing_new_after": lambda it: f"Nothing came of it: {_vain_rest(it)}.",
    "stop_costs_more": lambda it: (
        f"A stop would have cost more than it saved: {_rest(it)}, {it.row['new_after']:,} with a new result"
        f" and {it.row['known_after']:,} with one that was known."
    ),
}


def _evidence(
    facts: Facts, store: duckdb.DuckDBPyConnection, found: Sequence[Found]
) -> dict[int, dict[str, Any]]:
    # Incidents count by the default rule, whatever the thresholds.
    con = Judging(facts, store, GuardPolicy(), _few_runs(found)).con
    stretches, calls = _tables(found)
    con.register("weak_stretches", stretches)
    con.register("weak_calls", calls)
    try:
        return {row["incident"]: row for row in arrow(con, sql_text("weak_evidence")).to_pylist()}
    finally:
        con.unregister("weak_stretches")
        con.unregister("weak_calls")


def _tables(found: Sequence[Found]) -> tuple[pa.Table, pa.Table]:
    """incident, run, first_seq, pivot_seq, last_seq, by_tool; and incident, run, seq of their calls."""
    import pyarrow as pa

    spans = [
        (
            number,
            one.stretch.run,
            one.stretch.seqs[0],
            one.stretch.seqs[min(len(one.stretch.seqs), _INCIDENT * _lap(one)) - 1],
            one.stretch.seqs[-1],
        )
        for number, one in enumerate(found)
    ]
    columns = [pa.array(column, pa.int64()) for column in zip(*spans, strict=True)]
    columns.append(pa.array([one.stretch.kind is IncidentKind.SAME_ERROR for one in found], pa.bool_()))
    names = ["incident", "run", "first_seq", "pivot_seq", "last_seq", "by_tool"]
    calls = [(number, one.stretch.run, seq) for number, one in enumerate(found) for seq in one.stretch.seqs]
    arrays = [pa.array(column, pa.int64()) for column in zip(*calls, strict=True)]
    return pa.Table.from_arrays(columns, names), pa.Table.from_arrays(arrays, ["incident", "run", "seq"])


def _lap(one: Found) -> int:
    return one.stretch.period if one.stretch.kind is IncidentKind.CYCLE else 1
