"""What fills an empty page: commands and code to copy."""

from __future__ import annotations

import json
import os
import shlex

import streamlit as st

from . import _data, _frameworks, _ui
from ._filters import View

__all__ = ["ENDPOINT_VARIABLE", "endpoint", "frameworks", "grouped", "nothing_here", "retention"]

ENDPOINT_VARIABLE = "LOOPSCOPE_OTLP_HTTP"
"""Set by the server: address of its OTLP/HTTP receiver. Absent where none runs."""

ASKED_VARIABLE = "LOOPSCOPE_TOKEN_ASKED"
"""Set by the server where senders have to show its token."""

_HEADERS = 'OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20$LOOPSCOPE_TOKEN"'


def endpoint() -> str | None:
    """Address of the receiver in this server, such as http://127.0.0.1:4318."""
    return os.environ.get(ENDPOINT_VARIABLE) or None


def grouped() -> dict[str, tuple[str, str, str]]:
    """Ways to bring data in, by name: what it is for, code, language of the code."""
    path = str(_data.database().absolute())  # these are run in other folders than the server's
    db, text = shlex.quote(path), json.dumps(path, ensure_ascii=False)
    to = endpoint() or "http://127.0.0.1:4318"
    return {
        "Import files": (
            "OTLP files (JSON, JSON lines, protobuf, .gz) and chat transcripts, from a terminal:",
            f"loopscope import PATH… --db {db}",
            "bash",
        ),
        "Python agent": (
            "In the agent, with any instrumentation that makes tool-call spans:",
            f"from loopscope.collector import instrument\n\ninstrument({text})   # before the agent runs",
            "python",
        ),
        "Own tracer provider": (
            "Where a tracer provider is set up already:",
            "from loopscope.collector import DuckDBSpanProcessor\n\n"
            f"provider.add_span_processor(DuckDBSpanProcessor({text}))",
            "python",
        ),
        "No code": (
            "With the zero-code OpenTelemetry launcher:",
            # Without the two "none" the launcher looks for exporters nobody installed, and records nothing.
            "pip install opentelemetry-distro\n"
            "OTEL_TRACES_EXPORTER=loopscope OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none \\\n"
            f"LOOPSCOPE_DB={db} OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000 \\\n"
            "    opentelemetry-instrument python agent.py",
            "bash",
        ),
        "Any language": (
            "Any OpenTelemetry SDK or collector, over OTLP/HTTP (protobuf or JSON)"
            + (":" if endpoint() else "; start the receiver with `loopscope serve`:"),
            f"export OTEL_EXPORTER_OTLP_ENDPOINT={to}\nexport OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
            + (f"\nexport {_HEADERS}" if os.environ.get(ASKED_VARIABLE) else ""),
            "bash",
        ),
        "Samples": (
            "To look around first: recorded runs of real frameworks, in a database of their own:",
            "loopscope demo",
            "bash",
        ),
    }


def frameworks() -> tuple[_frameworks.Way, ...]:
    """How each framework sends its traces to this server."""
    path = str(_data.database().absolute())
    return _frameworks.ways(
        json.dumps(path, ensure_ascii=False),
        shlex.quote(path),
        endpoint() or "http://127.0.0.1:4318",
        _HEADERS if os.environ.get(ASKED_VARIABLE) else None,
    )


def retention() -> tuple[tuple[str, str], ...]:
    """Commands that keep the database small, each with what it is for."""
    db = shlex.quote(str(_data.database().absolute()))
    return (
        (
            "What would go, without removing anything:",
            f"loopscope prune --older-than 30d --dry-run --db {db}",
        ),
        ("Remove it and make the file smaller:", f"loopscope prune --older-than 30d --db {db}"),
        ("Is anything wrong with it?", f"loopscope doctor --db {db}"),
    )


def _empty_store() -> bool:
    with _data.reader() as ask:
        return ask.options().first_ns is None


def nothing_here(view: View, would: str) -> None:
    """The empty state of a page: an empty store, or a filter that matches nothing."""
    if view.narrowed and not _empty_store():
        _ui.sentence("Nothing matches this filter.")
        with st.container(border=True, key="empty_state"):
            st.subheader("Nothing in this view", anchor=False, icon=":material/filter_list_off:")
            st.markdown(
                "The store has data, but none of it falls in this time range and filter. "
                "Clear the filter above."
            )
        return
    _ui.sentence("No call has been recorded yet.")
    ways = grouped()
    picked = [
        ("Samples", ways["Samples"]),
        ("Import files", ways["Import files"]),
        ("Python agent", ways["Python agent"]),
    ]
    _ui.empty(
        "Nothing recorded yet", would, *((what, code, language) for _, (what, code, language) in picked)
    )
    st.page_link("app_pages/health.py", label="More ways to send traces", icon=":material/arrow_forward:")
