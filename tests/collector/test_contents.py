"""Long texts stored once, and templates of JSON texts."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopscope.collector import _contents
from loopscope.collector._contents import (
    INLINE_CHARS,
    Contents,
    Packer,
    clean_text,
    cut_json,
    finite,
    json_text,
    split_array,
    unpack,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
# Texts and messages around the sizes at which cutting starts.
long_texts = st.builds(
    lambda text, times: text * times, st.text(min_size=1, max_size=20), st.integers(1, 200)
)
messages = st.builds(
    lambda role, content, pad: {"role": role, "content": content + pad * "x"},
    st.sampled_from(["user", "assistant"]),
    st.text(max_size=40),
    st.sampled_from([0, 10, 60, 200, 3000]),
)
odd_texts = st.sampled_from(
    [
        "[",
        "[]",
        "[1,]",
        '[{"a":1}',
        '{"a":',
        "[" * 5000,
        "[1" + "1" * 5000 + "]",
        "\x01s" * 600,
        "[]]",
        '{"a" 1}',
    ]
)


def message_texts():
    dumps = st.sampled_from(
        [json.dumps, lambda v: json.dumps(v, indent=1), lambda v: json.dumps(v, separators=(",", ":"))]
    )
    wrap = st.sampled_from(
        [lambda v: v, lambda v: {"messages": v}, lambda v: {"messages": [v], "model": "m"}, lambda v: [v]]
    )
    return st.builds(lambda d, w, items: d(w(items)), dumps, wrap, st.lists(messages, max_size=8))


def pack(packer, value):
    parts: list[int] = []
    return packer.value(value, parts), parts


attribute_values = json_values | long_texts | message_texts() | odd_texts | st.lists(messages, max_size=8)


@given(st.dictionaries(st.text(max_size=8), attribute_values, max_size=5))
def test_attributes_come_back_exactly(attributes):
    contents = Contents()
    template, parts = pack(Packer(contents), attributes)
    whole = unpack(template, parts, contents.texts)
    assert json.loads(whole) == attributes
    assert list(json.loads(whole)) == list(attributes)


@given(st.lists(attribute_values, min_size=1, max_size=6))
def test_how_a_value_is_kept_does_not_depend_on_the_ones_before(values):
    packer = Packer(Contents())
    for value in values:
        assert pack(packer, {"x": value}) == pack(Packer(Contents()), {"x": value})


@given(message_texts(), st.lists(messages, max_size=4))
def test_a_growing_history_keeps_its_pieces(text, more):
    packer = Packer(Contents())
    pack(packer, text)
    value = json.loads(text)
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        for at in range(len(more) + 1):
            grown = json.dumps(value + more[:at])
            assert pack(packer, grown) == pack(Packer(Contents()), grown)


@given(attribute_values.filter(lambda value: isinstance(value, str)))
def test_cuts_are_ordered_and_inside_the_text(text):
    cuts = cut_json(text)
    assert cuts
    at = 0
    for begin, end in cuts:
        assert at <= begin < end or text == ""
        at = end
    assert at <= len(text)


def test_texts_that_share_messages_share_their_storage():
    history = [{"role": "user", "content": "q" * 400}, {"role": "assistant", "content": "a" * 400}]
    contents = Contents()
    packer = Packer(contents)
    keys = []
    for turn in range(5):
        history = [*history, {"role": "user", "content": f"turn {turn} " + "z" * 400}]
        template, parts = pack(packer, json.dumps(history))
        assert len(template) < 60 + 8 * len(history)
        keys.append(parts)
    for before, after in itertools.pairwise(keys):
        assert after[: len(before)] == before
    assert len(contents.texts) == 7
    assert sorted(contents.texts.values()) == sorted(json.dumps(message) for message in history)


def test_messages_inside_an_object_and_inside_a_batch_are_found():
    history = [{"role": "user", "content": f"{n} " + "q" * 400} for n in range(4)]
    for wrapped in ({"messages": history}, {"input": {"messages": [history]}}, [history]):
        contents = Contents()
        _, parts = pack(Packer(contents), json.dumps(wrapped))
        assert [contents.texts[key] for key in parts] == [json.dumps(message) for message in history]


def test_arguments_are_one_text_with_those_of_their_call():
    """Written as text or as an object; an object with messages in it is still cut, with all that is long."""
    arguments = {"query": "q" * 300, "options": {"sites": ["a", "b"], "text": "t" * 200}}
    contents = Contents()
    key = contents.key(json_text(arguments))
    for value in (json_text(arguments), arguments):
        assert pack(Packer(contents), {"arguments": value})[1] == [key]
    assert len(contents.texts) == 1
    body = json.dumps({"system": "s" * 300, "messages": [{"role": "user", "content": "c" * 300}]})
    _, parts = pack(Packer(contents), {"body": body})
    assert [contents.texts[part][:9] for part in parts] == ['"' + "s" * 8, '{"role": ']


def test_short_texts_stay_in_place():
    contents = Contents()
    template, parts = pack(Packer(contents), {"a": "x" * INLINE_CHARS, "b": [1, 2], "c": None})
    assert json.loads(template) == {"a": "x" * INLINE_CHARS, "b": [1, 2], "c": None}
    assert parts == []
    assert contents.texts == {}


def test_a_mark_in_recorded_text_is_only_text():
    contents = Contents()
    attributes = {"a": "\x01s", "b": "x" * 2000, "c": "\x01j\x01s" * 500}
    template, parts = pack(Packer(contents), attributes)
    assert json.loads(unpack(template, parts, contents.texts)) == attributes


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "[" + "9" * 5000 + "]"])
def test_hostile_nesting_and_numbers_are_one_piece(text):
    assert cut_json(text) == [(0, len(text))]
    assert split_array(text) is None


@given(st.lists(json_values))
def test_elements_of_an_array_are_slices_of_it(values):
    for text in (json.dumps(values), json.dumps(values, indent=2)):
        found = split_array(text)
        assert found is not None
        assert [json.loads(item) for item in found] == values
        assert all(item in text for item in found)


@pytest.mark.parametrize("text", ["", "   ", "{}", '"a"', "[1, 2", "[1] x", "[1,]", "nonsense"])
def test_other_texts_have_no_elements(text):
    assert split_array(text) is None


def test_numbers_that_are_not_finite_become_text():
    values = [float("nan"), float("inf"), float("-inf"), 1.5, {"a": [float("nan")]}]
    assert finite(values) == ["NaN", "Infinity", "-Infinity", 1.5, {"a": ["NaN"]}]
    assert json_text(values) == '["NaN","Infinity","-Infinity",1.5,{"a":["NaN"]}]'
    with pytest.raises(ValueError, match="Out of range"):
        pack(Packer(Contents()), {"a": float("nan")})


def test_lone_surrogates_are_replaced_and_pairs_joined():
    assert clean_text("a\ud83d\ude00b") == "a😀b"
    assert clean_text("a\ud83d") == "a\ufffd"
    contents = Contents()
    assert contents.texts[contents.key("x\ud800")] == "x\ufffd"


def test_texts_with_one_hash_get_keys_of_their_own(monkeypatch):
    real = _contents._digest

    def weak(raw):  # every text of one length collides
        if raw[:1].isdigit():
            return real(raw)
        return len(raw), real(raw)[1]

    monkeypatch.setattr(_contents, "_digest", weak)
    contents = Contents()
    keys = [contents.key(text) for text in ("one", "two", "one", "six", "four")]
    assert keys[0] == keys[2] == 3
    assert len(set(keys)) == 4
    assert {key: contents.texts[key] for key in set(keys)} == {
        keys[0]: "one",
        keys[1]: "two",
        keys[3]: "six",
        keys[4]: "four",
    }
    # A key that the database has for another text is passed over.
    again = Contents()
    again.reserve({3: real(b"two")[1]})
    assert again.key("one") != 3
    assert again.key("two") == 3
