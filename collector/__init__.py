"""Capture: span processor, OTLP receivers, importers, the spool and the DuckDB store.

Names are imported on first use, so that an agent pays only for the part it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._derive import derive_trace
    from ._doctor import DoctorReport, examine
    from ._export import ExportReport, export_parquet
    from ._exporter import DuckDBSpanExporter
    from ._fold import FoldResult, fold
    from ._folder import Folder
    from ._instrument import instrument
    from ._otlp import decode_logs, decode_traces, logs_json_to_protobuf, traces_json_to_protobuf
    from ._processor import DuckDBSpanProcessor
    from ._prune import PruneReport, prune
    from ._receiver import otlp_app
    from ._records import Derived, LlmRequest, LogRecord, SpanEvent, SpanLink, SpanRecord, ToolCall
    from ._redact import redact_logs, redact_traces
    from ._redact_rules import RedactionRules
    from ._segment import Segment, Signal, read_segment
    from ._spool import Spool
    from ._store import Store
    from .dialects import content_hint, dialect_title
    from .importers import FileReport, ImportReport, import_paths

_HOME = {
    "ExportReport": "_export",
    "export_parquet": "_export",
    "Derived": "_records",
    "DoctorReport": "_doctor",
    "DuckDBSpanExporter": "_exporter",
    "DuckDBSpanProcessor": "_processor",
    "FileReport": "importers",
    "FoldResult": "_fold",
    "Folder": "_folder",
    "ImportReport": "importers",
    "LlmRequest": "_records",
    "LogRecord": "_records",
    "PruneReport": "_prune",
    "RedactionRules": "_redact_rules",
    "Segment": "_segment",
    "Signal": "_segment",
    "SpanEvent": "_records",
    "SpanLink": "_records",
    "SpanRecord": "_records",
    "Spool": "_spool",
    "Store": "_store",
    "ToolCall": "_records",
    "content_hint": "dialects",
    "decode_logs": "_otlp",
    "decode_traces": "_otlp",
    "derive_trace": "_derive",
    "dialect_title": "dialects",
    "examine": "_doctor",
    "fold": "_fold",
    "import_paths": "importers",
    "instrument": "_instrument",
    "logs_json_to_protobuf": "_otlp",
    "otlp_app": "_receiver",
    "prune": "_prune",
    "read_segment": "_segment",
    "redact_logs": "_redact",
    "redact_traces": "_redact",
    "traces_json_to_protobuf": "_otlp",
}

__all__ = [
    "Derived",
    "DoctorReport",
    "DuckDBSpanExporter",
    "DuckDBSpanProcessor",
    "ExportReport",
    "FileReport",
    "FoldResult",
    "Folder",
    "ImportReport",
    "LlmRequest",
    "LogRecord",
    "PruneReport",
    "RedactionRules",
    "Segment",
    "Signal",
    "SpanEvent",
    "SpanLink",
    "SpanRecord",
    "Spool",
    "Store",
    "ToolCall",
    "content_hint",
    "decode_logs",
    "decode_traces",
    "derive_trace",
    "dialect_title",
    "examine",
    "export_parquet",
    "fold",
    "import_paths",
    "instrument",
    "logs_json_to_protobuf",
    "otlp_app",
    "prune",
    "read_segment",
    "redact_logs",
    "redact_traces",
    "traces_json_to_protobuf",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
