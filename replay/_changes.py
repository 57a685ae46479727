"""What changed between two texts: a short structural summary."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import Any

from ._types import Change, TextChange

__all__ = ["compare"]

_JSON_LIMIT = 200_000  # characters that are parsed
_LINE_LIMIT = 400  # lines that are compared; SequenceMatcher is quadratic
_SHOWN = 20
_VALUE = 200  # characters of a value shown
_DEPTH = 40


def compare(before: str | None, after: str | None) -> TextChange:
    """How `after` differs from `before`. None is "not recorded"."""
    if before is None or after is None:
        if before is None and after is None:
            return TextChange(False, "not recorded, so it may or may not have changed")
        return TextChange(
            False, "recorded only this time" if before is None else "recorded only the time before"
        )
    if before == after:
        return TextChange(True, "same")
    old, new = _parse(before), _parse(after)
    if isinstance(old, (dict, list)) and type(old) is type(new):
        changes: list[Change] = []
        _walk(old, new, "", changes, 0)
        if not changes:
            return TextChange(True, "same values, written differently")
        return TextChange(False, _summary(changes), tuple(changes[:_SHOWN]), max(0, len(changes) - _SHOWN))
    return TextChange(False, _text_summary(before, after))


def _parse(text: str) -> Any:
    if len(text) > _JSON_LIMIT or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _walk(old: Any, new: Any, path: str, changes: list[Change], depth: int) -> None:
    if type(old) is type(new) and depth < _DEPTH:
        if isinstance(old, dict):
            for key in [*old, *(key for key in new if key not in old)]:
                where = f"{path}.{key}" if path else str(key)
                if key not in new:
                    changes.append(Change(where, "removed", _show(old[key]), None))
                elif key not in old:
                    changes.append(Change(where, "added", None, _show(new[key])))
                else:
                    _walk(old[key], new[key], where, changes, depth + 1)
            return
        if isinstance(old, list):
            for index in range(max(len(old), len(new))):
                where = f"{path}[{index}]"
                if index >= len(new):
                    changes.append(Change(where, "removed", _show(old[index]), None))
                elif index >= len(old):
                    changes.append(Change(where, "added", None, _show(new[index])))
                else:
                    _walk(old[index], new[index], where, changes, depth + 1)
            return
    if type(old) is not type(new) or repr(old) != repr(new):  # repr tells 0.0 from -0.0
        changes.append(Change(path or "value", "changed", _show(old), _show(new)))


def _show(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    except (ValueError, RecursionError):
        text = "…"
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def _summary(changes: list[Change]) -> str:
    parts: list[str] = []
    for kind in ("changed", "added", "removed"):
        paths = [change.path for change in changes if change.kind == kind]
        if paths:
            names = ", ".join(path if len(path) <= 60 else f"{path[:59]}…" for path in paths[:3])
            more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
            parts.append(f"{kind}: {names}{more}")
    return "; ".join(parts)


def _text_summary(before: str, after: str) -> str:
    if not before or not after:
        return f"{len(before):,} characters before, {len(after):,} now"
    old, new = before.splitlines(), after.splitlines()
    if 1 < max(len(old), len(new)) <= _LINE_LIMIT:
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        removed = sum(i2 - i1 for tag, i1, i2, _, _ in blocks if tag != "equal")
        added = sum(j2 - j1 for tag, _, _, j1, j2 in blocks if tag != "equal")
        return f"{added} of {len(new)} lines new, {removed} of {len(old)} gone"
    at = next(
        (index for index, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    here = f"differs from character {at + 1} on"
    if len(before) == len(after):
        return f"{here}; {len(after):,} characters as before"
    return f"{here}; {len(after):,} characters, {len(before):,} before"
