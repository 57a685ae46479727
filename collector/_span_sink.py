"""Where spans of this process go: encoded, redacted, written to the spool. For processor and exporter."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from ._redact_rules import RedactionRules, redactor
from ._reserve import Reserve
from ._sdk_encode import encode_request, encode_span
from ._spool import Spool

__all__ = [
    "DATABASE_VARIABLE",
    "DEFAULT_DATABASE",
    "SEGMENT_BYTES",
    "SpanSink",
    "database_path",
    "service_name",
]

_logger = logging.getLogger(__name__)

DATABASE_VARIABLE = "LOOPSCOPE_DB"
DEFAULT_DATABASE = "traces.duckdb"

SEGMENT_BYTES = 8 << 20  # a segment is closed when it has reached this
_SPAN_BYTES = 64 << 20  # a span larger than this would not fit a segment

# A provider that was set up without our limits (Python's default is 128 attributes) loses the *first*
# messages of exactly the long runs in which agents loop.
_LIMIT_ADVICE = (
    "span %r lost %d attributes to the SDK's limit, the oldest first: recorded messages are incomplete. "
    "Set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000, or let loopscope.collector.instrument() make the provider"
)


def database_path(path: str | os.PathLike[str] | None = None) -> Path:
    """The database file: the argument, else `LOOPSCOPE_DB`, else traces.duckdb in the working directory.

    Absolute, so that an agent that changes its directory later keeps writing to one place.
    """
    return Path(path or os.environ.get(DATABASE_VARIABLE) or DEFAULT_DATABASE).expanduser().absolute()


class SpanSink:
    """Turns SDK spans into spool segments.

    Raises SpoolError at once where the spool folder cannot be used, so that a wrong path shows when
    the agent starts and not when its first run is lost; likewise LoopscopeError for redaction rules.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        capture_content: bool | None,
        redaction: RedactionRules | None = None,
    ) -> None:
        self.db_path = database_path(path)
        self._redact = redactor(capture_content, redaction)
        self.spool = Spool(self.db_path)
        self.spool.prepare()
        self.reserve = Reserve()
        self._warned_of_limits = False

    def encode(self, span: ReadableSpan, running: Mapping[str, Any] | None = None) -> bytes | None:
        """One span's record; None where it cannot be encoded.

        `running` is a copy of the attributes of a span that has not ended.
        """
        try:
            body = encode_span(span, running)
        except Exception as error:  # noqa: BLE001  a span that breaks the rules must not take its neighbours along
            _logger.warning("span %r cannot be encoded and is lost: %s", span.name, error)
            return None
        if len(body) > _SPAN_BYTES:
            _logger.warning("span %r of %d bytes is too large and is lost", span.name, len(body))
            return None
        if not self._warned_of_limits and span.dropped_attributes:
            self._warned_of_limits = True
            _logger.warning(_LIMIT_ADVICE, span.name, span.dropped_attributes)
        return body

    def request(self, records: Sequence[tuple[ReadableSpan, bytes]]) -> bytes:
        """An ExportTraceServiceRequest of records made by `encode`, redacted."""
        payload = encode_request(records)
        return payload if self._redact is None else self._redact("traces", payload)

    def write(self, payload: bytes, *, service: str | None, dropped: int = 0) -> Path:
        """Write one segment; durable when this returns. Raises SpoolError.

        `dropped` is how many spans of `service` were lost since the segment before.
        """
        segment = self.spool.write([("traces", payload)], meta=_meta(service, dropped))
        self.reserve.keep(self.spool.name(time.time_ns()))
        return segment

    def note_loss(self, dropped: int, service: str | None) -> None:
        """Say in the spool, even of a full disk, that so many spans are lost if this process ends now."""
        self.reserve.say(_meta(service and service[:200], dropped))


def _meta(service: str | None, dropped: int) -> dict[str, Any]:
    meta: dict[str, Any] = {"writer": "agent", "service": service}
    if dropped:
        meta["dropped_spans"] = dropped
    return meta


def service_name(span: ReadableSpan) -> str | None:
    """The `service.name` of a span's resource."""
    name = span.resource.attributes.get("service.name")
    return name if isinstance(name, str) else None
