"""The run as lanes: a line for each tool, a mark for each call, in the order in which the guard counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from ..replay import IncidentCall, IncidentDetail
from ._charts import base
from ._text import plot
from ._theme import GRID, VERDICTS

__all__ = ["lanes"]

_LANES = 14


def lanes(detail: IncidentDetail, calls: Sequence[dict[str, Any]]) -> go.Figure:
    """Marks by verdict; lines where nudge and block fall; what is projected lies on a shaded ground."""
    members = {
        (entry.call.trace_id, entry.call.span_id, entry.call.position): entry
        for entry in detail.calls
        if entry.member
    }
    names, of = _lane_names(detail, calls)
    figure = base(
        150 + 34 * len(names),
        hovermode="closest",
        margin={"l": 8, "r": 8, "t": 64, "b": 8},
        legend={"yref": "container", "y": 1.0, "yanchor": "top"},
    )
    numbers = list(range(1, len(calls) + 1))
    large_size = 13 if len(calls) <= 24 else 10 if len(calls) <= 80 else 8
    figure.add_scatter(
        x=numbers,
        y=[of(call) for call in calls],
        mode="lines",
        line={"color": GRID, "width": 1.2},
        hoverinfo="skip",
        showlegend=False,
    )
    for action, mark in VERDICTS.items():
        named = False
        for large in (True, False):
            mine = [
                (number, call)
                for number, call in zip(numbers, calls, strict=True)
                if call["action"] == action and (_key(call) in members) == large
            ]
            if mine:
                figure.add_scatter(
                    x=[number for number, _ in mine],
                    y=[of(call) for _, call in mine],
                    mode="markers",
                    name=mark.name,
                    legendgroup=action,
                    showlegend=not named,
                    marker={
                        "symbol": mark.symbol,
                        "size": large_size if large else large_size // 2 + 1,
                        "color": mark.colour,
                        "opacity": mark.opacity if large else mark.opacity * 0.6,
                        "line": {"width": 2 if mark.symbol.endswith("open") else 0, "color": mark.colour},
                    },
                    customdata=[
                        _hover(number, call, members.get(_key(call)), detail.incident.calls)
                        for number, call in mine
                    ],
                    hovertemplate="%{customdata}<extra></extra>",
                )
                named = True
    _lines(figure, calls)
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[plot(name, 26) for name in names],
        range=[len(names) - 0.4, -0.6],
        showgrid=True,
    )
    figure.update_xaxes(title="number in the run (#)", range=[0.2, len(calls) + 0.8], showgrid=False)
    if len(calls) < 30:
        figure.update_xaxes(dtick=1 if len(calls) < 16 else 2, tick0=1)
    return figure


def _key(call: dict[str, Any]) -> tuple[str, str, int]:
    return call["trace_id"], call["span_id"], call["position"]


def _lane_names(detail: IncidentDetail, calls: Sequence[dict[str, Any]]):
    seen: dict[str, int] = {}
    for call in calls:
        seen[call["tool_name"]] = seen.get(call["tool_name"], 0) + 1
    own = list(dict.fromkeys(detail.incident.tools))
    others = sorted((name for name in seen if name not in own), key=lambda name: -seen[name])
    names = own + others
    if len(names) > _LANES:
        names = [*names[: _LANES - 1], f"{len(names) - _LANES + 1} other tools"]
    place = {name: index for index, name in enumerate(names)}
    return names, lambda call: place.get(call["tool_name"], len(names) - 1)


def _hover(number: int, call: dict[str, Any], entry: IncidentCall | None, calls: int) -> str:
    mark = VERDICTS[call["action"]]
    lines = [
        f"<b>#{number:,} of the run</b> · {plot(call['tool_name'], 40)}",
        *((f"call {entry.number:,} of {calls:,} of the incident",) if entry is not None else ()),
        f"{mark.glyph} {mark.name}, count {call['count']}" + ("" if call["exact"] else " (projected)"),
        plot((call["outcome"] or "outcome unknown").replace("_", " ")),
    ]
    if entry is not None:
        for label, text in (("arguments", entry.call.arguments), ("result", entry.call.result)):
            lines.append(f"{label}: " + ("not recorded" if text is None else plot(text, 70)))
    return "<br>".join(lines)


def _lines(figure: go.Figure, calls: Sequence[dict[str, Any]]) -> None:
    projected = next((number for number, call in enumerate(calls, start=1) if not call["exact"]), None)
    if projected is not None:
        figure.add_vrect(
            x0=projected - 0.5,
            x1=len(calls) + 0.8,
            fillcolor="rgba(128,136,148,0.13)",
            line_width=0,
            layer="below",
            annotation_text="projected",
            annotation_position="bottom right",
            annotation_font_size=12,
        )
    for action in ("nudge", "block"):
        first = next((number for number, call in enumerate(calls, start=1) if call["action"] == action), None)
        if first is not None:
            mark = VERDICTS[action]
            figure.add_vline(x=first, line={"color": mark.colour, "width": 1.5, "dash": "dot"})
            figure.add_annotation(
                x=first,
                y=1.0,
                yref="paper",
                yanchor="bottom",
                xanchor="right" if action == "nudge" else "left",
                showarrow=False,
                text=f"{mark.glyph} {mark.name}",
                font={"size": 12},
            )
