"""What replay hands out, as plain frozen data. Times are Unix nanoseconds (UTC), durations nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ..collector._records import ToolCall

__all__ = [
    "SCHEMA_VERSION",
    "Change",
    "Coverage",
    "DialectCoverage",
    "ErrorBreakdown",
    "ErrorBucket",
    "ErrorCell",
    "ErrorGroup",
    "FailedRequest",
    "FailedRequests",
    "Figures",
    "Incident",
    "IncidentCall",
    "IncidentDetail",
    "IncidentKind",
    "NamedCount",
    "NamedErrors",
    "NotCountedReason",
    "Overview",
    "RunInfo",
    "TextChange",
    "TimeBucket",
    "Totals",
]

SCHEMA_VERSION = 1
"""Version of the JSON that `to_json` methods and JSON reports produce."""


@dataclass(frozen=True, slots=True)
class DialectCoverage:
    """Content coverage of the calls recorded in one dialect."""

    dialect: str
    calls: int
    calls_without_arguments: int
    calls_without_result: int
    calls_truncated: int
    hint: str | None  # the setting that turns content on; None where nothing is missing


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the figures cover. `calls` are the finished calls; the others are parts of it unless said."""

    calls: int = 0
    calls_without_arguments: int = 0
    calls_without_result: int = 0
    calls_truncated: int = 0
    calls_without_outcome: int = 0  # status unset and no result: never counted
    calls_not_ended: int = 0  # not part of `calls`: still running, or cut off
    runs_guarded: int = 0  # runs recorded while a live guard wrote into results
    dialects: tuple[DialectCoverage, ...] = ()

    @property
    def whole(self) -> bool:
        """True if every finished call had its arguments and its result recorded, uncut."""
        return not (self.calls_without_arguments or self.calls_without_result or self.calls_truncated)

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of one policy. `calls_after_block` = avoidable + lost + unjudged."""

    runs: int = 0
    calls: int = 0
    runs_nudged: int = 0
    runs_blocked: int = 0
    calls_nudged: int = 0
    calls_blocked: int = 0
    calls_after_block: int = 0
    calls_avoidable: int = 0
    calls_lost: int = 0
    calls_unjudged: int = 0

    def to_json(self) -> dict[str, int]:
        """A JSON-ready dict."""
        return asdict(self)


class IncidentKind(StrEnum):
    """Kinds of incidents. None of them depends on thresholds."""

    LOOP = "loop"
    CYCLE = "cycle"
    RETRY_STORM = "retry_storm"
    SAME_ERROR = "same_error"
    TWINS = "twins"


@dataclass(frozen=True, slots=True)
class Incident:
    """A stretch of calls that went round in a circle.

    The last five fields need a policy and are None where none was given.
    """

    key: str  # stable: the same after re-import, re-derivation and later calls
    kind: IncidentKind
    run_id: str
    parent_run_id: str | None
    run_source: str
    trace_id: str  # of the first call
    span_id: str
    position: int
    session_id: str | None
    service_name: str | None
    agent_name: str | None
    tool_name: str  # the first call's tool
    tools: tuple[str, ...]  # every tool of the incident, in order of appearance
    calls: int  # calls that belong to it
    different_calls: int  # cycle: calls of one lap; same_error: different arguments; else 1
    folded_loops: int  # cycle: loops and retry storms that are part of it and not listed on their own
    repeated_calls: int  # of these, calls that brought nothing new
    laps: int  # cycle: laps; else equal to `calls`
    first_ns: int  # start of the first call
    last_ns: int  # end of the last call
    tool_ns: int  # summed run time of its calls
    requests: int  # LLM requests that the run started between first_ns and last_ns
    input_tokens: int | None  # of these requests; None: not recorded
    output_tokens: int | None
    cost: float | None  # US dollars; None: not recorded
    resolved: bool
    ending: str  # "another_result" | "other_work" | "run_ended" | "stopped_by_guard"
    interleaved: bool  # other calls of the run lay between
    soft_failure: bool  # the run's agent span ended OK although it went in circles and no guard stopped it
    outcome: str | None  # of its calls
    error_kind: str | None
    error_text: str | None  # bounded; the first call's
    sample_arguments: str | None  # bounded; the first call's; None: not recorded
    sample_result: str | None
    group: str  # equal for the same fault in other runs
    dialect: str
    stopped_at: int | None = None  # number (from 1) of the call at which a live guard ended it
    nudge_at: int | None = None  # number (from 1) of the incident's first nudged call
    block_at: int | None = None  # number of its blocked call
    after_block: int | None = None  # calls of the incident after the run's block
    after_block_avoidable: int | None = None  # of these, calls whose result was known already
    exact: bool | None = None  # False: a verdict of the incident is a projection

    @property
    def duration_ns(self) -> int:
        """From the start of the first call to the end of the last; 0 where clocks ran backwards."""
        return max(0, self.last_ns - self.first_ns)

    @property
    def unresolved(self) -> bool:
        """True if the run ended in it of itself: the agent did not get out, and no live guard stopped it."""
        return not self.resolved and self.stopped_at is None

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {**asdict(self), "kind": self.kind.value, "tools": list(self.tools)}


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two JSON values."""

    path: str  # "query", "filters.status", "items[2]"
    kind: str  # "added" | "removed" | "changed"
    before: str | None  # compact JSON, bounded
    after: str | None


