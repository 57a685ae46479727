"""Rules against human labels: which stops fell into what people called a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._incidents import all_incidents
from .._labelled import Label, LabelVerdict
from ..labels import Ratio, ratio

if TYPE_CHECKING:
    import duckdb

    from .._facts import Facts

__all__ = ["LabelledCalls", "RuleLabels", "labelled_calls"]

_COUNTS = ("right", "missed", "wrong", "spared", "unsure", "cut_off")
_NO_LOOP = (LabelVerdict.POLLING, LabelVerdict.LEGITIMATE_REPEAT, LabelVerdict.RETRY_THAT_WORKED)


@dataclass(frozen=True, slots=True)
class RuleLabels:
    """A rule against the incidents that people labelled. Of a rule that only marks, its marks count.

    Attributes:
        right: incidents called a true loop in which it stops something.
        missed: incidents called a true loop in which it does not.
        wrong: incidents called polling, a legitimate repeat or a retry that worked in which it does.
        spared: such incidents in which it does not.
        unsure: incidents about which people were not sure.
        cut_off: incidents that come after an earlier stop, which tells nothing of the rule here.
        precision: right of right and wrong.
        recall: right of right and missed.
    """

    right: int
    missed: int
    wrong: int
    spared: int
    unsure: int
    cut_off: int
    precision: Ratio
    recall: Ratio

    @property
    def n(self) -> int:
        """Incidents that were counted."""
        return self.right + self.missed + self.wrong + self.spared

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {"n": self.n, **counts, "precision": self.precision.to_json(), "recall": self.recall.to_json()}


class LabelledCalls:
    """The labelled incidents of the runs that rules look at, and what each rule did in them."""

    def __init__(self, incidents: Mapping[int, list[tuple[int, int, LabelVerdict]]]) -> None:
        self._incidents = incidents  # by run: first and last call, verdict
        self._noted: dict[tuple[int, int], tuple[int, int, Sequence[int]]] = {}

    def note(self, rule: int, run: int, notice: int, stop: int, refused: Sequence[int]) -> None:
        """What a rule did in a run; 0 for nothing."""
        if run in self._incidents:
            self._noted[rule, run] = notice, stop, refused

    def score(self, rule: int, *, marks: bool) -> RuleLabels | None:
        """A rule's score; None where nothing is labelled."""
        if not self._incidents:
            return None
        counts: dict[str, int] = dict.fromkeys(_COUNTS, 0)
        for run, found in self._incidents.items():
            notice, stop, refused = self._noted.get((rule, run), (0, 0, ()))
            at = notice if marks else stop
            for first, last, verdict in found:
                inside = first <= at <= last or any(first <= one <= last for one in refused)
                counts[_counts_as(verdict, inside, 0 < at < first and not refused)] += 1
        right, wrong, missed = counts["right"], counts["wrong"], counts["missed"]
        return RuleLabels(
            **counts, precision=ratio(right, right + wrong), recall=ratio(right, right + missed)
        )


def _counts_as(verdict: LabelVerdict, inside: bool, before: bool) -> str:
    if verdict is LabelVerdict.UNSURE:
        return "unsure"
    if before:
        return "cut_off"
    if verdict in _NO_LOOP:
        return "wrong" if inside else "spared"
    return "right" if inside else "missed"


def labelled_calls(
    facts: Facts, con: duckdb.DuckDBPyConnection, labels: Mapping[str, Label]
) -> LabelledCalls:
    """Where the labelled incidents lie. Those of which nothing is recorded any more are left out."""
    found: dict[int, list[tuple[int, int, LabelVerdict]]] = {}
    if labels:
        for one in all_incidents(facts, con):
            label = labels.get(one.incident.key)
            if label is not None:
                seqs = one.stretch.seqs
                found.setdefault(one.stretch.run, []).append((min(seqs), max(seqs), label.verdict))
    return LabelledCalls(found)
