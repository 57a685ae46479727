"""LLM spans to requests: one request per innermost span, and what it cost and came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._attributes import as_int, as_text, first_int, first_text, load
from ._calls import is_cut
from ._errors import Failure, failure_of, http_status_in
from ._messages import MessageReader, Messages
from ._prices import Tokens, price_of
from ._records import LogRecord
from ._runs import Run
from ._transcripts import is_transcript
from ._tree import Node
from .dialects import Shape, dialect_of

__all__ = ["RequestDraft", "complete_request", "draft_requests"]

_PROMPT_TOKENS = ("input_tokens", "prompt_tokens", "input", "promptTokens", "inputTokens")
# Input tokens that came from a cache, or went into one, which have prices of their own.
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
)
_CACHE_WRITE = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_COMPLETION_TOKENS = ("output_tokens", "completion_tokens", "output", "completionTokens", "outputTokens")


@dataclass(slots=True)
class RequestDraft:
    """An LLM request while its facts come together."""

    node: Node
    run: Run | None
    messages: Messages
    failure: Failure
    provider: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    dialect: str
    agent_name: str | None
    service_name: str | None

    @property
    def failed(self) -> bool:
        return self.failure.failed is True

    @property
    def answered(self) -> bool:
        """Does it count as a turn of the run?"""
        return self.failure.failed is not True and not self.node.frame

    def tells(self) -> bool:
        """Are there messages or usage, so that this is the request itself and no frame around it?"""
        return (
            self.messages.input is not None
            or self.messages.output is not None
            or self.input_tokens is not None
            or self.output_tokens is not None
        )


def draft_requests(
    nodes: Sequence[Node], logs: Mapping[str, Sequence[LogRecord]], reader: MessageReader
) -> list[RequestDraft]:
    """The requests among LLM spans (parents before children), each request once.

    Of nested LLM spans the innermost with messages or usage is the request; what it lacks
    comes from the spans around it, where these hold no other request.
    """
    drafts = {node.span.span_id: _draft(node, logs, reader) for node in nodes if node.span.end_ns is not None}
    best: dict[str, bool] = {}  # span id -> does a request below it have messages or usage
    below: dict[str, int] = {}  # span id -> requests kept below it
    kept: list[RequestDraft] = []
    for draft in reversed(drafts.values()):
        span_id = draft.node.span.span_id
        inner = below.get(span_id, 0)
        tells = draft.tells()
        above = draft.node.inside
        if inner and (best.get(span_id) or not tells):
            keep, count = False, inner
            tells = best.get(span_id, False)
        else:
            keep, count = True, 1
        if keep:
            kept.append(draft)
        while above is not None and above.span.span_id not in drafts:
            above = above.inside
        if above is not None:
            below[above.span.span_id] = below.get(above.span.span_id, 0) + count
            best[above.span.span_id] = best.get(above.span.span_id, False) or tells
    kept.reverse()
    chosen = _resolve(kept, drafts, below)
    for draft in chosen:
        if draft.cost is None:
            draft.cost = _priced(draft)
    return chosen


def _resolve(
    kept: list[RequestDraft], drafts: Mapping[str, RequestDraft], below: Mapping[str, int]
) -> list[RequestDraft]:
    chosen: list[RequestDraft] = []
    telling = {draft.node.span.span_id for draft in kept if draft.tells()}
    for draft in kept:
        around: list[RequestDraft] = []
        above = draft.node.inside
        dropped = False
        while above is not None:
            span_id = above.span.span_id
            if span_id in telling and not draft.tells():
                dropped = True  # says less than the span around it
                _fill(drafts[span_id], draft)
                break
            other = drafts.get(span_id)
            if other is not None and below.get(span_id) == 1:
                around.append(other)
            above = above.inside
        if not dropped:
            for other in around:
                _fill(draft, other)
            chosen.append(draft)
    return chosen


def _fill(draft: RequestDraft, other: RequestDraft) -> None:
    """What the request lacks, from another span of the same request."""
    messages, outer = draft.messages, other.messages
    if messages.input is None and outer.input is not None:
        messages.input, messages.partial = outer.input, outer.partial
    if messages.output is None and outer.output is not None and not draft.failed:
        messages.output = outer.output
    for name in ("provider", "model", "input_tokens", "output_tokens", "cost"):
        if getattr(draft, name) is None:
            setattr(draft, name, getattr(other, name))
    if draft.failed and other.failed:
        for name in ("text", "error_type", "http_status"):
            if getattr(draft.failure, name) is None:
                setattr(draft.failure, name, getattr(other.failure, name))


def complete_request(draft: RequestDraft, event: RequestDraft) -> None:
    """What a log event knows of a request beyond its span."""
    if event.failed and not draft.failed and not draft.failure.explicit:
        draft.failure = event.failure
    _fill(draft, event)


def _draft(node: Node, logs: Mapping[str, Sequence[LogRecord]], reader: MessageReader) -> RequestDraft:
    span = node.span
    attributes, shape = span.attributes, node.shape
    own_logs = logs.get(span.span_id, ())
    messages = reader.read(span, own_logs)
    failure = failure_of(span, shape, own_logs)
    if failure.failed is not True and failure.error_type is not None:
        # An exception event: of a request without an answer, whatever the status says. What is
        # recorded on a span around several requests is the answer before.
        refused = http_status_in(failure.error_type, None) is not None
        failure.failed = True if (refused if node.frame else messages.output is None) else failure.failed
    if failure.http_status is not None and failure.http_status >= 400:
        failure.failed = True
    if failure.failed is True and failure.http_status is None:
        failure.http_status = http_status_in(failure.error_type, failure.text)
    if failure.failed is True and node.frame:
        messages.output = None
    usage = _usage(attributes, shape)
    # By position, in the order of the fields, see `draft_call`.
    return RequestDraft(
        node,
        None,
        messages,
        failure,
        first_text(attributes, shape.provider),
        first_text(attributes, shape.model),
        _tokens(attributes, shape.input_tokens, usage, _PROMPT_TOKENS),
        _tokens(attributes, shape.output_tokens, usage, _COMPLETION_TOKENS),
        _cost(attributes, shape),
        dialect_of(span, shape),
        first_text(attributes, shape.agent) or node.agent_name,
        as_text(span.resource.get("service.name")),
    )


def _usage(attributes: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    for key in shape.usage_json:
        value = attributes.get(key)
        if value is not None:
            parsed = load(value) if isinstance(value, str) else value
            if isinstance(parsed, dict):
                return parsed
    return {}


def _tokens(
    attributes: Mapping[str, Any], keys: Sequence[str], usage: Mapping[str, Any], names: Sequence[str]
) -> int | None:
    number = first_int(attributes, keys)
    if number is None and usage:
        number = next((count for name in names if (count := as_int(usage.get(name))) is not None), None)
    return number if number is not None and number >= 0 else None


def _cost(attributes: Mapping[str, Any], shape: Shape) -> float | None:
    for key in shape.cost:
        value = attributes.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
            return float(value)
    return None


def _priced(draft: RequestDraft) -> float | None:
    """What the request cost by its tokens; None where they, or the price, are not known."""
    if draft.failed or draft.input_tokens is None or draft.output_tokens is None:
        return None
    attributes = draft.node.span.attributes
    read = first_int(attributes, _CACHE_READ) or 0
    written = first_int(attributes, _CACHE_WRITE) or 0
    if read < 0 or written < 0:
        return None
    total = draft.input_tokens
    if read + written > total:  # counted beside the input, as Anthropic's own figures do it
        total += read + written
    host = as_text(attributes.get("server.address"))
    tokens = Tokens(total, draft.output_tokens, read, written)
    return price_of(draft.provider, draft.model, tokens, draft.node.span.start_ns, host)


def content_state(draft: RequestDraft) -> str:
    """full | truncated | missing: of a refused request only the input can be expected."""
    messages = draft.messages
    if messages.input is None or (messages.output is None and not draft.failed):
        return "missing"
    if messages.partial or draft.node.span.dropped_attributes > 0:
        return "truncated"
    if is_transcript(draft.node.span):
        return "full"
    attributes = draft.node.span.attributes
    for key in draft.node.shape.input_messages + draft.node.shape.output_messages:
        value = attributes.get(key)
        if value is not None and is_cut(value, attributes):
            return "truncated"
    return "full"
