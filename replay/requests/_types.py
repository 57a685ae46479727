"""What the analysis of LLM requests answers with, as plain frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .._types import SCHEMA_VERSION

if TYPE_CHECKING:
    from ...guard import GuardPolicy
    from .._filters import Filters

__all__ = [
    "BrokenRequest",
    "Cause",
    "CauseEvent",
    "ClassCounts",
    "EventKind",
    "HistoryMessage",
    "HistoryPart",
    "HistoryRepair",
    "HistoryViolation",
    "JudgedRequest",
    "ProviderRisk",
    "RequestAnalysis",
    "RequestCoverage",
    "RequestDialectCoverage",
    "RequestHistory",
    "RequestTotals",
    "RequestVerdict",
    "Undetermined",
]

RequestVerdict = Literal["prevented", "prevented_by_guard", "not_prevented", "undetermined"]

Undetermined = Literal["not_recorded", "truncated", "without_ids", "contradicted", "no_rules"]
"""Why there is no verdict: what is needed was not recorded, or cut or with gaps, or without call ids; the
refusal contradicts what was recorded; whose rules hold is not known."""

EventKind = Literal[
    "history_shrank",
    "messages_repeated",
    "answer_reused_id",
    "interrupted",
    "other_provider",
    "other_model",
    "other_agent",
]
"""What came just before a broken history, see `CauseEvent`."""


@dataclass(frozen=True, slots=True)
class RequestDialectCoverage:
    """Requests of one dialect, and the setting that would record their messages."""

    dialect: str
    requests: int
    without_messages: int
    truncated: int
    failed: int
    failed_without_messages: int
    hint: str | None  # None: nothing is missing, or the dialect has no such setting


@dataclass(frozen=True, slots=True)
class RequestCoverage:
    """What the figures cover."""

    requests: int = 0
    without_messages: int = 0
    truncated: int = 0  # messages that were cut or of which some are missing
    failed_without_messages: int = 0
    failed_truncated: int = 0
    passed: int = 0  # requests that succeeded
    passed_checked: int | None = None  # … whose history was judged (broken, latent); None: not asked for
    passed_not_recorded: int | None = None  # … without messages, or truncated, or with messages left empty
    passed_without_ids: int | None = None  # … whose calls or results were recorded without ids
    passed_waiting: int | None = None  # … not looked at yet: the time allowed was over
    passed_against_rules: int | None = None  # … not judged: by our rules their own provider refuses them
    dialects: tuple[RequestDialectCoverage, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestTotals:
    """Counts of requests. tool_related = prevented + prevented_by_guard + not_prevented + undetermined."""

    requests: int = 0
    failed: int = 0  # without those that were cancelled
    cancelled: int = 0  # ended with an error that says that whoever asked did not wait for the answer
    tool_related: int = 0  # failed, with an error class about calls and results
    prevented: int = 0  # by the sanitizer
    prevented_by_dedup: int = 0  # … of these: by dropping a doubled call or result alone
    prevented_by_guard: int = 0  # repeated_calls: the guard would have stepped in before
    not_prevented: int = 0
    undetermined: int = 0
    broken: int | None = None  # succeeded, and the sanitizer would change it; None: not asked for
    latent: int | None = None  # succeeded, and at least one other provider would refuse it
    causes: int = 0  # retries of one broken history are one cause


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """Failed requests of one error class; `failed` of class `cancelled` were cancelled."""

    failed: int = 0
    prevented: int = 0
    prevented_by_dedup: int = 0
    prevented_by_guard: int = 0
    not_prevented: int = 0
    undetermined: int = 0
    causes: int = 0


@dataclass(frozen=True, slots=True)
class ProviderRisk:
    """Requests that succeeded elsewhere and whose history this provider would refuse."""

    provider: str
    requests: int
    by_class: Mapping[str, int] = field(default_factory=dict)  # a request counts once in each of its classes
    sample_trace_id: str | None = None
    sample_span_id: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedRequest:
    """A failed LLM request, judged (`verdict` None: class `other` or `cancelled`, never judged)."""

    trace_id: str
    span_id: str
    run_id: str
    session_id: str | None
    service_name: str | None
    agent_name: str | None
    provider: str | None  # as recorded
    model: str | None
    judged_as: str | None  # the provider whose rules were used
    http_status: int | None
    error_type: str | None
    error_text: str | None  # bounded
    error_class: str
    content_state: str
    start_ns: int
    end_ns: int | None
    messages: int | None  # how many the request carried; None: not recorded
    dialect: str
    verdict: RequestVerdict | None
    reason: str | None  # one plain sentence
    repairs: tuple[str, ...] = ()  # kinds, in order, each once
    repairs_total: int = 0
    prevented_by_dedup: bool = False
    cause: int | None = None  # number of its cause in `RequestAnalysis.causes`
    undetermined: Undetermined | None = None  # verdict undetermined: why


@dataclass(frozen=True, slots=True)
class CauseEvent:
    """Something that came just before the first refusal of a cause.

    history_shrank: from `before` to `after` messages. messages_repeated: `messages` of the history stand in
    it a second time, worth `tokens` (estimated from the conversation's own tokens per character; None:
    not known). The others: see `detail`.
    """

    kind: EventKind
    detail: str  # one plain sentence
    before: int | None = None
    after: int | None = None
    messages: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """One broken history and the requests that carried it."""

    number: int
    error_class: str
    verdict: RequestVerdict  # of its first request
    requests: int
    run_id: str
    session_id: str | None
    service_name: str | None
    agent_name: str | None
    provider: str | None
    model: str | None
    call_id: str | None  # the id at fault
    first_ns: int
    last_ns: int
    first_trace_id: str
    first_span_id: str
    events: tuple[CauseEvent, ...]  # empty: nothing of these, or the request before it was not recorded
    before: str  # the same as one plain sentence, or why it is not known


@dataclass(frozen=True, slots=True)
class BrokenRequest:
    """A request that succeeded and that the sanitizer, asked for no provider, would have changed."""

    trace_id: str
    span_id: str
    run_id: str
    service_name: str | None
    agent_name: str | None
    provider: str | None
    model: str | None
    dialect: str
    start_ns: int
    messages: int
    repairs: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RequestAnalysis:
    """Which requests were refused over their history, and what the sanitizer would have done."""

    policy: GuardPolicy
    filters: Filters
    coverage: RequestCoverage
    totals: RequestTotals
    by_class: Mapping[str, ClassCounts]  # most failed first; with `other` and `cancelled`
    by_repair: Mapping[str, int]  # prevented requests by kind of repair; a request counts once in each kind
    by_provider: tuple[ProviderRisk, ...]  # latent, most requests first; empty where it was not asked for
    causes: tuple[Cause, ...]  # newest first, bounded
    requests: tuple[JudgedRequest, ...]  # failed requests, newest first, bounded
    broken: tuple[BrokenRequest, ...] = ()  # newest first, bounded

    def to_json(self) -> dict[str, Any]:
        """The JSON of `loopscope requests --format json` as a dict (docs/requests.md)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "policy_hash": self.policy.policy_hash,
            "coverage": asdict(self.coverage),
            "totals": asdict(self.totals),
            "by_class": {name: asdict(counts) for name, counts in self.by_class.items()},
            "by_repair": dict(self.by_repair),
            "by_provider": [asdict(risk) for risk in self.by_provider],
            "causes": [asdict(cause) for cause in self.causes],
            "requests": [asdict(request) for request in self.requests],
            "broken": [asdict(request) for request in self.broken],
        }


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """A part of a message in words that all formats share."""

    kind: str  # text | call | result | media | reasoning | reference | unknown
    text: str | None  # what it says; the arguments of a call; bounded; None: nothing
    call_id: str | None = None
    name: str | None = None  # of the tool
    made: bool = False  # a stub: no tool said this


