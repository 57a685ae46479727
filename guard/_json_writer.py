"""Compact JSON texts, written by the standard library's C encoder without the detour around it."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any

__all__ = ["json_writer"]


def json_writer(*, sort_keys: bool = False, allow_nan: bool = True) -> Callable[[Any], str]:
    """The `encode` of a JSONEncoder that writes no spaces, escapes only what must be, looks for no cycles.

    That method sets up an encoder in C for every value it is given, which takes longer than to write a
    small one: 1.2 µs for two arguments, 0.7 µs with an encoder that is kept.
    """
    plain = json.JSONEncoder(
        sort_keys=sort_keys,
        allow_nan=allow_nan,
        separators=(",", ":"),
        ensure_ascii=False,
        check_circular=False,
    )
    make: Any = json.encoder.c_make_encoder  # pyright: ignore  None where there is no C
    if make is None:
        return plain.encode
    quote = json.encoder.encode_basestring
    chunks = make(None, plain.default, quote, None, ":", ",", sort_keys, False, allow_nan)

    def write(value: Any) -> str:
        return "".join(chunks(value, 0))

    return write
