"""Long texts, stored once.

A text over 128 characters is kept in the table `contents` under its hash; what refers to it keeps the
hash. The messages of a conversation are sent again with every request, so a JSON text is
cut at the boundaries of its array elements and each long element is a text of its own: a
history that grows by two messages adds two texts.

A JSON text from which pieces were cut is a template: the text with a mark, chr(1) and a letter, in
the place of each piece. JSON encoders escape control characters, so no recorded text can hold a mark.
"""

from __future__ import annotations

import hashlib
import json
import json.scanner
import math
import re
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring
from struct import Struct
from typing import Any

import pyarrow as pa

from ..guard._json_writer import json_writer

__all__ = [
    "CHECK_BITS",
    "INLINE_CHARS",
    "Contents",
    "Packer",
    "clean_text",
    "cut_json",
    "finite",
    "json_text",
    "split_array",
    "strict_json",
    "unpack",
]

# Longer texts go to `contents`. The design asks for it from 1 kB on; but arguments and results stand in their
# span and in their call: at 256 a database of tool spans is a quarter smaller, at 128 another seventh.
INLINE_CHARS = 128
_MIN_PIECE = 96  # a shorter array element costs less in place than a key, a row and a join
_MAX_DEPTH = 4  # how deep a JSON text is searched for long arrays: {"messages": [[{…}]]} needs three

MARK = "\x01"
_ONE_PIECE = f'"{MARK}s"'  # the template of a text that is one piece
_BEFORE_PIECES = frozenset("[{ \t\r\n")  # how a JSON text that may be cut begins
# Parses the JSON value at an offset and says where it ends: the way to find an element's end at C speed.
_scan: Callable[[str, int], tuple[Any, int]] = json.scanner.make_scanner(json.JSONDecoder())  # pyright: ignore
# Raises ValueError where a number is not finite.
strict_json = json_writer(allow_nan=False)

Cut = tuple[int, int]
_blanks = re.compile(r"[ \t\r\n]*")
_BLANKS = frozenset(" \t\r\n")


def _blank(text: str, at: int) -> int:
    """Where the white space that starts at `at` ends."""
    if text[at : at + 1] not in _BLANKS:
        return at
    if text[at + 1 : at + 2] not in _BLANKS:  # none or one, as nearly everybody writes it: half the time
        return at + 1
    found = _blanks.match(text, at)
    assert found is not None
    return found.end()


def clean_text(text: str) -> str:
    """The text without lone surrogates, which JSON can hold and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def json_text(value: Any) -> str:
    """Compact JSON. Non-finite numbers become text, as the JSON form of protobuf has it."""
    try:
        return strict_json(value)
    except ValueError:
        return strict_json(finite(value))


def finite(value: Any) -> Any:
    """A copy of a JSON value in which NaN and the infinities are the texts 'NaN', 'Infinity', '-Infinity'."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return value


# -- cutting ------------------------------------------------------------------------------------------


def split_array(text: str) -> list[str] | None:
    """The elements of a JSON array as they stand in the text; None if the text is not a JSON array."""
    try:
        start = _blank(text, 0)
        if text[start] != "[":
            return None
        spans, end = _elements(text, start)
        if _blank(text, end) != len(text):
            return None
    except (ValueError, IndexError, StopIteration, RecursionError):
        return None
    return [text[begin:stop] for begin, stop in spans]


def cut_json(text: str) -> list[Cut]:
    """Where to cut a long text: the ranges of its pieces, in order, not empty.

    A text that is not JSON, or has no long array elements, is one piece: so are arguments, which are stored
    once then for their span and for their call.
    """
    whole = [(0, len(text))]
    cuts: list[Cut] = []
    try:
        start = _blank(text, 0)
        if text[start] not in "[{":
            return whole
        if not _cut_value(text, start, cuts, 0):
            return whole
    except (ValueError, IndexError, StopIteration, RecursionError):
        return whole
    return cuts if _worth_it(text, cuts) else whole


def _cut_value(text: str, start: int, cuts: list[Cut], depth: int) -> bool:
    """Add the pieces of the array or object at `start`; whether there are elements of arrays among them."""
    elements = False
    if text[start] == "[":
        spans, _ = _elements(text, start)
        nested = depth < _MAX_DEPTH and len(spans) <= 2  # [[message, message, …]], one batch
        for begin, stop in spans:
            if nested and text[begin] == "[" and stop - begin > INLINE_CHARS:
                elements |= _cut_value(text, begin, cuts, depth + 1)
            elif stop - begin >= _MIN_PIECE:
                cuts.append((begin, stop))
                elements = True
        return elements
    for begin, stop in _values(text, start):
        if stop - begin <= INLINE_CHARS:
            continue
        if text[begin] in "[{" and depth < _MAX_DEPTH:
            elements |= _cut_value(text, begin, cuts, depth + 1)
        else:
            cuts.append((begin, stop))
    return elements


