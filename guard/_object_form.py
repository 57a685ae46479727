"""The canonical form of any Python object, for what the JSON encoder gets wrong or cannot write."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import blake2b
from types import ModuleType
from typing import Any

__all__ = ["NumberToken", "Pairs", "quote", "safe_repr", "write_any"]

quote = json.JSONEncoder(ensure_ascii=False).encode

# An object that drags half a program behind it is known by its repr instead.
_MAX_FOREIGN_STEPS = 200_000


class Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in which a key occurs twice."""


class NumberToken(str):
    """A JSON number that no int or float holds: too many digits, or too large."""

    __slots__ = ()


class _Piece(str):
    """Text that is already part of the form."""

    __slots__ = ()


class _Close:
    """The end of a container. Holds the container, so that its id is not used again meanwhile."""

    __slots__ = ("container", "text")

    def __init__(self, text: str, container: object) -> None:
        self.text = text
        self.container = container


class _Unordered:
    """The items of a set, to be written in the order of their forms."""

    __slots__ = ("items",)

    def __init__(self, items: Collection[Any]) -> None:
        self.items = items


# ((is it no JSON key, what to sort by, its form), the value)
_Member = tuple[tuple[bool, str, str], Any]


def write_any(value: object, metadata: Collection[str]) -> tuple[str, bool]:
    """Write any object: (form, does it hold types that JSON does not know).

    The same form as the JSON encoder's, where that is right. Keeps its own stack, so nesting
    is no danger, and marks a cycle instead of following it.
    """
    out: list[str] = []
    foreign = False
    on_path: set[int] = set()
    stack: list[Any] = [value]  # what is still to be written, last first
    steps = 0

    def open_container(opening: str, closing: str, container: object) -> None:
        out.append(opening)
        on_path.add(id(container))
        stack.append(_Close(closing, container))

    def push_members(members: list[_Member], container: object) -> None:
        open_container("{", "}", container)
        for index in range(len(members) - 1, -1, -1):
            (_, _, key), member = members[index]
            stack.append(member)
            stack.append(_Piece(f",{key}:" if index else f"{key}:"))

    while stack:
        item: Any = stack.pop()
        steps += 1
        kind = type(item)  # and not isinstance: a proxy may fail when asked for its class
        if issubclass(kind, _Close):
            out.append(item.text)
            on_path.discard(id(item.container))
        elif issubclass(kind, (_Piece, NumberToken)):
            out.append(item)
        elif item is None or item is True or item is False:
            out.append("null" if item is None else "true" if item else "false")
        elif issubclass(kind, str):
            out.append(quote(str.__str__(item)))
        elif issubclass(kind, float):
            out.append(quote(float(item)))
        elif issubclass(kind, int):
            out.append(_write_int(item))
        elif id(item) in on_path:
            foreign = True
            out.append("!cycle")
        elif issubclass(kind, (Mapping, Pairs)):
            pairs = item.items() if issubclass(kind, Mapping) else item
            # Sorting is stable: the values of a repeated key keep their order.
            members = sorted(
                ((_key_form(key), member) for key, member in pairs if not _is_metadata(key, metadata)),
                key=_by_key,
            )
            foreign = foreign or any(key[0] for key, _ in members)
            push_members(members, item)
        elif issubclass(kind, (list, tuple)):
            open_container("[", "]", item)
            for index in range(len(item) - 1, -1, -1):
                stack.append(item[index])
                if index:
                    stack.append(_Piece(","))
        elif issubclass(kind, _Unordered):
            forms = sorted(write_any(member, metadata)[0] for member in item.items)
            out.append(f"[{','.join(forms)}]")
        else:
            foreign = True
            out.append(f"!{quote(_type_name(item))}")
            open_container("", "", item)
            stack.append(_contents(item))
        if foreign and steps > _MAX_FOREIGN_STEPS:
            return f"!{quote(_type_name(value))}{quote(safe_repr(value))}", True
    return "".join(out), foreign


def _by_key(member: _Member) -> tuple[bool, str]:
    return member[0][:2]


def _is_metadata(key: object, metadata: Collection[str]) -> bool:
    return issubclass(type(key), str) and key in metadata


def _key_form(key: Any) -> tuple[bool, str, str]:
    # JSON would write the keys 1 and "1" alike. Text sorts as the JSON encoder sorts it.
    if issubclass(type(key), str):
        text = str.__str__(key)
        return False, text, quote(text)
    form = f"!{quote(_type_name(key))}{quote(safe_repr(key))}"
    return True, form, form


def _write_int(number: int) -> str:
    try:
        return int.__repr__(number)
    except ValueError:  # more digits than the interpreter converts; hexadecimal has no limit
        return f"!{hex(number)}"


def _type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def safe_repr(value: object) -> str:
    """`repr`, or a stand-in where the object has none that works."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a broken __repr__ must not break the agent
        return f"<{_type_name(value)} at {id(value):#x}>"


def _contents(value: object) -> Any:
    """What makes up an object that JSON does not know: something simpler, or its repr."""
    try:
        if isinstance(value, (set, frozenset)):
            return _Unordered(value)
        if isinstance(value, (bytes, bytearray)):
            return value.hex()
        dump = getattr(type(value), "model_dump", None)
        if callable(dump):  # pydantic
            return dump(value)
        fields = getattr(type(value), "__dataclass_fields__", None)
        if fields is not None and not isinstance(value, type):
            return {name: getattr(value, name, None) for name in fields}
        members = getattr(value, "__dict__", None)
        if (
            isinstance(members, dict)
            and members
            and not isinstance(value, (type, ModuleType))
            and not callable(value)
        ):
            return members
        buffer = memoryview(value)  # type: ignore[arg-type]  # arrays, of numpy or the standard library
        return [list(buffer.shape or ()), buffer.format, blake2b(buffer.tobytes()).hexdigest()]
    except Exception:  # noqa: BLE001 - whatever a foreign object does when looked at, the agent goes on
        return safe_repr(value)
