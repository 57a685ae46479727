"""Spans of one trace to tool calls and LLM requests."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import lru_cache

from ..guard import (
    Classification,
    OutcomeFacts,
    classify_outcome,
    result_hash,
    scope_key,
    strip_annotation,
)
from ..guard._canonical import fingerprint_of_text
from ..guard._outcome import quiet_outcome
from ._agent_messages import complete_refused
from ._asked import calls_asked_for, calls_of_agents
from ._calls import CallDraft, draft_call, is_half_an_object, mcp_session, tool_name
from ._genai_events import spans_of_lone_events
from ._history import complete_histories
from ._join import Exchange, Unclaimed, join_run
from ._log_events import spans_of_events
from ._messages import MessageReader
from ._parts import is_stub
from ._records import Derived, LlmRequest, LogRecord, SpanRecord, ToolCall
from ._requests import RequestDraft, content_state, draft_requests
from ._runs import Runs, assign_scopes
from ._session_ids import session_trace, trace_of_log
from ._sessions import Unit, attach, merge_sessions
from ._transcripts import is_transcript
from ._tree import Node, build_forest
from .dialects import Kind
from .dialects._names import COMPARED_HASH
from .dialects.cli_agents import session_of_log

__all__ = ["derive_trace"]


def derive_trace(
    spans: Sequence[SpanRecord],
    logs: Sequence[LogRecord] = (),
    *,
    mcp_sessions: Container[str] = (),
) -> Derived:
    """Tool calls and LLM requests of a trace, out of all its spans and log records, by start time.

    The result does not depend on the order of `spans`, and several versions of a span count
    as one. `mcp_sessions` are MCP session ids known to occur in other traces, too: a session
    that outlives one request is a run where nothing better is recorded. Never raises on
    content; `seq` and `turn` count inside the trace. Of several traces each is derived for itself, but the
    log events of a command-line agent tell of calls in any trace of their session. Log records without a
    trace id count in their session's, see `session_trace`.
    """
    units = _units(spans, logs, mcp_sessions)
    merge_sessions(units)
    derived = Derived()
    for unit in units:
        part = _finish(unit)
        derived.tool_calls += part.tool_calls
        derived.llm_requests += part.llm_requests
    for unit in units:
        unit.release()
    derived.tool_calls.sort(key=lambda call: (call.start_ns, call.span_id, call.position))
    derived.llm_requests.sort(key=lambda request: (request.start_ns, request.span_id))
    return derived


def _units(
    spans: Iterable[SpanRecord], logs: Iterable[LogRecord], mcp_sessions: Container[str]
) -> list[Unit]:
    """Drafts of the calls and requests of each trace; a session's logs without a trace are one, too."""
    spans_of: dict[str, list[SpanRecord]] = {}
    logs_of: dict[str, list[LogRecord]] = {}
    events: dict[str, list[LogRecord]] = {}  # of command-line agents, by session
    for span in spans:
        spans_of.setdefault(span.trace_id, []).append(span)
    only = next(iter(spans_of)) if len(spans_of) == 1 else None
    for log in logs:
        trace_id = trace_of_log(log) or only
        if trace_id is not None:
            logs_of.setdefault(trace_id, []).append(log)
        session = session_of_log(log)
        if session is not None:
            events.setdefault(session_trace(*session), []).append(log)
    told_of: dict[str, list[SpanRecord]] = {}
    for session, members in events.items():
        for span in spans_of_events(session, members):
            told_of.setdefault(span.trace_id, []).append(span)
    return [
        _draft(
            trace_id,
            spans_of.get(trace_id, []),
            logs_of.get(trace_id, ()),
            told_of.get(trace_id, ()),
            mcp_sessions,
        )
        for trace_id in dict.fromkeys((*spans_of, *logs_of, *told_of))
    ]


def _draft(
    trace_id: str,
    spans: list[SpanRecord],
    logs: Sequence[LogRecord],
    told: Sequence[SpanRecord],
    mcp_sessions: Container[str],
) -> Unit:
    logs_of: dict[str, list[LogRecord]] = {}
    for log in logs:
        if log.span_id is not None:
            logs_of.setdefault(log.span_id, []).append(log)
    if logs:
        for span, members in spans_of_lone_events(trace_id, logs, {span.span_id for span in spans}):
            spans = [*spans, span]
            logs_of[span.span_id] = members
    nodes = build_forest(spans)
    assign_scopes(nodes, tool_name)
    told_nodes = attach(told, nodes)
    assign_scopes(told_nodes, tool_name)
    runs = Runs([*nodes, *told_nodes], mcp_sessions)
    reader = MessageReader()
    unit = Unit(nodes, runs, reader)
    unit.calls, requests = _drafts(nodes, runs, logs_of)
    unit.requests = draft_requests(requests, logs_of, reader)
    if told_nodes:
        unit.told_calls, requests = _drafts(told_nodes, runs, {})
        unit.told_requests = draft_requests(requests, {}, reader)
    for draft in (*unit.requests, *unit.told_requests):
        draft.run = runs.of(draft.node)
    return unit


