"""Requests that succeeded: which the sanitizer would change, and who else would refuse their history."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ...guard.messages._clean import is_whole, says_nothing
from ...guard.messages._formats import format_of
from ...guard.messages._providers import PROVIDERS, ProviderRules
from ...guard.messages._rules import Rule, rule_class
from ...guard.messages._scan import HistoryScan
from ...guard.messages._words import MessageFormat
from .._filters import Filters, request_filter
from .._sql import filtered, rows, sql_text
from ._histories import History, Reader, joined_turns
from ._judge import repaired
from ._state import KEPT_HISTORIES, Kept
from ._types import BrokenRequest, ProviderRisk

if TYPE_CHECKING:
    import duckdb

__all__ = ["Chain", "HistoryFacts", "Passed", "check_passed"]

_BATCH = 4_000  # histories read at once
_PART = 40_000  # histories asked for at once: the lists of messages of a million of them are 2 GB to sort
_BROKEN = 200
_Group = tuple[int, int, str | None, str | None]  # history, messages, provider, model: see `request_passed`


class HistoryFacts(NamedTuple):
    """What one history says, whoever sent it."""

    state: str  # checked | not_recorded | without_ids
    repairs: tuple[str, ...] = ()  # what the sanitizer, asked for no provider, would do
    dirty: frozenset[str] = frozenset()  # families that would refuse its sanitized form (only where repaired)
    refused: frozenset[tuple[str, str]] = frozenset()  # (family of providers, error class)
    reason: str = ""


_CLEAN = HistoryFacts("checked")
_NOT_RECORDED = HistoryFacts("not_recorded")
_WITHOUT_IDS = HistoryFacts("without_ids")


@dataclass(slots=True)
class Passed:
    """Counts over the requests that succeeded under a filter."""

    requests: int = 0
    checked: int = 0
    not_recorded: int = 0
    without_ids: int = 0
    waiting: int = 0
    against_rules: int = 0  # not judged: our rules say that their own provider refuses them
    broken: int = 0
    latent: int = 0
    risks: list[ProviderRisk] = field(default_factory=list)
    broken_requests: list[BrokenRequest] = field(default_factory=list)


def check_passed(
    con: duckdb.DuckDBPyConnection,
    kept: Kept,
    filters: Filters,
    resolve: Callable[[str | None, str | None], ProviderRules | None],
    *,
    state: Any = None,
    seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Passed:
    """Check what was not checked before, for at most so many seconds, and count.

    `state` of the store (see `kept_of`): what there is to check is asked once per state.
    """
    until = None if seconds is None else time.monotonic() + seconds
    with kept.passed_lock:
        groups = kept.passed_groups(state, filters, lambda: _groups(con, filters))
        if len(kept.histories) > KEPT_HISTORIES:
            kept.histories.clear()
        # In the order of their first requests, so that a part of them holds whole conversations.
        new = {
            (group[0], group[1]): group[5]
            for group in groups
            if group[0] is not None and (group[0], group[1]) not in kept.histories
        }
        _check_new(con, kept, sorted(new, key=new.__getitem__), new, until, progress)
        return _count(con, groups, kept.histories, resolve, filters)


def _groups(con: duckdb.DuckDBPyConnection, filters: Filters) -> list[tuple[Any, ...]]:
    condition, params = request_filter(filters)
    return con.execute(filtered("request_passed", condition), params).fetchall()


def _check_new(
    con: duckdb.DuckDBPyConnection,
    kept: Kept,
    new: Sequence[tuple[int, int]],
    first_ns: Mapping[tuple[int, int], int],
    until: float | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    import pyarrow as pa

    chain = Chain(kept.passed_reader)
    for start in range(0, len(new), _PART):
        part = new[start : start + _PART]
        table = pa.table(
            {
                "history": pa.array([key[0] for key in part], pa.uint64()),
                "messages": pa.array([key[1] for key in part], pa.int64()),
            }
        )
        times = {"first_ns": first_ns[part[0]], "last_ns": first_ns[part[-1]]}
        cursor = con.cursor()  # contents are asked for while the histories are still being read
        cursor.register("wanted_histories", table)
        done = start
        try:
            found = cursor.execute(sql_text("request_histories"), times)
            while batch := found.fetchmany(_BATCH):
                kept.passed_reader.load(con, {key for _, keys in batch for key in keys})
                for number, keys in batch:
                    kept.histories[(number, len(keys))] = chain.facts(keys)
                done += len(batch)
                if progress is not None:
                    progress(done, len(new))
                if until is not None and time.monotonic() > until:
                    return
        finally:
            cursor.close()


class Chain:
    """Histories one after the other. One that goes on with the last is not read and checked anew.

    The answers are those of a lint and a sanitizer run over the whole history.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._keys: list[int] = []
        self._history: History | None = None
        self._scan: HistoryScan | None = None
        self._fed = 0  # messages given to the scan
        self._sound = (
            0  # messages from which on the history has to be looked at: before it nothing is to repair
        )
        self._items: set[str] = set()

    def facts(self, keys: list[int]) -> HistoryFacts:
        """Everything that does not depend on who sent it. The messages are loaded."""
        before = len(self._keys)
        history = self._history
        grown = history is not None and len(keys) >= before and keys[:before] == self._keys
        if not grown or history is None or not self._reader.extend(history, keys[before:]):
            history = self._history = self._reader.history(keys)
            self._scan = HistoryScan(history.format)
            self._fed = self._sound = 0
            self._items = set()
        self._keys = keys
        return self._facts(history)

    def _facts(self, history: History) -> HistoryFacts:
        scan = self._scan
        assert scan is not None
        scan.extend(history.messages[self._fed :])
        self._fed = len(history.messages)
        if history.silent is not None:
            return _NOT_RECORDED
        if history.without_ids:
            return _WITHOUT_IDS
        refused = _refusing(history.format, scan.broken())
        if self._is_whole(history):
            return _CLEAN if not refused else _shared(HistoryFacts("checked", refused=refused))
        together = joined_turns(history)
        if together is not None and is_whole(together, format_of(history.format), ()):
            # It was accepted, so its turns were whole on the wire: one message was recorded for each item.
            found = HistoryScan(history.format).extend(together)
            return _shared(HistoryFacts("checked", refused=_refusing(history.format, found.broken())))
        messages, repairs = repaired(history, None)
        if not repairs:
            return _CLEAN if not refused else _shared(HistoryFacts("checked", refused=refused))
        made = HistoryScan(history.format).extend(messages)
        dirty = frozenset(name for name, _ in _refusing(history.format, made.broken()))
        kinds = tuple(dict.fromkeys(str(repair.kind) for repair in repairs))
        return HistoryFacts("checked", kinds, dirty, refused, repairs[0].detail)

    def _is_whole(self, history: History) -> bool:
        """Is it sure that the sanitizer would leave it as it is? Looks only at what is new."""
        form, messages = format_of(history.format), history.messages
        start = self._sound
        if form.placement == "anywhere":
            fresh = [form.item_id(message) for message in messages[start:]]
            named = [name for name in fresh if name is not None]
            if start and says_nothing(messages[start - 1]):
                return False
            if not self._items.isdisjoint(named) or not is_whole(messages[start:], form, ()):
                return False
            self._items.update(named)
            self._sound = len(messages)
            return True
        if not is_whole(messages[start:], form, ()):
            return False
        # The last answer of the model may still get results: from there the next history is looked at again.
        last = len(messages) - 1
        while last > start and messages[last].role != "assistant":
            last -= 1
        self._sound = max(last, start)
        return True


