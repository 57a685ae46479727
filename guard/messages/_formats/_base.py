"""What all formats share: reading values of dicts and SDK objects, ids, stubs, the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from ..._stubs import STUB_MARKER, STUB_STARTS, STUB_TEXT, is_stub_result
from .._model import Call, Message, Other, Result
from .._words import MessageFormat

__all__ = [
    "STUB_MARKER",
    "STUB_TEXT",
    "Format",
    "Placement",
    "get",
    "id_variants",
    "is_stub_content",
    "is_stub_result",
    "plain",
    "rename_id",
    "role_of",
    "text_of",
]


def is_stub_content(content: Any) -> bool:
    """`is_stub_result` for the content of a result: text, or a list of blocks that begins with text."""
    if type(content) is str:
        return content.startswith(STUB_STARTS)
    if isinstance(content, list) and content:
        return is_stub_result(get(content[0], "text"))
    return False


def get(raw: Any, key: str) -> Any:
    """A member of a dict or of an SDK object; None where it has none."""
    if type(raw) is dict:
        return raw.get(key)
    try:
        return raw.get(key) if isinstance(raw, Mapping) else getattr(raw, key, None)
    except Exception:  # noqa: BLE001 - what a foreign object does when looked at is its own affair
        return None


def plain(raw: Any) -> dict[str, Any]:
    """A new dict of what a dict (one level deep) or an SDK object holds; empty for anything else."""
    if isinstance(raw, Mapping):
        return dict(raw)
    dump = get(raw, "model_dump")
    if callable(dump):
        try:
            made = dump(exclude_none=True)
        except Exception:  # noqa: BLE001 - as in `get`
            return {}
        return _as_sent(made) if isinstance(made, dict) else {}
    if isinstance(get(raw, "__dict__"), dict):
        return {key: deep_plain(value) for key, value in vars(raw).items() if not key.startswith("_")}
    return {}


# What the parsing helpers of the SDKs add to an answer, which no request may hold.
_PARSED = ("parsed", "parsed_arguments", "parsed_output")


def _as_sent(made: dict[str, Any]) -> dict[str, Any]:
    holders: list[Any] = [made, made.get("function")]
    for key in ("content", "tool_calls"):
        parts = made.get(key)
        for part in parts if isinstance(parts, list) else ():
            holders += [part, part.get("function") if isinstance(part, dict) else None]
    for holder in holders:
        if isinstance(holder, dict):
            for key in _PARSED:
                holder.pop(key, None)
    return made


def deep_plain(value: Any) -> Any:
    """The same at every depth: what was an SDK object goes out as dicts and lists."""
    if isinstance(value, (list, tuple)):
        return [deep_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool, bytes)):
        return value
    if isinstance(value, Mapping):
        return {key: deep_plain(item) for key, item in value.items()}
    return plain(value)


def id_variants(*texts: Any) -> tuple[str, ...]:
    """All spellings under which these ids are known, stripped: each id, and the halves of `A|B`."""
    found: dict[str, None] = {}
    for text in texts:
        whole = word(text).strip()
        if not whole:
            continue
        found[whole] = None
        if "|" in whole:
            for half in whole.split("|", 1):
                if half.strip():
                    found[half.strip()] = None
    return tuple(found)


def one_id(text: Any) -> tuple[str, ...]:
    """`id_variants` of a single id, quick for the usual case."""
    if type(text) is str and "|" not in text:
        text = text.strip()
        return (text,) if text else ()
    return id_variants(text)


def word(value: Any) -> str:
    """A value that should be a text as one; "" for None and for what cannot be shown."""
    if type(value) is str:
        return value
    try:
        return "" if value is None else str(value)
    except Exception:  # noqa: BLE001 - nested too deep, too many digits, or as in `get`
        return ""


def wire_text(text: Any) -> str | None:
    return text if type(text) is str or text is None else word(text)


def rename_id(text: str, new_head: str) -> str:
    """Another id for a call; of a composite `A|B` the item half stays."""
    _, bar, item = text.partition("|")
    return f"{new_head}|{item.strip()}" if bar else new_head


def text_of(raw: Any) -> str:
    return raw if type(raw) is str else ""


def parts_of(content: Any) -> Sequence[Any]:
    """The blocks of a content that is a list; a single dict counts as a list of one."""
    if type(content) is list or isinstance(content, (list, tuple)):
        return content
    return () if content is None or isinstance(content, (str, bytes, int, float)) else (content,)


def text_other(text: Any, raw: Any) -> Other:
    if type(text) is str:
        return Other("text", not text or text.isspace(), raw, text)
    return Other("text", True, raw)


def role_of(raw: Any) -> str:
    """The role as it stands; "" where there is none."""
    return role_word(get(raw, "role"))


def role_word(role: Any) -> str:
    if type(role) is str or role is None:
        return role or ""
    value = get(role, "value")  # of an enumeration
    return word(role if value is None else value)


def same(one: object, other: object) -> bool:
    """Are two values equal? False where they cannot be compared."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - nested too deep, or a foreign object's own idea of being equal
        return False


