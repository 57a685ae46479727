"""Figures of the requests page. All names in them are our own words but providers', which pass `plot`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from ..replay import ClassCounts, ProviderRisk
from ._charts import base
from ._request_words import REQUEST_MARKS, RequestMark, class_name, provider_name, repair_name
from ._text import count, plot
from ._theme import ACCENT

__all__ = ["class_bars", "repair_bars", "risk_bars"]


def class_bars(by_class: Mapping[str, ClassCounts]) -> go.Figure:
    """Failed requests by error class, stacked by verdict, each bar labelled with its parts."""
    names = list(by_class)
    parts = [_by_verdict(name, by_class[name]) for name in names]
    # Two lines of ticks: a class's name needs more room than a narrow screen has beside the bars.
    figure = base(76 + 44 * max(len(names), 1), barmode="stack", bargap=0.5)
    figure.update_layout(margin={"l": 8, "r": 8, "t": 34, "b": 4})
    for verdict, mark in REQUEST_MARKS.items():
        values = [part.get(verdict) or None for part in parts]
        if any(values):
            figure.add_bar(
                y=list(range(len(names))),
                x=values,
                orientation="h",
                name=f"{mark.glyph} {mark.name}",
                marker=_marker(mark),
                hovertemplate=f"{mark.glyph} %{{x:,}} {mark.name}<extra></extra>",
            )
    totals = [sum(part.values()) for part in parts]
    top = max(totals, default=1)
    for at, (name, part, total) in enumerate(zip(names, parts, totals, strict=True)):
        label = "  ".join(f"{REQUEST_MARKS[verdict].glyph} {value:,}" for verdict, value in part.items())
        _label(figure, x=total, y=at, text=label)
        _above(figure, at, f"{class_name(name)}: {total:,}")
    figure.update_xaxes(visible=False, range=[0, top * 1.3])
    figure.update_yaxes(visible=False, range=[len(names) - 0.5, -0.75])
    return figure


def _by_verdict(name: str, counts: ClassCounts) -> dict[str, int]:
    if name in ("other", "cancelled"):
        return {"not_judged": counts.failed}
    return {
        verdict: number
        for verdict in ("prevented", "prevented_by_guard", "not_prevented", "undetermined")
        if (number := getattr(counts, verdict))
    }


def _marker(mark: RequestMark) -> dict[str, object]:
    if mark.hollow:
        return {"color": "rgba(0,0,0,0)", "line": {"color": mark.colour, "width": 1.5}}
    if mark.verdict == "not_judged":
        return {"color": "rgba(127,138,160,0.55)"}
    return {"color": mark.colour}


def _label(figure: go.Figure, *, x: float, y: int, text: str) -> None:
    figure.add_annotation(x=x, y=y, text=text, showarrow=False, xanchor="left", xshift=6, align="left")


def _above(figure: go.Figure, at: int, text: str) -> None:
    """A name over its bar."""
    figure.add_annotation(
        xref="paper", x=0, y=at - 0.25, yanchor="bottom", xanchor="left", text=text, showarrow=False
    )


def _plain_bars(rows: Sequence[tuple[str, int, str]]) -> go.Figure:
    """Bars of one kind: name, value, label."""
    figure = base(30 + 44 * max(len(rows), 1), showlegend=False, bargap=0.5)
    figure.update_layout(margin={"l": 8, "r": 8, "t": 4, "b": 4})
    figure.add_bar(
        y=list(range(len(rows))),
        x=[value for _, value, _ in rows],
        orientation="h",
        marker={"color": ACCENT},
        hoverinfo="skip",
    )
    for at, (name, value, label) in enumerate(rows):
        _label(figure, x=value, y=at, text=label)
        _above(figure, at, name)
    top = max((value for _, value, _ in rows), default=1)
    figure.update_xaxes(visible=False, range=[0, top * 1.3])
    figure.update_yaxes(visible=False, range=[len(rows) - 0.5, -0.75])
    return figure


def repair_bars(by_repair: Mapping[str, int]) -> go.Figure:
    """Preventable requests by kind of repair."""
    return _plain_bars([(repair_name(kind), number, f"{number:,}") for kind, number in by_repair.items()])


def risk_bars(risks: Sequence[ProviderRisk], checked: int) -> go.Figure:
    """Requests that another provider would refuse, by provider."""
    return _plain_bars(
        [
            (
                plot(provider_name(risk.provider)),
                risk.requests,
                f"{risk.requests:,} of {count(checked, 'request')}",
            )
            for risk in risks[:12]
        ]
    )
