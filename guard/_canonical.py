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
import re
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any

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

# Deeper JSON text stays text. The limit is fixed, instead of wherever Python's recursion
# limit strikes, so that one text has one form at whatever depth of the stack it is met.
MAX_DEPTH = 128

# How often a JSON string that holds JSON is opened. Three covers every client we have seen.
_MAX_ENCODINGS = 3


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in which a key occurs twice."""


class _Token(str):
    """A JSON number that no int or float holds exactly: too many digits, or past 1e308."""

    __slots__ = ()


class _Odd(Exception):
    """The JSON text needs the careful reader."""


def _strict_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Odd
    return members


def _strict_float(text: str) -> float:
    number = float(text)
    if number - number != 0:  # infinite
        raise _Odd
    return number


def _careful_object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Pairs:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _Pairs(pairs)


def _careful_float(text: str) -> float | _Token:
    number = float(text)
    return number if number - number == 0 else _Token(text.lower().replace("+", ""))


def _careful_int(text: str) -> int | _Token:
    try:
        return int(text)
    except ValueError:  # more digits than the interpreter converts
        return _Token(text)


_read = json.JSONDecoder(object_pairs_hook=_strict_object, parse_float=_strict_float).decode
_read_carefully = json.JSONDecoder(
    object_pairs_hook=_careful_object, parse_float=_careful_float, parse_int=_careful_int
).decode
_write = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode
_quote = json.JSONEncoder(ensure_ascii=False).encode


def _parse_json(text: str) -> tuple[bool, Any, bool]:
    """Read JSON text: (is it JSON, the value, may `_write` be used on it)."""
    if not text or (text[0] not in '{["' and not text[0].isascii()):
        return False, None, False
    try:
        try:
            value, plain = _read(text), True
        except _Odd:
            value, plain = _read_carefully(text), False
        except json.JSONDecodeError:
            return False, None, False
        except ValueError:  # an integer with more digits than the interpreter converts
            value, plain = _read_carefully(text), False
    except RecursionError:
        return False, None, False
    except json.JSONDecodeError:
        return False, None, False
    if text.count("[") + text.count("{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        return False, None, False
    return True, value, plain


def _children(value: Any) -> list[Any]:
    if isinstance(value, _Pairs):
        return [member for _, member in value]
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _deeper_than(value: Any, limit: int) -> bool:
    level = _children(value)
    for _ in range(limit):
        if not level:
            return False
        level = [child for node in level for child in _children(node)]
    return bool(level)


_TAG = re.compile(r"\s*<(\w+)>")


def _parse_xmlish(text: str) -> dict[str, Any] | _Pairs | None:
    """`<name>value</name>` pairs and nothing else: an object of strings, or None.

    One pass over the text, whatever it holds: an opening tag without its closing tag ends it.
    """
    pairs: list[tuple[str, str]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        tag = _TAG.match(text, at)
        if tag is None:
            return None
        closing = f"</{tag[1]}>"
        stop = text.find(closing, tag.end())
        if stop < 0:
            return None
        pairs.append((tag[1], text[tag.end() : stop].strip()))
        at = stop + len(closing)
    return _careful_object(pairs) if pairs else None


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _is_plain(value: Any, room: int) -> bool:
    """Only exact JSON types inside, str keys, no deeper than `room`: what `_write` does right."""
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


def _type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _mangle_key(key: object) -> tuple[bool, str]:
    """Sortable form of a mapping key: JSON's own keys first, then others with their types."""
    if isinstance(key, str):
        return False, _quote(str(key))
    return True, f"!{_quote(_type_name(key))}{_quote(_safe_repr(key))}"


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a broken __repr__ must not break the agent
        return f"<unprintable at {id(value):#x}>"