@dataclass(frozen=True, slots=True)
class TextChange:
    """How a text differs from the same text of the previous repeat."""

    same: bool
    summary: str  # one line: "same", "2 keys changed: a, b", "3 of 40 lines differ", "was not recorded"
    changes: tuple[Change, ...] = ()  # at most 20; of values that are JSON on both sides
    more: int = 0  # changes left out


@dataclass(frozen=True, slots=True)
class IncidentCall:
    """One call of an incident's stretch, or one that lay in between."""

    call: ToolCall  # whole text, cut at the limit of `incident_detail`
    number: int | None  # place among the incident's calls, from 1; None: lay in between
    arguments_length: int | None  # characters of the whole text; None: not recorded
    result_length: int | None
    count: int  # equal results in a row at this call, as the guard counts
    action: str  # allow | nudge | block | not_counted | after_block
    exact: bool  # False: projected, the recorded agent had not seen an earlier intervention
    arguments_change: TextChange | None  # against the previous repeat; None for the first and in between
    result_change: TextChange | None

    @property
    def member(self) -> bool:
        """True if the call belongs to the incident."""
        return self.number is not None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The run that an incident belongs to."""

    run_id: str
    parent_run_id: str | None
    run_source: str
    trace_ids: tuple[str, ...]
    session_id: str | None
    service_name: str | None
    agents: tuple[str, ...]
    models: tuple[str, ...]
    dialects: tuple[str, ...]
    calls: int
    requests: int
    failed_requests: int
    first_ns: int
    last_ns: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    status: str | None  # of the agent span: ok | unset | error | running; None: no such span
    guarded: bool  # a live guard's note was recorded in it


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    """One incident with its calls in order."""

    incident: Incident
    run: RunInfo
    calls: tuple[IncidentCall, ...]  # the incident's calls and those in between, in order of counting
    calls_left_out: int  # beyond the limit of `incident_detail`
    summary: str  # one or two plain sentences
    related: tuple[str, ...]  # keys of other incidents of the same group, at most 50
    related_runs: int  # runs of the group, this one included
    coverage: Coverage  # of the run

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {**asdict(self), "incident": self.incident.to_json()}


@dataclass(frozen=True, slots=True)
class Figures:
    """The overview's figures for one period."""

    runs: int = 0
    calls: int = 0
    runs_looping: int = 0  # runs with an incident of a kind other than twins
    soft_failures: int = 0  # of these, runs that ended in one and whose agent span reports no error
    repeated_calls: int = 0  # counted calls that brought the same result again (count ≥ 2)
    requests: int = 0
    failed_requests: int = 0  # without those that were cancelled
    cancelled_requests: int = 0
    preventable_requests: int | None = None  # by the sanitizer or by the guard; None: not judged
    runs_with_twins_only: int = 0  # runs whose incidents are all twins; not among `runs_looping`


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """Calls that started in [start_ns, start_ns + width), by verdict."""

    start_ns: int
    allow: int = 0
    nudge: int = 0
    block: int = 0
    not_counted: int = 0
    after_block: int = 0
    incidents: int = 0  # that began in it


