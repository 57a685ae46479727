"""Sessions: what log records without a trace belong to, and what the traces of one have in common.

A trace is derived as a whole. The logs of a command-line agent have no trace, or other ones than its spans,
and tell of the same calls: they and all traces of the session are derived together.
"""

from __future__ import annotations

import hashlib

from ._attributes import first_text
from ._records import LogRecord, SpanRecord
from .dialects import Keys
from .dialects.cli_agents import session_of_log, session_of_span

__all__ = ["session_trace", "trace_of_log", "unit_of_log", "unit_of_span"]


def session_trace(dialect: str, session: str) -> str:
    """The id that stands for the trace of what a session recorded without one: 32 hex digits.

    The migration of older databases makes the same ids (sql/migrate_1_to_2.sql).
    """
    said = f"session\n{dialect}\n{session}".encode("utf-8", "replace")
    return hashlib.md5(said, usedforsecurity=False).hexdigest()


def unit_of_log(log: LogRecord) -> str | None:
    """The session that a log record is derived with, as its trace id; None: only with its trace."""
    session = session_of_log(log)
    if session is None and log.trace_id is None and (log.event_name or "").startswith("gen_ai."):
        conversation = first_text(log.attributes, Keys.conversation)
        session = None if conversation is None else ("gen_ai", conversation)
    return None if session is None else session_trace(*session)


def unit_of_span(span: SpanRecord) -> str | None:
    """As `unit_of_log`."""
    session = session_of_span(span)
    return None if session is None else session_trace(*session)


def trace_of_log(log: LogRecord) -> str | None:
    """The trace that a log record counts in: its own, else its session's."""
    return log.trace_id or unit_of_log(log)
