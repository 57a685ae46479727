"""How the dashboard looks: Streamlit's options, and one set of marks and colours for verdicts.

A verdict is never told by colour alone: each has a glyph of its own in text and tables and a
symbol of its own in charts. Every mark has a contrast of 3:1 or more on the light and on the dark page, so
one set serves both, and amber and red stay apart (ΔE > 30) under the three kinds of colour blindness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from ._logo import ICON, WORDMARK

__all__ = [
    "ACCENT",
    "CHOICE",
    "GRID",
    "KIND_NAMES",
    "SEQUENCE",
    "VERDICTS",
    "Mark",
    "configure",
    "streamlit_options",
    "style",
    "verdict_text",
]


@dataclass(frozen=True, slots=True)
class Mark:
    """How one verdict is drawn."""

    action: str
    name: str
    glyph: str
    colour: str  # of marks in charts
    symbol: str  # of plotly
    opacity: float
    badge: str  # Streamlit's name of the colour nearest to it
    means: str


VERDICTS: dict[str, Mark] = {
    mark.action: mark
    for mark in (
        Mark("allow", "allowed", "·", "#7F8AA0", "circle", 1.0, "grey", "returned as the tool gave it"),
        Mark(
            "not_counted",
            "not counted",
            "○",
            "#7F8AA0",
            "circle-open",
            1.0,
            "grey",
            "left the count as it was",
        ),
        Mark(
            "nudge", "nudge", "▲", "#CF8300", "triangle-up", 1.0, "orange", "returned with a hint behind it"
        ),
        Mark("block", "block", "■", "#D31F3C", "square", 1.0, "red", "returned, and the run ends here"),
        Mark(
            "after_block",
            "after block",
            "□",
            "#D31F3C",
            "square-open",
            0.45,
            "grey",
            "would not have been made",
        ),
    )
}
"""Verdicts in the order of stacking."""

ACCENT = "#4C78DD"
CHOICE = "#C2409A"
"""What the reader has chosen, on a ground of the accent's shades."""
GRID = "rgba(128,136,148,0.22)"
SEQUENCE = ("#4C78DD", "#2A9D8F", "#8F6FD0", "#B5739D", "#6B7F99", "#5FA8C9", "#A08A5B")
"""Colours of categories that are not verdicts: no amber, no red."""

KIND_NAMES = {
    "loop": "loop",
    "cycle": "cycle",
    "retry_storm": "retry storm",
    "same_error": "same error",
    "twins": "twin calls",
}


def verdict_text(action: str) -> str:
    """A verdict for a table cell: glyph and name."""
    mark = VERDICTS.get(action)
    return f"{mark.glyph} {mark.name}" if mark else action


def streamlit_options() -> dict[str, Any]:
    """Streamlit options the dashboard is designed for, by dotted name."""
    options: dict[str, Any] = {
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        # A spreadsheet runs cells of Streamlit's own CSV that begin with "=". Our downloads are safe to open.
        "client.disableDataExport": True,
        # A knob has the saved policy as its default and is moved by its neighbour's callback: both are meant.
        "global.disableWidgetStateDuplicationWarning": True,
        "client.showErrorDetails": "none",
        "client.showErrorLinks": False,
        "runner.magicEnabled": False,
        "theme.baseFontSize": 15,
        "theme.baseRadius": "6px",
        "theme.showWidgetBorder": True,
        "theme.showSidebarBorder": True,
        "theme.metricValueFontSize": "1.6rem",
        "theme.metricValueFontWeight": 600,
        "theme.headingFontSizes": ["1.6rem", "1.3rem", "1.1rem", "1rem", "0.95rem", "0.9rem"],
        "theme.headingFontWeights": [650, 600, 600, 600, 600, 600],
        "theme.codeFontSize": "0.85rem",
        "theme.paddingTop": "1rem",
        "theme.paddingBottom": "3rem",
    }
    for mode, colours in _COLOURS.items():
        options.update({f"theme.{mode}.{name}": value for name, value in colours.items()})
    return options


