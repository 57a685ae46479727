"""instrument(): one line that records an agent."""

from __future__ import annotations

import os
import threading

from opentelemetry import trace
from opentelemetry.sdk.environment_variables import (
    OTEL_ATTRIBUTE_COUNT_LIMIT,
    OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT,
    OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT,
    OTEL_SPAN_EVENT_COUNT_LIMIT,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider

from ..guard import LoopscopeError
from ._processor import DuckDBSpanProcessor
from ._redact_rules import RedactionRules
from ._span_sink import database_path

__all__ = ["instrument", "long_run_limits"]


# A flattened history (OpenInference) takes about four attributes a message: 10,000 hold 2,500 messages.
_ATTRIBUTES = 10_000

_lock = threading.Lock()
_attached: dict[tuple[int, str], TracerProvider] = {}  # by provider and database, so that twice is once


def instrument(
    path: str | os.PathLike[str] | None = None,
    *,
    service_name: str | None = None,
    capture_content: bool | None = None,
    redaction: RedactionRules | None = None,
) -> TracerProvider:
    """Record every span of this process in `path`.

    Where no tracer provider is set, one is made with limits that long runs need and set as the global
    one; it shuts down at exit. Where the application has set its own, the processor is attached
    to that. Calling it again for the same database changes nothing.

    Args:
        path: the database file. None: `LOOPSCOPE_DB`, else traces.duckdb in the working directory.
        service_name: `service.name` of a provider made here; `OTEL_SERVICE_NAME` otherwise.
        capture_content: whether arguments, results and messages are written. None: as
            `LOOPSCOPE_CAPTURE_CONTENT` says, on by default.
        redaction: values to replace before anything is written. None: as `LOOPSCOPE_REDACT` and its
            relatives say.

    Returns the provider. Raises SpoolError where the spool folder cannot be used, LoopscopeError where
    the global provider is not one of the OpenTelemetry SDK.
    """
    db_path = database_path(path)
    with _lock:
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            resource = Resource.create({"service.name": service_name} if service_name else {})
            made = TracerProvider(resource=resource, span_limits=long_run_limits())
            made.add_span_processor(
                DuckDBSpanProcessor(db_path, capture_content=capture_content, redaction=redaction)
            )
            trace.set_tracer_provider(made)
            _attached[id(made), str(db_path)] = made
            return made
        if not isinstance(provider, TracerProvider):
            kind = f"{type(provider).__module__}.{type(provider).__qualname__}"
            raise LoopscopeError(
                f"the global tracer provider is a {kind}, which takes no span processors:"
                " set one of the OpenTelemetry SDK, or send OTLP to `loopscope serve`."
            )
        if (id(provider), str(db_path)) not in _attached:
            provider.add_span_processor(
                DuckDBSpanProcessor(db_path, capture_content=capture_content, redaction=redaction)
            )
            _attached[id(provider), str(db_path)] = provider
        return provider


def long_run_limits() -> SpanLimits:
    """Span limits under which a long history stays whole; what the OTEL_* environment sets is respected.

    The SDK's default keeps 128 attributes and events a span and drops the *oldest* beyond that.
    """

    def unless_set(*variables: str) -> int | None:
        return None if any(variable in os.environ for variable in variables) else _ATTRIBUTES

    return SpanLimits(
        max_span_attributes=unless_set(OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT, OTEL_ATTRIBUTE_COUNT_LIMIT),
        max_event_attributes=unless_set(OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT, OTEL_ATTRIBUTE_COUNT_LIMIT),
        max_events=unless_set(OTEL_SPAN_EVENT_COUNT_LIMIT),
    )
