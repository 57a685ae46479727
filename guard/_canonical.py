"""Fingerprints: when are two tool calls the same call, and two results the same result?

A call is brought into a canonical form, a text that depends on what is called and not on
how it was spelled: JSON is parsed and written again with sorted keys, so that key order,
spacing and escapes vanish while types, array order and string contents stay. Different
values have different canonical forms:

* JSON becomes compact JSON. `1`, `1.0`, `"1"` and `true` stay four different things, null
  is not an absent key, and a repeated key keeps all its values.
* Text that is neither JSON nor XML-ish is itself the key. It never reads as JSON, so it
  cannot be mistaken for the form of a value.
* Python objects that JSON does not know carry their type's name in front, in a spelling
  that begins with NUL; plain text that begins with NUL gets one more.
"""

from __future__ import annotations

import json
import json.scanner
import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Any

from ._json_writer import json_writer
from ._object_form import NumberToken, Pairs, quote, safe_repr, write_any

__all__ = [
    "DEFAULT_METADATA_KEYS",
    "FINGERPRINT_VERSION",
    "canonical_arguments",
    "fingerprint",
    "result_hash",
    "scope_key",
]

FINGERPRINT_VERSION = 1
"""Grows whenever the same call would get another fingerprint than before."""

DEFAULT_METADATA_KEYS = frozenset({"_aura_reasoning", "_duplicate_reasoning", "_nonce"})
"""Argument names that speak to a guard and not to the tool; left out at every depth."""

# JSON text that nests deeper stays text. A fixed limit, and not wherever Python's recursion
# limit strikes, gives one text one form at whatever depth of the stack it is met.
MAX_DEPTH = 128

# How often a JSON string that holds JSON is opened. Clients encode twice; three is ample.
_MAX_ENCODINGS = 3


class _CarefulError(Exception):
    """The JSON text holds what the fast reader would get wrong."""


def _fast_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _CarefulError
    return members


def _fast_float(text: str) -> float:
    number = float(text)
    if number - number != 0:  # past 1.8e308, where all numbers become one infinity
        raise _CarefulError
    return number


def _careful_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Pairs:
    members = dict(pairs)
    return members if len(members) == len(pairs) else Pairs(pairs)


def _careful_float(text: str) -> float | NumberToken:
    number = float(text)
    return number if number - number == 0 else NumberToken(text.lower().replace("+", ""))


def _careful_int(text: str) -> int | NumberToken:
    try:
        return int(text)
    except ValueError:  # more digits than the interpreter converts
        return NumberToken(text)


_decoder = json.JSONDecoder(object_pairs_hook=_fast_object, parse_float=_fast_float)
_scan: Callable[[str, int], tuple[Any, int]] = json.scanner.make_scanner(_decoder)  # pyright: ignore
careful_decoder = json.JSONDecoder(
    object_pairs_hook=_careful_object, parse_float=_careful_float, parse_int=_careful_int
)
_write = json_writer(sort_keys=True)


