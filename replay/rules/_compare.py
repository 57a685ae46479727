"""Rules side by side over the recorded runs: what each would have stopped, and how ours differs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from .._engine import Judging
from .._facts import Facts, facts_of
from .._filters import ALL, Filters, fact_filter
from .._labelled import read_labels
from .._sql import arrow, filtered, rows
from .._totals import totals
from ._labels import LabelledCalls, RuleLabels, labelled_calls
from ._registry import RULES, check_options, rule_info
from ._rule import RuleInfo, RuleVerdicts, fold
from ._stream import recorded_runs, runs_to_see

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ...guard import GuardPolicy

__all__ = ["Agreement", "RuleComparison", "compare_rules"]

_OURS = "ours"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Runs that a rule and our guard stop; of each kind the ids of at most three."""

    both: int = 0
    only_rule: int = 0
    only_ours: int = 0
    both_runs: tuple[str, ...] = ()
    only_rule_runs: tuple[str, ...] = ()
    only_ours_runs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """What one rule would have done with the recorded runs.

    A rule's stop is its first refusal, halt or question to the user in a run. Up to its first notice or
    stop a run is as recorded; what follows is projected: it assumes that the agent had gone on all the same.

    Attributes:
        rule, framework, title, does: of `RuleInfo`.
        runs: runs with a finished call under the filter.
        calls: finished calls under the filter.
        runs_noticed: runs with a notice before anything is stopped.
        runs_stopped: runs with a stop.
        runs_stopped_exact: of these, runs in which no notice came before, so that the stop is no projection.
        calls_after_stop: calls that were made and would not have been, had the run ended at the stop.
        calls_avoidable, calls_lost, calls_unjudged: the same by what they brought (docs/replay.md).
        calls_refused: of a rule that refuses single calls, the calls it refuses if the agent goes on as
            recorded, which is all projected but the first; None for other rules.
        refused_avoidable, refused_lost, refused_unjudged: the same by what they brought.
        agreement: against our guard with the policy given; None for our guard.
        labels: by human labels; None where no incident is labelled.
        lacking: calls under the filter without something that the rule needs, by what it is. Such a call
            equals no other.
        unseen: what of the framework's rule a recording cannot show.
    """

    rule: str
    framework: str
    title: str
    does: str
    runs: int = 0
    calls: int = 0
    runs_noticed: int = 0
    runs_stopped: int = 0
    runs_stopped_exact: int = 0
    calls_after_stop: int = 0
    calls_avoidable: int = 0
    calls_lost: int = 0
    calls_unjudged: int = 0
    calls_refused: int | None = None
    refused_avoidable: int | None = None
    refused_lost: int | None = None
    refused_unjudged: int | None = None
    agreement: Agreement | None = None
    labels: RuleLabels | None = None
    lacking: Mapping[str, int] = field(default_factory=dict)
    unseen: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {
            **asdict(self),
            "lacking": dict(self.lacking),
            "labels": self.labels and self.labels.to_json(),
        }


