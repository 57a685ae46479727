"""One request's history before and after the repair."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...collector.dialects import content_hint
from ...guard import GuardPolicy, NotFoundError
from ...guard.messages._formats import format_of
from ...guard.messages._model import Block, Call, Message, Other, Result
from ...guard.messages._provider_names import provider_rules
from ...guard.messages._providers import ProviderRules
from ...guard.messages._types import Violation
from .._sql import rows, sql_text
from ._causes import Failure
from ._failed import TEXT_LIMIT, one_failure, refused_row, resolve_rules
from ._histories import History, texts_of
from ._judge import lint_history, repaired
from ._state import kept_of
from ._types import (
    HistoryMessage,
    HistoryPart,
    HistoryRepair,
    HistoryViolation,
    JudgedRequest,
    RequestHistory,
)

if TYPE_CHECKING:
    import duckdb

__all__ = ["request_history"]

_AROUND = 3  # messages shown on either side of a repair in a history that is too long to show whole


def request_history(
    con: duckdb.DuckDBPyConnection,
    trace_id: str,
    span_id: str,
    policy: GuardPolicy | None = None,
    *,
    provider: str | None = None,
    text_limit: int = 4_000,
    message_limit: int = 400,
) -> RequestHistory:
    """The history of one request as it was recorded and as the sanitizer makes it for its provider.

    With `provider` another provider's rules are used (latent risk). Texts are cut at `text_limit`
    characters; of a history of more than `message_limit` messages those at its end and around the repairs are
    given. Raises NotFoundError where there is no such request.
    """
    params = {"trace_id": trace_id, "span_id": span_id, "text_limit": TEXT_LIMIT}
    found = rows(con, sql_text("request_one"), params)
    if not found:
        raise NotFoundError(f"no LLM request with trace id {trace_id} and span id {span_id} in the store")
    row = found[0]
    status = row.pop("status")
    kept, _ = kept_of(con)
    with kept.lock:
        failure: Failure | None = None
        request: JudgedRequest | None = None
        if status == "error":
            error_class, failure = one_failure(con, kept, policy or GuardPolicy(), row)
            request = refused_row(failure, row, error_class)
        rules = resolve_rules(row["provider"], row["model"])
        if failure is not None:
            rules = failure.judgement.rules or rules or provider_rules(failure.provider)
        if provider is not None:
            rules = provider_rules(provider)
        keys = row["input_parts"]
        if keys is None:
            hint = content_hint(row["dialect"])
            note = "The messages of this request were not recorded." + (f" {hint}" if hint else "")
            return _empty(row, rules, request, note)
        kept.reader.load(con, keys)
        history = kept.reader.history(keys)
        if rules is not None and (failure is None or provider is not None or failure.judgement.rules is None):
            rules = rules.for_format(history.format)
        return _shown(con, row, keys, history, rules, request, text_limit, message_limit)


def _empty(row: dict[str, Any], rules: ProviderRules | None, request: Any, note: str) -> RequestHistory:
    return RequestHistory(
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        provider=rules.name if rules else None,
        format="openai-chat",
        native=True,
        content_state=row["content_state"],
        before=(),
        after=(),
        repairs=(),
        violations_before=(),
        violations_after=(),
        messages_before=0,
        messages_after=0,
        request=request,
        note=note,
    )


def _shown(
    con: duckdb.DuckDBPyConnection,
    row: dict[str, Any],
    keys: Sequence[int],
    history: History,
    rules: ProviderRules | None,
    request: Any,
    text_limit: int,
    message_limit: int,
) -> RequestHistory:
    messages, repairs = repaired(history, rules)
    apart = _apart(history)
    touched = {repair.message_index for repair in repairs}
    before_at: dict[int, list[Message]] = {}
    for message in history.messages:
        before_at.setdefault(message.index or 0, []).append(message)
    left = {message.index for message in messages}
    changed = {message.index for message in messages if message.changed} | touched
    lint = lint_history(history.messages, rules, history) if rules else []
    places = _places(len(keys), touched | {one.message_index for one in lint}, message_limit)
    shown = set(places)
    texts = dict(texts_of(con, [keys[at] for at in places]))
    before = tuple(
        _message(
            at,
            at,
            before_at.get(at, ()),
            texts.get(keys[at], ""),
            text_limit,
            at in changed,
            at not in left | apart,
        )
        for at in places
    )
    writer = format_of(history.format)
    wanted = _after_places(messages, shown, message_limit)
    offset = len(apart)
    after = [
        _message(at, at, (), texts.get(keys[at], ""), text_limit, False, False)
        for at in sorted(apart)
        if at in shown
    ]
    for at in wanted:
        one = messages[at]
        text = _json(writer.write(one))
        made = one.changed or one.index is None
        after.append(_message(at + offset, one.index, (one,), text, text_limit, made, False))
    return RequestHistory(
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        provider=rules.name if rules else None,
        format=history.format,
        native=history.native,
        content_state=row["content_state"],
        before=before,
        after=tuple(after),
        repairs=tuple(
            HistoryRepair(str(repair.kind), repair.message_index, repair.call_id, repair.detail)
            for repair in repairs
        ),
        violations_before=_violations(lint),
        violations_after=_violations(lint_history(messages, rules, history) if rules else ()),
        messages_before=len(keys),
        messages_after=len(messages) + offset,
        request=request,
        note=_note(history, row, rules),
    )


def _note(history: History, row: dict[str, Any], rules: ProviderRules | None) -> str | None:
    notes: list[str] = []
    if row["content_state"] == "truncated":
        notes.append("The messages were recorded cut or with gaps: what is shown is not all that was sent.")
    if history.silent is not None:
        notes.append(f"Of message {history.silent} only the role was recorded.")
    if history.without_ids:
        notes.append(f"{history.without_ids} calls or results were recorded without an id.")
    if rules is None:
        notes.append("Whose rules hold is not known: only what no provider takes is repaired.")
    if not history.native:
        notes.append(
            "It was recorded in a framework's own form; the repaired messages are shown as openai-chat."
        )
    return " ".join(notes) or None


def _apart(history: History) -> set[int]:
    """Places of messages that stand outside the list on the wire (a system prompt)."""
    return set(range(history.recorded)) - {message.index or 0 for message in history.messages}


def _places(total: int, touched: Iterable[int], limit: int) -> list[int]:
    """Which recorded messages to show."""
    if total <= limit:
        return list(range(total))
    chosen: set[int] = set()
    for at in sorted(touched):
        near = set(range(max(0, at - _AROUND), min(total, at + _AROUND + 1)))
        if len(chosen | near) > limit:
            break
        chosen |= near
    for at in range(total - 1, -1, -1):
        if len(chosen) >= limit:
            break
        chosen.add(at)
    return sorted(chosen)


def _after_places(messages: Sequence[Message], places: set[int], limit: int) -> list[int]:
    """Which repaired messages to show: what comes of those shown, and what repairs put behind them."""
    chosen: list[int] = []
    near = False
    for at, message in enumerate(messages):
        near = near if message.index is None else message.index in places
        if near:
            chosen.append(at)
    return chosen[: 2 * limit]


def _message(
    at: int,
    origin: int | None,
    messages: Sequence[Message],
    text: str,
    limit: int,
    changed: bool,
    dropped: bool,
) -> HistoryMessage:
    calls = [block for message in messages for block in message.calls]
    results = [block for message in messages for block in message.results]
    return HistoryMessage(
        position=at,
        origin=origin,
        role=messages[0].wire_role or messages[0].role if messages else "system",
        text=text[:limit],
        cut=len(text) > limit,
        calls=tuple(call.ids[0] if call.ids else "" for call in calls),
        results=tuple(one.ids[0] if one.ids else "" for one in results),
        changed=changed or dropped,
        dropped=dropped,
        parts=tuple(_part(block, limit) for message in messages for block in message.blocks),
    )


def _part(block: Block, limit: int) -> HistoryPart:
    if isinstance(block, Call):
        text = _said(block.arguments, limit)
        return HistoryPart("call", text, block.ids[0] if block.ids else None, block.name)
    if isinstance(block, Result):
        text = _said(block.content, limit)
        return HistoryPart("result", text, block.ids[0] if block.ids else None, block.name, block.synthetic)
    assert isinstance(block, Other)
    return HistoryPart(block.kind, _said(block.raw if block.text is None else block.text, limit))


def _said(value: Any, limit: int) -> str | None:
    """Content as a reader wants it: text as it stands, texts of a list under one another, else JSON."""
    if value is None or isinstance(value, str):
        return value if value is None else value[:limit]
    if isinstance(value, list) and value:
        texts = [one.get("text") if isinstance(one, dict) else None for one in value]
        if all(isinstance(text, str) for text in texts):
            return "\n".join(str(text) for text in texts)[:limit]
    return _json(value)[:limit]


def _violations(found: Iterable[Violation]) -> tuple[HistoryViolation, ...]:
    return tuple(
        HistoryViolation(str(one.error_class), one.rule, one.message_index, one.call_id, one.detail)
        for one in found
    )


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "(a message that JSON cannot hold)"
