"""Spans of one trace to tool calls and LLM requests."""

from __future__ import annotations

from collections.abc import Sequence

from ._records import Derived, LogRecord, SpanRecord, ToolCall

__all__ = ["derive_trace"]


def derive_trace(spans: Sequence[SpanRecord], logs: Sequence[LogRecord] = ()) -> Derived:
    """Tool calls and LLM requests of one trace, out of all its spans and log records."""
    derived = Derived()
    for span in sorted(spans, key=lambda s: (s.end_ns or 0, s.start_ns, s.span_id)):
        attributes = span.attributes
        if attributes.get("gen_ai.operation.name") != "execute_tool":
            continue
        arguments = attributes.get("gen_ai.tool.call.arguments")
        result = attributes.get("gen_ai.tool.call.result")
        derived.tool_calls.append(
            ToolCall(
                trace_id=span.trace_id,
                span_id=span.span_id,
                position=0,
                run_id=span.trace_id,
                parent_run_id=None,
                run_source="trace",
                session_id=None,
                service_name=span.resource.get("service.name"),
                agent_name=attributes.get("gen_ai.agent.name"),
                turn=None,
                tool_name=str(attributes.get("gen_ai.tool.name") or span.name),
                call_id=attributes.get("gen_ai.tool.call.id"),
                arguments=arguments if isinstance(arguments, str) else None,
                result=result if isinstance(result, str) else None,
                outcome="general_tool_error" if span.status_code == 2 else "success",
                error_kind=None,
                error_type=attributes.get("error.type"),
                error_message=span.status_message,
                http_status=None,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                fingerprint=None,
                result_hash=None,
                scope_key=None,
                content_state="full" if arguments is not None and result is not None else "missing",
                recorded_verdict=None,
                dialect="otel_genai",
                seq=len(derived.tool_calls) + 1,
            )
        )
    return derived