@dataclass(frozen=True, slots=True)
class NamedCount:
    """A tool or an agent with its calls; name None: not recorded."""

    name: str | None
    calls: int
    repeated_calls: int
    calls_nudged: int
    calls_blocked: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Is anything looping, and what does it cost?"""

    sentence: str
    figures: Figures
    previous: Figures | None  # the period of equal length before; None without a `since`
    bucket_ns: int
    buckets: tuple[TimeBucket, ...]
    tools: tuple[NamedCount, ...]  # by repeated calls, at most 20
    agents: tuple[NamedCount, ...]
    incidents: tuple[Incident, ...]  # newest first, at most 20
    incidents_total: int
    coverage: Coverage
    calls_untimed: int = 0  # calls whose source recorded no times: in every figure, in no bucket


@dataclass(frozen=True, slots=True)
class ErrorCell:
    """Failed calls of one tool, kind and outcome."""

    tool_name: str
    error_kind: str
    outcome: str  # schema_error | general_tool_error
    calls: int
    counted: int  # by the guard under the policy given


@dataclass(frozen=True, slots=True)
class NamedErrors:
    """Failed calls of one agent or model and kind; name None: not recorded."""

    name: str | None
    error_kind: str
    calls: int


@dataclass(frozen=True, slots=True)
class ErrorBucket:
    """Failed calls of one kind that started in [start_ns, start_ns + width)."""

    start_ns: int
    error_kind: str
    calls: int


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failed calls with one text once its volatile parts (numbers, ids, times, paths) are masked."""

    tool_name: str
    error_kind: str
    outcome: str
    text: str | None  # masked, bounded; None: no text was recorded
    calls: int
    runs: int
    counted: int
    first_ns: int
    last_ns: int
    samples: tuple[str, ...]  # at most 3 different texts as recorded, bounded
    sample_run_id: str


@dataclass(frozen=True, slots=True)
class NotCountedReason:
    """Why the guard does not count some finished calls."""

    reason: str  # general_tool_error | no_arguments | no_result | no_outcome | outcome_not_counted | exempt
    calls: int
    explanation: str


@dataclass(frozen=True, slots=True)
class ErrorBreakdown:
    """What fails, how, and whether the guard counts it."""

    calls: int  # finished calls
    failed: int
    counted: int  # failed calls that the guard counts
    by_tool: tuple[ErrorCell, ...]
    bucket_ns: int
    buckets: tuple[ErrorBucket, ...]
    groups: tuple[ErrorGroup, ...]  # most calls first
    groups_total: int
    calls_grouped: int  # failed calls in groups; below `failed` where there are too many different texts
    not_counted: tuple[NotCountedReason, ...]  # over all finished calls
    coverage: Coverage
    by_agent: tuple[NamedErrors, ...] = ()
    by_model: tuple[NamedErrors, ...] = ()  # the model that asked for the call
    calls_untimed: int = 0  # failed calls without recorded times: in no bucket

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """An LLM request that failed."""

    trace_id: str
    span_id: str
    run_id: str
    session_id: str | None
    service_name: str | None
    agent_name: str | None
    provider: str | None
    model: str | None
    http_status: int | None
    error_type: str | None
    error_text: str | None  # bounded
    error_class: str | None
    content_state: str
    start_ns: int
    end_ns: int | None
    messages: int | None  # how many the request carried; None: not recorded
    verdict: str | None = None  # the sanitizer's verdict; None: not judged
    dialect: str = ""


@dataclass(frozen=True, slots=True)
class FailedRequests:
    """Failed LLM requests, newest first."""

    requests: int  # all requests under the filter
    failed: int  # without those that were cancelled
    without_messages: int  # failed requests whose messages were not recorded
    by_status: Mapping[str, int] = field(default_factory=dict)  # "400" → n; "none" without a status
    rows: tuple[FailedRequest, ...] = ()  # cancelled ones too, their `error_class` is `cancelled`
    cancelled: int = 0

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
