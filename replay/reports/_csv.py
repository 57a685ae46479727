"""Rows for a spreadsheet, which must not take text of a trace for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from .._labelled import Label
from .._text import cut, utc, visible
from .._types import Incident, IncidentDetail

__all__ = ["incident_csv", "incidents_csv", "looks_like_formula", "safe_cell"]

_CELL = 2_000  # characters; spreadsheets end at 32,767
# Signs that begin a formula, or a command of old spreadsheets; the last four are full-width ones.
_FORMULA = ("=", "+", "-", "@", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def incident_csv(detail: IncidentDetail) -> str:
    """One row per call of the incident, and per call in between."""
    return _write(
        {
            "number": one.number,
            "started_at": utc(one.call.start_ns),
            "start_ns": one.call.start_ns,
            "end_ns": one.call.end_ns,
            "agent_name": one.call.agent_name,
            "tool_name": one.call.tool_name,
            "outcome": one.call.outcome,
            "error_kind": one.call.error_kind,
            "count": one.count,
            "action": one.action,
            "exact": one.exact,
            "arguments_change": one.arguments_change.summary if one.arguments_change else None,
            "result_change": one.result_change.summary if one.result_change else None,
            "arguments": _long(one.call.arguments, one.arguments_length),
            "result": _long(one.call.result, one.result_length),
            "trace_id": one.call.trace_id,
            "span_id": one.call.span_id,
            "position": one.call.position,
        }
        for one in detail.calls
    )


_LONG = ("sample_arguments", "sample_result", "error_text")


def incidents_csv(incidents: Iterable[Incident], labels: Mapping[str, Label] | None = None) -> str:
    """One row per incident: the fields of its JSON, with the time of its start in words, and its label."""
    header = ["started_at", *(field.name for field in fields(Incident)), "label", "label_note"]
    known = labels or {}

    def row(one: Incident) -> dict[str, object]:
        values = one.to_json()
        values["tools"] = " → ".join(one.tools)
        label = known.get(one.key)
        said = (label.verdict.value, _long(label.note)) if label else (None, None)
        values |= {name: _long(values[name]) for name in _LONG}
        return {"started_at": utc(one.first_ns), **values, "label": said[0], "label_note": said[1]}

    return _write(map(row, incidents), header)


def safe_cell(value: object) -> str:
    """A cell as text. Text that a spreadsheet would run is led by an apostrophe; NULL is an empty cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = visible(str(value))
    return f"'{text}" if looks_like_formula(text) else text


def looks_like_formula(text: str) -> bool:
    """Would a spreadsheet run it? They look past spaces, and some past an opening quote."""
    return text.lstrip(" \u00a0\u3000'\"").startswith(_FORMULA)


def _long(text: str | None, length: int | None = None) -> str | None:
    if text is None:
        return None
    shown, note = cut(text, _CELL, length)
    return shown if note is None else f"{shown}… ({note})"


def _write(rows: Iterable[Mapping[str, object]], header: Sequence[str] = ()) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if header:
        writer.writerow(header)
    for number, row in enumerate(rows):
        if not header and number == 0:
            writer.writerow(row)
        writer.writerow([safe_cell(value) for value in row.values()])
    return out.getvalue()
