"""Take out of a text what differs between two occurrences of one fault."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

__all__ = ["mask", "mask_error"]

_LIMIT = 4_000  # characters that are looked at

_UUID = r"\b[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\b"
_TIME = r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"
_CLOCK = r"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b"
_HEX = r"\b(?:0x[0-9a-fA-F]+|(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,})\b"
_ID = r"\b[A-Za-z]{2,12}[_-](?=[A-Za-z0-9]*\d)[A-Za-z0-9]{6,}\b"
_NUMBER = r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?|\d+"

# A status says what went wrong; it stays.
_STATUS = r"\b(?i:http|status|code|errno|error)[ :=/-]{0,3}-?\d{1,5}\b"

_VOLATILE = re.compile(
    f"(?P<status>{_STATUS})|(?P<uuid>{_UUID})|(?P<time>{_TIME}|{_CLOCK})|(?P<hex>{_HEX})|(?P<id>{_ID})|(?P<number>{_NUMBER})"
)
_NAMES = {"uuid": "<id>", "time": "<time>", "hex": "<id>", "id": "<id>", "number": "<n>"}
# Word characters before an apostrophe make it part of a word: "can't".
_QUOTED = re.compile(r"""(?<!\w)'[^'\n]{1,200}'|(?<!\w)"[^"\n]{1,200}"|`[^`\n]{1,200}`""")
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[\\/][\w.@~+-]+){2,}[\\/]?|\bhttps?://[^\s\"'<>]+")


@lru_cache(maxsize=4_096)
def mask(text: str) -> str:
    """The text with numbers, ids and times replaced. Texts that differ in nothing else come out equal."""
    return _VOLATILE.sub(lambda match: _NAMES.get(match.lastgroup or "") or match[0], text[:_LIMIT])


_KEPT_ERRORS = 100_000
_masked: dict[tuple[int, int], str] = {}  # by the hashes of text and arguments
_same: dict[str, str] = {}  # one copy of each masked text: there are few


def mask_error(text: str, arguments: str | None = None) -> str:
    """An error's text with the parts replaced that depend on the one call.

    Beside what `mask` replaces: paths, addresses, quoted words, and the values of `arguments`
    where the text repeats them. Worked out once: a store that grew is looked through for its new errors.
    """
    key = (hash(text), hash(arguments))
    found = _masked.get(key)
    if found is None:
        if len(_masked) >= _KEPT_ERRORS:
            _masked.clear()
            _same.clear()
        found = _mask_error(text, arguments)
        found = _masked[key] = _same.setdefault(found, found)
    return found


def _mask_error(text: str, arguments: str | None) -> str:
    text = text[:_LIMIT]
    for value in _values(arguments):
        text = text.replace(value, "<arg>")
    text = _PATH.sub("<path>", text)
    if not text.lstrip().startswith(("{", "[")):  # in JSON everything is quoted
        text = _QUOTED.sub("<quoted>", text)
    return mask(text)


def _values(arguments: str | None) -> list[str]:
    """Texts among the values of a call's arguments, longest first; short ones would hit by chance."""
    if not arguments or len(arguments) > _LIMIT:
        return []
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return []
    found: set[str] = set()
    todo: list[Any] = [parsed]
    while todo and len(found) < 50:
        item = todo.pop()
        if isinstance(item, str) and 3 <= len(item) <= 200:
            found.add(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return sorted(found, key=lambda value: (-len(value), value))
