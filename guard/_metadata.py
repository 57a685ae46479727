"""Arguments in two parts: what the tool is to get, and what the model said to the guard."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ._canonical import careful_decoder, parse_json, xml_members

__all__ = ["split_metadata"]

_MAX_TAGS = 8  # behind plain text; there are three metadata keys


def split_metadata(arguments: object, keys: frozenset[str]) -> tuple[object, dict[str, object]]:
    """Take the members named in `keys` out of the arguments: (the rest, what was taken out).

    Only members of the arguments themselves: what lies deeper is the tool's own. JSON text
    (also encoded twice) and XML-ish text lose those members and keep every other character;
    other text may end in them as tags (`alpha <_duplicate_reasoning>why</_duplicate_reasoning>`).
    Objects are copied if anything is taken out. Where nothing is, the very arguments come back.
    """
    if isinstance(arguments, str):
        text, taken = _split_text(arguments, keys)
        return (text, taken) if taken else (arguments, {})
    if isinstance(arguments, Mapping):
        taken = {key: value for key, value in arguments.items() if key in keys}
        if taken:
            return {key: value for key, value in arguments.items() if key not in keys}, taken
    return arguments, {}


def _split_text(text: str, keys: frozenset[str]) -> tuple[str, dict[str, object]]:
    if not any(key in text for key in keys) and "\\u" not in text:
        return text, {}
    is_json, value, _ = parse_json(text)
    if is_json and text.lstrip().startswith("{"):
        return _split_json(text, keys)
    if is_json and isinstance(value, str):
        inner, taken = _split_text(value, keys)
        return json.dumps(inner), taken
    if is_json:
        return text, {}
    return _split_tags(text, keys)


def _split_json(text: str, keys: frozenset[str]) -> tuple[str, dict[str, object]]:
    """An object's members are cut out of its text, so that the others stay as they were spelled."""
    kept: list[str] = []
    taken: dict[str, object] = {}
    at = text.index("{") + 1
    while True:
        start = _skip(text, at)
        if text[start] == "}":  # only in an object without members
            break
        key, end = careful_decoder.raw_decode(text, start)
        value, end = careful_decoder.raw_decode(text, _skip(text, _skip(text, end) + 1))
        if key in keys:
            taken[key] = value
        else:
            kept.append(text[at:end])
        at = _skip(text, end) + 1
        if text[at - 1] == "}":
            break
    return f"{{{','.join(kept)}}}", taken


_BLANKS = re.compile(r"[ \t\n\r]*")


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()


def _split_tags(text: str, keys: frozenset[str]) -> tuple[str, dict[str, object]]:
    members = xml_members(text)
    taken: dict[str, object] = {}
    if members is not None:
        kept = []
        for name, value, start, end in members:
            if name in keys:
                taken[name] = value
            else:
                kept.append(text[start:end])
        return "".join(kept), taken
    rest = text
    for _ in range(_MAX_TAGS):
        ended = rest.rstrip()
        name = next((key for key in keys if ended.endswith(f"</{key}>")), None)
        start = -1 if name is None else ended.rfind(f"<{name}>")
        if name is None or start < 0:
            break
        taken.setdefault(name, ended[start + len(name) + 2 : -len(name) - 3].strip())
        rest = ended[:start].rstrip()
    return rest, taken