_COLOURS: dict[str, dict[str, str]] = {
    "light": {
        "primaryColor": "#2F5BD0",
        "backgroundColor": "#FFFFFF",
        "secondaryBackgroundColor": "#F4F6F9",
        "textColor": "#1C2128",
        "borderColor": "#D8DEE6",
        "linkColor": "#2450BE",
        "codeBackgroundColor": "#F1F4F8",
        "codeTextColor": "#1C2128",
        "dataframeHeaderBackgroundColor": "#F4F6F9",
        "sidebar.backgroundColor": "#F7F8FA",
        "sidebar.secondaryBackgroundColor": "#EBEEF3",
    },
    "dark": {
        "primaryColor": "#476EDC",
        "backgroundColor": "#13161B",
        "secondaryBackgroundColor": "#1D2128",
        "textColor": "#E6E9EE",
        "borderColor": "#343B46",
        "linkColor": "#94B3FF",
        "codeBackgroundColor": "#1D2128",
        "codeTextColor": "#E6E9EE",
        "dataframeHeaderBackgroundColor": "#1D2128",
        "sidebar.backgroundColor": "#181B21",
        "sidebar.secondaryBackgroundColor": "#252A33",
    },
}


def configure() -> None:
    """Set the options in this process; what the user set by file, variable or flag stays."""
    from streamlit import config

    for name, value in streamlit_options().items():
        if not config.is_manually_set(name):
            config.set_option(name, value)


_STYLE = """<style>
.st-key-sentence [data-testid="stText"] { font-size: 1.2rem; line-height: 1.45; text-wrap: pretty; }
.js-plotly-plot .annotation-text, .js-plotly-plot .xtick text, .js-plotly-plot .ytick text,
.js-plotly-plot .xtitle, .js-plotly-plot .ytitle, .js-plotly-plot .legendtext,
.js-plotly-plot .bartext-outside, .js-plotly-plot .textpoint text {
  fill: currentColor !important; }
[data-testid="stSkeleton"] { animation: none !important; }
.st-key-latent [data-stale="true"] { opacity: 1 !important; }
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] > div { opacity: 0.92 !important; }
[data-testid="stButtonGroup"] button[data-selected="true"] { color: light-dark(#2450BE, #94B3FF) !important; }
[data-testid="stButtonGroup"] button[data-selected="true"] * { color: inherit; }
[role="tab"][aria-selected="true"], [role="tab"][aria-selected="true"] * {
  color: light-dark(#2450BE, #94B3FF) !important; }
[data-testid^="stBaseButton"] kbd { opacity: 0.85 !important; }
[data-testid="stCode"] .token:is(.deleted, .deleted-sign) {
  color: light-dark(#B3261E, #FF9A93) !important; }
[data-testid="stCode"] .token:is(.inserted, .inserted-sign) {
  color: light-dark(#11682F, #7DEFA1) !important; }
[data-testid="stCode"] .token:is(.comment, .punctuation, .operator) { color: light-dark(#4E5866, #A9B0BD); }
[data-testid="stCode"] .token:is(.keyword, .builtin, .function, .boolean, .tag, .property) {
  color: light-dark(#1555B0, #83C9FF); }
[data-testid="stCode"] .token:is(.string, .attr-value, .triple-quoted-string) {
  color: light-dark(#11682F, #7DEFA1); }
[data-testid="stCode"] .token:is(.number, .constant) { color: light-dark(#8A3B00, #FFBD45); }
[data-testid="stCode"] .token:is(.variable, .parameter, .assign-left, .environment, .key, .table) {
  color: light-dark(#0A5F86, #60C4E8); }
</style>"""


def style() -> None:
    """Draw the logo, and the rules of style that no option covers.

    The size of a page's first sentence; the page's own text colour for texts of charts, which follows a
    switch between light and dark without a rerun; no fading of a part that draws itself anew every few
    seconds while it works; and colours of small grey texts, of code and of what is chosen that keep a
    contrast of 4.5:1, which Streamlit's own do not on a light ground. Places that wait for their part stand
    still: where no graphics processor draws them, their shimmer takes a core from the server they wait for.
    """
    st.logo(WORDMARK, icon_image=ICON, size="medium")
    st.html(_STYLE)