_known_facts: dict[HistoryFacts, HistoryFacts] = {}


def _shared(facts: HistoryFacts) -> HistoryFacts:
    """One object for equal facts: most histories say one of a few things."""
    if len(_known_facts) > 1_000:
        return facts
    return _known_facts.setdefault(facts, facts)


@lru_cache(maxsize=2_000)
def _refusing(form: MessageFormat, broken: frozenset[Rule]) -> frozenset[tuple[str, str]]:
    """Families of providers that enforce one of these rules, with the class that they answer with.

    Without the rules that depend on the model that is served.
    """
    return frozenset(
        (family, str(rule_class(rule)))
        for family, rules in _families(form)
        for rule in rules.rules & broken
        if not (rule is Rule.SPLIT_TURN and rules.merges_turns)
    )


@cache
def _families(form: MessageFormat) -> tuple[tuple[str, ProviderRules], ...]:
    """The rules of every family of providers for a format, without those that depend on the model served."""
    found: dict[str, ProviderRules] = {}
    for rules in PROVIDERS.values():
        if rules.family not in found:
            chosen = rules.for_format(form)
            found[rules.family] = chosen.without_rules(*chosen.unsure)
    return tuple((family, rules) for family, rules in found.items() if rules.rules)


def _count(
    con: duckdb.DuckDBPyConnection,
    groups: Iterable[tuple[Any, ...]],
    known: Mapping[tuple[int, int], HistoryFacts],
    resolve: Callable[[str | None, str | None], ProviderRules | None],
    filters: Filters,
) -> Passed:
    passed = Passed()
    risks: Counter[str] = Counter()
    classes: dict[str, Counter[str]] = {}
    earliest: dict[str, tuple[int, set[_Group]]] = {}  # by provider: when, and in which groups
    broken: dict[tuple[int, int], str] = {}
    for number, messages, provider, model, requests, first_ns in groups:
        passed.requests += requests
        if number is None:
            passed.not_recorded += requests
            continue
        facts = known.get((number, messages))
        if facts is None:
            passed.waiting += requests
        elif facts.state == "not_recorded":
            passed.not_recorded += requests
        elif facts.state == "without_ids":
            passed.without_ids += requests
        else:
            rules = resolve(provider, model)
            own = rules.family if rules else None
            if any(name == own for name, _ in facts.refused):
                # It was accepted: what was recorded is not what was sent, or the rule is too strict.
                passed.against_rules += requests
                continue
            passed.checked += requests
            if facts.repairs:
                passed.broken += requests
                more = (
                    f" What comes of it {rules.title} would refuse." if rules and own in facts.dirty else ""
                )
                broken[(number, messages)] = facts.reason + more
            passed.latent += requests if facts.refused else 0
            for name in {name for name, _ in facts.refused}:
                risks[name] += requests
                when, where = earliest.get(name, (first_ns, set()))
                if first_ns < when or not where:
                    earliest[name] = when, where = first_ns, set()
                if first_ns == when:
                    where.add((number, messages, provider, model))
            for name, error_class in facts.refused:
                classes.setdefault(name, Counter())[error_class] += requests
    passed.broken_requests = _broken(con, broken, known, filters)
    samples = _samples(con, earliest, filters)
    passed.risks = [
        ProviderRisk(name, count, dict(classes[name].most_common()), *samples.get(name, (None, None)))
        for name, count in sorted(risks.items(), key=lambda item: (-item[1], item[0]))
    ]
    return passed