def _elements(text: str, start: int) -> tuple[list[Cut], int]:
    """Ranges of the elements of the array at `start`, and where it ends."""
    spans: list[Cut] = []
    at = _blank(text, start + 1)
    if text[at] == "]":
        return spans, at + 1
    while True:
        _, stop = _scan(text, at)
        spans.append((at, stop))
        at = _blank(text, stop)
        if text[at] == "]":
            return spans, at + 1
        if text[at] != ",":
            raise ValueError("not a JSON array")
        at = _blank(text, at + 1)


def _values(text: str, start: int) -> list[Cut]:
    """Ranges of the values of the object at `start`."""
    spans: list[Cut] = []
    at = _blank(text, start + 1)
    if text[at] == "}":
        return spans
    while True:
        if text[at] != '"':
            raise ValueError("not a JSON object")
        _, at = _scan(text, at)
        at = _blank(text, at)
        if text[at] != ":":
            raise ValueError("not a JSON object")
        at = _blank(text, at + 1)
        _, stop = _scan(text, at)
        spans.append((at, stop))
        at = _blank(text, stop)
        if text[at] == "}":
            return spans
        if text[at] != ",":
            raise ValueError("not a JSON object")
        at = _blank(text, at + 1)


# -- keys ---------------------------------------------------------------------------------------------


_two_longs = Struct(">qq").unpack
CHECK_BITS = 0xFFFFFFFF  # of a check that are stored: whole ones would be the largest column beside the texts


def _digest(text: bytes) -> tuple[int, int]:
    """Two signed numbers of 64 bits."""
    return _two_longs(hashlib.blake2b(text, digest_size=16).digest())  # type: ignore[return-value]


class Contents:
    """The texts of one batch, by key.

    64 bits are enough against chance, but somebody who writes both texts can make two collide. So a key that
    is taken by another text (told apart by 64 more bits) is passed over for the next one in a fixed sequence.
    """

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self._checks: dict[int, int] = {}
        # A history repeats its messages in every request after them; looking a text up is many times
        # cheaper than hashing it again.
        self._keys: dict[str, int] = {}

    def key(self, text: str) -> int:
        """The key of a text, from now on part of the batch."""
        found = self._keys.get(text)
        if found is None:
            found = self._keys[text] = self._new_key(text)
        return found

    def _new_key(self, text: str) -> int:
        try:
            raw = text.encode()
        except UnicodeEncodeError:
            text = clean_text(text)
            raw = text.encode()
        key, check = _digest(raw)
        while (known := self._checks.get(key)) is not None and known != check:
            key, _ = _digest(b"%d %d" % (key, check))
        if key not in self.texts:
            self.texts[key] = text
            self._checks[key] = check
        return key

    @staticmethod
    def hash(text: str) -> int:
        """The key a text has, unless another text took it first."""
        return _digest(clean_text(text).encode())[0]

    def table(self, keys: Iterable[int]) -> pa.Table:
        """hash, check_hash (by which equal texts are found) and text of some keys."""
        wanted = sorted(keys)
        return pa.table(
            {
                "hash": pa.array(wanted, type=pa.int64()),
                "check_hash": pa.array([self._checks[key] & CHECK_BITS for key in wanted], type=pa.int64()),
                "text": pa.array([self.texts[key] for key in wanted], type=pa.string()),
            }
        )

    def reserve(self, stored: Mapping[int, int]) -> None:
        """Keys that texts in the database have (with their checks): they are passed over from now on."""
        self._checks.update(stored)
        self._keys.clear()
        for key in stored:
            self.texts.pop(key, None)


# -- templates ----------------------------------------------------------------------------------------


