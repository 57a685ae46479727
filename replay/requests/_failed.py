"""Every failed request under a filter, classified and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...collector.dialects import content_hint
from ...guard.messages._provider_errors import ProviderError, classify_provider_error
from ...guard.messages._provider_names import provider_rules
from ...guard.messages._providers import ProviderRules
from ...guard.messages._words import ErrorClass
from .._engine import call_verdicts
from .._filters import Filters, request_filter
from .._sql import filtered, sql_text
from ._cancelled import CANCELLED, was_cancelled
from ._causes import Failure
from ._judge import Judgement, judge
from ._state import Kept
from ._types import JudgedRequest, Undetermined

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy

__all__ = ["failures_of", "one_failure", "read_refusal", "refused_row", "resolve_rules"]

TEXT_LIMIT = 10_000  # characters of an error's text
_BATCH = 2_000  # failed requests whose messages are read at once
_KEPT_TEXTS = 100_000
_KEPT_CHARS = 200  # of a refusal's words: enough to tell one from another
_CLASSES = frozenset(ErrorClass)
_OTHER = ProviderError(ErrorClass.OTHER, None, (), (), "", None)
_STEPPED_IN = frozenset({"nudge", "block"})


@lru_cache(maxsize=1_000)
def resolve_rules(provider: str | None, model: str | None) -> ProviderRules | None:
    """The rules of the provider that was recorded, else of the one that the model belongs to."""
    return provider_rules(provider, model=model)


_classified: dict[tuple[int | None, int], ProviderError] = {}  # by status and hash of the text


def _classify(status: int | None, text: str | None) -> ProviderError:
    """`classify_provider_error`, once for each text: a store that grew is asked for its new ones only."""
    key = (status, hash(text))
    found = _classified.get(key)
    if found is None:
        found = classify_provider_error(status, text)
        if len(_classified) >= _KEPT_TEXTS:
            _classified.clear()
        _classified[key] = found._replace(message=found.message[:_KEPT_CHARS])
    return found


def read_refusal(row: dict[str, Any]) -> ProviderError:
    """What the refusal says; the class as it was stored, where the store knows better than the text."""
    stored = row["error_class"]
    if stored == ErrorClass.OTHER:
        return _OTHER
    found = _classify(row["http_status"], row["error_text"])
    if stored and stored != found.error_class and stored in _CLASSES:
        return found._replace(error_class=ErrorClass(stored))
    return found


def failures_of(
    con: duckdb.DuckDBPyConnection, kept: Kept, policy: GuardPolicy, filters: Filters
) -> Iterator[tuple[dict[str, Any], str, Failure | None]]:
    """Each failed request, oldest first, with its class; and its judgement where the class is judged.

    The class of one that was cancelled is `CANCELLED`.
    """
    condition, params = request_filter(filters, "q")
    cursor = con.cursor()  # messages are asked for while the requests are still being read
    try:
        answer = cursor.execute(
            filtered("request_failures", condition, "error_texts"), {**params, "text_limit": TEXT_LIMIT}
        )
        names = [column[0] for column in answer.description or ()]
        while batch := answer.fetchmany(_BATCH):
            rows = [dict(zip(names, row, strict=True)) for row in batch]
            _add_messages(con, kept, rows)
            yield from _judged(con, kept, policy, rows)
    finally:
        cursor.close()


def _add_messages(con: duckdb.DuckDBPyConnection, kept: Kept, rows: list[dict[str, Any]]) -> None:
    """Put the keys of their messages (`input_parts`) to rows of sql/request_failures.sql.

    Those of a trace that did not change since are known: few requests fail, but to get at their lists those
    of all that lie near them are read (1 M requests: 0.15 s).
    """
    import pyarrow as pa

    unknown: list[dict[str, Any]] = []
    for row in rows:
        known = kept.messages_of(row["trace_id"], row["span_id"], row["changed_in"])
        if known is None:
            unknown.append(row)
        else:
            (row["input_parts"],) = known
    if unknown:
        columns = (
            pa.array(range(len(unknown)), pa.int64()),
            pa.array([row["trace_id"] for row in unknown], pa.string()),
            pa.array([row["span_id"] for row in unknown], pa.string()),
        )
        con.register("wanted_requests", pa.Table.from_arrays(columns, ["number", "trace_id", "span_id"]))
        starts = [row["start_ns"] for row in unknown]
        try:
            found = dict(
                con.execute(
                    sql_text("request_parts"), {"since": min(starts), "until": max(starts)}
                ).fetchall()
            )
        finally:
            con.unregister("wanted_requests")
        for number, row in enumerate(unknown):
            row["input_parts"] = found.get(number)
            kept.keep_messages(row["trace_id"], row["span_id"], row["changed_in"], row["input_parts"])
    for row in rows:
        del row["changed_in"]


def one_failure(
    con: duckdb.DuckDBPyConnection, kept: Kept, policy: GuardPolicy, row: dict[str, Any]
) -> tuple[str, Failure | None]:
    """One failed request of sql/request_failures.sql: its class, and its judgement where that is judged."""
    return next(_judged(con, kept, policy, [row]))[1:]


def _judged(
    con: duckdb.DuckDBPyConnection, kept: Kept, policy: GuardPolicy, rows: Sequence[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], str, Failure | None]]:
    refusals = [read_refusal(row) for row in rows]
    related = [
        (row, refusal)
        for row, refusal in zip(rows, refusals, strict=True)
        if refusal.error_class is not ErrorClass.OTHER
    ]
    kept.reader.load(con, {key for row, _ in related if _whole(row) for key in row["input_parts"]})
    recording = _recording(con) if any(row["input_parts"] is None for row, _ in related) else set()
    stepped_in = _guarded(con, policy, [row for row, refusal in related if _is_loop(refusal)])
    for row, refusal in zip(rows, refusals, strict=True):
        if refusal.error_class is ErrorClass.OTHER:
            yield row, CANCELLED if was_cancelled(row) else ErrorClass.OTHER, None
            continue
        rules = resolve_rules(row["provider"], row["model"]) or resolve_rules(refusal.provider, None)
        keys = None if row["input_parts"] is None else tuple(row["input_parts"])
        if _is_loop(refusal):
            judgement = stepped_in(row)
        else:
            judgement = _judgement(kept, row, refusal, rules, keys, recording)
        if not judgement.fault:
            judgement = _with_fault(judgement, refusal)
        used = judgement.rules or rules
        yield row, refusal.error_class, Failure(row, refusal.error_class, used and used.name, judgement, keys)


def _recording(con: duckdb.DuckDBPyConnection) -> set[str]:
    """Dialects of which messages were recorded: there it is not for want of a setting that some have none."""
    found = con.execute("SELECT DISTINCT dialect FROM llm_request_rows WHERE input_parts IS NOT NULL")
    return {dialect for (dialect,) in found.fetchall()}


def _is_loop(refusal: ProviderError) -> bool:
    return refusal.error_class is ErrorClass.REPEATED_CALLS


def _whole(row: dict[str, Any]) -> bool:
    return row["input_parts"] is not None and row["content_state"] != "truncated"


def _judgement(
    kept: Kept,
    row: dict[str, Any],
    refusal: ProviderError,
    rules: ProviderRules | None,
    keys: tuple[int, ...] | None,
    recording: set[str],
) -> Judgement:
    if keys is None:
        said = "It cannot be judged: its messages were not recorded"
        if row["dialect"] in recording:
            return _without_verdict(
                "not_recorded", f"{said}, though those of other requests of this dialect were."
            )
        hint = content_hint(row["dialect"])
        return _without_verdict("not_recorded", f"{said}. {hint}" if hint else f"{said}.")
    if not _whole(row):
        return _without_verdict(
            "truncated", "It cannot be judged: its messages were recorded cut or with gaps."
        )
    if rules is None:
        return _without_verdict(
            "no_rules",
            "It cannot be judged: neither provider and model nor the refusal say whose rules hold.",
        )

    def ask() -> Judgement:
        history = kept.reader.history(keys)
        return judge(history, refusal, rules.for_format(history.format))

    return kept.judged((keys, refusal.error_class, refusal.call_ids, rules.name), ask)


def _without_verdict(why: Undetermined, reason: str) -> Judgement:
    return Judgement("undetermined", reason, undetermined=why)


def _with_fault(judgement: Judgement, refusal: ProviderError) -> Judgement:
    """So that retries are recognised where the history says nothing: by the ids or words of the refusal."""
    named = tuple(refusal.call_ids)
    return Judgement(
        judgement.verdict,
        judgement.reason,
        call_id=named[0] if named else None,
        fault=("said", named or refusal.message[:_KEPT_CHARS]),
        rules=judgement.rules,
        undetermined=judgement.undetermined,
    )


def _guarded(
    con: duckdb.DuckDBPyConnection, policy: GuardPolicy, rows: Sequence[dict[str, Any]]
) -> Callable[[dict[str, Any]], Judgement]:
    """Would the guard have stepped in before a provider refused the loop itself?"""
    runs = tuple({row["run_id"] for row in rows})
    calls: dict[str, list[dict[str, Any]]] = {}
    if runs:
        for call in call_verdicts(con, policy, filters=Filters(run_ids=runs)).to_pylist():
            calls.setdefault(call["run_id"], []).append(call)

    def judged(row: dict[str, Any]) -> Judgement:
        before = [call for call in calls.get(row["run_id"], ()) if call["end_ns"] <= row["start_ns"]]
        if not before:
            return _without_verdict(
                "not_recorded", "It cannot be judged: no finished call was recorded before it in its run."
            )
        hits = [call for call in before if call["action"] in _STEPPED_IN]
        if hits:
            first = hits[0]
            left = sum(call["seq"] > first["seq"] for call in before)
            reason = (
                f"The guard would have stepped in before: {first['action']} at call {first['seq']} "
                f"({first['tool_name']}, result {first['count']} times in a row), {left} calls earlier."
            )
            return Judgement("prevented_by_guard", reason, fault=("loop", first["tool_name"]))
        unknown = sum(call["count"] in (None, 0) for call in before)
        more = f" ({unknown} of them not counted)" if unknown else ""
        reason = f"With this policy the guard lets the {len(before)} calls before it pass{more}."
        return Judgement("not_prevented", reason, fault=("loop", before[-1]["tool_name"]))

    return judged


def refused_row(failure: Failure | None, row: dict[str, Any], error_class: str) -> JudgedRequest:
    """The row as it is given out."""
    parts = row["input_parts"]
    base = {name: value for name, value in row.items() if name not in ("input_parts", "error_class")}
    if failure is None:
        return JudgedRequest(
            **base,
            judged_as=None,
            error_class=str(error_class),
            messages=None if parts is None else len(parts),
            verdict=None,
            reason=None,
        )
    judged = failure.judgement
    return JudgedRequest(
        **base,
        judged_as=failure.provider,
        error_class=str(error_class),
        messages=None if parts is None else len(parts),
        verdict=judged.verdict,
        reason=judged.reason,
        repairs=judged.repairs,
        repairs_total=judged.repairs_total,
        prevented_by_dedup=judged.prevented_by_dedup,
        cause=failure.group.number if failure.group else None,
        undetermined=judged.undetermined,
    )