def _read(text: str) -> Any:
    """As `_decoder.decode`, which looks for white space around the value first: 0.5 µs a call."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:  # white space, or no JSON
        return _decoder.decode(text)
    return value if end == len(text) else _decoder.decode(text)


def parse_json(text: str) -> tuple[bool, Any, bool]:
    """Read JSON text: (is it JSON, the value, may `_write` write it)."""
    try:
        try:
            value, plain = _read(text), True
        except json.JSONDecodeError:
            return False, None, False
        except (_CarefulError, ValueError):  # ValueError: more digits than the interpreter converts
            value, plain = careful_decoder.decode(text), False
    except (RecursionError, json.JSONDecodeError):
        return False, None, False
    if text.count("[") + text.count("{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        return False, None, False
    return True, value, plain


def _deeper_than(value: Any, limit: int) -> bool:
    """Are more than `limit` objects and arrays nested in each other?"""
    level = [value]
    for _ in range(limit + 1):
        level = [node for node in level if isinstance(node, (dict, list))]
        if not level:
            return False
        level = [child for node in level for child in _members(node)]
    return True


def _members(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return (member for _, member in node) if isinstance(node, Pairs) else node


_TAG = re.compile(r"\s*<(\w+)>")


def xml_members(text: str) -> list[tuple[str, str, int, int]] | None:
    """`<name>value</name>` pairs and nothing else, as (name, stripped value, start, end), or None.

    One pass over the text, whatever it holds: an opening tag without its closing tag ends it.
    """
    members: list[tuple[str, str, int, int]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        tag = _TAG.match(text, at)
        if tag is None:
            return None
        closing = f"</{tag[1]}>"
        stop = text.find(closing, tag.end())
        if stop < 0:
            return None
        members.append((tag[1], text[tag.end() : stop].strip(), at, stop + len(closing)))
        at = stop + len(closing)
    return members or None


def _parse_xmlish(text: str) -> dict[str, Any] | Pairs | None:
    """XML-ish arguments as an object of strings, or None."""
    members = xml_members(text)
    return None if members is None else _careful_object([(name, value) for name, value, _, _ in members])


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _is_plain(value: Any, room: int) -> bool:
    """Exact JSON types and str keys only, nested no deeper than `room`: what `_write` gets right."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if room == 0:
        return False
    if kind is dict:
        for key, member in value.items():
            if type(key) is not str or (type(member) not in _SCALARS and not _is_plain(member, room - 1)):
                return False
        return True
    if kind is list:
        return all(type(item) in _SCALARS or _is_plain(item, room - 1) for item in value)
    return False


@lru_cache(maxsize=64)
def _key_spellings(keys: frozenset[str]) -> tuple[str, ...]:
    """How each key shows in a canonical form. Inside of a string its quotes would be escaped."""
    return tuple(f"{quote(key)}:" for key in keys)


def _write_plain(value: Any, metadata: frozenset[str]) -> str | None:
    """The form of a value of exact JSON types; None if it needs the careful writer."""
    try:
        form = _write(value)
    except (RecursionError, ValueError):  # near the host's own limit; an int of too many digits
        return None
    for spelling in _key_spellings(metadata):
        if spelling in form:
            return None
    return form


def _form_of_object(value: object, metadata: frozenset[str]) -> str:
    if _is_plain(value, 32) and (form := _write_plain(value, metadata)) is not None:
        return _encodable(form)
    try:
        form, foreign = write_any(value, metadata)
    except Exception:  # noqa: BLE001 - whatever a foreign object does when looked at, the agent goes on
        form, foreign = f"!{quote(type(value).__qualname__)}{quote(safe_repr(value))}", True
    return _encodable(f"\0!{form}" if foreign else form)


def _encodable(form: str) -> str:
    """Lone surrogates as JSON escapes, so that every form can be encoded, stored and shown."""
    if form.isascii():
        return form
    try:
        form.encode()
    except UnicodeEncodeError:
        # Inside of a JSON string every real backslash is doubled, so this stays unambiguous.
        return form.encode("utf-8", "backslashreplace").decode()
    return form


