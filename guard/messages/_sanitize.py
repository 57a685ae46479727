"""`sanitize_messages`: a history that a provider takes, with every change to it as data."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from ._clean import is_empty_turn, says_nothing, whole_until
from ._formats import Format, detect_format, format_of
from ._formats._base import plain
from ._model import Message, Other
from ._pairing import Pairs, pair, pair_end
from ._placing import place
from ._repairs import Log
from ._types import Repair, SanitizeResult
from ._words import MessageFormat, RepairKind

if TYPE_CHECKING:
    from ._providers import ProviderRules

__all__ = ["EMPTY_TURN", "sanitize_messages", "sanitize_parsed"]

EMPTY_TURN = "[no content]"
"""What is put into a turn in which there is nothing, where another turn follows."""


def sanitize_messages(
    messages: Iterable[Any],
    format: MessageFormat | None = None,
    provider: str | ProviderRules | None = None,
    pending_call_ids: Collection[str] = (),
    previous_response_id: str | None = None,
) -> SanitizeResult:
    """Repair a message history, so that no provider of its format refuses it.

    Args:
        messages: dicts or SDK objects; never modified.
        format: None finds it out.
        provider: repair also what only this provider refuses (a name, or its rules).
        pending_call_ids: calls that run just now; their missing results get no stub.
        previous_response_id: (openai-responses) an earlier response that the history goes on from;
            results whose call lies in it are kept.

    A valid history comes back equal, with the very same objects. Sanitising twice changes nothing.

    Raises:
        ValueError: the format or the provider is unknown.
    """
    given = list(messages)
    form = format_of(format if format is not None else detect_format(given))
    rules = None
    if provider is not None:
        from ._provider_names import known_provider_rules

        rules = known_provider_rules(provider, format=form.name)
    with _collector_waits():
        return _sanitized(given, form, rules, _stripped(pending_call_ids), previous_response_id)


def _sanitized(
    given: list[Any],
    form: Format,
    rules: ProviderRules | None,
    pending: frozenset[str],
    previous_response_id: str | None,
) -> SanitizeResult:
    parsed: list[Message] = []
    start = 0  # all before is whole and stays
    if rules is None:
        read = map(form.read, given, count())
        # The messages of a long history are let go, and read again as far as it is not whole.
        until = whole_until(read if len(given) >= _LONG else _kept(read, parsed), form, pending)
        if until is None:
            return SanitizeResult(given, (), form.name, tuple(range(len(given))))
        log, done = Log(), None
        if until > len(given) // 2:
            start = until
            end = list(map(form.read, given[start:], count(start)))
            done = _end_paired(end, lambda: map(form.read, given[:start], count()), form, pending, log)
        if done is None:
            start = 0
            parsed += map(form.read, given[len(parsed) :], count(len(parsed)))
            done = _paired(parsed, form, pending, previous_response_id, log)
        repairs = sorted(log.repairs, key=_by_place)
    else:
        parsed = list(map(form.read, given, count()))
        done, repairs = sanitize_parsed(parsed, form, rules, pending, previous_response_id)
    if not repairs:
        return SanitizeResult(given, (), form.name, tuple(range(len(given))))
    origins = (*range(start), *[message.index for message in done])
    return SanitizeResult([*given[:start], *map(form.write, done)], tuple(repairs), form.name, origins)


def _kept(messages: Iterable[Message], kept: list[Message]) -> Iterator[Message]:
    """The same messages, which are needed once more if the history is not whole."""
    for message in messages:
        kept.append(message)
        yield message


def sanitize_parsed(
    messages: Sequence[Message],
    form: Format,
    rules: ProviderRules | None = None,
    pending_call_ids: Collection[str] = (),
    previous_response_id: str | None = None,
) -> tuple[list[Message], list[Repair]]:
    """`sanitize_messages` on messages that were read already; they are not modified, and may be shared."""
    log = Log()
    done = list(messages)
    pending = _stripped(pending_call_ids)
    start = whole_until(done, form, pending)
    if start is not None:
        end = None
        if start > len(done) // 2:
            end = _end_paired(done[start:], lambda: done[:start], form, pending, log)
        whole = [] if end is None else done[:start]
        done = whole + (end if end is not None else _paired(done, form, pending, previous_response_id, log))
    if rules is not None:
        from ._provider_repairs import apply_provider_rules

        done = apply_provider_rules(done, rules, form, log.repairs)
        if form.placement == "anywhere":
            done = _filled(done, form, log)  # a reasoning item may be gone that said something for a turn
    log.repairs.sort(key=_by_place)
    return done, log.repairs


def _paired(
    messages: list[Message], form: Format, pending: frozenset[str], previous_response_id: str | None, log: Log
) -> list[Message]:
    """What is to be repaired whoever the provider is."""
    done = without_empty_calls(calls_of_the_model(_known_roles(messages, form, log), form, log), log)
    stored = previous_response_id is not None or has_references(done)
    for _ in range(_MAX_ROUNDS):
        count = len(log.repairs)
        pairs = pair(done, form, form.placement == "anywhere" and stored, log, pending)
        done = _placed(pairs, form, pending, log)
        # Items that an orphan stood between are one turn now, in which ids may mean something else.
        if form.placement != "anywhere" or not any(one.kind in _JOINING for one in log.repairs[count:]):
            break
        if whole_until(done, form, pending) is None:
            break
    return done


def _end_paired(
    end: list[Message],
    before: Callable[[], Iterable[Message]],
    form: Format,
    pending: frozenset[str],
    log: Log,
) -> list[Message] | None:
    """The same for the end of a history that is whole before; None where the whole of it is needed."""
    mine = Log()
    done = without_empty_calls(calls_of_the_model(_known_roles(end, form, mine), form, mine), mine)
    pairs = pair_end(done, before, form, mine, pending)
    if pairs is None:
        return None
    log.repairs += mine.repairs
    return _placed(pairs, form, pending, log)


def _placed(pairs: Pairs, form: Format, pending: frozenset[str], log: Log) -> list[Message]:
    done = place(pairs, pending, log)
    pairs.release()
    return _filled(done, form, log)


def _stripped(ids: Collection[str]) -> frozenset[str]:
    return frozenset(str(one).strip() for one in ((ids,) if isinstance(ids, str) else ids))


# As a rule the second round finds nothing to do.
_MAX_ROUNDS = 5
_JOINING = frozenset(
    {RepairKind.DROPPED_ORPHAN_RESULT, RepairKind.DROPPED_DUPLICATE_RESULT, RepairKind.MOVED_RESULT}
)

# From here on the messages of a history are not kept while it is looked at: 50,000 whole ones take
# 75 ms of CPU time that way, 150 ms when they are kept.
_LONG = 5_000


@contextmanager
def _collector_waits() -> Iterator[None]:
    """The garbage collector waits until the history is done.

    It would look at all the objects of a history again and again while they are made, and find nothing:
    a broken history of 50,000 messages takes 508 ms of CPU time with it, 230 ms without.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _by_place(repair: Repair) -> int:
    return repair.message_index