def compare_rules(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    names: Iterable[str] | None = None,
    filters: Filters = ALL,
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[RuleComparison, ...]:
    """What rules would have done with the recorded runs, ours with `policy` first.

    Args:
        con: a leased cursor.
        policy: of our guard; the reasoned override takes exemptions and resets from it, and every rule
            its notion of calls that brought something new.
        names: rules to run; None is all.
        filters: what is reported. Rules always see whole runs.
        options: knobs by name of the rule, in place of its defaults.

    Raises:
        NotFoundError: there is no rule of such a name, or it has no such knob.
        LoopscopeError: the value of a knob is of no use.
    """
    wanted = [rule_info(name) for name in dict.fromkeys(RULES if names is None else names)]
    knobs = {name: dict(given) for name, given in (options or {}).items()}
    check_options(knobs)
    knobs.setdefault("reasoned-override", {}).setdefault("policy", policy)
    facts = facts_of(con)
    judging = Judging(facts, con, policy)
    labelled = labelled_calls(facts, con, read_labels(con))
    others = [info for info in wanted if info.name != _OURS]
    said = _Said([_OURS, *(info.name for info in others)])
    said.take(judging.arrow("rules_ours", {}), labelled)
    _fold_all(facts, con, others, knobs, said, labelled)
    found = _figures(facts, con, judging, filters, said)
    mine = _ours(con, policy, filters)
    lacking = found["lacking"]
    run_ids = _run_ids(facts, found["agreement"].values())
    made: list[RuleComparison] = []
    ordered = sorted(wanted, key=lambda info: info.name != _OURS)
    for info in ordered:
        figures = mine if info.name == _OURS else found["rules"].get(info.name, {})
        refused: dict[str, Any] = {}
        if info.does == "refuses":
            refused = dict.fromkeys(_REFUSED, 0) | found["refused"].get(info.name, {})
            refused["calls_refused"] = sum(refused[name] for name in _REFUSED)
        made.append(
            RuleComparison(
                rule=info.name,
                framework=info.framework,
                title=info.title,
                does=info.does,
                runs=lacking["runs"],
                calls=lacking["calls"],
                **figures,
                **refused,
                agreement=None if info.name == _OURS else _agreement(found["agreement"], run_ids, info.name),
                labels=labelled.score(said.number(info.name), marks=info.does == "marks"),
                lacking={need: lacking[need] for need in info.needs},
                unseen=info.unseen,
            )
        )
    return tuple(made)


_REFUSED = ("refused_avoidable", "refused_lost", "refused_unjudged")
_AFTER = ("calls_avoidable", "calls_lost", "calls_unjudged")


class _Said:
    """Where rules speak and stop, in columns: a row per rule and run in which it says anything."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self._columns = [array("i") for _ in range(6)]  # rule, run, notice, stop, made, halts
        self._refused = [array("i") for _ in range(3)]  # rule, run, seq

    def number(self, name: str) -> int:
        return self.names.index(name)

    def take(self, ours: pa.Table, labelled: LabelledCalls) -> None:
        """Our guard's, as the engine has them. The blocked call was made."""
        columns = (ours.column(name).to_pylist() for name in ("run", "notice", "stop"))
        for run, notice, stop in zip(*columns, strict=True):
            self.add(0, run, notice or 0, stop or 0, True, True)
            labelled.note(0, run, notice or 0, stop or 0, ())

    def add(self, rule: int, run: int, notice: int, stop: int, made: bool, halts: bool) -> None:
        for column, value in zip(self._columns, (rule, run, notice, stop, made, halts), strict=True):
            column.append(value)

    def refuse(self, rule: int, run: int, seqs: Sequence[int]) -> None:
        self._refused[0].extend([rule] * len(seqs))
        self._refused[1].extend([run] * len(seqs))
        self._refused[2].extend(seqs)

    def offer(self, con: duckdb.DuckDBPyConnection) -> None:
        """As temporary tables of the cursor: `said`, `refused`, `rule_numbers`."""
        import pyarrow as pa

        def table(columns: list[array[int]], names: tuple[str, ...]) -> pa.Table:
            arrays = [
                pa.Array.from_buffers(pa.int32(), len(one), [None, pa.py_buffer(one)]) for one in columns
            ]
            return pa.Table.from_arrays(arrays, list(names))

        con.register("offered", table(self._columns, ("rule", "run", "notice", "stop", "made", "halts")))
        con.execute(
            "CREATE TEMP TABLE said AS SELECT rule, run, nullif(notice, 0) AS notice, "
            "nullif(stop, 0) AS stop, made = 1 AS made, halts = 1 AS halts FROM offered"
        )
        con.register("offered", table(self._refused, ("rule", "run", "seq")))
        con.execute("CREATE TEMP TABLE refused AS SELECT * FROM offered")
        con.unregister("offered")
        con.execute(
            "CREATE TEMP TABLE rule_numbers AS SELECT CAST(range AS INTEGER) AS rule FROM range(?)",
            [len(self.names)],
        )


def _fold_all(
    facts: Facts,
    con: duckdb.DuckDBPyConnection,
    infos: Sequence[RuleInfo],
    knobs: Mapping[str, Mapping[str, Any]],
    said: _Said,
    labelled: LabelledCalls,
) -> None:
    rules = [info.rule(**knobs.get(info.name, {})) for info in infos]
    makers = [lambda info=info: info.rule(**knobs.get(info.name, {})) for info in infos]
    seen_by = runs_to_see(facts, rules)
    for run in recorded_runs(facts, con, rules, seen_by):
        parts = run.by_agent()
        for place in seen_by[run.run]:
            verdicts, seqs = _judge(parts, makers[place])
            if verdicts.notice_at is None and verdicts.stop_at is None:
                continue
            number = place + 1
            notice, stop = verdicts.notice_at or 0, verdicts.stop_at or 0
            refuses = infos[place].does == "refuses"
            said.add(number, run.run, notice, stop, verdicts.made, not refuses)
            if refuses and seqs:
                said.refuse(number, run.run, seqs)
            labelled.note(number, run.run, notice, stop, seqs)


def _judge(parts: list[tuple[list[int], list[Any]]], make: Any) -> tuple[RuleVerdicts, Sequence[int]]:
    """A rule's verdicts in numbers of the run's calls, and what it refuses; each agent has its own rule."""
    if len(parts) == 1:
        seqs, calls = parts[0]
        found = fold(make(), calls)
        notice = found.notice_at and seqs[found.notice_at - 1]
        stop = found.stop_at and seqs[found.stop_at - 1]
        return RuleVerdicts(notice, stop, found.made), [seqs[one - 1] for one in found.refused]
    notices: list[int] = []
    stops: list[tuple[int, bool]] = []
    refused: list[int] = []
    for seqs, calls in parts:
        found = fold(make(), calls)
        if found.notice_at:
            notices.append(seqs[found.notice_at - 1])
        if found.stop_at:
            stops.append((seqs[found.stop_at - 1], found.made))
        refused += [seqs[one - 1] for one in found.refused]
    stop, made = min(stops, default=(None, False))
    notice = min(notices, default=None)
    if notice is not None and stop is not None and notice > stop:
        notice = None
    return RuleVerdicts(notice, stop, made), sorted(refused)


def _figures(
    facts: Facts, con: duckdb.DuckDBPyConnection, judging: Judging, filters: Filters, said: _Said
) -> dict[str, Any]:
    said.offer(judging.con)
    where, params = fact_filter(filters, facts, con, "c")
    plain, plain_params = fact_filter(filters, facts, con)

    def ask(name: str, **more: Any) -> list[dict[str, Any]]:
        return arrow(judging.con, filtered(name, where), {**params, **more}).to_pylist()

    def by_rule(found: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
        return {said.names[row.pop("rule")]: row for row in found}

    rules = by_rule(ask("rules_totals"))
    for row in rules.values():
        row["calls_after_stop"] = sum(row[name] for name in _AFTER)
    return {
        "rules": rules,
        "refused": by_rule(ask("rules_refused")),
        "agreement": {(said.names[row["rule"]], row["which"]): row for row in ask("rules_agreement", ours=0)},
        "lacking": rows(facts.cursor(), filtered("rules_lacking", plain), plain_params)[0],
    }


def _ours(con: duckdb.DuckDBPyConnection, policy: GuardPolicy, filters: Filters) -> dict[str, int]:
    """Our guard's figures are those of `totals`."""
    everything, exact = totals(con, policy, filters)
    return {
        "runs_noticed": everything.runs_nudged,
        "runs_stopped": everything.runs_blocked,
        "runs_stopped_exact": exact.runs_blocked,
        "calls_after_stop": everything.calls_after_block,
        **{name: getattr(everything, name) for name in _AFTER},
    }


def _agreement(
    found: Mapping[tuple[str, str], dict[str, Any]], run_ids: Mapping[int, str], name: str
) -> Agreement:
    def of(which: str) -> tuple[int, tuple[str, ...]]:
        row = found.get((name, which))
        if row is None:
            return 0, ()
        return row["runs"], tuple(run_ids[run] for run in row["examples"])

    both, only_rule, only_ours = of("both"), of("rule"), of("ours")
    return Agreement(both[0], only_rule[0], only_ours[0], both[1], only_rule[1], only_ours[1])


def _run_ids(facts: Facts, found: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """The names of the runs that are given as examples."""
    numbers = sorted({run for row in found for run in row["examples"]})
    named = facts.cursor().execute(
        "SELECT run, run_id FROM runs WHERE run IN (SELECT unnest($runs))", {"runs": numbers}
    )
    return dict(named.fetchall())
