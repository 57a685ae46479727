"""Whole histories for requests that were recorded as what is new since an earlier one.

A history grows with every turn. Some send, or write down, only what is new, and leave the rest to
whoever keeps it:

* Importers of transcripts write each message once, and name with `loopscope.history.after` the span
  whose input and answer go before a request's own input.
* OpenAI's Responses API continues the response that `previous_response_id` names, or what was said in
  the `conversation`.
* The Anthropic SDK's threads send the results of the calls in the answer before, and no more.

Where the earlier request was not recorded (it may be in another trace), the history is partial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._attributes import as_text, load
from ._parts import facts_of
from ._requests import RequestDraft
from ._transcripts import HISTORY_AFTER
from .dialects.frameworks import ANTHROPIC_SDK

__all__ = ["MAX_HISTORY", "complete_histories"]

# Messages in all histories of a trace together. They are references, but 2,000 turns make 4 million.
# Later requests of a longer trace keep what is new in them, and are marked as partial.
MAX_HISTORY = 1_000_000

_PREVIOUS_KEYS = (
    "gen_ai.request.previous_response_id",
    "gen_ai.openai.request.previous_response_id",
    "openai.request.previous_response_id",
)
# Bodies and parameters of the request as JSON, where these are recorded.
_REQUEST_BODIES = ("llm.invocation_parameters", "input.value", "model_config", "gen_ai.prompt")
_RESPONSE_ID = "gen_ai.response.id"
_RESPONSE_BODIES = ("output.value", "gen_ai.completion")
_PREVIOUS = "previous_response_id"
_CONVERSATION = "conv_"  # how the ids of conversations begin
_NOWHERE = ""  # the id of no span


def complete_histories(drafts: Sequence[RequestDraft]) -> None:
    """Put before each request's input what it continues. Other requests stay as they are."""
    own = {draft.node.span.span_id: draft for draft in drafts}
    waiting = {
        span_id: after
        for span_id, draft in own.items()
        if isinstance(after := draft.node.span.attributes.get(HISTORY_AFTER), str)
    }
    written = frozenset(waiting)
    waiting = {**_continued(drafts), **_threads(drafts), **waiting}
    left = MAX_HISTORY
    for span_id in sorted(waiting, key=lambda key: (own[key].node.span.start_ns, key)):
        chain: list[str] = []
        here = span_id
        while here in waiting:
            chain.append(here)
            here = waiting.pop(here)
        # Histories that name each other in a circle have no beginning.
        before = None if here in chain else own.get(here)
        for member in reversed(chain):
            left -= _extend(own[member], before, left, instructed=member not in written)
            before = own[member]


def _extend(draft: RequestDraft, before: RequestDraft | None, left: int, *, instructed: bool) -> int:
    """Complete one request; how many messages that added. `instructed`: each brings its own instructions."""
    messages = draft.messages
    if messages.input is None:
        return 0  # content was left out
    if before is None or before.messages.input is None or before.messages.output is None:
        messages.partial = True
        return 0
    added = len(before.messages.input) + len(before.messages.output)
    if added > left:
        messages.partial = True
        return 0
    if instructed:
        first = _instructions(messages.input)
        earlier = before.messages.input[_instructions(before.messages.input) :]
        messages.input = [
            *messages.input[:first], *earlier, *before.messages.output, *messages.input[first:]
        ]  # fmt: skip
    else:
        messages.input = [*before.messages.input, *before.messages.output, *messages.input]
    messages.partial = messages.partial or before.messages.partial
    return added


def _instructions(messages: Sequence[str]) -> int:
    """How many messages at the start are instructions."""
    for number, text in enumerate(messages):
        message = load(text)
        if not isinstance(message, dict) or message.get("role") not in ("system", "developer"):
            return number
    return len(messages)


# -- previous_response_id ------------------------------------------------------------------------------


