"""A recorded incident as a policy test, to be kept beside the policy."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from .._detail import incident_detail

if TYPE_CHECKING:
    import duckdb

    from ...guard import GuardPolicy
    from .._types import IncidentCall, IncidentDetail

__all__ = ["case_of_incident"]

_MOST_CALLS = 1_000
_LONGEST = 4_000  # characters of arguments and results


def case_of_incident(con: duckdb.DuckDBPyConnection, key: str, policy: GuardPolicy) -> str:
    """The text of a `[[cases]]` table: an incident's calls, those in between, and what `policy` says of them.

    The calls before the incident are left out, so the counts of others among them may begin later. Arguments
    and results are cut at 4,000 characters, each to another text where the whole texts differ.

    Raises NotFoundError: no incident has that key, or several begin with it.
    """
    from ._read import parse_policy_tests
    from ._run import run_policy_tests

    detail = incident_detail(con, key, policy, call_limit=_MOST_CALLS)
    texts = _Texts()
    rows = [_row(one, texts) for one in detail.calls]
    calls = [f"  {_call(row, len(list(same)))}," for row, same in groupby(rows)]
    head = [
        "[[cases]]",
        f"name = {_text(_name(detail))}",
        "calls = [",
        *calls,
        "]",
    ]
    # What the policy says of these calls alone is what the test will see.
    probe = "\n".join(["version = 1", *head, 'first_nudge = "never"', 'first_block = "never"'])
    (result,) = run_policy_tests(parse_policy_tests(probe), policy)
    found = {failure.expected: failure.got.rpartition(" ")[2].replace(",", "") for failure in result.failures}
    expected = [
        f"first_{action} = {found.get(f'no {action}', _text('never'))}" for action in ("nudge", "block")
    ]
    notes = []
    if detail.calls_left_out:
        notes.append(f"# {detail.calls_left_out:,} further calls are left out.")
    if texts.cut:
        notes.append(f"# {texts.cut:,} texts are cut at {_LONGEST:,} characters.")
    return "\n".join([*notes, *head, *expected]) + "\n"


def _name(detail: IncidentDetail) -> str:
    incident = detail.incident
    return f"{incident.kind.value} of {incident.tool_name}, incident {incident.key}"


class _Texts:
    """Long texts cut, with a number where two of them begin alike."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, int]] = {}
        self.cut = 0

    def short(self, text: str | None) -> str | None:
        if text is None or len(text) <= _LONGEST:
            return text
        self.cut += 1
        start = text[:_LONGEST]
        number = self._known.setdefault(start, {}).setdefault(text, len(self._known[start]) + 1)
        return f"{start}… ({number})"


def _row(one: IncidentCall, texts: _Texts) -> tuple[tuple[str, Any], ...]:
    call = one.call
    values = {
        "tool": call.tool_name,
        "arguments": texts.short(call.arguments),
        "result": texts.short(call.result),
        "outcome": None if call.outcome == "success" else call.outcome or "unknown",
        "agent": call.agent_name,
    }
    return tuple((name, value) for name, value in values.items() if value is not None)


def _call(row: tuple[tuple[str, Any], ...], times: int) -> str:
    parts = [f"{name} = {_text(value)}" for name, value in row]
    if times > 1:
        parts.append(f"repeat = {times}")
    return "{ " + ", ".join(parts) + " }"


def _text(text: str) -> str:
    """As a string of TOML."""
    if "'" not in text and text.isprintable() and ('"' in text or "\\" in text):
        return f"'{text}'"
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08X}" for one in quoted)
