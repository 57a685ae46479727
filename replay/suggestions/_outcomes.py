"""Rules for what a call came to, where its text and what came after leave no doubt."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ...guard import ErrorKind, Outcome
from .._filters import call_filter
from .._mask import mask
from .._sql import filtered, rows, sql_text
from .._text import plural
from ._context import Candidate, Context
from ._types import Fact, SuggestionKind
from ._words import quoted

__all__ = ["outcomes"]

_CALLS = 5  # that a rule rests on
_RUNS = 2
_GROUPS = 60  # errors that are looked at
_PREFIX = (12, 80)  # characters of an error's text that name it
_PASSING = {
    ErrorKind.TIMEOUT,
    ErrorKind.RATE_LIMIT,
    ErrorKind.UNAVAILABLE,
    ErrorKind.NETWORK,
    ErrorKind.CANCELLED,
}


def outcomes(context: Context) -> Iterator[Candidate]:
    """Results that are failures which pass, and failures that never pass."""
    yield from _failures_by_text(context)
    yield from _lasting_errors(context)


def _failures_by_text(context: Context) -> Iterator[Candidate]:
    """Successes that begin with a word for an error, and that worked when they were tried again."""
    condition, params = call_filter(context.filters)
    found = rows(context.con, filtered("suggest_error_words", condition), params)
    plain = {row["tool_name"]: row["calls"] for row in found if not row["word"]}
    by_tool: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        if row["word"]:
            by_tool[row["tool_name"]].append(row)
    numbers = context.run_numbers
    for tool, words in by_tool.items():
        calls = sum(row["calls"] for row in words)
        recovered = sum(row["recovered"] for row in words)
        runs = {run for row in words for run in row["recovered_runs"] or () if run is not None}
        all_runs = {run for row in words for run in row["runs"]}
        if calls < _CALLS or recovered < _CALLS or len(runs) < _RUNS or plain.get(tool, 0) < calls:
            continue
        spelled = "|".join(sorted(row["word"] for row in words))
        rule = {
            "tool": tool,
            "text_pattern": rf"(?:{spelled})\b",
            "on_success": True,
            "outcome": Outcome.GENERAL_TOOL_ERROR.value,
        }
        evidence = (
            Fact(
                f"{plural(calls, 'result')} of {quoted(tool)} begin with {spelled.replace('|', ' or ')} "
                f"although they were recorded as successes; after {recovered:,} of them the same call "
                "gave a result that does not",
                recovered,
                calls,
                len(runs),
                context.examples(
                    (
                        numbers[row["runs"][0]],
                        row["seq"],
                        f"{quoted(tool)}: a result that begins with {row['word']}",
                    )
                    for row in words
                ),
            ),
            Fact(
                f"{plural(plain[tool], 'other result')} of {quoted(tool)} do not begin so",
                plain[tool],
                calls + plain[tool],
            ),
        )
        yield Candidate(
            SuggestionKind.OUTCOMES,
            f"Take results of {quoted(tool)} that begin with {spelled.replace('|', ' or ')} for errors "
            "that may pass",
            {"outcome_rules": [rule]},
            evidence,
            len(runs),
            affected=sorted(numbers[run] for run in all_runs),
            texts_of=tool,
        )


def _lasting_errors(context: Context) -> Iterator[Candidate]:
    """General errors that came back each time the call was tried again: they count as schema errors do."""
    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    passing: dict[int, list[str]] = defaultdict(list)
    for row in context.ask("suggest_same_errors", most=_GROUPS):
        said = rows(
            context.con,
            sql_text("suggest_error_text"),
            {"run_id": context.run_ids[row["run"]], "seq": row["seq"]},
        )
        text = said[0]["text"] if said else None
        if not text:
            continue
        if row["others"] or said[0]["error_kind"] in _PASSING:
            passing[row["tool"]].append(text)
        elif row["repeated"]:
            groups[row["tool"], mask(text)].append({**row, "text": text})
    for (number, masked), same in groups.items():
        tool = context.tools[number]
        repeated = sum(row["repeated"] for row in same)
        runs = {run for row in same for run in row["runs"]}
        counted = context.policy.rules_for(tool).error_thresholds is not None
        if (
            repeated < _CALLS
            or len(runs) < _RUNS
            or counted
            or Outcome.GENERAL_TOOL_ERROR in set(context.policy.counted_outcomes)
        ):
            continue
        prefix = re.split(r"<(?:n|id|time)>|\n", masked)[0][: _PREFIX[1]].strip()
        if len(prefix) < _PREFIX[0] or any(prefix in text for text in passing[number]):
            continue
        rule = {
            "tool": tool,
            "text_pattern": re.escape(prefix).replace(r"\ ", " "),
            "outcome": Outcome.SCHEMA_ERROR.value,
        }
        evidence = Fact(
            f"{plural(repeated, 'time')} {quoted(tool)} was called again after “{quoted(prefix)}”, and "
            f"{plural(repeated, 'time')} it said the same; it never gave anything else",
            repeated,
            repeated,
            len(runs),
            context.examples(
                (row["run"], row["seq"], f"{quoted(tool)}: {quoted(row['text'])}") for row in same
            ),
        )
        yield Candidate(
            SuggestionKind.OUTCOMES,
            f"Count “{quoted(prefix)}” of {quoted(tool)} as an error of the call itself",
            {"outcome_rules": [rule]},
            (evidence,),
            len(runs),
            affected=sorted(runs),
            texts_of=tool,
        )
