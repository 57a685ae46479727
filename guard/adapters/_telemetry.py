"""The guard's verdicts on OpenTelemetry spans.

OpenTelemetry is looked for, never required and never imported first: where nobody has
imported it, nobody has set a tracer provider, and there is nothing to write to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from .. import Escalation, GuardPolicy, Verdict, result_hash
from ._facts import TOLD_FAILURE, CallFailure, type_name

__all__ = [
    "OUTCOME",
    "CallSpan",
    "attach",
    "capture_content",
    "current_span",
    "detach",
    "end_agent_span",
    "is_agent_span",
    "mark_outcome",
    "open_agent_span",
    "open_call_span",
]

OUTCOME = "loopscope.guard.outcome"
_PREFIX = "loopscope.guard."
_SCOPE = "loopscope.guard"
_TOOL_MARKS = (
    ("gen_ai.operation.name", "execute_tool"),
    ("openinference.span.kind", "TOOL"),
    ("traceloop.span.kind", "tool"),
    ("mcp.method.name", "tools/call"),
)
_AGENT_MARKS = (
    ("gen_ai.operation.name", "invoke_agent"),
    ("openinference.span.kind", "AGENT"),
    ("traceloop.span.kind", "agent"),
)
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")


def capture_content() -> bool:
    """May arguments and results be written? By LOOPSCOPE_CAPTURE_CONTENT, on by default."""
    return os.environ.get("LOOPSCOPE_CAPTURE_CONTENT", "").strip().lower() not in ("false", "0", "no", "off")


def _trace() -> Any:
    return sys.modules.get("opentelemetry.trace")


def current_span() -> Any:
    """The current span if it records, else None."""
    trace = _trace()
    if trace is None:
        return None
    span = trace.get_current_span()
    return span if span.is_recording() else None


def _attributes(span: Any) -> Mapping[str, Any]:
    found = getattr(span, "attributes", None)  # spans of the SDK can be read
    return found if isinstance(found, Mapping) else {}


def _marked(span: Any, marks: tuple[tuple[str, str], ...]) -> bool:
    attributes = _attributes(span)
    return any(attributes.get(key) == value for key, value in marks)


def is_agent_span(span: Any) -> bool:
    """Does the span stand for an agent's invocation?"""
    return _marked(span, _AGENT_MARKS)


def _is_tool_span(span: Any, tool_name: str) -> bool:
    if not _marked(span, _TOOL_MARKS):
        return False
    attributes = _attributes(span)
    named = next((attributes[key] for key in _TOOL_NAMES if key in attributes), None)
    return named is None or named == tool_name


def _tracer(provider: Any) -> Any:
    trace = _trace()
    return None if trace is None else trace.get_tracer(_SCOPE, tracer_provider=provider)


def open_agent_span(agent: str | None, provider: Any, start_ns: int | None = None) -> Any:
    """A span for a run, not yet current; None where nothing records."""
    tracer = _tracer(provider)
    if tracer is None:
        return None
    attributes = {"gen_ai.operation.name": "invoke_agent"}
    if agent:
        attributes["gen_ai.agent.name"] = storable(agent)
    span = tracer.start_span(
        f"invoke_agent {agent}" if agent else "invoke_agent", attributes=attributes, start_time=start_ns
    )
    return span if span.is_recording() else None


def attach(span: Any) -> Any:
    """Make a span current; the token goes to `detach`."""
    from opentelemetry import context, trace

    return context.attach(trace.set_span_in_context(span))


def detach(token: Any) -> None:
    """Make the span before it current again."""
    from opentelemetry import context

    context.detach(token)


def mark_outcome(span: Any, outcome: str, policy: GuardPolicy, escalation: Escalation | None) -> None:
    """Write how a run ended on the span of the run."""
    if span is None or not span.is_recording():
        return
    span.set_attribute(OUTCOME, outcome)
    span.set_attribute(_PREFIX + "policy_hash", policy.policy_hash)
    if escalation is not None:
        span.set_attribute(_PREFIX + "blocked_tool", storable(escalation.tool_name))
        span.set_attribute(_PREFIX + "blocked_count", escalation.count)


def end_agent_span(span: Any, error: BaseException | None, *, content: bool) -> None:
    """End the span of a run; `error` is the exception that ended the run."""
    if error is not None:
        from opentelemetry.trace import Status, StatusCode

        if content:
            span.record_exception(error)
        span.set_attribute("error.type", type_name(error))
        span.set_status(Status(StatusCode.ERROR))
    span.end()


