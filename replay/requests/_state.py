"""What was worked out about a store's requests, kept between questions.

A key of `contents` always names one text, so what a list of keys says stays true while the file
lives: a store that grew is asked for its new histories only.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any

from .._sql import sql_text
from ._histories import Reader

if TYPE_CHECKING:
    import duckdb

__all__ = ["Kept", "forget", "kept_of"]

_KEPT_STORES = 2
_KEPT_JUDGEMENTS = 50_000
_KEPT_ANSWERS = 50
_KEPT_KEYS = (
    2_000_000  # of messages of failed requests: 16 bytes each, or 40 where nothing else holds the number
)
KEPT_HISTORIES = 2_000_000  # about 100 bytes each


@dataclass(eq=False)
class Kept:
    """Of one store. `lock` guards what failed requests need, `passed_lock` what the others need."""

    lock: RLock = field(default_factory=RLock)
    reader: Reader = field(default_factory=Reader)
    judgements: dict[Any, Any] = field(default_factory=dict)
    passed_lock: RLock = field(default_factory=RLock)
    passed_reader: Reader = field(default_factory=Reader)
    histories: dict[tuple[int, int], Any] = field(default_factory=dict)  # (hash, messages) → HistoryFacts
    _messages: dict[tuple[str, str], tuple[int, list[int] | None]] = field(default_factory=dict)
    _messages_size: int = 0
    _groups: tuple[Any, Any, list[Any]] | None = None
    _state: Any = None
    _answers: dict[Any, Any] = field(default_factory=dict)

    def remember(self, state: Any, key: Any, answer: Callable[[], Any]) -> Any:
        """The answer to a question about one state of the store, asked once."""
        if state is None:
            return answer()
        with self.lock:
            if state != self._state or len(self._answers) >= _KEPT_ANSWERS:
                self._answers.clear()
                self._state = state
            if key not in self._answers:
                self._answers[key] = answer()
            return self._answers[key]

    def passed_groups(self, state: Any, filters: Any, ask: Callable[[], list[Any]]) -> list[Any]:
        """What there is to check under a filter, asked once per state; only the last one is kept."""
        if state is None:
            return ask()
        with self.passed_lock:
            if self._groups is None or self._groups[:2] != (state, filters):
                self._groups = state, filters, ask()
            return self._groups[2]

    def messages_of(
        self, trace_id: str, span_id: str, changed_in: int | None
    ) -> tuple[list[int] | None] | None:
        """The keys of a request's messages as they were when its trace last changed; None where not known."""
        known = self._messages.get((trace_id, span_id))
        return None if known is None or known[0] != changed_in else (known[1],)

    def keep_messages(
        self, trace_id: str, span_id: str, changed_in: int | None, keys: list[int] | None
    ) -> None:
        """Keep them for `messages_of`, as far as there is room."""
        if changed_in is None:
            return
        self._messages_size += 1 + len(keys or ())
        if self._messages_size > _KEPT_KEYS:
            self._messages.clear()
            self._messages_size = 0
        self._messages[trace_id, span_id] = changed_in, keys

    def judged(self, key: Any, judge: Callable[[], Any]) -> Any:
        """A judgement, made once."""
        if key not in self.judgements:
            if len(self.judgements) >= _KEPT_JUDGEMENTS:
                self.judgements.clear()
            self.judgements[key] = judge()
        return self.judgements[key]


_cache: OrderedDict[Any, Kept] = OrderedDict()
_lock = Lock()


def kept_of(con: duckdb.DuckDBPyConnection) -> tuple[Kept, Any]:
    """What is kept of the store behind a leased cursor, and its state (None: a database in memory)."""
    path, version, *rest = con.execute(sql_text("request_state")).fetchall()[0]
    if not path or not os.path.exists(path):
        return Kept(), None
    # The same file, not a new one under an old name: files get a new inode, or other first rows.
    status = os.stat(path)
    key = (os.path.abspath(path), status.st_ino, rest[0])
    with _lock:
        kept = _cache.get(key)
        if kept is None:
            for other in [other for other in _cache if other[0] == key[0]]:
                del _cache[other]
            kept = _cache[key] = Kept()
        _cache.move_to_end(key)
        while len(_cache) > _KEPT_STORES:
            _cache.popitem(last=False)
    return kept, (version, *rest)


def forget() -> None:
    """Drop everything kept in memory. For measurements."""
    with _lock:
        _cache.clear()
