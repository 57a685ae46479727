"""Histories out of the store. A message that many histories share is read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...guard.messages._formats import format_of
from ...guard.messages._model import Call, Message, Result
from ...guard.messages._words import MessageFormat
from .._sql import sql_text
from ._recorded import Shape, as_chat, common_format, fill_missing, shape_of

if TYPE_CHECKING:
    import duckdb

__all__ = ["History", "Reader", "joined_turns", "texts_of"]

_KEPT_CHARS = 25_000_000  # of texts whose messages are kept; beyond that the reader starts anew
_KEPT_MESSAGES = 60_000
_FETCH = 50_000  # texts asked for at once
_APART = frozenset({"anthropic", "gemini", "bedrock-converse"})  # take the system prompt outside the list


@dataclass(slots=True, eq=False)
class _Unit:
    """One recorded message read in one format."""

    messages: tuple[Message, ...]
    without_ids: int
    silent: bool
    index: int  # where `messages` stand
    item_ids: int = 0


@dataclass(slots=True, eq=False)
class _Entry:
    shape: Shape
    value: Any  # decoded; None once it was converted
    chars: int
    units: dict[str, _Unit] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class History:
    """A recorded history in the neutral form; `Message.index` is the place in the recording."""

    format: MessageFormat
    native: bool  # False: it was recorded in another form and converted to openai-chat
    messages: list[Message]
    recorded: int  # messages in the recording
    chars: int
    without_ids: int  # calls and results whose id was not recorded
    silent: int | None  # place of the first message of which only the role was recorded
    item_ids: int = 0  # calls under the id of their item, of which some may be in `without_ids`
    under_item_ids: int = 0  # … that are


class Reader:
    """Reads histories; give it the keys of all messages it will need first (`load`)."""

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._chars = 0

    def load(self, con: duckdb.DuckDBPyConnection, keys: Iterable[int]) -> None:
        """Fetch the messages that are not at hand."""
        if self._chars > _KEPT_CHARS or len(self._entries) > _KEPT_MESSAGES:
            self._entries.clear()
            self._chars = 0
        wanted = list({key for key in keys if key not in self._entries})
        for start in range(0, len(wanted), _FETCH):
            for key, text in texts_of(con, wanted[start : start + _FETCH]):
                self._entries[key] = _entry(text)
                self._chars += len(text)

    def chars(self, keys: Iterable[int]) -> int:
        """Characters of the texts."""
        return sum(self._entries[key].chars for key in keys if key in self._entries)

    def history(self, keys: Sequence[int]) -> History:
        """The history of these messages, which are loaded."""
        form, native = self._format(keys)
        history = History(form, native, [], 0, 0, 0, None)
        self._read_into(history, keys)
        return history

    def extend(self, history: History, keys: Sequence[int]) -> bool:
        """Add messages to the end of a history; False, and nothing done, where that needs another format."""
        form, native = history.format, history.native
        if native and self._format(keys) != (form, True):
            shapes = {self._entries[key].shape for key in keys if key in self._entries}
            if shapes != {"text"} or form in _APART:
                return False
        self._read_into(history, keys)
        return True

    def _format(self, keys: Iterable[int]) -> tuple[MessageFormat, bool]:
        return common_format({self._entries[key].shape for key in keys if key in self._entries})

    def _read_into(self, history: History, keys: Sequence[int]) -> None:
        form, native = history.format, history.native
        messages = history.messages
        leading = form in _APART and not messages
        for index, key in enumerate(keys, history.recorded):
            entry = self._entries.get(key)
            if entry is None:
                continue
            history.chars += entry.chars
            if (
                leading
                and isinstance(entry.value, dict)
                and entry.value.get("role") in ("system", "developer")
            ):
                continue
            leading = False
            unit = entry.units.get(form)
            if unit is None:
                unit = entry.units[form] = _read(entry, form, native, index)
            elif unit.index != index:
                unit.messages = tuple(_placed(message, index) for message in unit.messages)
                unit.index = index
            messages += unit.messages
            history.without_ids += unit.without_ids
            history.item_ids += unit.item_ids
            if unit.silent and history.silent is None:
                history.silent = index
        history.recorded += len(keys)
        if history.item_ids:
            history.without_ids -= history.under_item_ids
            history.under_item_ids = _under_item_ids(messages)
            history.without_ids += history.under_item_ids

    def is_system(self, key: int) -> bool:
        """Is it a system prompt?"""
        return all(message.role == "system" for message in self.history([key]).messages)

    def calls(self, key: int) -> list[tuple[tuple[str, ...], str | None]]:
        """Ids and name of each call in one message."""
        return [(call.ids, call.name) for message in self.history([key]).messages for call in message.calls]


def texts_of(con: duckdb.DuckDBPyConnection, keys: Sequence[int]) -> list[tuple[int, str]]:
    """(key, text) of the messages."""
    import pyarrow as pa

    con.register("wanted_texts", pa.table({"key": pa.array(keys, pa.int64())}))
    try:
        return con.execute(sql_text("request_texts")).fetchall()
    finally:
        con.unregister("wanted_texts")


def _entry(text: str) -> _Entry:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    shape = shape_of(value)
    entry = _Entry(shape, value, len(text))
    if shape == "foreign":
        entry.units["openai-chat"] = _converted(value, 0)
        entry.value = None
    return entry


def _read(entry: _Entry, form: MessageFormat, native: bool, index: int) -> _Unit:
    if not native:
        return _converted(entry.value, index)
    raw = fill_missing(entry.value, form)
    message = format_of(form).read(raw, index)
    silent = _silent(entry.value, form)
    without_ids = 0 if form == "gemini" else sum(_lacks_id(block) for block in message.blocks)
    return _Unit((message,), without_ids, silent, index)


def _converted(value: Any, index: int) -> _Unit:
    chat, parts = as_chat(value)
    read = format_of("openai-chat").read
    return _Unit(
        tuple(read(one, index) for one in chat), parts.without_ids, parts.silent, index, parts.item_ids
    )


def _lacks_id(block: Any) -> bool:
    """Was the id of a call or a result left out? An id that is there and blank is none of these."""
    if not isinstance(block, Call | Result) or block.server or block.kind == "function_call":
        return False
    return block.id is None and not block.ids


def _under_item_ids(messages: list[Message]) -> int:
    """Calls under the id of their item, where the results were recorded under the ids of the calls."""
    answered = {name for message in messages for one in message.results for name in one.ids}
    asked = {name for message in messages for call in message.calls for name in call.ids}
    if answered <= asked:
        return 0
    return sum(name.startswith("fc_") and name not in answered for name in asked)


def _silent(value: dict[str, Any], form: MessageFormat) -> bool:
    """Was only a role recorded?"""
    if form != "openai-chat":
        return False
    keys = value.keys()
    return not ("content" in keys or "tool_calls" in keys or "function_call" in keys or "refusal" in keys)


def joined_turns(history: History) -> list[Message] | None:
    """The messages with calls in a row taken together as one turn; None where there are none in a row.

    A history of the Responses API may be recorded with one assistant message for each item.
    """
    if history.format != "openai-chat":
        return None
    together: list[Message] = []
    for message in history.messages:
        last = together[-1] if together else None
        if last is not None and last.role == message.role == "assistant" and last.calls and message.calls:
            blocks = last.blocks + message.blocks
            together[-1] = Message(last.role, blocks, last.raw, last.index, last.wire_role, changed=True)
        else:
            together.append(message)
    return together if len(together) < len(history.messages) else None


def _placed(message: Message, index: int) -> Message:
    return Message(
        message.role,
        message.blocks,
        message.raw,
        index,
        message.wire_role,
        message.empty_tool_calls,
        message.changed,
        message.protected,
    )
