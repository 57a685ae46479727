"""Charts of the tuning page: curves by threshold, precision and recall, where runs leave the recording."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from ..replay import Divergence, LabelScores, Split, SweepRow
from ._charts import base
from ._text import count
from ._theme import CHOICE, VERDICTS

__all__ = ["LATER", "divergence_bars", "later_curve", "score_bands"]

LATER = {
    "calls_avoidable": ("spared", "#2A9D8F", "", "had come before"),
    "calls_lost": ("lost", "#8F6FD0", "/", "was new to the run"),
    "calls_unjudged": ("cannot be judged", "#7F8AA0", ".", "is not known"),
}
"""Calls after a block, by whether their result had come before: name, colour, pattern, what it says."""


def later_curve(rows: Sequence[SweepRow], draft: int | None, saved: int | None) -> go.Figure:
    """Calls after the block for each block threshold, stacked by what they brought in the recording."""
    figure = base(340, barmode="stack", hovermode="x unified", bargap=0.25)
    blocks = [row.block for row in rows]
    for field, (name, colour, pattern, _) in LATER.items():
        values = [getattr(row.totals, field) for row in rows]
        figure.add_bar(
            x=blocks,
            y=values,
            name=name,
            marker={
                "color": colour,
                "pattern": {
                    "shape": pattern,
                    "fillmode": "overlay",
                    "fgcolor": "white",
                    "fgopacity": 0.7,
                    "size": 6,
                },
            },
            hovertemplate="%{y:,} " + name + "<extra></extra>",
        )
    tops = {row.block: row.totals.calls_after_block for row in rows}
    figure.add_scatter(
        x=blocks,
        y=[tops[block] for block in blocks],
        mode="text",
        text=[f"{row.totals.runs_blocked:,}" for row in rows],
        textposition="top center",
        showlegend=False,
        customdata=[count(row.totals.runs_blocked, "run") for row in rows],
        hovertemplate="%{customdata} ended<extra></extra>",
        cliponaxis=False,
    )
    top = max(tops.values(), default=0)
    _marks(figure, draft, saved, blocks)
    figure.update_xaxes(title="block at · above each bar: runs ended", dtick=1, showgrid=False)
    figure.update_yaxes(title="calls after the block", rangemode="tozero", range=[0, max(top * 1.15, 1)])
    return figure


def _marks(figure: go.Figure, draft: int | None, saved: int | None, levels: Sequence[int | None]) -> None:
    """Where draft and saved policy stand on an axis of thresholds."""
    for level, name, dash in ((saved, "saved", "dot"), (draft, "draft", "solid")):
        if level is not None and level in levels:
            side = 0.38 if name == "draft" or draft != saved else 0.44
            figure.add_vrect(
                x0=level - side,
                x1=level + side,
                line={"color": CHOICE, "width": 2, "dash": dash},
                fillcolor="rgba(0,0,0,0)",
                layer="above",
            )
            figure.add_scatter(
                x=[None],
                y=[None],
                mode="lines",
                name=name,
                line={"color": CHOICE, "width": 2, "dash": dash},
            )


_MEASURES = {
    "precision": ("precision: of what it falls on, true loops", "#2A9D8F", "rgba(42,157,143,0.16)", "circle"),
    "recall": ("recall: of true loops, what it falls on", "#4C78DD", "rgba(76,120,221,0.16)", "diamond"),
}


def score_bands(
    scores: LabelScores, by: str, split: Split, draft: int | None, saved: int | None
) -> go.Figure:
    """Precision and recall by threshold, each with its 95 % interval as a band. `by`: "block" or "nudge"."""
    rows = [
        row
        for row in scores.rows
        if (row.block_threshold if by == "block" else row.nudge_threshold) is not None
    ]
    levels = [row.block_threshold if by == "block" else row.nudge_threshold for row in rows]
    parts = [(row.block if by == "block" else row.nudge)[split] for row in rows]
    figure = base(340, hovermode="x unified")
    for name, (label, colour, fill, symbol) in _MEASURES.items():
        ratios = [getattr(part, name) for part in parts]
        figure.add_scatter(
            x=[*levels, *reversed(levels)],
            y=[*(one.high for one in ratios), *(one.low for one in reversed(ratios))],
            fill="toself",
            fillcolor=fill,
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
        )
        figure.add_scatter(
            x=levels,
            y=[one.value for one in ratios],
            mode="lines+markers",
            name=label,
            line={"color": colour, "width": 2},
            marker={"symbol": symbol, "size": 9},
            customdata=[
                f"{name} {one.hits} of {one.n}"
                + ("" if one.value is None else f" = {one.value:.0%} ({one.low:.0%} to {one.high:.0%})")
                for one in ratios
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    _marks(figure, draft, saved, levels)
    figure.update_layout(legend={"y": 1.02}, margin={"t": 64})
    figure.update_xaxes(
        title=f"{by} at · n: incidents it falls on",
        tickvals=levels,
        ticktext=[f"{level}<br>n={part.tp + part.fp}" for level, part in zip(levels, parts, strict=True)],
        showgrid=False,
    )
    figure.update_yaxes(tickformat=".0%", range=[-0.03, 1.05])
    return figure


def divergence_bars(found: Divergence, by: str) -> go.Figure:
    """How many runs leave the recording where. `by`: "share" of the run, or "number" of the call."""
    bins = found.shares if by == "share" else found.positions
    names = [
        f"{one.first}–{one.last} %"
        if by == "share"
        else (f"{one.first:,}" if one.first == one.last else f"{one.first:,}–{one.last:,}")
        for one in bins
    ]
    figure = base(300, showlegend=False, bargap=0.1)
    figure.add_bar(
        x=list(range(len(bins))),
        y=[one.runs for one in bins],
        marker={"color": VERDICTS["nudge"].colour},
        text=[f"{one.runs:,}" if one.runs else "" for one in bins],
        textposition="outside",
        cliponaxis=False,
        customdata=[
            f"{count(one.runs, 'run')} {'leave' if one.runs != 1 else 'leaves'} at {name}"
            for one, name in zip(bins, names, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    top = max((one.runs for one in bins), default=1)
    title = "how much of the run is exact" if by == "share" else "number of the call; 0: before its first"
    figure.update_xaxes(title=title, tickvals=list(range(len(bins))), ticktext=names, showgrid=False)
    figure.update_yaxes(title="runs", rangemode="tozero", range=[0, top * 1.15], dtick=1 if top < 5 else None)
    return figure
