"""The map of thresholds: one total over nudge × block, with a place to click in every cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from ..replay import SweepRow
from ._charts import house
from ._text import count
from ._theme import CHOICE

__all__ = ["short", "threshold_map"]


def threshold_map(
    rows: Sequence[SweepRow], field: str, label: str, draft: tuple[Any, Any], saved: tuple[Any, Any]
) -> go.Figure:
    """Heatmap of one total over nudge × block, a cross on the draft and a ring on the saved policy."""
    nudges = sorted({row.nudge for row in rows if row.nudge is not None})
    blocks = sorted({row.block for row in rows if row.block is not None})
    trade = field == "trade"
    pairs = {(row.nudge, row.block): row.totals for row in rows}
    cells = {
        pair: one.calls_avoidable - one.calls_lost if trade else getattr(one, field)
        for pair, one in pairs.items()
    }
    if trade:
        texts = {
            pair: f"{short(one.calls_avoidable)}<br>{short(one.calls_lost)}" for pair, one in pairs.items()
        }
        hovers = {
            pair: f"{count(one.calls_avoidable, 'call')} spared<br>{count(one.calls_lost, 'call')} lost"
            for pair, one in pairs.items()
        }
    else:
        texts = {pair: short(value) for pair, value in cells.items()}
        one = label.replace("s ", " ", 1)  # "calls lost": "call lost"
        hovers = {pair: count(value, one, label) for pair, value in cells.items()}
    top = max([1, *(abs(value) for value in cells.values())])
    heat = {
        "type": "heatmap",
        "x": nudges,
        "y": blocks,
        "z": [[cells.get((nudge, block)) for nudge in nudges] for block in blocks],
        "colorscale": _TRADE if trade else [[0, "rgba(76,120,221,0.05)"], [1, "rgba(76,120,221,0.60)"]],
        "zmin": -top if trade else 0,
        "zmax": top,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "hoverinfo": "skip",
    }
    there = [pair for pair in cells if None not in pair]
    points = {"type": "scatter", "x": [x for x, _ in there], "y": [y for _, y in there], "showlegend": False}
    chosen = [
        (name, point, symbol, dash)
        for name, point, symbol, dash in (
            ("draft", draft, "x-thin", "solid"),
            ("saved", saved, "circle-open", "dot"),
        )
        if point[0] in nudges and point[1] in blocks
    ]
    layout = house(460 if trade else 380)
    layout["shapes"] = [_frame(point, dash) for _, point, _, dash in chosen]
    for axis, title in (("xaxis", "nudge at"), ("yaxis", "block at")):
        layout[axis] |= {"title": {"text": title}, "dtick": 1, "showgrid": False}
    return go.Figure(
        [
            heat,
            points | _to_click([hovers[pair] for pair in there]),
            points | _texts([texts[pair] for pair in there]),
            *(_corner(name, point, symbol) for name, point, symbol, _ in chosen),
        ],
        layout,
    )


_TRADE = [[0, "rgba(143,111,208,0.75)"], [0.5, "rgba(127,138,160,0.06)"], [1, "rgba(42,157,143,0.65)"]]
"""From more lost than spared to more spared than lost."""


def short(value: int) -> str:
    """A number for a narrow place: "9,841", "12.3k", "4.1M"."""
    if abs(value) < 10_000:
        return f"{value:,}"
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:,}"


def _to_click(hovers: Sequence[str]) -> dict[str, Any]:
    """Heatmap cells cannot be clicked; unseen marks over them can."""
    unseen = {"marker": {"opacity": 0}}
    return {
        "mode": "markers",
        "marker": {"symbol": "square", "size": 26, "opacity": 0},
        "selected": unseen,
        "unselected": unseen,
        "customdata": hovers,
        "hovertemplate": "nudge %{x}, block %{y}<br>%{customdata}<extra></extra>",
    }


def _texts(texts: Sequence[str]) -> dict[str, Any]:
    """Numbers in the page's own text colour: a heatmap's own ones ignore what shines through it.

    One trace, since the browser takes a third of a slider's time for so many annotations. With a colour for
    selected ones, which there are none of, the others do not fade when a cell is clicked.
    """
    return {
        "mode": "text",
        "text": texts,
        "textposition": "middle center",
        "hoverinfo": "skip",
        "selected": {"textfont": {"color": CHOICE}},
    }


def _corner(name: str, point: tuple[int, int], symbol: str) -> dict[str, Any]:
    """A mark in a corner of a cell, so that its number stays readable."""
    return {
        "type": "scatter",
        "x": [point[0] + (-0.34 if name == "draft" else 0.34)],
        "y": [point[1] + 0.26],
        "mode": "markers",
        "name": name,
        "marker": {"symbol": symbol, "size": 9, "color": CHOICE, "line": {"width": 2.5, "color": CHOICE}},
        "hoverinfo": "skip",
    }


def _frame(point: tuple[int, int], dash: str) -> dict[str, Any]:
    x, y = point
    return {
        "type": "rect",
        "x0": x - 0.48,
        "x1": x + 0.48,
        "y0": y - 0.48,
        "y1": y + 0.48,
        "line": {"color": CHOICE, "width": 2.5, "dash": dash},
    }
