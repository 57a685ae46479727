"""What a file is, told from its content."""

from __future__ import annotations

import re
from typing import Any, Literal

from ._report import NotATraceError, shorten

__all__ = [
    "FORMATS",
    "OTLP_KEYS",
    "WRAPPERS",
    "classify",
    "container_of",
    "is_message",
    "looks_meant",
    "not_a_trace",
]

FORMATS = ("otlp-json", "otlp-proto", "openai-chat", "tau-bench", "tau2-bench")

# Top-level keys of OTLP/JSON, to the signal they announce.
OTLP_KEYS = {
    "resourceSpans": "traces",
    "resource_spans": "traces",
    "resourceLogs": "logs",
    "resource_logs": "logs",
    "resourceMetrics": "metrics",
    "resource_metrics": "metrics",
    "resourceProfiles": "profiles",
    "resource_profiles": "profiles",
}
# Keys under which an object holds the messages of one conversation, in the order they are tried.
WRAPPERS = ("messages", "traj", "conversation", "trajectory")

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
# '{' or '[' and then what JSON allows there. A serialized protobuf can begin with "\n{" too, but is not
# followed by a printable first character of a key.
_JSON_START = re.compile(
    rb"(?:\xef\xbb\xbf)?[ \t\r\n]*"
    rb'(?:\{[ \t\r\n]*(?:\}|"[^\x00-\x1f]|$)|\[[ \t\r\n]*(?:[\[{\]]|"[^\x00-\x1f]|$))'
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second: an archive without members
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_OTHERS = (
    (b"SQLite format 3", "a SQLite database", "export OTLP JSON instead"),
    (b"BZh", "bzip2 data", "unpack it first"),
    (b"\xfd7zXZ", "xz data", "unpack it first"),
    (b"\x1f\x8b", "gzip inside gzip", "unpack it once"),
    (b"\x28\xb5\x2f\xfd", "zstandard inside other compressed data", "unpack it once"),
)
# Signs in the first bytes that a file which cannot be read was meant to be a trace.
_SIGNS = re.compile(
    rb'"(?:resource_?[sS]pans|resource_?[lL]ogs|role|messages|traj|trajectory|conversation|simulations'
    rb'|traceI[dD]|trace_id|observations|run_type|turn_history|tool_call_metadata|samples)"\s*:'
)


def looks_meant(head: bytes) -> bool:
    """Whether JSON that begins with `head` was meant to be a trace, even if it cannot be read."""
    return _SIGNS.search(head) is not None


def container_of(head: bytes) -> Literal["json", "zip", "parquet", "binary"]:
    """How a file that begins with `head` is written. Raises NotATraceError for well-known other things."""
    if not head.strip(b" \t\r\n\x00"):
        raise NotATraceError("the file is empty" if not head else "the file holds no data")
    for magic, name, hint in _OTHERS:
        if head.startswith(magic):
            raise NotATraceError(f"this is {name}", hint=hint)
    if head.startswith(_ZIP):
        return "zip"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head[8:12] == b"DUCK":
        raise NotATraceError("this is a DuckDB database, not a trace file", hint="open it with --db")
    if _JSON_START.match(head) or head.startswith(_UTF16):
        return "json"
    return "binary"


def classify(value: Any) -> str | None:
    """The format of a file whose first JSON value (or list element) is `value`; None: no trace."""
    if isinstance(value, list):
        return "openai-chat" if _is_messages(value) else None
    if not isinstance(value, dict):
        return None
    if any(key in value for key in OTLP_KEYS):
        return "otlp-json"
    if isinstance(value.get("simulations"), list):
        return "tau2-bench"
    for key in WRAPPERS:
        if key in value and (value[key] is None or _is_messages(value[key])):
            return "tau-bench" if key == "traj" and "task_id" in value else "openai-chat"
    return "openai-chat" if is_message(value) else None


def is_message(value: Any) -> bool:
    """An object with a chat role (the roles of other notations, such as ShareGPT's, do not count)."""
    return isinstance(value, dict) and isinstance(value.get("role"), str) and value["role"] in _ROLES


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and (not value or is_message(value[0]))


def not_a_trace(value: Any) -> str:
    """Why a JSON value is nothing that can be imported, for an error message."""
    if isinstance(value, dict):
        return f"JSON, but of no format that can be imported (an object with the keys {shorten(value)})"
    kind = "a list" if isinstance(value, list) else "a bare value"
    return f"JSON, but of no format that can be imported ({kind} where an object was expected)"
