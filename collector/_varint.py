"""Whole numbers as protobuf writes them."""

from __future__ import annotations

__all__ = ["varint"]


def varint(number: int) -> bytes:
    """A number from 0 in groups of seven bits, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
