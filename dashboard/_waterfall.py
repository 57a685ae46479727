"""A run's spans as lines with bars: a table, so that it is quick, and reached by keyboard as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from ..replay.traces import SpanRow, SpanWindow
from ..replay.traces._tree import BUCKETS
from . import _ui
from ._charts import base
from ._text import plain
from ._theme import ACCENT, SEQUENCE, VERDICTS, verdict_text
from ._units import duration

__all__ = ["FAILED", "bar", "columns", "density", "frame", "legend"]

FAILED = "#A8578F"
"""Of bars of failed spans: amber and red stay with what the guard does."""
_KINDS = {"request": ACCENT, "agent": SEQUENCE[2], "other": SEQUENCE[4], "call": VERDICTS["allow"].colour}
_WIDTH, _HEIGHT = 350, 29
"""Of the image in pixels; the table draws it as high as its rows are."""
_DEEPEST = 14  # steps of indentation that are drawn


def frame(window: SpanWindow) -> pd.DataFrame:
    """The lines as a table."""
    rows = window.rows
    return pd.DataFrame(
        {
            "fold": ["" if not row.foldable else "\N{MINUS SIGN}" if row.open else "+" for row in rows],
            "name": [_name(row) for row in rows],
            "verdict": [[verdict_text(action) for action in _shown(row)] for row in rows],
            "bar": [bar(row, window) for row in rows],
            "took": [_took(row) for row in rows],
            "failed": [_failed(row) for row in rows],
            "begins": [f"+{duration(row.start_ns - window.first_ns)}" for row in rows],
            "kind": [row.kind for row in rows],
            "count": [row.count or None for row in rows],
            "sure": [None if row.exact is None else "exact" if row.exact else "projected" for row in rows],
            "inside": [row.inside or None for row in rows],
        }
    )


def columns(window: SpanWindow, fold: Any) -> dict[str, Any]:
    """The configuration of the table; `fold` that of the column which opens and closes."""
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    length = duration(window.last_ns - window.first_ns)
    return {
        "fold": fold,
        "name": text("Span", width=204),
        "verdict": _ui.verdict_column("Verdict", 120),
        "bar": st.column_config.ImageColumn(f"0 s … {length}", width=_WIDTH + 16),
        "took": text("Took", width=72, help="Of several spans: inside them, summed up"),
        "failed": text("Failed", width=74),
        "begins": text("Begins", width=76, help="After the begin of what is shown"),
        "kind": text("Kind", width=70),
        "count": number("In a row", width=70, help="Equal results in a row, this call included"),
        "sure": text(
            "Certainty", width=82, help="Projected: after an intervention that the agent did not see"
        ),
        "inside": number("Inside", width=70, help="Spans below", format="localized"),
    }


def _name(row: SpanRow) -> str:
    # Spaces at the beginning would be drawn, those of a name in a trace are not.
    step = "\N{EM SPACE}" * 2 * min(row.depth, _DEEPEST)
    mark = "✗ " if row.members == 1 and row.failed else ""
    members = f" × {row.members:,}" if row.members > 1 else ""
    deep = f"({row.depth}) " if row.depth > _DEEPEST else ""
    return f"{step}{deep}{mark}{plain(row.name, 100)}{members}"


def _shown(row: SpanRow) -> list[str]:
    """Of a folded line what stands out; that some of it was allowed goes without saying."""
    return [action for action in row.actions if action != "allow" or len(row.actions) == 1]


def _took(row: SpanRow) -> str:
    if row.end_ns is None:
        return "running"
    return duration(row.busy_ns)


def _failed(row: SpanRow) -> str:
    parts = []
    if row.failed:
        parts.append("✗ failed" if row.members == 1 else f"✗ {row.failed:,}")
    if row.failed_inside and not row.open:
        parts.append(f"{row.failed_inside:,} inside")
    return ", ".join(parts)


def bar(row: SpanRow, window: SpanWindow) -> str:
    """The line's bar as an image. Nothing out of the trace but times is in it."""
    middle = _HEIGHT // 2
    parts = [f'<path d="M0 {middle}H{_WIDTH}" stroke="#808894" stroke-opacity=".25"/>']
    if row.members == 1:
        width = window.last_ns - window.first_ns
        low = max(0.0, (row.start_ns - window.first_ns) * _WIDTH / width)
        end = window.last_ns if row.end_ns is None else row.end_ns
        high = min(float(_WIDTH), (end - window.first_ns) * _WIDTH / width)
        look = row.pieces[0][2] if row.pieces else ""
        parts.append(_piece(low, high, look, row.kind, row.end_ns is None))
    else:
        step = _WIDTH / BUCKETS
        for first, last, look in row.pieces:
            parts.append(_piece(first * step, (last + 1) * step, look, row.kind, False))
    body = "".join(parts)
    image = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}">{body}</svg>'
    return f"data:image/svg+xml;utf8,{quote(image)}"