@dataclass(frozen=True, slots=True)
class HistoryMessage:
    """One message of a history, before or after the repair."""

    position: int  # in its list, from 0
    origin: int | None  # position of the recorded message it comes from; None: made by a repair
    role: str
    text: str  # JSON, bounded
    cut: bool  # `text` was cut
    calls: tuple[str, ...] = ()  # ids of the calls in it
    results: tuple[str, ...] = ()  # ids of the calls that it answers
    changed: bool = False  # before: changed, moved or dropped by a repair; after: not as recorded
    dropped: bool = False  # before only: nothing of it is left
    parts: tuple[HistoryPart, ...] = ()  # empty for a system prompt that stands outside the list


@dataclass(frozen=True, slots=True)
class HistoryRepair:
    """One repair, at the recorded message that it touches."""

    kind: str
    origin: int
    call_id: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class HistoryViolation:
    """A rule of the provider that the history breaks."""

    error_class: str
    rule: str
    position: int  # in its list
    call_id: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """One request's history as recorded and as the sanitizer makes it."""

    trace_id: str
    span_id: str
    provider: str | None  # whose rules were used; None: no provider's
    format: str  # the format that the history was read in
    native: bool  # False: recorded in another form, and shown as openai-chat
    content_state: str
    before: tuple[HistoryMessage, ...]
    after: tuple[HistoryMessage, ...]
    repairs: tuple[HistoryRepair, ...]
    violations_before: tuple[HistoryViolation, ...]
    violations_after: tuple[HistoryViolation, ...]
    messages_before: int  # in all; `before` and `after` are bounded
    messages_after: int
    request: JudgedRequest | None = None  # where the request failed
    note: str | None = None  # why there is nothing to show, or what to keep in mind

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