def merge(raw: Any, changes: dict[str, Any]) -> Any:
    """`raw` itself where it holds these values, else a plain dict that does. None takes a key away."""
    if raw is not None and all(same(get(raw, key), value) for key, value in changes.items()):
        return raw
    made = {} if raw is None else plain(raw)
    for key, value in changes.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = value
    return made


Placement = Literal["after", "grouped", "anywhere"]


class Format:
    """How one provider family writes a history down.

    `read` never raises, whatever it is given, and `write(read(raw, i)) is raw`. To change a message,
    make a new one with `dataclasses.replace(message, blocks=…, changed=True)`; `write` looks at what
    differs from `raw` and keeps every other key and block of it.
    """

    name: ClassVar[MessageFormat]
    placement: ClassVar[Placement]
    """Where results belong: each as a message of its own behind the turn ("after"), all of a turn in one
    user message behind it ("grouped"), anywhere behind their call ("anywhere")."""
    mixes: ClassVar[bool] = True  # grouped: results may share their message with other blocks
    results_first: ClassVar[bool] = False  # grouped: they come before those
    positional: ClassVar[bool] = False  # calls need no ids; results go by position and name
    unique_items: ClassVar[bool] = False  # a message with an id of its own may stand there only once
    wire_roles: ClassVar[frozenset[str]]  # other roles are refused
    name_limit: ClassVar[int] = 64
    name_letters: ClassVar[str] = "A-Za-z0-9_-"

    def read(self, raw: Any, index: int | None) -> Message:
        """One message of this format; `index` is its place in the history."""
        raise NotImplementedError

    def write(self, message: Message) -> Any:
        """The message in this format: `message.raw` itself where nothing changed, else a plain dict."""
        if not message.changed:
            return message.raw
        made = self._written(message)
        if made is message.raw or isinstance(message.raw, Mapping):
            return made
        try:
            return deep_plain(made)
        except RecursionError:
            return made  # nested deeper than any JSON that a server reads

    def stub(self, call: Call) -> Result:
        """A result for a call that has none, marked as such."""
        return Result(one_id(call.id), call.name, STUB_TEXT, None, True, None, call.id, kind=call.kind)

    def result_messages(self, results: Sequence[Result]) -> list[Message]:
        """Messages that carry these results."""
        raise NotImplementedError

    def rename_call(self, call: Call, new_id: str) -> Call:
        """The call under another id."""
        rest = tuple(one for one in call.ids if one not in id_variants(call.id))
        return replace(call, id=new_id, ids=id_variants(new_id, *rest))

    def rename_result(self, result: Result, new_id: str | None) -> Result:
        """The result as that of another call id."""
        return replace(result, id=new_id, ids=id_variants(new_id))

    def text_block(self, text: str) -> Other:
        """A block of text for a message of this format."""
        return Other("text", not text.strip(), None, text)

    def item_id(self, message: Message) -> str | None:
        """The message's own id where the format refuses a second message of that id."""
        return None

    def call_keys(self, call: Call) -> list[tuple[str, str]]:
        """Each id of a call with the key under which a result of it is looked up."""
        return [(one, one) for one in call.ids]

    def result_keys(self, result: Result) -> list[tuple[str, str]]:
        """Each id of a result with the key of the calls that it may answer."""
        return [(one, one) for one in result.ids]

    def call_kinds(self, call: Call) -> tuple[str, ...]:
        """Which kinds of results may answer a call, where the format has several."""
        return ("",)

    def has_name(self, call: Call) -> bool:
        """Does this kind of call name a function?"""
        return True

    def can_stub(self, call: Call) -> bool:
        """Can a stub stand for the result of this call?"""
        return True

    def needs_id(self, call: Call) -> bool:
        """Must this call have an id?"""
        return not self.positional

    def _written(self, message: Message) -> Any:
        raise NotImplementedError