def _continued(drafts: Sequence[RequestDraft]) -> dict[str, str]:
    """Requests that continue a response or a conversation -> the request that was answered with it."""
    previous: dict[str, str] = {}
    talks: dict[str, list[RequestDraft]] = {}
    for draft in drafts:
        response_id, conversation = _continues(draft.node.span.attributes)
        if response_id is not None:
            previous[draft.node.span.span_id] = response_id
        elif conversation is not None:
            talks.setdefault(conversation, []).append(draft)
    found: dict[str, str] = {}
    if previous:
        answered: dict[str, RequestDraft] = {}
        for draft in sorted(drafts, key=_order):
            response_id = _response(draft.node.span.attributes)
            if response_id is not None:
                answered.setdefault(response_id, draft)
        for span_id, response_id in previous.items():
            draft = answered.get(response_id)
            found[span_id] = _NOWHERE if draft is None else draft.node.span.span_id
    for members in talks.values():
        last = None
        for draft in sorted(members, key=_order):
            if last is not None:
                found[draft.node.span.span_id] = last
            elif _first_results(draft.messages.input or ()):
                found[draft.node.span.span_id] = _NOWHERE
            if draft.answered:
                last = draft.node.span.span_id
    return found


def _order(draft: RequestDraft) -> tuple[int, str]:
    return draft.node.span.start_ns, draft.node.span.span_id


def _continues(attributes: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """(id of the response, id of the conversation) that a request of the Responses API continues."""
    for key in _PREVIOUS_KEYS:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value, None
    for key in _REQUEST_BODIES:
        value = attributes.get(key)
        if isinstance(value, str) and (_PREVIOUS in value or f'"{_CONVERSATION}' in value):
            value = load(value)
        if isinstance(value, dict):
            found = value.get(_PREVIOUS)
            if isinstance(found, str) and found:
                return found, None
            found = value.get("conversation")
            found = found.get("id") if isinstance(found, dict) else found
            if isinstance(found, str) and found.startswith(_CONVERSATION):
                return None, found
    return None, None


def _response(attributes: Mapping[str, Any]) -> str | None:
    value = as_text(attributes.get(_RESPONSE_ID))
    if value:
        return value
    for key in _RESPONSE_BODIES:
        value = attributes.get(key)
        if isinstance(value, str) and '"resp_' in value:
            value = load(value)
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            return value["id"]
    return None


# -- threads of the Anthropic SDK ---------------------------------------------------------------------


def _threads(drafts: Sequence[RequestDraft]) -> dict[str, str]:
    """Requests that begin with results -> the request before, whose answer asked for these."""
    own = [
        draft
        for draft in drafts
        if draft.dialect == ANTHROPIC_SDK.name and draft.messages.input and draft.node.span.end_ns is not None
    ]
    found: dict[str, str] = {}
    answers: dict[tuple[str | None, str | None], list[RequestDraft]] = {}
    for draft in sorted(own, key=_order):
        of_run = answers.setdefault((draft.run.run_id if draft.run else None, draft.agent_name), [])
        wanted = _first_results(draft.messages.input or ())
        if wanted:
            before = next(
                (
                    other
                    for other in reversed(of_run)
                    if (other.node.span.end_ns or 0) <= draft.node.span.start_ns
                ),
                None,
            )
            asked = {
                call.call_id
                for text in (before.messages.output or () if before is not None else ())
                for call in facts_of(text).calls
            }
            sure = before is not None and wanted <= asked
            found[draft.node.span.span_id] = before.node.span.span_id if sure and before else _NOWHERE
        if draft.answered and draft.messages.output:
            of_run.append(draft)
    return found


def _first_results(messages: Sequence[str]) -> frozenset[str | None]:
    """The ids of the results with which messages begin; none where calls follow: that is a whole history."""
    first = _instructions(messages)
    if first == len(messages):
        return frozenset()
    found = frozenset(result.call_id for result in facts_of(messages[first]).results)
    if found and any(facts_of(text).calls for text in messages[first:]):
        return frozenset()
    return found
