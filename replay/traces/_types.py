"""What is said of whole runs: plain frozen data. Times are Unix nanoseconds; None is not recorded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from .._types import Coverage, Incident

__all__ = [
    "LogLine",
    "LogPage",
    "MessagePart",
    "MessageRequest",
    "MessagesPage",
    "RunCall",
    "RunCalls",
    "RunHead",
    "RunMessage",
    "RunPage",
    "RunRow",
    "RunSort",
    "RunStatus",
    "SpanDetail",
    "SpanKind",
    "SpanRow",
    "SpanWindow",
]

RunStatus = Literal["ok", "unset", "error", "running"]
"""How the agent's span (or the spans at the top) ended; running: one of them has no end yet."""

SpanKind = Literal["agent", "request", "call", "other"]


class RunSort(StrEnum):
    """What comes first in a list of runs."""

    NEWEST = "newest"
    REPEATS = "repeats"
    CALLS = "calls"
    LONGEST = "longest"
    TOKENS = "tokens"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in a list. Figures are of the whole run."""

    run_id: str
    run_source: str  # agent_span | conversation | mcp_session | trace | transcript
    parent_run_id: str | None
    session_id: str | None
    service_name: str | None
    agent_name: str | None  # one of them where there are several
    several_agents: bool
    model: str | None
    several_models: bool
    trace_id: str  # its first
    dialect: str
    first_ns: int  # of the agent's span where it is known, else of its first call or request
    last_ns: int
    calls: int  # finished
    calls_not_ended: int
    failed_calls: int
    requests: int
    failed_requests: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    repeats: int  # finished calls with a count of 2 and more
    nudged: int
    blocked: int
    after_block: int
    incidents: int
    guarded: bool  # recorded under a live guard
    status: RunStatus | None
    stopped: bool = False  # a live guard's block was the last of it

    @property
    def duration_ns(self) -> int:
        """From its first to its last sign."""
        return max(0, self.last_ns - self.first_ns)

    @property
    def tokens(self) -> int | None:
        """Sent and answered."""
        return None if self.input_tokens is None else self.input_tokens + (self.output_tokens or 0)


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some rows of a list, and what the whole list holds."""

    rows: tuple[RunRow, ...]
    total: int  # runs
    calls: int  # finished
    requests: int
    repeating: int  # runs with a repeated call
    with_incidents: int


@dataclass(frozen=True, slots=True)
class RunHead:
    """What one run was, in figures."""

    run: RunRow
    trace_ids: tuple[str, ...]
    agents: tuple[str, ...]
    models: tuple[str, ...]
    dialects: tuple[str, ...]
    spans: int  # of its traces
    logs: int
    received_ns: int | None  # when the last word of its status came in
    incidents: tuple[Incident, ...]  # most repeated calls first
    nested: tuple[tuple[str, str | None, int], ...]  # runs right inside it: run_id, agent_name, calls
    nested_cut: bool  # there are more of them
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class SpanRow:
    """One line of a waterfall: a span, or equal siblings folded into one line."""

    key: str  # stays the same while the run grows
    depth: int
    kind: SpanKind
    name: str
    members: int  # 1; in a folded group the number of siblings
    inside: int  # spans below it, or below the members
    start_ns: int
    end_ns: int | None  # None: not ended
    busy_ns: int  # sum of the durations of the members that ended
    failed: int  # of the members, or one
    failed_inside: int
    actions: tuple[str, ...]  # verdicts on it; where it is closed on what is inside, too. Strongest first
    count: int | None  # equal results in a row, of a single judged call
    exact: bool | None  # of a single judged call
    foldable: bool
    open: bool
    trace_id: str | None  # of a single span
    span_id: str | None
    run_id: str | None  # of a call or request
    pieces: tuple[
        tuple[int, int, str], ...
    ]  # of the window's width: first and last bucket, action or "failed" or ""


@dataclass(frozen=True, slots=True)
class SpanWindow:
    """Lines of a waterfall."""

    rows: tuple[SpanRow, ...]
    offset: int
    total: int  # lines there are
    first_ns: int  # what the pieces are drawn over
    last_ns: int


@dataclass(frozen=True, slots=True)
class SpanDetail:
    """One span as it was recorded. Texts are JSON, cut; `…_length` are the whole lengths."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    kind: int
    service_name: str | None
    start_ns: int
    end_ns: int | None
    status_code: int  # 0 unset, 1 ok, 2 error
    status_message: str | None
    attributes: str
    attributes_length: int
    events: str
    events_length: int
    links: str
    links_length: int
    resource: str
    resource_length: int
    scope_name: str | None
    scope_version: str | None
    dropped_attributes: int
    dropped_events: int
    received_ns: int


@dataclass(frozen=True, slots=True)
class RunCall:
    """One call of a run with its verdict; texts cut."""

    trace_id: str
    span_id: str
    position: int
    seq: int | None  # None: it never ended and is not counted
    turn: int | None
    agent_name: str | None
    tool_name: str
    call_id: str | None
    arguments: str | None
    result: str | None
    error_message: str | None
    arguments_length: int | None
    result_length: int | None
    outcome: str | None
    error_kind: str | None
    http_status: int | None
    start_ns: int
    end_ns: int | None
    content_state: str
    recorded_verdict: str | None
    dialect: str
    action: str | None  # None: not judged, because it never ended
    count: int
    exact: bool


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Some calls of a run, and how many there are under the same conditions."""

    calls: tuple[RunCall, ...]
    total: int


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A piece of a message: kind text, reasoning, call or result."""

    kind: Literal["text", "reasoning", "call", "result"]
    text: str | None  # None: not recorded
    call_id: str | None = None
    name: str | None = None  # of the tool, for calls


@dataclass(frozen=True, slots=True)
class RunMessage:
    """A message where the run first shows it."""

    key: int  # of `contents`
    answered: bool  # the model's answer; False: it was sent
    role: str
    parts: tuple[MessagePart, ...]
    media: int  # parts that are no text
    cut: bool
    chars: int  # of the recorded message


@dataclass(frozen=True, slots=True)
class MessageRequest:
    """One request of a run, with the messages that were new in it and its answer."""

    number: int  # from 0
    trace_id: str
    span_id: str
    agent_name: str | None
    turn: int | None
    provider: str | None
    model: str | None
    start_ns: int
    end_ns: int | None
    status: str
    http_status: int | None
    error_class: str | None
    error_text: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    content_state: str
    dialect: str
    sent: int | None  # messages in the request; None: not recorded
    messages: tuple[RunMessage, ...]


@dataclass(frozen=True, slots=True)
class MessagesPage:
    """Some requests of a run; results and verdicts of calls by call id."""

    requests: tuple[MessageRequest, ...]
    total: int  # requests of the run
    calls: dict[str, RunCall]
    results: dict[str, MessagePart]  # results of these calls as messages bring them
    messages_cut: bool  # a request had more new messages than are given


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log record; texts cut."""

    trace_id: str | None
    span_id: str | None
    time_ns: int
    event_name: str | None
    severity: str | None
    service_name: str | None
    body: str | None
    attributes: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some log records, and how many there are."""

    lines: tuple[LogLine, ...]
    total: int
