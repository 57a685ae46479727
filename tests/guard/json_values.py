"""Strategies for JSON values, and the equality that fingerprints are to have."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import strategies as st

# Few characters, and those that mean something in JSON: near misses are what finds collisions.
tricky_text = st.text(alphabet='ab1,:{}[]"\\<>/ \n\0é\U0001f600\ud83d\ude00', max_size=6)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.integers(),
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e300, float("inf"), float("-inf"), float("nan")]),
    st.floats(),
    tricky_text,
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(tricky_text | st.sampled_from("ab1"), inner, max_size=3)
    ),
    max_leaves=8,
)
json_objects = st.dictionaries(tricky_text | st.sampled_from("ab1"), json_values, max_size=4)


def same(one: Any, other: Any) -> bool:
    """Equality with types: 1, 1.0 and True differ, and one NaN is like the other."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


def respell(value: Any, seed: int) -> str:
    """JSON text of a value, with keys shuffled, spaces strewn in and characters escaped at random."""
    chance = random.Random(seed)

    def space() -> str:
        return chance.choice(["", "", " ", "\n", "\t\r\n "])

    def text(string: str) -> str:
        out = []
        for character in string:
            escaped = json.dumps(character, ensure_ascii=True)[1:-1]
            units = character.encode("utf-16-be", "surrogatepass").hex()
            spelled_out = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
            # A lone surrogate beside its other half: spelled out, both would read as one character.
            plain = character if character.isprintable() and character not in '"\\' else escaped
            lone = "\ud800" <= character <= "\udfff"
            out.append(character if lone else chance.choice([plain, escaped, spelled_out]))
        return f'"{"".join(out)}"'

    def write(item: Any) -> str:
        if isinstance(item, dict):
            members = list(item.items())
            chance.shuffle(members)
            inner = ",".join(
                f"{space()}{text(key)}{space()}:{space()}{write(member)}{space()}" for key, member in members
            )
            return f"{{{inner}}}"
        if isinstance(item, list):
            return "[" + ",".join(f"{space()}{write(member)}{space()}" for member in item) + "]"
        return text(item) if isinstance(item, str) else json.dumps(item)

    return space() + write(value) + space()