def _drafts(
    nodes: Sequence[Node], runs: Runs, logs_of: dict[str, list[LogRecord]]
) -> tuple[list[CallDraft], list[Node]]:
    """Drafts of the calls, and the spans of requests."""
    groups: dict[str, list[Node]] = {}
    requests: list[Node] = []
    for node in nodes:
        if node.kind is Kind.TOOL:
            assert node.call is not None
            groups.setdefault(node.call.span.span_id, []).append(node)
        elif node.kind is Kind.LLM:
            requests.append(node)
    calls = [
        draft_call(members, runs.of(members[0], mcp_session(members)), logs_of) for members in groups.values()
    ]
    return calls, requests


def _finish(unit: Unit) -> Derived:
    calls, requests = unit.calls, unit.requests
    complete_refused(requests, calls, unit.reader)
    turns, asked = _join(calls, requests)
    calls += asked
    if not calls and not any(draft.messages.output for draft in requests):
        calls = calls_of_agents(unit.nodes, unit.runs, unit.reader)
    complete_histories(requests)
    derived = Derived(
        [_tool_call(draft) for draft in calls],
        [_llm_request(draft, turns.get(draft.node.span.span_id)) for draft in requests],
    )
    _number(derived.tool_calls)
    return derived


def _join(calls: list[CallDraft], requests: list[RequestDraft]) -> tuple[dict[str, int], list[CallDraft]]:
    """Let the requests of each run complete its calls.

    Returns the turn of each answered request, by span id, and the calls that stand only in messages.
    """
    exchanges: dict[str, list[Exchange]] = {}
    of_transcript: dict[str, bool] = {}
    for draft in requests:
        span, messages = draft.node.span, draft.messages
        assert draft.run is not None
        of_transcript[draft.run.run_id] = is_transcript(span)
        exchanges.setdefault(draft.run.run_id, []).append(
            Exchange(
                span.span_id,
                span.start_ns,
                span.end_ns or span.start_ns,
                answered=draft.answered,
                input=messages.input,
                output=messages.output,
            )
        )
    of_run: dict[str, list[CallDraft]] = {}
    for call in calls:
        of_run.setdefault(call.run.run_id, []).append(call)
    turns: dict[str, int] = {}
    asked: dict[str, list[Unclaimed]] = {}
    for run_id, members in exchanges.items():
        own = of_run.get(run_id, [])
        settled = [
            (call, call.call_id, call.arguments, call.result) for call in own if is_transcript(call.node.span)
        ]
        left = join_run(own, members)
        if not of_transcript[run_id]:  # an importer makes a span of every call in its log
            asked[run_id] = left
        for call, call_id, arguments, result in settled:
            call.call_id, call.arguments, call.result, call.result_failed = call_id, arguments, result, None
        for exchange in members:
            if exchange.turn is not None:
                turns[exchange.span_id] = exchange.turn
    drafts = {draft.node.span.span_id: draft for draft in requests}
    return turns, calls_asked_for(asked, exchanges, drafts, calls)


