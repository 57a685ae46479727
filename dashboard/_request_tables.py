"""Tables of the requests page: causes, requests, providers at risk, requests the repair would change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from ..replay import BrokenRequest, Cause, JudgedRequest, ProviderRisk
from . import _ui
from ._request_link import open_request
from ._request_words import came_before, class_name, mark_of, provider_name, repair_name
from ._text import plain
from ._units import when

__all__ = ["TALL", "broken", "causes", "requests", "risks"]

_Place = tuple[str | None, str | None, str | None]  # trace id, span id, rules to show it by

_TEXT = st.column_config.TextColumn
_VERDICT = 126
TALL = 66
"""Height in pixels of rows in which texts wrap; up to 64 Streamlit leaves them in one line."""
_ONE_LINE = 31
"""Characters of the text that matters most that fit into one line."""
_NUMBER = st.column_config.NumberColumn


def _when(label: str) -> Any:
    return st.column_config.DatetimeColumn(label, format="YYYY-MM-DD HH:mm:ss", width=155)


def _or_none(text: str | None, limit: int = 120) -> str | None:
    return None if text is None else plain(text, limit)


def _opening(
    rows: pd.DataFrame,
    places: Sequence[_Place],
    *,
    key: str,
    alt: str,
    columns: dict[str, Any],
    row_height: int | None = None,
) -> None:
    """A table in which each row opens a request."""
    rows.insert(0, "open", ["Open" if trace and span else "" for trace, span, _ in places])

    def clicked() -> None:
        click = st.session_state[f"{key}_open"]
        if click is not None and 0 <= click.row < len(places):
            trace_id, span_id, rules = places[click.row]
            if trace_id and span_id:
                open_request(trace_id, span_id, rules)

    button = st.column_config.ButtonColumn(
        "", on_click=clicked, key=f"{key}_open", type="tertiary", width=64, pinned=True
    )
    _ui.table(
        rows,
        key=key,
        alt=alt,
        columns={"open": button, **columns},
        height="content" if len(rows) <= 12 else "auto" if row_height is None else 8 * row_height,
        row_height=row_height,
    )


def causes(found: Sequence[Cause]) -> None:
    """Broken histories, a line each."""
    rows = pd.DataFrame(
        {
            "before": [came_before(one) for one in found],
            "verdict": [_verdict(one.verdict) for one in found],
            "requests": [one.requests for one in found],
            "class": [class_name(one.error_class) for one in found],
            "agent": [_or_none(one.agent_name or one.service_name) for one in found],
            "provider": [_or_none(one.provider) for one in found],
            "model": [_or_none(one.model) for one in found],
            "last": [when(one.last_ns) for one in found],
            "first": [when(one.first_ns) for one in found],
            "id": [_or_none(one.call_id) for one in found],
        }
    )
    _opening(
        rows,
        [(one.first_trace_id, one.first_span_id, None) for one in found],
        key="causes",
        alt="Causes: one broken history a line",
        row_height=_height(rows["before"]),
        columns={
            "before": _TEXT("What came just before it", width=195),
            "verdict": _TEXT("Verdict", width=_VERDICT, help="On its first request"),
            "requests": _NUMBER("Requests", width=74, help="Retries and later requests that carried it on"),
            "class": _TEXT("Refused over", width=145),
            "agent": _TEXT("Agent", width=110),
            "provider": _TEXT("Provider", width=80),
            "model": _TEXT("Model", width=100),
            "last": _when("Last (UTC)"),
            "first": _when("First (UTC)"),
            "id": _TEXT("Call id at fault", width=220),
        },
    )


def requests(found: Sequence[JudgedRequest], key: str = "failed_requests") -> None:
    """Failed requests, a line each."""
    rows = pd.DataFrame(
        {
            "class": [class_name(one.error_class) for one in found],
            "verdict": [_verdict(one.verdict) for one in found],
            "repairs": [", ".join(map(repair_name, one.repairs)) or None for one in found],
            "when": [when(one.start_ns) for one in found],
            "status": [str(one.http_status) if one.http_status else None for one in found],
            "text": [_or_none(one.error_text or one.error_type, 300) for one in found],
            "agent": [_or_none(one.agent_name or one.service_name) for one in found],
            "provider": [_or_none(one.provider) for one in found],
            "model": [_or_none(one.model) for one in found],
            "messages": [one.messages for one in found],
            "reason": [_or_none(one.reason, 300) for one in found],
        }
    )
    _opening(
        rows,
        [(one.trace_id, one.span_id, None) for one in found],
        key=key,
        alt="Failed requests",
        row_height=_height(rows["repairs"]),
        columns={
            "class": _TEXT("Refused over", width=140),
            "verdict": _TEXT("Verdict", width=_VERDICT),
            "repairs": _TEXT("Repair", width=185),
            "when": _when("When (UTC)"),
            "status": _TEXT("Status", width=58),
            "text": _TEXT("What the provider said", width=330),
            "agent": _TEXT("Agent", width=120),
            "provider": _TEXT("Provider", width=90),
            "model": _TEXT("Model", width=120),
            "messages": _NUMBER("Messages", width=80),
            "reason": _TEXT("Why this verdict", width=400),
        },
    )


def risks(found: Sequence[ProviderRisk], checked: int) -> None:
    """Providers that would refuse histories that passed elsewhere."""
    rows = pd.DataFrame(
        {
            "provider": [provider_name(one.provider) for one in found],
            "requests": [one.requests for one in found],
            "share": [100 * one.requests / checked if checked else None for one in found],
            "over": [
                ", ".join(f"{class_name(name)} {number:,}" for name, number in one.by_class.items())
                for one in found
            ],
        }
    )
    _opening(
        rows,
        [(one.sample_trace_id, one.sample_span_id, one.provider) for one in found],
        key="risks",
        alt="Requests that another provider would refuse",
        columns={
            "provider": _TEXT("Provider", width=210),
            "requests": _NUMBER("Would refuse", width=105),
            "share": _NUMBER("Of those checked", format="%.0f %%", width=125),
            "over": _TEXT("Over (requests)", width=560),
        },
    )


def broken(found: Sequence[BrokenRequest]) -> None:
    """Requests that succeeded and that the sanitizer would change."""
    rows = pd.DataFrame(
        {
            "when": [when(one.start_ns) for one in found],
            "repairs": [", ".join(map(repair_name, one.repairs)) for one in found],
            "reason": [plain(one.reason, 300) for one in found],
            "agent": [_or_none(one.agent_name or one.service_name) for one in found],
            "provider": [_or_none(one.provider) for one in found],
            "model": [_or_none(one.model) for one in found],
            "dialect": [plain(one.dialect) for one in found],
        }
    )
    _opening(
        rows,
        [(one.trace_id, one.span_id, None) for one in found],
        key="broken",
        alt="Requests that succeeded and that the sanitizer would change",
        columns={
            "when": _when("When (UTC)"),
            "repairs": _TEXT("Repair", width=220),
            "reason": _TEXT("Why", width=420),
            "agent": _TEXT("Agent", width=120),
            "provider": _TEXT("Provider", width=90),
            "model": _TEXT("Model", width=120),
            "dialect": _TEXT("Recorded as", width=110),
        },
    )


def _height(texts: Iterable[object]) -> int | None:
    """Rows are as high as the longest of these texts wants."""
    return TALL if any(isinstance(text, str) and len(text) > _ONE_LINE for text in texts) else None


def _verdict(verdict: str | None) -> str:
    mark = mark_of(verdict)
    return f"{mark.glyph} {mark.name}"
