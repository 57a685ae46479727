"""Text in protobuf that is not UTF-8, made readable.

Protobuf refuses a whole message for one such text, and with it every other span of the batch. Some SDKs
(C++, PHP) send what the program gave them. Here a serialized message is walked by its descriptor, and only
texts are changed: what is no UTF-8 becomes U+FFFD.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ._varint import varint

__all__ = ["with_valid_text"]

_MAX_DEPTH = 100  # as protobuf's own
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def with_valid_text(data: bytes, descriptor: Descriptor) -> bytes:
    """The same message with valid text. Raises ValueError where it is not a protobuf message at all."""
    return _rewrite(data, descriptor, 0)


def _rewrite(data: bytes, descriptor: Descriptor, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    parts: list[bytes] = []
    for number, wire_type, start, body, end in _fields(data):
        field = descriptor.fields_by_number.get(number)
        piece = data[start:end]
        if field is not None and wire_type == _LENGTH:
            inner = data[body:end]
            if field.type == FieldDescriptor.TYPE_STRING:
                inner = inner.decode("utf-8", "replace").encode()
            elif field.message_type is not None:
                inner = _rewrite(inner, field.message_type, depth + 1)
            piece = varint(number << 3 | _LENGTH) + varint(len(inner)) + inner
        parts.append(piece)
    return b"".join(parts)


def _fields(data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """(number, wire type, start of the field, start of its content, end) of every field."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            body = at
            _, at = _read_varint(data, at)
        elif wire_type == _LENGTH:
            length, body = _read_varint(data, at)
            at = body + length
        elif wire_type in {_FIXED64, _FIXED32}:
            body = at
            at += 8 if wire_type == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if at > len(data):
            raise ValueError("ends in the middle")
        yield number, wire_type, start, body, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("no number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
