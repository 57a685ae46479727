"""Is a history whole as it stands? One quick walk, for the usual case that nothing is to be repaired.

The answer "no" may be wrong, then the repair finds nothing to do; the answer "yes" never is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ._formats import Format
from ._model import Call, Message, Result
from ._names import legal_name

__all__ = ["is_empty_turn", "is_whole", "says_nothing"]


def says_nothing(message: Message) -> bool:
    """A turn of the user or the assistant in which there is nothing."""
    for block in message.blocks:
        if isinstance(block, (Call, Result)) or not block.empty:
            return False
    return message.role in ("user", "assistant")


def is_empty_turn(messages: Sequence[Message], at: int, form: Format) -> bool:
    """Is there nothing in the turn that this message is? One of items may say it with another item."""
    message = messages[at]
    if not says_nothing(message):
        return False
    if form.placement != "anywhere" or message.role != "assistant":
        return True
    return not any(
        one.role == "assistant" for one in (*messages[max(at - 1, 0) : at], *messages[at + 1 : at + 2])
    )


def is_whole(messages: Sequence[Message], form: Format, pending: Collection[str]) -> bool:
    """Would the sanitizer (without a provider) leave this history as it is?"""
    waiting = {one.strip() for one in pending}
    roles, last = form.wire_roles, len(messages) - 1
    for at, message in enumerate(messages):
        if message.wire_role not in roles or message.empty_tool_calls:
            return False
        blocks = message.blocks
        if len(blocks) == 1:
            block = blocks[0]
            if isinstance(block, (Call, Result)) or not block.empty:
                continue
        if (at < last or not blocks) and is_empty_turn(messages, at, form):
            return False
    if form.placement == "anywhere":
        return _in_order(messages, form, waiting)
    return _behind(messages, form, waiting)


def _calls(message: Message, form: Format) -> dict[str, Call] | None:
    """The calls of a turn by all their spellings; None where something about them is unclear."""
    found: dict[str, Call] = {}
    for block in message.blocks:
        if isinstance(block, Call):
            if block.server:
                continue
            if not block.ids or (block.name != legal_name(form, block.name) and form.has_name(block)):
                return None
            for one in block.ids:
                if one in found:
                    return None
                found[one] = block
        elif isinstance(block, Result) and not block.server:
            return None
    return found


def _takes(open_calls: dict[str, Call], result: Result) -> bool:
    for one in result.ids:
        call = open_calls.get(one)
        if call is not None:
            for spelling in call.ids:
                del open_calls[spelling]
            return result.name is None or call.name is None or result.name == call.name
    return False


def _behind(messages: Sequence[Message], form: Format, waiting: set[str]) -> bool:
    """Results right behind their turn: each a message, or all in the next one."""
    at, count = 0, len(messages)
    grouped = form.placement == "grouped"
    while at < count:
        message = messages[at]
        at += 1
        role = message.role
        if role == "assistant":
            blocks = message.blocks
            if len(blocks) == 1 and not isinstance(blocks[0], (Call, Result)):
                continue
            open_calls = _calls(message, form)
            if open_calls is None:
                return form.positional and _positional_only(messages, form)
        elif grouped:
            if any(isinstance(block, Call) for block in message.blocks):
                return False
            if any(isinstance(block, Result) and not block.server for block in message.blocks):
                return form.positional and _positional_only(messages, form)
            continue
        elif role == "tool":
            return False
        else:
            continue
        if not open_calls:
            continue
        if grouped:
            if at < count and messages[at].role == "user":
                if not _takes_all(open_calls, messages[at], form):
                    return form.positional and _positional_only(messages, form)
                at += 1
        else:
            while at < count and messages[at].role == "tool":
                result = messages[at].blocks[0]
                if not isinstance(result, Result) or not _takes(open_calls, result):
                    return False
                at += 1
        if open_calls and not all(not waiting.isdisjoint(call.ids) for call in open_calls.values()):
            return form.positional and _positional_only(messages, form)
    return True


def _takes_all(open_calls: dict[str, Call], message: Message, form: Format) -> bool:
    others = False
    for block in message.blocks:
        if isinstance(block, Result) and not block.server:
            if (others and form.mixes) or not _takes(open_calls, block):
                return False
        elif isinstance(block, Call):
            return False
        else:
            others = True
    return True


def _positional_only(messages: Sequence[Message], form: Format) -> bool:
    """Without ids: every turn of calls is answered by the next message, name by name in the same order."""
    at, count = 0, len(messages)
    while at < count:
        message = messages[at]
        at += 1
        calls = [block for block in message.blocks if isinstance(block, Call) and not block.server]
        results = [block for block in message.blocks if isinstance(block, Result) and not block.server]
        if results:
            return False
        if not calls:
            continue
        if message.role != "assistant" or at >= count or messages[at].role != "user":
            return False
        results = [block for block in messages[at].blocks if isinstance(block, Result) and not block.server]
        at += 1
        if len(results) != len(calls) or any(isinstance(block, Call) for block in messages[at - 1].blocks):
            return False
        seen: set[str] = set()
        for call, result in zip(calls, results, strict=True):
            if call.name is None or call.name != result.name or call.name != legal_name(form, call.name):
                return False
            if call.ids or result.ids:
                if not call.ids or call.ids != result.ids or not seen.isdisjoint(call.ids):
                    return False
                seen.update(call.ids)
    return True


def _in_order(messages: Sequence[Message], form: Format, waiting: set[str]) -> bool:
    """Each result anywhere behind its call, each item once."""
    open_calls: dict[str, Call] = {}
    items: set[str] = set()
    for message in messages:
        block = message.blocks[0] if message.blocks else None
        item = form.item_id(message)
        if item is not None:
            if item in items:
                return False
            items.add(item)
        if isinstance(block, Call) and not block.server:
            if not block.ids or (block.name != legal_name(form, block.name) and form.has_name(block)):
                return False
            for one in block.ids:
                if one in open_calls:
                    return False
                open_calls[one] = block
        elif isinstance(block, Result) and not block.server and not _takes(open_calls, block):
            return False
    return all(not waiting.isdisjoint(call.ids) for call in open_calls.values())