def _form_of_text(text: str) -> str:
    """The form of text that is neither JSON nor XML-ish: itself, as long as it can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\0s" + text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()
    return "\0" + text if text.startswith("\0") else text


def canonical_arguments(arguments: object, *, metadata_keys: Collection[str] = DEFAULT_METADATA_KEYS) -> str:
    """The canonical form of a call's arguments, as text.

    Text that holds JSON is parsed; so is an object or array that is encoded once more inside
    of a JSON string. XML-ish text (`<q>cats</q>`) becomes an object of strings. Other text is
    itself the form. Any other Python object is written by its contents and its type's name.

    Never raises, whatever `arguments` are; the result can always be encoded as UTF-8.
    """
    metadata = frozenset(metadata_keys)
    text = _as_text(arguments)
    return _form_of_object(arguments, metadata) if text is None else _read_form(text, metadata)[0]


def _read_form(text: str, metadata: frozenset[str]) -> tuple[str, bool]:
    """The form of arguments that are text, and whether they are JSON."""
    is_json, value, plain = parse_json(text)
    if not is_json:
        members = _parse_xmlish(text)
        form = _form_of_text(text) if members is None else _form_of_object(members, metadata)
        return form, False
    if type(value) is str:
        value, plain = _open_encoded(value)
    form = _write_plain(value, metadata) if plain else None
    if form is None:
        form, _ = write_any(value, metadata)
    return _encodable(form), True


def _as_text(value: Any) -> str | None:
    """Text, also where it comes as bytes; None for anything else."""
    kind = type(value)  # and not isinstance: a proxy may fail when asked for its class
    if issubclass(kind, str):
        return value
    if issubclass(kind, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return None
    return None


def _open_encoded(text: str) -> tuple[Any, bool]:
    """The object or array that a JSON string holds as JSON; the string itself if there is none."""
    value: Any = text
    plain = True
    for _ in range(_MAX_ENCODINGS):
        is_json, value, plain = parse_json(value)
        if not is_json:
            break
        if isinstance(value, (dict, list)):
            return value, plain
        if type(value) is not str:
            break
    return text, True


_first_long = Struct(">q").unpack_from


def _digest(data: bytes) -> int:
    """The first 8 bytes of the hash as a signed number."""
    return _first_long(blake2b(data).digest())[0]


def fingerprint(
    tool_name: str, arguments: object, *, metadata_keys: Collection[str] = DEFAULT_METADATA_KEYS
) -> int | None:
    """The identity of a call: tool name and canonical arguments, as a signed 64-bit integer.

    None where `arguments` is None, that is, not recorded. A call without arguments has `{}`.
    """
    if arguments is None:
        return None
    return _of_form(tool_name, canonical_arguments(arguments, metadata_keys=metadata_keys))


def fingerprint_of_text(tool_name: str, arguments: str) -> tuple[int, bool]:
    """As `fingerprint`, of arguments that are text; and whether that is JSON, which was found out for it."""
    form, is_json = _read_form(arguments, DEFAULT_METADATA_KEYS)
    return _of_form(tool_name, form), is_json


def _of_form(tool_name: str, form: str) -> int:
    return _digest(f"{len(tool_name)}:{tool_name}{form}".encode("utf-8", "surrogatepass"))


def result_hash(output: object) -> int | None:
    """The identity of a result, as a signed 64-bit integer; None where `output` is None.

    Text is taken exactly as it is, other objects by their canonical form.
    """
    if output is None:
        return None
    if issubclass(type(output), str):
        return hash_of_text(output)  # type: ignore[arg-type]
    return hash_of_form(_form_of_object(output, frozenset()))


def hash_of_text(text: str) -> int:
    """The hash of a result that is text."""
    return _digest(str.encode(text, "utf-8", "surrogatepass"))


def hash_of_form(form: str) -> int:
    """The hash of a result that is known by its canonical form; never that of a text."""
    return _first_long(blake2b(form.encode(), person=b"loopscope.object").digest())[0]


def result_form(output: object, ignored_keys: frozenset[str]) -> str | None:
    """The canonical form of a result without the ignored keys, which are left out at every depth.

    None for text that holds no JSON object or array: it has no keys, and compares as it is.
    """
    if not issubclass(type(output), str):
        return _form_of_object(output, ignored_keys)
    _, value, plain = parse_json(output)  # type: ignore[arg-type]
    if type(value) is str:
        value, plain = _open_encoded(value)
    if not isinstance(value, (dict, list)):
        return None
    form = _write_plain(value, ignored_keys) if plain else None
    return _encodable(write_any(value, ignored_keys)[0] if form is None else form)


def scope_key(run_id: str, agent_name: str | None, fingerprint: int) -> int:
    """The key a count belongs to: one call, made by one agent, in one run."""
    agent = "-" if agent_name is None else f"{len(agent_name)}:{agent_name}"
    return _digest(f"{len(run_id)}:{run_id}{agent}{fingerprint}".encode("utf-8", "surrogatepass"))