class Packer:
    """Turns attribute values into templates, and puts what it cuts out into a batch's contents.

    The methods raise ValueError where a value holds a number that is not finite.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        # The last long text under a name, how it was cut, and the keys: the next request of a conversation
        # starts with the same messages, and comparing is much cheaper than parsing and hashing.
        self._recent: dict[str, tuple[str, list[Cut], list[int]]] = {}

    def attributes(self, attributes: dict[str, Any], parts: list[int]) -> str:
        """The template of a dictionary of attributes; keys of the pieces are appended to `parts`."""
        for value in attributes.values():
            kind = type(value)
            if (kind is str and len(value) > INLINE_CHARS) or kind is list or kind is dict:
                break
        else:
            return strict_json(attributes)
        quote = encode_basestring
        # Short texts, of which most attributes are made, need no call of a function of ours.
        fields = [
            f"{quote(name)}:{quote(value)}"
            if type(value) is str and len(value) <= INLINE_CHARS
            else f"{quote(name)}:{self._value(value, parts, name)}"
            for name, value in attributes.items()
        ]
        return "{" + ",".join(fields) + "}"

    def value(self, value: Any, parts: list[int]) -> str:
        """The template of any attribute value (the body of a log record)."""
        return self.attributes(value, parts) if type(value) is dict else self._value(value, parts, "")

    def _value(self, value: Any, parts: list[int], name: str) -> str:
        if type(value) is str:
            if len(value) <= INLINE_CHARS:
                return encode_basestring(value)
            if value[0] not in _BEFORE_PIECES:  # no JSON that could be cut
                parts.append(self._contents.key(value))
                return _ONE_PIECE
            pieces = ['"']
            at = 0
            for begin, stop, key in self._cut(value, name):
                pieces += (encode_basestring(value[at:begin])[1:-1], MARK, "s")
                parts.append(key)
                at = stop
            pieces += (encode_basestring(value[at:])[1:-1], '"')
            return "".join(pieces)
        if type(value) is int:
            return int.__repr__(value)
        text = strict_json(value)
        if len(text) <= INLINE_CHARS:
            return text
        pieces = []
        at = 0
        for begin, stop, key in self._cut(text, name):
            pieces += (text[at:begin], MARK, "j")
            parts.append(key)
            at = stop
        pieces.append(text[at:])
        return "".join(pieces)

    def _cut(self, text: str, name: str) -> list[tuple[int, int, int]]:
        cuts: list[Cut] = []
        keys: list[int] = []
        recent = self._recent.get(name)
        if recent is not None and recent[0] == text:
            _, cuts, keys = recent
        else:
            cuts, keys = self._cut_afresh(text, recent)
            self._recent[name] = (text, cuts, keys)
        return [(begin, stop, key) for (begin, stop), key in zip(cuts, keys, strict=True)]

    def _cut_afresh(
        self, text: str, recent: tuple[str, list[Cut], list[int]] | None
    ) -> tuple[list[Cut], list[int]]:
        if recent is not None and text[0] == "[" and recent[0][0] == "[":
            before, cuts, keys = recent
            shared = _shared(before, text, cuts)
            if shared and (rest := _cut_rest(text, cuts[:shared])) is not None:
                return cuts[:shared] + rest, keys[:shared] + [self._contents.key(text[b:e]) for b, e in rest]
        cuts = cut_json(text)
        return cuts, [self._contents.key(text[begin:stop]) for begin, stop in cuts]


def _shared(before: str, text: str, cuts: list[Cut]) -> int:
    """How many leading pieces of `before` stand at the same places in `text`."""
    low, high = 0, len(cuts)
    if high and text.startswith(before[: cuts[-1][1]]):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if text.startswith(before[: cuts[middle - 1][1]]):
            low = middle
        else:
            high = middle - 1
    return low


def _cut_rest(text: str, known: list[Cut]) -> list[Cut] | None:
    """The pieces behind the `known` leading ones of a JSON array text, as `cut_json` would find them.

    None where it might find others: how a text is kept must not depend on what was kept before it.
    """
    if any(text[begin] != "{" for begin, _ in known):  # an inner array may be cut itself
        return None
    rest: list[Cut] = []
    try:
        at = _blank(text, known[-1][1])
        if text[at] == ",":
            if text[_blank(text, at + 1)] == "]":
                return None
            spans, end = _elements(text, at)
            if any(text[begin] == "[" for begin, _ in spans):
                return None
            rest = [(begin, stop) for begin, stop in spans if stop - begin >= _MIN_PIECE]
        elif text[at] == "]":
            end = at + 1
        else:
            return None
        if _blank(text, end) != len(text):
            return None
    except (ValueError, IndexError, StopIteration, RecursionError):
        return None
    return rest if _worth_it(text, known + rest) else None


def _worth_it(text: str, cuts: list[Cut]) -> bool:
    left = len(text) - sum(end - begin for begin, end in cuts)
    return bool(cuts) and left <= max(1024, len(text) // 2)


def unpack(template: str, parts: list[int] | None, texts: Mapping[int, str]) -> str:
    """The whole JSON text of a template; `texts` gives the text of every key in `parts`."""
    if not parts:
        return template
    pieces = template.split(MARK)
    out = [pieces[0]]
    for piece, key in zip(pieces[1:], parts, strict=True):
        text = texts[key]
        out.append(encode_basestring(text)[1:-1] if piece[0] == "s" else text)
        out.append(piece[1:])
    return "".join(out)
