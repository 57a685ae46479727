"""Runs that went in circles and ended as a success, with the answer that they gave in the end."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._facts import Facts
from .._filters import Filters
from .._incidents import Found, touching
from .._sql import rows, sql_text
from .._types import Incident, IncidentKind
from ..requests._recorded import as_chat
from ._examples import TEXT_LIMIT
from ._spending import offered
from ._types import SoftFailure, SoftFailures

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["final_answers", "soft_failures_of", "soft_runs"]

_MOST = 1_000_000  # characters that are read in search of an answer

# Where agents' spans hold what the agent said in the end: a text, or messages.
_ANSWER_KEYS = (
    "final_result",
    "gen_ai.output.messages",
    "gen_ai.completion",
    "traceloop.entity.output",
    "output.value",
    "langfuse.observation.output",
    "ai.response.text",
)


def soft_runs(found: Iterable[Found]) -> dict[int, list[Incident]]:
    """The incidents of each run (number) that is a soft failure, unresolved ones and then the worst first."""
    runs: dict[int, list[Incident]] = {}
    for one in found:
        if one.incident.soft_failure and one.incident.kind is not IncidentKind.TWINS:
            runs.setdefault(one.stretch.run, []).append(one.incident)
    for incidents in runs.values():
        incidents.sort(key=lambda one: (one.resolved, -one.repeated_calls, one.key))
    return runs


def soft_failures_of(
    facts: Facts, store: duckdb.DuckDBPyConnection, noted: pa.Table, filters: Filters, limit: int
) -> SoftFailures:
    """Soft failures under the filter. `noted`: what the policy interferes with (sql/impact_calls.sql)."""
    runs = soft_runs(touching(facts, store, filters))
    if not runs:
        return SoftFailures()
    con = facts.cursor()
    with offered(con, noted_calls=noted):
        spoken = rows(con, sql_text("impact_spoken"))
    nudged = {row["run"] for row in spoken if row["nudged"]}
    blocked = {row["run"] for row in spoken if row["stopped"]}
    unresolved = {run for run, incidents in runs.items() if not incidents[0].resolved}
    resolved = runs.keys() - unresolved
    order = sorted(
        runs, key=lambda run: (run not in unresolved, -runs[run][0].repeated_calls, runs[run][0].key)
    )[:limit]
    answers = final_answers(store, [runs[run][0].run_id for run in order])
    shown = []
    for run in order:
        worst = runs[run][0]
        text, source = answers.get(worst.run_id, (None, None))
        shown.append(
            SoftFailure(
                run_id=worst.run_id,
                agent_name=worst.agent_name,
                service_name=worst.service_name,
                resolved=run in resolved,
                incident=worst.key,
                kind=worst.kind.value,
                tool_name=worst.tool_name,
                calls=worst.calls,
                incidents=len(runs[run]),
                nudged=run in nudged,
                blocked=run in blocked,
                answer=None if text is None else text[:TEXT_LIMIT],
                answer_length=None if text is None else len(text),
                answer_from=source,
            )
        )
    return SoftFailures(
        runs=len(runs),
        unresolved=len(unresolved),
        unresolved_nudged=len(unresolved & nudged),
        unresolved_blocked=len(unresolved & blocked),
        resolved_nudged=len(resolved & nudged),
        resolved_blocked=len(resolved & blocked),
        shown=tuple(shown),
    )


def final_answers(store: duckdb.DuckDBPyConnection, run_ids: list[str]) -> dict[str, tuple[str, str]]:
    """(text, where it stood) of each run that has one: its last answer, else what its agent's span says.

    Where: "request" or "agent_span". Texts of messages are cut at 1,000,000 characters.
    """
    import pyarrow as pa

    if not run_ids:
        return {}
    parts = [name.partition("/") for name in run_ids]
    columns = (run_ids, [part[0] for part in parts], [part[2] for part in parts])
    wanted = pa.Table.from_arrays(
        [pa.array(column, pa.string()) for column in columns], ["run_id", "trace_id", "span_id"]
    )
    with offered(store, wanted_runs=wanted):
        said = rows(store, sql_text("impact_answers"), {"limit": _MOST})
        messages: dict[str, list[str]] = {}
        for row in said:
            messages.setdefault(row["run_id"], []).append(row["text"])
        found = {run: (text, "request") for run, one in messages.items() if (text := _text_of(one))}
        spans = rows(store, sql_text("impact_agent_answers"), {"limit": _MOST})
    for row in spans:
        if row["run_id"] not in found and (text := _span_text(row["attributes"])):
            found[row["run_id"]] = text, "agent_span"
    return found


def _text_of(messages: list[str]) -> str | None:
    """What the messages of one answer say in words; None where they only ask for calls."""
    texts: list[str] = []
    for message in messages:
        texts.extend(as_chat(_decoded(message))[1].texts)
    return "\n".join(text for text in texts if text).strip() or None


def _span_text(attributes: str) -> str | None:
    known = _decoded(attributes)
    if not isinstance(known, dict):
        return None
    for key in _ANSWER_KEYS:
        value = known.get(key)
        if isinstance(value, str):
            value = _decoded(value)
        if isinstance(value, list) and value:
            value = value[-1]  # of several messages the last one answers
        if isinstance(value, dict):
            inner = value.get("content")
            value = {"role": "assistant", **inner} if isinstance(inner, dict) else value
        if isinstance(value, str | dict) and (text := "\n".join(as_chat(value)[1].texts).strip()):
            return text
    return None


def _decoded(text: str) -> Any:
    """The value that a JSON text holds; any other text is itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