def _carriers(
    con: duckdb.DuckDBPyConnection, keys: Iterable[tuple[int, int]], filters: Filters, limit: int
) -> list[dict[str, Any]]:
    """The newest requests that carried one of these histories."""
    import pyarrow as pa

    listed = list(keys)
    if not listed:
        return []
    table = pa.table(
        {
            "history": pa.array([key[0] for key in listed], pa.uint64()),
            "messages": pa.array([key[1] for key in listed], pa.int64()),
        }
    )
    condition, params = request_filter(filters, "q")
    con.register("wanted_histories", table)
    try:
        return rows(con, filtered("request_carriers", condition), {**params, "limit": limit})
    finally:
        con.unregister("wanted_histories")


def _broken(
    con: duckdb.DuckDBPyConnection,
    reasons: dict[tuple[int, int], str],
    known: Mapping[tuple[int, int], HistoryFacts],
    filters: Filters,
) -> list[BrokenRequest]:
    found: list[BrokenRequest] = []
    for row in _carriers(con, reasons, filters, _BROKEN):
        key = (row.pop("history"), row["messages"])
        row.pop("nth")
        found.append(BrokenRequest(**row, repairs=known[key].repairs, reason=reasons[key]))
    return found


def _samples(
    con: duckdb.DuckDBPyConnection, earliest: Mapping[str, tuple[int, set[_Group]]], filters: Filters
) -> dict[str, tuple[str, str]]:
    """The earliest request for each provider: the same one in whatever order the requests were read."""
    if not earliest:
        return {}
    condition, params = request_filter(filters)
    times = sorted({when for when, _ in earliest.values()})
    found: dict[str, tuple[str, str]] = {}
    for row in rows(con, filtered("request_samples", condition), {**params, "times": times}):
        group = (row["history"], row["messages"], row["provider"], row["model"])
        for name, (when, groups) in earliest.items():
            if row["start_ns"] == when and group in groups:
                found.setdefault(name, (row["trace_id"], row["span_id"]))
    return found