def _piece(low: float, high: float, look: str, kind: str, running: bool) -> str:
    low = min(low, _WIDTH - 3.0)
    width = max(3.0, high - low)
    top, height = 7, 15
    if look in ("nudge", "block"):
        top, height = 4, 21  # taller, so that they are found without colour too
    fill, stroke, opacity = _KINDS[kind], "", "1"
    if look == "failed":
        fill = FAILED
    elif look in ("nudge", "block"):
        fill = VERDICTS[look].colour
    elif look == "after_block":
        fill, opacity, stroke = "#D31F3C", ".25", ' stroke="#D31F3C" stroke-opacity=".8"'
    elif look == "not_counted":
        opacity, stroke = "0", f' stroke="{VERDICTS[look].colour}"'
    if running:
        stroke = f' stroke="{fill}" stroke-dasharray="4 3"'
        opacity = ".45"
    return (
        f'<rect x="{low:.1f}" y="{top}" width="{width:.1f}" height="{height}" rx="2" fill="{fill}" '
        f'fill-opacity="{opacity}"{stroke}/>'
    )


def legend() -> str:
    """What the bars mean, as Markdown of our own words."""
    return (
        ":blue[■] request to a model · :violet[■] agent, or a failed span (✗) · :grey[■] call that is "
        "allowed, or "
        "anything else · :orange[▲] nudge · :red[■] block · :red[□] after block · :grey[○] not counted. "
        "Taller bars are "
        "where the guard steps in; a dashed bar has not ended."
    )


def density(made: Sequence[dict[str, int]], first_ns: int, last_ns: int) -> go.Figure:
    """How many spans begin over the run's time, stacked; a box drawn over it chooses a window of time."""
    figure = base(
        120,
        showlegend=False,  # the marks are those of the bars beneath
        barmode="stack",
        bargap=0.05,
        dragmode="select",
        selectdirection="h",
        hovermode="x unified",
        margin={"l": 8, "r": 8, "t": 8, "b": 4},
        newselection={"line": {"color": ACCENT, "width": 1}},
    )
    scale = max(1, last_ns - first_ns) / len(made) / 1e9
    middles = [(number + 0.5) * scale for number in range(len(made))]
    looks: dict[str, tuple[str, str, float]] = {
        "other": ("other spans", SEQUENCE[4], 0.45),
        "request": ("requests", ACCENT, 0.9),
        **{action: (f"{mark.glyph} {mark.name}", mark.colour, 0.75) for action, mark in VERDICTS.items()},
    }
    looks["after_block"] = (looks["after_block"][0], "#D31F3C", 0.3)
    for look, (name, colour, opacity) in looks.items():
        values = [bucket.get(look) or None for bucket in made]
        if look == "other":
            values = [(bucket.get("other", 0) + bucket.get("call", 0)) or None for bucket in made]
        if any(values):
            figure.add_bar(
                x=middles,
                y=values,
                width=scale * 0.94,
                name=name,
                marker={"color": colour, "opacity": opacity},
            )
    figure.update_xaxes(range=[0, (last_ns - first_ns) / 1e9 or 1], ticksuffix=" s", showgrid=False)
    figure.update_yaxes(title="spans", nticks=4)
    return figure