def _open(value: object) -> tuple[str, Any]:
    """Turn an object JSON does not know into (prefix that names its type, something simpler)."""
    prefix = f"!{_quote(_type_name(value))}"
    try:
        if isinstance(value, (set, frozenset)):
            return prefix, _Unordered(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return prefix, bytes(value).hex()
        dump = getattr(type(value), "model_dump", None)
        if callable(dump):
            return prefix, dump(value)
        fields = getattr(type(value), "__dataclass_fields__", None)
        if fields is not None:
            return prefix, {name: getattr(value, name, None) for name in fields}
        members = getattr(value, "__dict__", None)
        if isinstance(members, dict) and members and not isinstance(value, type) and not callable(value):
            return prefix, members
        buffer = memoryview(value)  # type: ignore[arg-type]  # arrays of numpy, array.array
        return prefix, [list(buffer.shape or ()), buffer.format, blake2b(buffer.tobytes()).hexdigest()]
    except Exception:  # noqa: BLE001 - whatever a foreign object does, the agent goes on
        return prefix, _safe_repr(value)


class _Unordered:
    """The items of a set, to be written in the order of their forms."""

    def __init__(self, items: Collection[Any]) -> None:
        self.items = items


_CLOSE = object()


def _write_any(value: object, metadata: Collection[str]) -> tuple[str, bool]:
    """Write any object: (form, does it hold types that JSON does not know).

    Same form as `_write` where `_write` is right. Uses no recursion for nested containers,
    so depth is no danger, and names a cycle instead of following it.
    """
    out: list[str] = []
    foreign = False
    on_path: set[int] = set()
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if type(item) is tuple and len(item) == 2 and item[0] is _CLOSE:
            text, identity = item[1]
            out.append(text)
            on_path.discard(identity)
            continue
        if type(item) is _Piece:
            out.append(item)
            continue
        if isinstance(item, _Token):
            out.append(str(item))
            continue
        if item is None or item is True or item is False:
            out.append("null" if item is None else "true" if item else "false")
            continue
        if isinstance(item, str):
            out.append(_quote(str.__str__(item)))
            continue
        if isinstance(item, float):
            out.append(_quote(float(item)))
            continue
        if isinstance(item, int):
            out.append(_write_int(item))
            continue
        if id(item) in on_path:
            foreign = True
            out.append("!cycle")
            continue
        if isinstance(item, Mapping):
            members = [
                (_mangle_key(key), member)
                for key, member in (item.items())
                if not (isinstance(key, str) and key in metadata)
            ]
            foreign = foreign or any(key[0] for key, _ in members)
            _push_object(stack, sorted(members, key=_by_key, reverse=True), id(item), on_path, out)
        elif isinstance(item, _Pairs):
            kept = [(_mangle_key(key), member) for key, member in item if key not in metadata]
            # Values of one key keep their order; reversed because the stack turns it round.
            _push_object(stack, sorted(kept, key=_by_key)[::-1], id(item), on_path, out)
        elif isinstance(item, (list, tuple)):
            on_path.add(id(item))
            out.append("[")
            stack.append((_CLOSE, ("]", id(item))))
            for index in range(len(item) - 1, -1, -1):
                stack.append(item[index])
                if index:
                    stack.append(_Piece(","))
        elif isinstance(item, _Unordered):
            forms = sorted(_write_any(member, metadata)[0] for member in item.items)
            out.append(f"[{','.join(forms)}]")
        else:
            foreign = True
            prefix, inner = _open(item)
            out.append(prefix)
            on_path.add(id(item))
            stack.append((_CLOSE, ("", id(item))))
            stack.append(inner)
    return "".join(out), foreign


class _Piece(str):
    """Text that is already part of the form."""

    __slots__ = ()


def _by_key(member: tuple[tuple[bool, str], Any]) -> tuple[bool, str]:
    return member[0]


def _push_object(
    stack: list[Any],
    members: list[tuple[tuple[bool, str], Any]],
    identity: int,
    on_path: set[int],
    out: list[str],
) -> None:
    on_path.add(identity)
    out.append("{")
    stack.append((_CLOSE, ("}", identity)))
    for index, (key, member) in enumerate(members):
        stack.append(member)
        comma = "" if index == len(members) - 1 else ","
        stack.append(_Piece(f"{comma}{key[1]}:"))


def _write_int(number: int) -> str:
    try:
        return int.__repr__(number)
    except ValueError:  # more digits than the interpreter converts; hexadecimal has no limit
        return f"!{hex(number)}"


def _text_form(text: str) -> str:
    """The form of text that is neither JSON nor XML-ish: itself, and always UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\0s" + text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()
    return "\0" + text if text.startswith("\0") else text


def _object_form(value: object, metadata: Collection[str]) -> str:
    if _is_plain(value, 32):
        form = _write(value)
        if not any(f"{_quote(key)}:" in form for key in metadata):
            return _printable(form)
    form, foreign = _write_any(value, metadata)
    return _printable("\0!" + form if foreign else form)


def _printable(form: str) -> str:
    """Lone surrogates as JSON escapes, so that every form can be encoded, stored and shown."""
    if form.isascii():
        return form
    try:
        form.encode()
    except UnicodeEncodeError:
        # Inside a JSON string every real backslash is doubled, so the escape stays unambiguous.
        return form.encode("utf-8", "backslashreplace").decode()
    return form


def canonical_arguments(arguments: object, *, metadata_keys: Collection[str] = DEFAULT_METADATA_KEYS) -> str:
    """The canonical form of a call's arguments, as text.

    Text that holds JSON is parsed, and JSON inside a JSON string once more if it is an object
    or array. XML-ish text (`<q>cats</q>`) becomes an object of strings. Other text is itself
    the form. Any other Python object is written by its contents and the name of its type.

    Never raises for any `arguments`; the result can always be encoded as UTF-8.
    """
    if isinstance(arguments, (bytes, bytearray)):
        try:
            arguments = bytes(arguments).decode()
        except UnicodeDecodeError:
            return _object_form(arguments, metadata_keys)
    if not isinstance(arguments, str):
        return _object_form(arguments, metadata_keys)
    is_json, value, plain = _parse_json(arguments)
    if not is_json:
        members = _parse_xmlish(arguments)
        return _text_form(arguments) if members is None else _object_form(members, metadata_keys)
    for _ in range(_MAX_ENCODINGS):
        if type(value) is not str:
            break
        inner_is_json, inner, inner_plain = _parse_json(value)
        if not inner_is_json or not isinstance(inner, (dict, list, str)):
            break
        value, plain = inner, inner_plain
    if plain:
        form = _write(value)
        if not any(f"{_quote(key)}:" in form for key in metadata_keys):
            return _printable(form)
    return _printable(_write_any(value, metadata_keys)[0])


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data).digest()[:8], "big", signed=True)


def fingerprint(
    tool_name: str, arguments: object, *, metadata_keys: Collection[str] = DEFAULT_METADATA_KEYS
) -> int | None:
    """The identity of a call: tool name and canonical arguments, as a signed 64-bit integer.

    None where `arguments` is None, that is, not recorded. A call without arguments is `{}`.
    """
    if arguments is None:
        return None
    form = canonical_arguments(arguments, metadata_keys=metadata_keys)
    return _digest(f"{len(tool_name)}:{tool_name}{form}".encode("utf-8", "surrogatepass"))


def result_hash(output: object) -> int | None:
    """The identity of a result, as a signed 64-bit integer; None where `output` is None.

    Text is taken exactly as it is, other objects by their canonical form.
    """
    if output is None:
        return None
    if isinstance(output, str):
        return _digest(output.encode("utf-8", "surrogatepass"))
    form = _object_form(output, ()).encode()
    digest = blake2b(form, person=b"loopscope.object").digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def scope_key(run_id: str, agent_name: str | None, fingerprint: int) -> int:
    """The key a count belongs to: one call, made by one agent, in one run."""
    agent = "-" if agent_name is None else f"{len(agent_name)}:{agent_name}"
    return _digest(f"{len(run_id)}:{run_id}{agent}{fingerprint}".encode("utf-8", "surrogatepass"))
