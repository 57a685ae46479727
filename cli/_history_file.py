"""Message histories in a file: JSON or JSON Lines, bare or inside a request, read and written back."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..guard import LoopscopeError

__all__ = ["History", "as_json", "read_histories", "where", "write_documents"]

_LARGEST = 512 * 2**20  # bytes of a file that is read whole
_HISTORY_KEYS = ("messages", "input", "contents")  # where a request's body holds its history
_ENVELOPES = ("request", "body", "kwargs")  # where a recorded exchange holds the request
_ITEMS = ("function_call", "function_call_output", "reasoning")  # of the Responses API, which have no role


@dataclass(slots=True)
class History:
    """One history and the document that it stands in."""

    messages: list[Any]
    document: Any
    place: tuple[str, ...]  # the keys that lead to it; () where the document is the history
    line: int | None
    model: str | None
    previous_response_id: str | None
    spread: bool = False  # over a file of JSON Lines, a message a line
    flat: bool = False  # the document stands on one line

    def with_messages(self, messages: list[Any]) -> Any:
        """The document with other messages in their place; the one that was read stays as it is."""
        if not self.place:
            return messages
        copied = top = dict(self.document)
        for key in self.place[:-1]:
            copied[key] = dict(copied[key])
            copied = copied[key]
        copied[self.place[-1]] = messages
        return top


def read_histories(source: str) -> Iterator[History]:
    """The histories of a file (or of standard input, named -). Raises LoopscopeError with file and line."""
    text = _read(source)
    name = "standard input" if source == "-" else source
    try:
        documents: list[tuple[int | None, Any]] = [(None, _loads(text, name))]
    except (ValueError, RecursionError) as error:
        documents = list(_json_lines(text, name, error))
    if documents and all(_is_message(document) for _, document in documents):
        history = _history([document for _, document in documents], (), None)
        history.spread = True
        yield history
        return
    found = False
    for line, document in documents:
        place = _place_of(document)
        if place is None:
            where = f"{name}, line {line}" if line else name
            raise LoopscopeError(
                f"{where}: no message history: give a list of messages, or an object with "
                f"{', '.join(_HISTORY_KEYS[:-1])} or {_HISTORY_KEYS[-1]} (traces and the session files of "
                "coding agents are for loopscope import)"
            )
        found = True
        history = _history(document, place, line)
        history.flat = "\n" not in text.strip()
        yield history
    if not found:
        raise LoopscopeError(f"{name}: empty: give a list of messages as JSON")


def _read(source: str) -> str:
    try:
        if source == "-":
            data = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            path = Path(source)
            if path.is_dir():
                raise LoopscopeError(f"{source}: a folder; give one file")
            with path.open("rb") as file:
                data = file.read(_LARGEST + 1)
    except OSError as error:
        raise LoopscopeError(f"{source}: cannot be read: {error.strerror or error}") from None
    if len(data) > _LARGEST:
        raise LoopscopeError(f"{source}: larger than {_LARGEST // 2**20} MB; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LoopscopeError(f"{source}: not UTF-8 text (byte {error.start})") from None


def _loads(text: str, where: str) -> Any:
    """JSON as it stands: what could not be written back is refused."""

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise LoopscopeError(
                f"{where}: an object has the key {json.dumps(twice[:60])} twice, of which one would be lost: "
                "take one of them out"
            )
        return made

    def integer_of(digits: str) -> int:
        try:
            return int(digits)
        except ValueError:
            raise LoopscopeError(
                f"{where}: a whole number of {len(digits.lstrip('-')):,} digits, more than can be read: "
                "put it between quotes"
            ) from None

    return json.loads(text, object_pairs_hook=object_of, parse_int=integer_of)


def _json_lines(text: str, name: str, whole: Exception) -> Iterator[tuple[int, Any]]:
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, _loads(line, f"{name}, line {number}")
        except (ValueError, RecursionError) as error:
            if number == 1 or len(lines) == 1:
                raise LoopscopeError(f"{name}: not JSON: {whole}") from None
            raise LoopscopeError(f"{name}, line {number}: not JSON: {error}") from None


def _is_message(document: Any) -> bool:
    if not isinstance(document, dict) or _place_of(document) is not None:
        return False
    return isinstance(document.get("role"), str) or document.get("type") in _ITEMS


def _place_of(document: Any) -> tuple[str, ...] | None:
    if isinstance(document, list):
        return ()
    if not isinstance(document, dict):
        return None
    for key in _HISTORY_KEYS:
        if isinstance(document.get(key), list):
            return (key,)
    for outer in _ENVELOPES:
        inner = document.get(outer)
        if isinstance(inner, dict):
            for key in _HISTORY_KEYS:
                if isinstance(inner.get(key), list):
                    return (outer, key)
    return None


def _history(document: Any, place: tuple[str, ...], line: int | None) -> History:
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    messages = holder[place[-1]] if place else document
    body = holder if place else {}
    model, previous = body.get("model"), body.get("previous_response_id")
    return History(
        messages,
        document,
        place,
        line,
        model if isinstance(model, str) else None,
        previous if isinstance(previous, str) else None,
    )


def as_json(documents: list[Any], lines: bool) -> str:
    """Documents as text: JSON Lines, or one document as indented JSON."""
    if lines:
        return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents)
    return json.dumps(documents[0], ensure_ascii=False, indent=2) + "\n"


def write_documents(path: Path, documents: list[Any], lines: bool) -> None:
    """Write a file whole or not at all: it may be the one that was read."""
    text = as_json(documents, lines).encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text)  # a device or a pipe
            return
        place = path.resolve()  # of a symbolic link the file that it names
        new = place.with_name(f".{place.name}.{os.getpid()}.new")
        try:
            new.write_bytes(text)
            if place.exists():
                new.chmod(place.stat().st_mode & 0o7777)
            new.replace(place)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise LoopscopeError(f"{path}: cannot be written: {error.strerror or error}") from None


def where(source: str, history: History) -> str:
    """File and line of a history, for a message."""
    name = "standard input" if source == "-" else source
    return f"{name}, line {history.line}" if history.line else name