def _tool_call(draft: CallDraft) -> ToolCall:
    failed = draft.failed
    if draft.result_failed and not draft.explicit:
        failed = True
    result = draft.result
    error_text = draft.error_text
    if is_stub(result):
        # Its place in a repaired history: what came of the call is not known, unless its span knows better.
        result = failed = None
        error_text = None if is_stub(error_text) else error_text
    if result is None and failed:
        result = error_text
    verdict: str | None = None
    if result is not None:
        result, verdict = strip_annotation(result)
    compared_hash = None
    if COMPARED_HASH in draft.node.shape.names:
        compared_hash = _compared_hash(draft.node)
        verdict = verdict or _noted(draft.node)
    ended = draft.end_ns is not None
    outcome = kind = None
    http_status = draft.http_status
    if ended:
        found = _classified_end(draft, failed, result, error_text)
        # The property `value` says the same, and takes 0.3 µs for it.
        outcome = found.outcome._value_ if found.outcome is not None else None
        kind = found.kind._value_ if found.kind is not None else None
        http_status = found.http_status
    print_, cut = None, draft.cut
    if draft.arguments is not None:
        print_, is_json = fingerprint_of_text(draft.name, draft.arguments)
        cut = cut or (draft.unread and not is_json and is_half_an_object(draft.arguments))
    run = draft.run
    # By position, in the order of the fields: naming 27 arguments takes 2 µs longer than making the call.
    return ToolCall(
        draft.trace_id,
        draft.span_id,
        draft.position,
        run.run_id,
        run.parent_run_id,
        run.source,
        run.session_id,
        draft.service_name,
        draft.agent_name,
        draft.turn,
        draft.name,
        draft.call_id,
        draft.arguments,
        result,
        outcome,
        kind,
        draft.error_type,
        error_text,
        http_status,
        draft.start_ns,
        draft.end_ns,
        print_,
        compared_hash or result_hash(result),
        None if print_ is None else scope_key(run.run_id, draft.agent_name, print_),
        _content_state(draft, result, ended, cut=cut),
        verdict,
        draft.dialect,
    )


def _classified_end(
    draft: CallDraft, failed: bool | None, result: str | None, error_text: str | None
) -> Classification:
    """What a call that ended came to."""
    if (
        failed is not True
        and draft.error_type is None
        and error_text is None
        and draft.jsonrpc_code is None
        and (found := quiet_outcome(failed, result)) is not None
    ):
        return found
    return classify_outcome(
        OutcomeFacts(failed, result, error_text, draft.error_type, draft.jsonrpc_code, draft.http_status)
    )


def _compared_hash(node: Node) -> int | None:
    """The hash of the bare result where a live guard wrote it, beside a result that carries its note.

    What some frameworks record of a result with a note is not the result plus a note.
    """
    value = node.span.attributes[COMPARED_HASH]
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if -(2**63) <= value < 2**63 else None


def _noted(node: Node) -> str | None:
    """ "nudge" or "block" where a live guard says that it put such a note into the result."""
    action = node.span.attributes.get("loopscope.guard.action")
    return action if action in ("nudge", "block") else None


def _content_state(draft: CallDraft, result: str | None, ended: bool, *, cut: bool) -> str:
    if draft.arguments is None or (result is None and ended):
        return "missing"
    return "truncated" if cut else "full"


def _llm_request(draft: RequestDraft, turn: int | None) -> LlmRequest:
    span, run, failure = draft.node.span, draft.run, draft.failure
    assert run is not None
    # By position, as above.
    return LlmRequest(
        span.trace_id,
        span.span_id,
        run.run_id,
        run.source,
        run.session_id,
        draft.service_name,
        draft.agent_name,
        turn,
        draft.provider,
        draft.model,
        draft.messages.input,
        draft.messages.output,
        draft.input_tokens,
        draft.output_tokens,
        draft.cost,
        "error" if draft.failed else "ok",
        failure.http_status,
        failure.error_type if draft.failed else None,
        failure.text if draft.failed else None,
        _error_class(draft),
        content_state(draft),
        span.start_ns,
        span.end_ns,
        draft.dialect,
    )


def _error_class(draft: RequestDraft) -> str | None:
    """What is wrong with the history of a refused request; None where its refusal is not in words."""
    failure = draft.failure
    if not draft.failed:
        return None
    # With it comes all that is known of providers: a tenth of the time that a child takes to start.
    from ..guard import ErrorClass

    said = None
    for text in (failure.text, draft.node.span.status_message):
        if text is not None and not text.isspace() and text != "":
            said = _classified(failure.http_status, text)
            if said != ErrorClass.OTHER:
                return said
    if said is None and failure.http_status is not None and failure.http_status not in _HISTORY_STATUS:
        return ErrorClass.OTHER
    return said


# Under which a provider refuses a history; any other says without words that it is about something else.
_HISTORY_STATUS = frozenset({400, 422, 500})


@lru_cache(maxsize=256)
def _classified(status: int | None, text: str) -> str:
    """Retries of one request fail with one text."""
    from ..guard import classify_provider_error

    return str(classify_provider_error(status, text).error_class)


def _number(calls: list[ToolCall]) -> None:
    """Order of counting inside each run. Calls that never ended are not counted."""
    next_seq: dict[str, int] = {}
    for call in sorted(
        (call for call in calls if call.end_ns is not None),
        key=lambda call: (call.end_ns or 0, call.start_ns, call.span_id, call.position),
    ):
        call.seq = next_seq.get(call.run_id, 0) + 1
        next_seq[call.run_id] = call.seq
