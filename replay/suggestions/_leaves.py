"""JSON texts as their single values, to see in which keys two of them differ."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = [
    "BUDGET",
    "LIMIT",
    "Leaves",
    "differing",
    "leaves_of",
    "looks_like_noise",
    "name_of_leaf",
    "names_of",
]

LIMIT = 20_000  # characters of a text that is looked into
BUDGET = 4_000_000  # characters of one tool's texts
_MOST = 400  # values of one text

Leaves = dict[tuple[str | int, ...], str]
"""Path to a value (keys and places in lists), and the value as JSON."""

_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?")
_EPOCHS = ((1_000_000_000, 4_000_000_000), (10**12, 4 * 10**12))  # seconds, milliseconds


def leaves_of(text: str | None) -> Leaves | None:
    """The values of a JSON object or list; None where the text is neither, or too big."""
    if text is None or len(text) > LIMIT or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found: Leaves = {}
    todo: list[tuple[tuple[str | int, ...], Any]] = [((), parsed)]
    while todo:
        path, value = todo.pop()
        if len(path) > 20 or len(found) > _MOST:
            return None
        if isinstance(value, dict) and value:
            todo.extend(((*path, str(key)), item) for key, item in value.items())
        elif isinstance(value, list) and value:
            todo.extend(((*path, index), item) for index, item in enumerate(value))
        else:
            found[path] = json.dumps(value)
    return found


def name_of_leaf(path: tuple[str | int, ...]) -> str:
    """The key that a value stands under; of a list, the list's own."""
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def names_of(leaves: Leaves) -> set[str]:
    """The keys that values stand under."""
    return {name_of_leaf(path) for path in leaves}


def differing(a: Leaves, b: Leaves) -> set[str]:
    """The keys under which two texts differ."""
    return {name_of_leaf(path) for path in {*a, *b} if a.get(path) != b.get(path)}


def looks_like_noise(value: str) -> bool:
    """Is a JSON value the kind that is new each time: a UUID, or a date with its time of day?"""
    if value.startswith('"'):
        text = value[1:-1]
        return bool(_UUID.fullmatch(text) or _TIME.fullmatch(text))
    return value.isdigit() and any(low <= int(value) < high for low, high in _EPOCHS if len(value) < 20)