class CallSpan:
    """Where the verdict of one call goes: a tool span of somebody else, or one of our own."""

    __slots__ = ("_content", "_own", "_span", "_token", "_tool_span")

    def __init__(
        self, span: Any, *, own: bool, tool_span: bool, token: Any = None, content: bool = True
    ) -> None:
        self._span = span
        self._own = own
        self._tool_span = tool_span
        self._token = token
        self._content = content

    @property
    def span(self) -> Any:
        """The span itself."""
        return self._span

    def record_result(self, text: str | None) -> None:
        """Write what the model is shown."""
        if self._own and self._content and text is not None:
            self._span.set_attribute("gen_ai.tool.call.result", storable(text))

    def record_failure(self, error: BaseException | None, failure: CallFailure | None) -> None:
        """Write that the call failed, and of what."""
        span = self._span
        if failure is not None and failure.http_status is not None and self._tool_span:
            span.set_attribute("http.response.status_code", failure.http_status)
        if failure is not None and failure.jsonrpc_code is not None and self._tool_span:
            span.set_attribute("rpc.response.status_code", str(failure.jsonrpc_code))
        if not self._own:
            return
        from opentelemetry.trace import Status, StatusCode

        if error is not None and self._content:
            span.record_exception(error)
        span.set_attribute("error.type", TOLD_FAILURE if failure is None else failure.type)
        said = storable(failure.text) if failure is not None and self._content else None
        span.set_status(Status(StatusCode.ERROR, said))

    def record_verdict(
        self,
        verdict: Verdict,
        policy: GuardPolicy,
        *,
        tool_name: str,
        call_id: str | None,
        text: str | None,
    ) -> None:
        """Write the verdict: attributes on a tool span, an event on any other one."""
        values: dict[str, Any] = {
            _PREFIX + "action": str(verdict.action),
            _PREFIX + "count": verdict.count,
            _PREFIX + "certainty": verdict.certainty,
            _PREFIX + "policy_hash": policy.policy_hash,
        }
        if verdict.guidance is not None and text is not None and self._content:
            # What was compared: from some frameworks' results a note cannot be taken off again.
            values[_PREFIX + "result_hash"] = result_hash(text)
        if policy.shadow:
            values[_PREFIX + "shadow"] = True
        if self._tool_span:
            for key, value in values.items():
                self._span.set_attribute(key, value)
            return
        values["gen_ai.tool.name"] = storable(tool_name)
        if call_id is not None:
            values["gen_ai.tool.call.id"] = storable(call_id)
        self._span.add_event(_PREFIX + "verdict", values)

    def close(self, end_ns: int | None) -> None:
        """End a span of our own."""
        if self._token is not None:
            detach(self._token)
        if self._own:
            self._span.end(end_ns)


def open_call_span(
    *,
    mode: bool | None,
    provider: Any,
    run_span: Any,
    always_below: bool,
    taken: Any,
    tool_name: str,
    arguments: str | None,
    call_id: str | None,
    agent: str | None,
    content: bool,
) -> CallSpan | None:
    """The span for one call.

    Args:
        mode: True: always make one. None: only where the current span is not already this
            call's tool span. False: never.
        provider: a tracer provider; None is the global one.
        run_span: the span of the run, for the parent where nothing is current (a bare thread).
        always_below: the run's span is never made current, and is the parent in any case.
        taken: the span of an enclosing call, which is not this call's.
        content: may arguments and result be written?
    """
    if _trace() is None:
        return None
    current = current_span()
    theirs = current is not None and current is not taken and _is_tool_span(current, tool_name)
    if mode is False or (mode is None and theirs):
        return None if current is None else CallSpan(current, own=False, tool_span=theirs, content=content)
    tracer = _tracer(provider)
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": storable(tool_name)}
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = storable(call_id)
    if agent is not None:
        attributes["gen_ai.agent.name"] = storable(agent)
    if arguments is not None and content:
        attributes["gen_ai.tool.call.arguments"] = storable(arguments)
    context = None
    if run_span is not None and (always_below or current is None):
        from opentelemetry.trace import set_span_in_context

        context = set_span_in_context(run_span)
    span = tracer.start_span(f"execute_tool {tool_name}", context=context, attributes=attributes)
    if not span.is_recording():
        return None
    return CallSpan(span, own=True, tool_span=True, token=attach(span), content=content)


def storable(text: str) -> str:
    """Text without lone surrogates, which no exporter can encode."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()
