"""Which requests were refused over their history, and what the sanitizer would have done."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...collector.dialects import content_hint
from ...guard.messages._words import ErrorClass
from .._filters import ALL, Filters, request_filter
from .._sql import filtered, rows
from ._cancelled import CANCELLED
from ._causes import Failure, Groups, causes_of
from ._failed import failures_of, refused_row, resolve_rules
from ._passed import check_passed
from ._state import Kept, kept_of
from ._types import (
    ClassCounts,
    JudgedRequest,
    RequestAnalysis,
    RequestCoverage,
    RequestDialectCoverage,
    RequestTotals,
)

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["analyse_requests"]

_VERDICTS = ("prevented", "prevented_by_guard", "not_prevented", "undetermined")


def analyse_requests(
    con: duckdb.DuckDBPyConnection,
    policy: GuardPolicy,
    filters: Filters = ALL,
    *,
    passed: bool = True,
    limit: int = 1_000,
    seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RequestAnalysis:
    """Judge every failed request, and check every request that succeeded (broken, latent).

    The tool filter does not apply. `passed=False` leaves the requests that succeeded out: `totals.broken` and
    `totals.latent` are then None. What was checked once is kept in memory while the file lives; `seconds`
    bounds the time for what is new (`coverage.passed_waiting` says how many are left), and
    `progress(done, all)` hears of it. `limit` bounds the lists, never the counts.
    """
    kept, state = kept_of(con)
    failed = kept.remember(
        state,
        ("failed", policy.policy_hash, filters, limit),
        lambda: _failed(con, kept, policy, filters, limit),
    )
    if not passed:
        return failed
    found = check_passed(con, kept, filters, resolve_rules, state=state, seconds=seconds, progress=progress)
    coverage = replace(
        failed.coverage,
        passed_checked=found.checked,
        passed_not_recorded=found.not_recorded,
        passed_without_ids=found.without_ids,
        passed_waiting=found.waiting,
        passed_against_rules=found.against_rules,
    )
    return replace(
        failed,
        coverage=coverage,
        totals=replace(failed.totals, broken=found.broken, latent=found.latent),
        by_provider=tuple(found.risks),
        broken=tuple(found.broken_requests),
    )


def _failed(
    con: duckdb.DuckDBPyConnection, kept: Kept, policy: GuardPolicy, filters: Filters, limit: int
) -> RequestAnalysis:
    coverage, failed = _coverage(con, filters)
    counts: dict[str, Counter[str]] = {}
    repairs: Counter[str] = Counter()
    groups = Groups()
    newest: deque[tuple[dict[str, Any], str, Failure | None]] = deque(maxlen=limit)
    for row, error_class, failure in failures_of(con, kept, policy, filters):
        count = counts.setdefault(str(error_class), Counter())
        count["failed"] += 1
        newest.append((row, error_class, failure))
        if failure is None:
            continue
        judged = failure.judgement
        count[judged.verdict] += 1
        count["prevented_by_dedup"] += judged.prevented_by_dedup
        if judged.verdict == "prevented":
            repairs.update(judged.repairs)
        groups.add(failure)
    causes = causes_of(con, kept.reader, groups, _family, limit)
    for group in groups.all.values():
        counts[str(group.first.error_class)]["causes"] += 1
    by_class = {
        name: ClassCounts(**count)
        for name, count in sorted(counts.items(), key=lambda item: (-item[1]["failed"], item[0]))
    }
    judged_classes = [found for name, found in by_class.items() if name not in (ErrorClass.OTHER, CANCELLED)]
    cancelled = by_class[CANCELLED].failed if CANCELLED in by_class else 0
    totals = RequestTotals(
        requests=coverage.requests,
        failed=failed - cancelled,
        cancelled=cancelled,
        tool_related=sum(found.failed for found in judged_classes),
        **{name: sum(getattr(found, name) for found in judged_classes) for name in _VERDICTS},
        prevented_by_dedup=sum(found.prevented_by_dedup for found in judged_classes),
        causes=len(groups.all),
    )
    return RequestAnalysis(
        policy=policy,
        filters=filters,
        coverage=coverage,
        totals=totals,
        by_class=by_class,
        by_repair=dict(sorted(repairs.items(), key=lambda item: (-item[1], item[0]))),
        by_provider=(),
        causes=tuple(causes),
        requests=tuple(_rows(newest)),
    )


def _rows(newest: deque[tuple[dict[str, Any], str, Failure | None]]) -> list[JudgedRequest]:
    return [refused_row(failure, row, error_class) for row, error_class, failure in reversed(newest)]


def _family(provider: str | None, model: str | None) -> str | None:
    rules = resolve_rules(provider, model)
    return rules.name if rules else None


def _coverage(con: duckdb.DuckDBPyConnection, filters: Filters) -> tuple[RequestCoverage, int]:
    condition, params = request_filter(filters)
    found = rows(con, filtered("request_coverage", condition), params)
    dialects: list[RequestDialectCoverage] = []
    for row in found:
        names = ("dialect", "requests", "without_messages", "truncated", "failed", "failed_without_messages")
        hint = content_hint(row["dialect"]) if row["without_messages"] else None
        dialects.append(RequestDialectCoverage(**{name: row[name] for name in names}, hint=hint))
    names = ("requests", "without_messages", "truncated", "failed_without_messages", "failed_truncated")
    sums = {name: sum(row[name] for row in found) for name in names}
    failed = sum(row["failed"] for row in found)
    coverage = RequestCoverage(**sums, passed=sums["requests"] - failed, dialects=tuple(dialects))
    return coverage, failed
