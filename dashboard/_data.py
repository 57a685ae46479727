"""What the pages ask of the store: one lease for a rerun at most, answers kept by store version.

DuckDB lets one process hold the file, so a page must not keep it while it draws. A rerun makes a
`Reader`, asks everything first, lets go, then draws:

    with reader() as ask:
        figures = ask.overview(policy, filters)
        ask.release()
        ...draw...

The lease is taken with the first question whose answer is not cached and let go by `release`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import streamlit as st

from .. import replay as rp
from ..collector import Spool, Store
from ..guard import GuardPolicy
from ..replay import traces
from ..replay.rules import RuleComparison, compare_rules
from . import _queries

if TYPE_CHECKING:
    import duckdb

__all__ = ["DB_VARIABLE", "Reader", "database", "file_stamp", "reader", "spool", "store"]

T = TypeVar("T")

DB_VARIABLE = "LOOPSCOPE_DB"
PATIENCE = 6.0
"""Seconds a page waits for another process that holds the file."""

CHECKED_AT_ONCE = 5_000
"""So many requests that succeeded are checked before their page stands; more are checked behind it."""

_MOMENT_NS = 15_000_000_000
_ANSWERS = 192
_BYTES = "256MB"
"""Answers kept, over all sessions: about ten filters of every page. Old ones go first."""


def database() -> Path:
    """The database of this server."""
    return Path(os.environ.get(DB_VARIABLE) or "traces.duckdb")


@st.cache_resource(show_spinner=False, max_entries=4)
def _store(path: str) -> Store:
    return Store(Path(path), timeout=PATIENCE)


def store() -> Store:
    """The store of this server."""
    return _store(str(database()))


def spool() -> Spool:
    """The spool beside the database."""
    return Spool(database())


def file_stamp() -> tuple[int, int]:
    """Changes whenever the database file may have changed; costs no lease."""
    newest, total = 0, 0
    for path in (database(), database().with_name(database().name + ".wal")):
        try:
            stat = path.stat()
        except OSError:
            continue
        newest, total = max(newest, stat.st_mtime_ns), total + stat.st_size
    return newest, total


@st.cache_data(max_entries=_ANSWERS, max_size=_BYTES, show_spinner=False)
def _answer(question: str, db: str, version: int, about: str, _ask: Callable[[], Any]) -> Any:
    return _ask()


@st.cache_resource(max_entries=4, show_spinner=False)
def _incidents(
    db: str, version: int, about: str, _ask: Callable[[], tuple[rp.Incident, ...]]
) -> tuple[rp.Incident, ...]:
    return _ask()


@st.cache_resource(max_entries=4, show_spinner=False)
def _tree(db: str, version: int, about: str, _ask: Callable[[], traces.SpanTree]) -> traces.SpanTree:
    return _ask()


asked = threading.Event()
"""Set once a page has asked something."""

_stamps: dict[str, tuple[int, int]] = {}
"""The stamp of each database when its version was last read."""


class _UnknownError(Exception):
    """There is no answer at hand, and none is to be worked out."""


class _PartOnlyError(Exception):
    """Carries an answer that is not to be kept: the time allowed was over before all was looked at."""

    def __init__(self, found: rp.RequestAnalysis) -> None:
        super().__init__()
        self.found = found


class Reader:
    """One burst of questions."""

    def __init__(self) -> None:
        self._store = store()
        self._lease: Any = None
        self._con: duckdb.DuckDBPyConnection | None = None
        path, stamp = str(database()), file_stamp()
        if _stamps.get(path) != stamp:
            # The version has to be read from the file, and then all answers anew: one lease for both.
            _ = self.con
        try:
            self.version = self._store.version()
        except BaseException:
            self.release()
            raise
        _stamps[path] = stamp

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """The leased cursor; takes the lease if this reader does not hold it."""
        con = self._con
        if con is None:
            self._lease = self._store.lease()
            con = self._con = self._lease.__enter__()
        return con

    def release(self) -> None:
        """Let go of the database. A later question takes it again."""
        lease, self._lease, self._con = self._lease, None, None
        if lease is not None:
            lease.__exit__(None, None, None)

    def _cached(self, question: str, about: tuple[Any, ...], ask: Callable[[], T]) -> T:
        return _answer(question, str(database()), self.version, repr(about), ask)

    def options(self) -> rp.FilterOptions:
        """What the filter bar can offer."""
        return self._cached("options", (), lambda: rp.filter_options(self.con))

    def coverage(self, filters: rp.Filters) -> rp.Coverage:
        """How much was recorded."""
        return self._cached("coverage", (filters,), lambda: rp.coverage(self.con, filters))

    def overview(self, policy: GuardPolicy, filters: rp.Filters) -> rp.Overview:
        """The overview's figures."""
        return self._cached(
            "overview", (policy.policy_hash, filters), lambda: rp.overview(self.con, policy, filters)
        )

    def circling(self, policy: GuardPolicy, filters: rp.Filters, now_ns: int) -> rp.Circling:
        """What goes in circles now, to a quarter of a minute, and what circles took."""
        moment = now_ns // _MOMENT_NS * _MOMENT_NS
        return self._cached(
            "circling",
            (policy.policy_hash, filters, moment),
            lambda: rp.circling(self.con, policy, filters, now_ns=now_ns),
        )

    def incidents(self, policy: GuardPolicy, filters: rp.Filters) -> Sequence[rp.Incident]:
        """All incidents, worst first. Not a copy: there may be 100,000, and nobody changes them."""
        about = (policy.policy_hash, filters)
        return _incidents(
            str(database()),
            self.version,
            repr(about),
            lambda: tuple(rp.find_incidents(self.con, filters, policy)),
        )

    def incident(self, key: str, policy: GuardPolicy) -> rp.IncidentDetail:
        """One incident."""
        return self._cached(
            "incident", (key, policy.policy_hash), lambda: rp.incident_detail(self.con, key, policy)
        )

    def labels(self) -> dict[str, rp.Label]:
        """What people said of incidents, by key."""
        return self._cached("labels", (), lambda: rp.read_labels(self.con))

    def suggested_label(self, key: str, run_id: str) -> rp.WeakLabel | None:
        """What the recording suggests that an incident was; None where it suggests nothing."""
        filters = rp.Filters(run_ids=(run_id,))
        found = self._cached("weak_labels", (run_id,), lambda: rp.weak_labels(self.con, filters))
        return next((one for one in found if one.key == key), None)

    def fault(self, group: str) -> list[rp.Incident]:
        """All incidents of one fault, whatever the filter; without where the policy falls."""
        return self._cached(
            "fault",
            (group,),
            lambda: [one for one in rp.find_incidents(self.con) if one.group == group],
        )

    def final_answer(self, run_id: str) -> tuple[str, str] | None:
        """What the run said in the end, and where that stood; None where it is not recorded."""
        return self._cached(
            "final_answer", (run_id,), lambda: rp.final_answers(self.con, [run_id]).get(run_id)
        )

    def spending(self, run_id: str, first_ns: int, last_ns: int) -> _queries.Recorded:
        """How many requests of a stretch recorded tokens and cost."""
        return self._cached(
            "spending",
            (run_id, first_ns, last_ns),
            lambda: _queries.recorded(self.con, run_id, first_ns, last_ns),
        )

    def run_calls(self, run_id: str, policy: GuardPolicy) -> list[dict[str, Any]]:
        """Calls of one run with their verdicts, in order of counting; at most 5,000."""
        return self._cached(
            "run_calls",
            (run_id, policy.policy_hash),
            lambda: rp.call_verdicts(self.con, policy, run_id, limit=5_000).to_pylist(),
        )

    def totals(self, policy: GuardPolicy, filters: rp.Filters) -> rp.Totals:
        """Totals of one policy."""
        return self._cached(
            "totals", (policy.policy_hash, filters), lambda: rp.totals(self.con, policy, filters)[0]
        )

    def sweep(
        self, policy: GuardPolicy, nudges: Iterable[int | None], blocks: Iterable[int], filters: rp.Filters
    ) -> list[rp.SweepRow]:
        """Totals over a grid of thresholds."""
        nudges, blocks = tuple(nudges), tuple(blocks)
        return self._cached(
            "sweep",
            (policy.policy_hash, nudges, blocks, filters),
            lambda: rp.sweep(self.con, policy, nudges, blocks, filters),
        )

    def changed_calls(
        self, before: GuardPolicy, after: GuardPolicy, filters: rp.Filters, limit: int
    ) -> _queries.ChangedCalls:
        """Calls whose verdict differs between two policies."""
        return self._cached(
            "changed",
            (before.policy_hash, after.policy_hash, filters, limit),
            lambda: _queries.changed_calls(self.con, before, after, filters, limit),
        )

    def impact(self, policy: GuardPolicy, filters: rp.Filters) -> rp.Impact:
        """What one policy would have changed and saved, without texts and parts by tool and the like."""
        return self._cached(
            "impact",
            (policy.policy_hash, filters),
            lambda: rp.impact(self.con, policy, filters, examples=0, soft_failures=True, parts=False),
        )

    def comparison(self, before: GuardPolicy, after: GuardPolicy, filters: rp.Filters) -> rp.PolicyComparison:
        """Two policies beside each other."""
        return self._cached(
            "comparison",
            (before.policy_hash, after.policy_hash, filters),
            lambda: rp.compare_policies(self.con, before, after, filters, examples=0),
        )

    def score(self, policy: GuardPolicy, filters: rp.Filters) -> rp.LabelScores:
        """How a policy's nudge and block fall on labelled incidents."""
        return self._cached(
            "score", (policy.policy_hash, filters), lambda: rp.score_policy(self.con, policy, filters)
        )

    def scores(self, policy: GuardPolicy, thresholds: Iterable[int], filters: rp.Filters) -> rp.LabelScores:
        """The same for each of these thresholds alone, as block and as nudge."""
        levels = tuple(thresholds)
        return self._cached(
            "scores",
            (policy.policy_hash, levels, filters),
            lambda: rp.score_thresholds(self.con, policy, blocks=levels, nudges=levels, filters=filters),
        )

    def suggestions(self, policy: GuardPolicy, filters: rp.Filters) -> rp.SuggestionReport:
        """Changes to a policy that the recorded runs speak for."""
        return self._cached(
            "suggestions",
            (policy.policy_hash, filters),
            lambda: rp.suggestion_report(self.con, policy, filters),
        )

    def rules(self, policy: GuardPolicy, filters: rp.Filters) -> tuple[RuleComparison, ...]:
        """Other frameworks' rules beside ours."""
        return self._cached(
            "rules", (policy.policy_hash, filters), lambda: compare_rules(self.con, policy, None, filters)
        )

    def policies(self) -> dict[str, _queries.NamedPolicy]:
        """Policies that were saved under a name."""
        return self._cached("policies", (), lambda: _queries.named_policies(self.con))

    def errors(self, filters: rp.Filters, policy: GuardPolicy) -> rp.ErrorBreakdown:
        """What fails."""
        return self._cached(
            "errors", (policy.policy_hash, filters), lambda: rp.error_breakdown(self.con, filters, policy)
        )

    def failed_requests(self, filters: rp.Filters, limit: int, offset: int = 0) -> rp.FailedRequests:
        """Failed LLM requests, newest first."""
        return self._cached(
            "requests",
            (filters, limit, offset),
            lambda: rp.failed_requests(self.con, filters, limit=limit, offset=offset),
        )

    def refused(self, policy: GuardPolicy, filters: rp.Filters) -> rp.RequestAnalysis:
        """Failed LLM requests judged; those that succeeded are left out."""
        return self._cached(
            "refused",
            (policy.policy_hash, filters),
            lambda: rp.analyse_requests(self.con, policy, filters, passed=False),
        )

    def checked_requests(
        self, policy: GuardPolicy, filters: rp.Filters, seconds: float
    ) -> rp.RequestAnalysis:
        """The same with the requests that succeeded, as far as the time allows."""

        def ask() -> rp.RequestAnalysis:
            found = rp.analyse_requests(self.con, policy, filters, seconds=seconds)
            if found.coverage.passed_waiting:
                raise _PartOnlyError(found)
            return found

        try:
            return self._cached("checked_requests", (policy.policy_hash, filters), ask)
        except _PartOnlyError as part:
            return part.found

    def known_requests(self, policy: GuardPolicy, filters: rp.Filters) -> rp.RequestAnalysis | None:
        """The whole answer of `checked_requests` where it is at hand."""

        def unknown() -> rp.RequestAnalysis:
            raise _UnknownError

        try:
            return self._cached("checked_requests", (policy.policy_hash, filters), unknown)
        except _UnknownError:
            return None

    def request(
        self,
        trace_id: str,
        span_id: str,
        policy: GuardPolicy,
        provider: str | None,
        text_limit: int = 20_000,
        message_limit: int = 200,
    ) -> tuple[rp.RequestHistory, _queries.RequestFacts]:
        """One request's history before and after the repair, and who sent it. Raises NotFoundError."""
        return self._cached(
            "request",
            (trace_id, span_id, policy.policy_hash, provider, text_limit, message_limit),
            lambda: (
                rp.request_history(
                    self.con,
                    trace_id,
                    span_id,
                    policy,
                    provider=provider,
                    text_limit=text_limit,
                    message_limit=message_limit,
                ),
                _queries.request_facts(self.con, trace_id, span_id),
            ),
        )

    def services(self) -> list[_queries.ServiceSeen]:
        """Services and when each was last heard of."""
        return self._cached("services", (), lambda: _queries.services_seen(self.con))

    def losses(self) -> list[_queries.Loss]:
        """What did not make it into the figures."""
        return self._cached("losses", (), lambda: _queries.losses(self.con))

    # -- whole runs ------------------------------------------------------------------------------

    def runs(
        self,
        policy: GuardPolicy,
        filters: rp.Filters,
        sort: traces.RunSort,
        search: str,
        limit: int,
        offset: int,
    ) -> traces.RunPage:
        """Some runs of a list."""
        return self._cached(
            "runs",
            (policy.policy_hash, filters, sort, search, limit, offset),
            lambda: traces.list_runs(
                self.con, policy, filters, sort=sort, search=search, limit=limit, offset=offset
            ),
        )

    def run(self, name: str, policy: GuardPolicy) -> traces.RunHead:
        """One run in figures, by its id or that of its trace. Raises NotFoundError."""
        return self._cached(
            "run",
            (name, policy.policy_hash),
            lambda: traces.run_head(self.con, traces.find_run(self.con, name), policy),
        )

    def span_tree(self, run_id: str, policy: GuardPolicy, whole: bool) -> traces.SpanTree:
        """The spans of a run. Not a copy: nobody changes it."""
        about = (run_id, policy.policy_hash, whole)
        return _tree(
            str(database()),
            self.version,
            repr(about),
            lambda: traces.span_tree(self.con, run_id, policy, whole=whole),
        )

    def run_messages(self, run_id: str, policy: GuardPolicy, limit: int, offset: int) -> traces.MessagesPage:
        """Some requests of a run with their messages."""
        return self._cached(
            "run_messages",
            (run_id, policy.policy_hash, limit, offset),
            lambda: traces.run_messages(self.con, run_id, policy, limit=limit, offset=offset),
        )

    def calls_of_run(
        self,
        run_id: str,
        policy: GuardPolicy,
        *,
        actions: tuple[str, ...] = (),
        failed: bool = False,
        span: tuple[str, str] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> traces.RunCalls:
        """Some calls of a run with their verdicts."""
        return self._cached(
            "calls_of_run",
            (run_id, policy.policy_hash, actions, failed, span, limit, offset),
            lambda: traces.run_calls(
                self.con,
                run_id,
                policy,
                actions=actions,
                failed=failed,
                span=span,
                limit=limit,
                offset=offset,
            ),
        )

    def span(self, trace_id: str, span_id: str) -> traces.SpanDetail:
        """One span as it was recorded. Raises NotFoundError."""
        return self._cached(
            "span", (trace_id, span_id), lambda: traces.span_detail(self.con, trace_id, span_id)
        )

    def logs(
        self, run_id: str, trace_id: str | None, span_id: str | None, limit: int, offset: int
    ) -> traces.LogPage:
        """Some log records of a run or a span."""
        return self._cached(
            "logs",
            (run_id, trace_id, span_id, limit, offset),
            lambda: traces.run_logs(
                self.con, run_id, trace_id=trace_id, span_id=span_id, limit=limit, offset=offset
            ),
        )

    def report(
        self,
        key: str | None,
        policy: GuardPolicy,
        form: str,
        filters: rp.Filters,
        keys: Sequence[str] | None = None,
    ) -> str:
        """A report to take away; of all incidents, or of those with these keys, in this order."""
        return rp.report(self.con, key, policy, form, filters, db=str(database()), keys=keys)


_current: ContextVar[Reader | None] = ContextVar("loopscope_reader", default=None)


@contextmanager
def reader() -> Iterator[Reader]:
    """The reader of this rerun; a fragment that reruns alone gets one of its own."""
    outer = _current.get()
    if outer is not None:
        yield outer
        return
    asked.set()
    with reader_ahead() as mine:
        token = _current.set(mine)
        try:
            yield mine
        finally:
            _current.reset(token)


@contextmanager
def reader_ahead() -> Iterator[Reader]:
    """A reader of no page: for answers that are kept before one asks for them."""
    with rp.one_state():  # while spans come in, a later question would find a newer store than the first
        mine = Reader()
        try:
            yield mine
        finally:
            mine.release()


def in_whole_page() -> bool:
    """Is this the rerun of a whole page, and not that of a fragment alone?"""
    return _current.get() is not None


def now_ns() -> int:
    """The clock of the pages."""
    return time.time_ns()
