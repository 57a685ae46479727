"""Figures of the pages. Every text that comes from a trace passes `plot` on its way in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from ..replay import ErrorBucket, Incident, NamedCount, TimeBucket
from ._text import count, plot
from ._theme import ACCENT, GRID, KIND_NAMES, SEQUENCE, VERDICTS
from ._units import duration, when

__all__ = [
    "MOST_NAMES",
    "bar_counts",
    "base",
    "calls_over_time",
    "error_kinds",
    "errors_over_time",
    "fault_bars",
    "house",
    "show",
    "status_bars",
]

MOST_NAMES = 20
"""Lines of a heatmap of names."""

_CONFIG = {
    "displaylogo": False,
    "scrollZoom": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "resetScale2d"],
}


def show(figure: go.Figure, *, key: str, alt: str, **options: Any) -> Any:
    """Draw a figure at the width of its container, with an accessible name.

    Its camera button makes a PNG in the browser, named after the key.
    """
    picture = {"format": "png", "scale": 2, "filename": f"loopscope-{key.replace('_', '-')}"}
    config = {**_CONFIG, "toImageButtonOptions": picture}
    return st.plotly_chart(figure, key=key, alt=plot_free(alt), config=config, **options)


def plot_free(text: str) -> str:
    """An accessible name is plain text: nothing to escape, only to bound."""
    return text[:400]


def house(height: int) -> dict[str, Any]:
    """The layout of the house style: no frame, faint grid, room for labels."""
    axis = {"gridcolor": GRID, "zeroline": False, "automargin": True, "fixedrange": True}
    return {
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 28, "b": 8},
        "hoverlabel": {"align": "left", "namelength": -1},
        "legend": {
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.0,
            "xanchor": "left",
            "x": 0,
            "traceorder": "normal",
        },
        "bargap": 0.12,
        "showlegend": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": axis,
        "yaxis": dict(axis),
    }


def base(height: int, **layout: Any) -> go.Figure:
    """An empty figure in the house style. Made at once: changing a figure takes ten times as long."""
    made = house(height)
    for name, value in layout.items():
        made[name] = made[name] | value if isinstance(value, dict) and name in made else value
    return go.Figure(layout=made)


def calls_over_time(buckets: Sequence[TimeBucket], bucket_ns: int) -> go.Figure:
    """Calls per bucket, stacked by verdict, with a mark above each bucket in which an incident began."""
    figure = base(300, barmode="stack", hovermode="x unified")
    middles = [when(bucket.start_ns + bucket_ns // 2) for bucket in buckets]
    width = bucket_ns / 1e6 * 0.9
    for action, mark in VERDICTS.items():
        # None and not 0: an empty bar with an outline would show as a line.
        values = [getattr(bucket, action) or None for bucket in buckets]
        if any(values):
            name = f"{mark.glyph} {mark.name}"
            figure.add_bar(x=middles, y=values, width=width, name=name, marker=_bar(action))
    _beginnings(figure, buckets, bucket_ns)
    _whole_numbers(figure, "calls", [sum(getattr(one, action) for action in VERDICTS) for one in buckets])
    figure.update_xaxes(title=f"UTC · {duration(bucket_ns)} a bar", showgrid=False)
    if buckets:
        first, last = buckets[0].start_ns - bucket_ns // 4, buckets[-1].start_ns + bucket_ns * 5 // 4
        figure.update_xaxes(range=[when(first), when(last)])
    return figure


def _whole_numbers(figure: go.Figure, title: str, heights: Sequence[int]) -> None:
    """There is no half call: low bars get a tick for each."""
    figure.update_yaxes(title=title, rangemode="tozero", dtick=1 if max(heights, default=0) < 5 else None)


def _beginnings(figure: go.Figure, buckets: Sequence[TimeBucket], bucket_ns: int) -> None:
    """A mark above each bucket in which an incident began."""
    known = {bucket.start_ns: bucket for bucket in buckets}
    began = {bucket.start_ns: bucket.incidents for bucket in buckets if bucket.incidents}
    if not began:
        return
    tops = {start: sum(getattr(bucket, action) for action in VERDICTS) for start, bucket in known.items()}
    figure.add_scatter(
        x=[when(start + bucket_ns // 2) for start in began],
        y=[tops[start] + max(tops.values()) * 0.06 for start in began],
        mode="markers",
        name="◆ incidents begin",
        marker={"symbol": "diamond", "size": 9, "color": ACCENT},
        customdata=list(began.values()),
        hovertemplate="%{customdata}<extra>◆ incidents begin</extra>",
    )


def _bar(action: str) -> dict[str, Any]:
    mark = VERDICTS[action]
    if action == "not_counted":
        return {"color": "rgba(0,0,0,0)", "line": {"color": mark.colour, "width": 1.2}}
    if action == "after_block":
        return {"color": "rgba(211,31,60,0.30)", "line": {"color": mark.colour, "width": 0.5}}
    if action == "allow":
        return {"color": "rgba(127,138,160,0.55)"}
    return {"color": mark.colour}


def bar_counts(rows: Sequence[NamedCount], unknown: str) -> go.Figure:
    """Repeated calls by name, longest first, labelled with "14 of 52 calls"."""
    rows = [row for row in rows if row.repeated_calls][:8]
    names = [plot(unknown if row.name is None else row.name, 28) for row in rows]
    figure = base(
        36 + 30 * max(len(rows), 1), showlegend=False, bargap=0.35, margin={"l": 8, "r": 8, "t": 4, "b": 4}
    )
    figure.add_bar(
        y=list(range(len(rows))),
        x=[row.repeated_calls for row in rows],
        orientation="h",
        marker={"color": ACCENT},
        text=[f"{row.repeated_calls:,} of {row.calls:,}" for row in rows],
        textposition="outside",
        cliponaxis=False,
        customdata=[[row.calls_nudged, row.calls_blocked] for row in rows],
        hovertemplate=f"%{{text}} calls repeated<br>{VERDICTS['nudge'].glyph} %{{customdata[0]}} nudged"
        f"<br>{VERDICTS['block'].glyph} %{{customdata[1]}} blocked<extra></extra>",
    )
    top = max((row.repeated_calls for row in rows), default=1)
    figure.update_xaxes(visible=False, range=[0, top * 1.35])
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=names,
        range=[len(rows) - 0.4, -0.6],
        showgrid=False,
        ticks="",
    )
    return figure


def _numbers(
    figure: go.Figure, xs: Sequence[int], ys: Sequence[int], grid: Sequence[Sequence[int | None]]
) -> None:
    """Numbers in heatmap cells."""
    _texts(figure, xs, ys, [[None if value is None else f"{value:,}" for value in line] for line in grid])


def _texts(
    figure: go.Figure, xs: Sequence[int], ys: Sequence[int], grid: Sequence[Sequence[str | None]]
) -> None:
    """Texts in heatmap cells, in the page's own text colour: Plotly's own ignores what shines through."""
    figure.update_layout(
        annotations=[
            {"x": x, "y": y, "text": text, "showarrow": False}
            for y, line in zip(ys, grid, strict=True)
            for x, text in zip(xs, line, strict=True)
            if text is not None
        ]
    )


def error_kinds(cells: Iterable[tuple[str, str, int]]) -> go.Figure:
    """Heatmap of failed calls: names of tools, agents or models down, kinds across.

    A cell is (name, kind, calls). At most 20 names, those with most failures.
    """
    sums: dict[tuple[str, str], int] = {}
    for name, kind, calls in cells:
        sums[name, kind] = sums.get((name, kind), 0) + calls
    names = _by_weight(sums, 0)[:MOST_NAMES]
    kinds = _by_weight(sums, 1)
    grid = [[sums.get((name, kind)) for kind in kinds] for name in names]
    figure = base(80 + 30 * len(names), showlegend=False)
    figure.add_heatmap(
        x=list(range(len(kinds))),
        y=list(range(len(names))),
        z=grid,
        colorscale=[[0, "rgba(76,120,221,0.10)"], [1, "rgba(76,120,221,0.60)"]],
        zmin=0,
        showscale=False,
        xgap=2,
        ygap=2,
        hoverongaps=False,
        customdata=[[[plot(name), kind.replace("_", " ")] for kind in kinds] for name in names],
        hovertemplate="%{customdata[0]}<br>%{z:,} × %{customdata[1]}<extra></extra>",
    )
    _numbers(figure, range(len(kinds)), range(len(names)), grid)
    figure.update_xaxes(
        tickvals=list(range(len(kinds))),
        ticktext=[kind.replace("_", "<br>") for kind in kinds],
        side="top",
        showgrid=False,
        tickangle=0 if len(kinds) <= 6 else -40,
    )
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[plot(name, 22) for name in names],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
    )
    return figure


def _by_weight(sums: dict[tuple[str, str], int], side: int) -> list[str]:
    weights: dict[str, int] = {}
    for names, number in sums.items():
        weights[names[side]] = weights.get(names[side], 0) + number
    return sorted(weights, key=lambda name: (-weights[name], name))


def errors_over_time(buckets: Sequence[ErrorBucket], bucket_ns: int) -> go.Figure:
    """Failed calls per bucket, stacked by kind."""
    figure = base(260, barmode="stack", hovermode="x unified")
    totals: dict[str, int] = {}
    for bucket in buckets:
        totals[bucket.error_kind] = totals.get(bucket.error_kind, 0) + bucket.calls
    for index, kind in enumerate(sorted(totals, key=lambda name: (-totals[name], name))):
        mine = [bucket for bucket in buckets if bucket.error_kind == kind]
        figure.add_bar(
            x=[when(bucket.start_ns + bucket_ns // 2) for bucket in mine],
            y=[bucket.calls for bucket in mine],
            width=bucket_ns / 1e6 * 0.9,
            name=kind.replace("_", " "),
            marker={
                "color": SEQUENCE[index % len(SEQUENCE)],
                "pattern": {"shape": "/" if index >= len(SEQUENCE) else ""},
            },
        )
    heights: dict[int, int] = {}
    for bucket in buckets:
        heights[bucket.start_ns] = heights.get(bucket.start_ns, 0) + bucket.calls
    _whole_numbers(figure, "failed calls", list(heights.values()))
    figure.update_xaxes(title=f"UTC · {duration(bucket_ns)} a bar", showgrid=False)
    return figure


def fault_bars(incidents: Sequence[Incident], most: int = 5) -> go.Figure:
    """Groups of equal faults by repeated calls: the kind, the tools, and in how many runs."""
    groups: dict[str, list[Incident]] = {}
    for incident in incidents:
        groups.setdefault(incident.group, []).append(incident)
    ranked = sorted(groups.values(), key=lambda members: -sum(one.repeated_calls for one in members))[:most]
    values = [sum(one.repeated_calls for one in members) for members in ranked]
    labels, texts, hovers = [], [], []
    for members, value in zip(ranked, values, strict=True):
        first = members[0]
        runs = len({one.run_id for one in members})
        labels.append(f"{KIND_NAMES.get(first.kind, first.kind)} · {plot(' → '.join(first.tools), 30)}")
        texts.append(f"{value:,} in {count(runs, 'run')}")
        hovers.append(
            f"{count(len(members), 'incident')} in {count(runs, 'run')}<br>arguments: "
            + ("not recorded" if first.sample_arguments is None else plot(first.sample_arguments, 80))
            + ("" if first.error_text is None else f"<br>error: {plot(first.error_text, 80)}")
        )
    figure = base(
        30 + 34 * max(len(ranked), 1), showlegend=False, bargap=0.35, margin={"l": 8, "r": 8, "t": 4, "b": 4}
    )
    figure.add_bar(
        y=list(range(len(ranked))),
        x=values,
        orientation="h",
        marker={"color": ACCENT},
        text=texts,
        textposition="outside",
        cliponaxis=False,
        customdata=hovers,
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_xaxes(visible=False, range=[0, max(values, default=1) * 1.3])
    figure.update_yaxes(
        tickvals=list(range(len(ranked))), ticktext=labels, range=[len(ranked) - 0.4, -0.6], showgrid=False
    )
    return figure


def status_bars(by_status: Mapping[str, int]) -> go.Figure:
    """Failed requests by HTTP status."""
    names = sorted(by_status, key=lambda name: (-by_status[name], name))[:10]
    figure = base(
        30 + 34 * max(len(names), 1), showlegend=False, bargap=0.35, margin={"l": 8, "r": 8, "t": 4, "b": 4}
    )
    figure.add_bar(
        y=list(range(len(names))),
        x=[by_status[name] for name in names],
        orientation="h",
        marker={"color": ACCENT},
        text=[f"{by_status[name]:,}" for name in names],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{text}<extra></extra>",
    )
    figure.update_xaxes(visible=False, range=[0, max(by_status.values(), default=1) * 1.25])
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[plot(_STATUS.get(name, name), 40) for name in names],
        range=[len(names) - 0.4, -0.6],
        showgrid=False,
    )
    return figure


_STATUS = {
    "none": "no status",
    "400": "400 bad request",
    "401": "401 unauthorised",
    "403": "403 forbidden",
    "404": "404 not found",
    "408": "408 timeout",
    "413": "413 too large",
    "422": "422 unprocessable",
    "429": "429 too many requests",
    "500": "500 server error",
    "502": "502 bad gateway",
    "503": "503 unavailable",
    "504": "504 gateway timeout",
    "529": "529 overloaded",
}
