"""What the importers of transcripts and the derivation agree on."""

from __future__ import annotations

from ._records import SpanRecord

__all__ = ["HISTORY_AFTER", "TRANSCRIPT_SCOPE", "is_transcript", "recorded_text"]

# Scope name of spans that an importer made. Their arguments and results are the log's own text, whole and
# without any dialect's wrapper, and what answers what is settled: nothing is to be unwrapped, taken
# for cut, or completed from messages.
TRANSCRIPT_SCOPE = "loopscope.importers"
# Attribute of a request: the span (hex id) whose input and answer go before its own input.
HISTORY_AFTER = "loopscope.history.after"


def is_transcript(span: SpanRecord) -> bool:
    """Whether an importer made this span out of a chat log."""
    return span.scope_name == TRANSCRIPT_SCOPE


def recorded_text(span: SpanRecord, key: str) -> str | None:
    """An attribute of a transcript's span, as the log had it; '' is a text, None is not recorded."""
    value = span.attributes.get(key)
    return value if isinstance(value, str) else None