def has_references(messages: Sequence[Message]) -> bool:
    """Are there references to stored items, among which the call of a result may be?"""
    return any(
        isinstance(block, Other) and block.kind == "reference"
        for message in messages
        for block in message.blocks
    )


def _known_roles(messages: list[Message], form: Format, log: Log) -> list[Message]:
    out: list[Message] = []
    for message in messages:
        role = message.wire_role
        if role in form.wire_roles:
            out.append(message)
            continue
        spelled = role.strip().lower()
        if spelled and spelled in form.wire_roles:
            why = f"wrote the role {log.quoted(role)} as {log.quoted(spelled)}"
            log.add(RepairKind.FIXED_ROLE, message, None, why)
            again = form.read({**plain(message.raw), "role": spelled}, message.index)
            out.append(replace(again, changed=True))
            continue
        content = next((b.text for b in message.blocks if isinstance(b, Other) and b.text is not None), None)
        what = f"the role {log.quoted(role)}, which no provider takes" if role else "no role"
        why = f"dropped a message of {what}: {log.cut(content)}"
        log.add(RepairKind.DROPPED_UNKNOWN_ROLE, message, None, why)
    return out


def calls_of_the_model(messages: list[Message], form: Format, log: Log) -> list[Message]:
    """Calls are the model's, whatever role a message of Gemini says that has them."""
    if form.name != "gemini":
        return messages
    out: list[Message] = []
    for message in messages:
        if message.role == "user" and message.calls:
            why = f'gave a message with calls the role "model": it had {log.quoted(message.wire_role)}'
            log.add(RepairKind.FIXED_ROLE, message, None, why)
            message = replace(message, role="assistant", wire_role="model", changed=True)  # noqa: PLW2901
        out.append(message)
    return out


def without_empty_calls(messages: list[Message], log: Log) -> list[Message]:
    """Without `tool_calls` that hold no call. The last turn goes with it where it holds nothing else."""
    out: list[Message] = []
    for message in messages:
        if not message.empty_tool_calls:
            out.append(message)
            continue
        why = "took away tool_calls, in which there was no call"
        log.add(RepairKind.REMOVED_EMPTY_TOOL_CALLS, message, None, why)
        out.append(replace(message, empty_tool_calls=False, changed=True))
    if out and messages[-1].empty_tool_calls and says_nothing(out[-1]):
        message = out.pop()
        why = "dropped the last turn, which held nothing but empty tool_calls"
        log.add(RepairKind.REMOVED_EMPTY_TOOL_CALLS, message, None, why)
    return out


def _filled(messages: list[Message], form: Format, log: Log) -> list[Message]:
    """With something in every turn. The last one may be empty, it is still being written; but not null."""
    last = len(messages) - 1
    out = messages
    for at, message in enumerate(messages):
        if (at == last and message.blocks) or not is_empty_turn(messages, at, form):
            continue
        if out is messages:
            out = list(messages)
        text = "" if at == last else EMPTY_TURN
        if at == last and form.placement == "grouped":
            continue
        why = f'put "{text}" into a turn of the {message.role} in which there was nothing'
        log.add(RepairKind.FILLED_EMPTY_CONTENT, message, None, why)
        out[at] = replace(message, blocks=(form.text_block(text),), changed=True)
    return out
