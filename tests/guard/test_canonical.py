"""Fingerprints and result hashes: what is the same, and what must never be."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import json
import os
import subprocess
import sys
import uuid
from hashlib import blake2b

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_values import json_objects, json_values, respell, same, scalars, tricky_text

from loopscope.guard import canonical_arguments, fingerprint, result_hash, scope_key
from loopscope.guard._canonical import fingerprint_of_text

EQUAL = [
    ('{"path": "foo", "limit": 10}', '{"limit":10,"path":"foo"}', "key order"),
    ('{ "path" : "foo" ,\n "limit":10 }', {"path": "foo", "limit": 10}, "text and object"),
    ('{"q":"\\u0063ats"}', '{"q":"cats"}', "escapes"),
    ('{"q":"\\/a"}', '{"q":"/a"}', "escaped slash"),
    ('{"q":"\\ud83d\\ude00"}', '{"q":"😀"}', "surrogate pair"),
    ('{"n": 1e2}', '{"n": 100.0}', "spelling of a number"),
    (json.dumps(json.dumps({"a": 1})), {"a": 1}, "encoded twice"),
    (json.dumps(json.dumps(json.dumps([1]))), [1], "encoded three times"),
    ("<q>cats</q>", '{"q": "cats"}', "XML-ish"),
    ("<q>cats</q>", "\n<q> cats </q>\n", "XML-ish spacing"),
    ("<b>1</b><a>2</a>", '{"a": "2", "b": "1"}', "XML-ish order"),
    ({"a": {"_aura_reasoning": "x", "b": 1}}, {"a": {"b": 1}}, "nested metadata key"),
    ('{"a": 1, "_nonce": 9}', '{"a": 1}', "metadata key in text"),
    ('{"a": 1, "\\u005fnonce": 9}', '{"a": 1}', "escaped metadata key"),
    ('[{"_duplicate_reasoning": {"deep": [1]}}]', "[{}]", "metadata key in a list"),
    ("<q>x</q><_nonce>7</_nonce>", "<q>x</q>", "XML-ish metadata key"),
    ((1, "a"), [1, "a"], "tuple and list"),
    (collections.OrderedDict(b=1, a=2), {"a": 2, "b": 1}, "any mapping"),
    (b'{"a": 1}', '{"a":1}', "bytes that are text"),
    ('{"a":1,"b":2,"a":3}', '{"b":2,"a":1,"a":3}', "order around a repeated key"),
]

DIFFERENT = [
    ({"n": 1}, {"n": 1.0}),
    ({"n": 1}, {"n": "1"}),
    ({"n": 1}, {"n": True}),
    ({"n": 1.0}, {"n": True}),
    ({"n": 0}, {"n": False}),
    ({"n": 0.0}, {"n": -0.0}),
    ({"n": None}, {}),
    ({"n": None}, {"n": "null"}),
    ({"q": "a"}, {"q": "a "}),
    ({"q": "a"}, {"q": "A"}),
    ({"a": [1, 2]}, {"a": [2, 1]}),
    ({"a": 1, "b": 2}, {"a:1,b": 2}),
    ({"a": 1, "b": 2}, {'a":1,"b': 2}),
    ({"a": {}}, {"a": []}),
    ({"a": {"b": 1}}, {"a": {"c": 1}}),
    ('{"q":1}', "<q>1</q>"),
    ("alpha", "beta"),
    ("alpha", '"alpha"'),
    ('"alpha"', '"\\"alpha\\""'),
    ('"1"', "1"),
    ("", "{}"),
    ("", " "),
    ("", "null"),
    ("<q>x</q>", "<q>x</q> tail"),
    ("<q>1</q><q>2</q>", "<q>2</q>"),
    ('{"a":1,"a":2}', '{"a":2}'),
    ('{"a":1,"a":2}', '{"a":2,"a":1}'),
    ("1e400", "1e500"),
    ("1e400", "Infinity"),
    ("NaN", "Infinity"),
    ('["a\\ud83d","\\ude00"]', '["a","\\ud83d\\ude00"]'),
    ({"q": "\ud83d\ude00"}, {"q": "😀"}),
    ({"q": "\ud83d"}, {"q": "\\ud83d"}),
    ("text \ud83d", "text \\ud83d"),
    (str(12345678901234567890), str(12345678901234567891)),
    ("9" * 5000, "9" * 4999 + "8"),
    ({1: "x"}, {"1": "x"}),
    ({None: "x"}, {"null": "x"}),
    ({True: "x"}, {"true": "x"}),
    ({"a", "b"}, ["a", "b"]),
    ({"a"}, frozenset({"a"})),
    (decimal.Decimal("1"), 1),
    (decimal.Decimal("1"), "1"),
    (b"\xff", "ff"),
    (datetime.date(2026, 1, 2), "2026-01-02"),
    (array.array("i", [1, 2]), array.array("i", [1, 3])),
]


@pytest.mark.parametrize(("one", "other", "what"), EQUAL, ids=[what for *_, what in EQUAL])
def test_the_spelling_of_a_call_does_not_matter(one, other, what):
    assert canonical_arguments(one) == canonical_arguments(other), what
    assert fingerprint("read", one) == fingerprint("read", other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=[str(n) for n in range(len(DIFFERENT))])
def test_different_calls_have_different_forms(one, other):
    assert canonical_arguments(one) != canonical_arguments(other)
    assert fingerprint("read", one) != fingerprint("read", other)


def test_a_plain_form_is_what_a_reader_expects():
    form = canonical_arguments({"b": [1, 2.0, "x", None, True], "a": {}})
    assert form == '{"a":{},"b":[1,2.0,"x",null,true]}'


@given(json_values, json_values)
@example({"a": 1, "b": 2}, {"a:1,b": 2})
@example(["\ud83d\ude00"], ["😀"])
@settings(deadline=None, max_examples=400)
def test_two_json_values_share_a_form_only_if_they_are_equal(one, other):
    # In a list, because text is read as JSON and a string alone is not an argument object.
    assert (canonical_arguments([one]) == canonical_arguments([other])) == same(one, other)


@given(json_values, st.integers(0, 2**32))
@settings(deadline=None, max_examples=300)
def test_order_spacing_and_escapes_never_change_a_fingerprint(value, seed):
    assert canonical_arguments(respell([value], seed)) == canonical_arguments([value])
    assert fingerprint("t", respell({"k": value}, seed)) == fingerprint("t", {"k": value})


@given(json_objects, st.sampled_from(["_nonce", "_duplicate_reasoning", "_aura_reasoning"]), scalars)
@settings(deadline=None)
def test_metadata_keys_are_left_out_at_every_depth(value, key, noise):
    def with_noise(item):
        if isinstance(item, dict):
            return {key: noise, **{name: with_noise(member) for name, member in item.items()}}
        return [with_noise(member) for member in item] if isinstance(item, list) else item

    assert canonical_arguments(with_noise(value)) == canonical_arguments(value)
    text = json.dumps(with_noise(value), ensure_ascii=False)
    assert canonical_arguments(text) == canonical_arguments(value)


def test_metadata_keys_are_the_callers_choice():
    traced = {"q": "x", "trace": 7}
    assert fingerprint("t", traced) != fingerprint("t", {"q": "x"})
    assert fingerprint("t", traced, metadata_keys=["trace"]) == fingerprint("t", {"q": "x"})
    assert canonical_arguments({"_nonce": 1}, metadata_keys=()) == '{"_nonce":1}'


def test_a_metadata_name_inside_of_a_string_stays():
    value = {"code": 'x = {"_nonce": 1}', "_nonces": 2}
    assert canonical_arguments(value) != canonical_arguments({"code": 'x = {"": 1}', "_nonces": 2})
    assert json.loads(canonical_arguments(value)) == value


@given(st.text(alphabet=st.characters(), max_size=30) | tricky_text | st.binary(max_size=20))
@settings(deadline=None, max_examples=300)
def test_any_text_has_a_form_that_can_be_stored(text):
    canonical_arguments(text).encode("utf-8")
    assert isinstance(fingerprint(str(text), text), int)
    assert isinstance(result_hash(text), int)


def reads_as_json(text):
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    except ValueError:  # a number of more digits than it converts
        return True
    return True


@given(json_objects, st.integers(0, 60), tricky_text)
@settings(deadline=None)
def test_the_fingerprint_of_text_comes_with_whether_it_is_json(value, end, behind):
    whole = json.dumps(value)
    for text in (whole, whole[:end] + behind, behind, '{"n": 1' + "0" * 5000 + "}", '{"n": NaN, "n": 1}'):
        assert fingerprint_of_text("t", text) == (fingerprint("t", text), reads_as_json(text))


@given(tricky_text, tricky_text)
@settings(deadline=None, max_examples=300)
def test_two_texts_that_are_neither_json_nor_xmlish_share_no_form(one, other):
    if canonical_arguments(f"x{one}") == canonical_arguments(f"x{other}"):
        assert one == other


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


@pytest.mark.parametrize("depth", [100, 128, 129, 900, 20_000])
def test_depth_is_no_danger(depth):
    text = nested(depth)
    assert canonical_arguments(text) != canonical_arguments(nested(depth + 1))
    assert (canonical_arguments(f" {text}") == canonical_arguments(text)) == (depth <= 128)
    deep: object = 1
    for _ in range(depth):
        deep = {"k": [deep]}
    other: object = 2
    for _ in range(depth):
        other = {"k": [other]}
    assert canonical_arguments(deep) != canonical_arguments(other)
    assert canonical_arguments(deep).startswith('{"k":[')


def test_the_form_of_deep_text_does_not_depend_on_the_callers_stack():
    text = f'{{"a": {nested(120)} }}'
    at_rest = canonical_arguments(text)

    def deeper(levels: int) -> str:
        return canonical_arguments(text) if levels == 0 else deeper(levels - 1)

    assert deeper(400) == at_rest
    assert " " not in at_rest


def test_a_cycle_is_named_and_not_followed():
    loop: dict[str, object] = {"a": 1}
    loop["self"] = loop
    other: dict[str, object] = {"a": 2}
    other["self"] = other
    assert canonical_arguments(loop) != canonical_arguments(other)


def test_a_shared_object_is_no_cycle():
    shared = {"x": 1}
    assert canonical_arguments({"a": shared, "b": (shared,)}) == '{"a":{"x":1},"b":[{"x":1}]}'


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.StrEnum):
    HIGH = "high"


@dataclasses.dataclass
class Point:
    x: int
    tags: set[str]


class Model:
    """What a pydantic model looks like from outside."""

    def __init__(self, **values: object) -> None:
        self.values = values

    def model_dump(self) -> dict[str, object]:
        return self.values


class Bag:
    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)


class Hostile:
    """An object on which everything fails."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")


class HostileMapping(collections.UserDict):
    def items(self):
        raise RuntimeError("items")


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda: Point(1, {"a", "b", "c"}), Point(2, {"a", "b", "c"})),
        (lambda: Model(a=1, b={"_nonce": 2}), Model(a=2, b={})),
        (lambda: Bag(a=[1, (2,)]), Bag(a=[1, (3,)])),
        (lambda: Colour.RED, Colour.BLUE),
        (
            lambda: {"on": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)},
            {"on": datetime.date(2026, 1, 2)},
        ),
        (lambda: uuid.UUID(int=5), uuid.UUID(int=6)),
        (lambda: {1, 2.0, "x", (1, 2)}, {1, 2.0, "x", (2, 1)}),
        (lambda: {"raw": b"\x00\xff"}, {"raw": b"\x00\xfe"}),
        (lambda: memoryview(b"abc"), memoryview(b"abd")),
        (lambda: {("a", 1): 2}, {("a", 2): 2}),
    ],
)
def test_python_objects_are_told_apart_by_their_contents(make, other):
    assert canonical_arguments(make()) == canonical_arguments(make())
    assert canonical_arguments(make()) != canonical_arguments(other)
    assert result_hash([make()]) == result_hash([make()])
    assert result_hash([make()]) != result_hash([other])
    assert canonical_arguments([make()]) != canonical_arguments(canonical_arguments([make()]))


def test_classes_with_equal_contents_stay_apart():
    class Other(Bag):
        pass

    assert canonical_arguments(Bag(a=1)) != canonical_arguments(Other(a=1))
    assert canonical_arguments(Bag(a=1)) != canonical_arguments({"a": 1})


def test_subclasses_of_json_types_are_what_they_hold():
    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "something else"

    assert canonical_arguments([Text("x"), Level.HIGH]) == '["x","high"]'
    assert canonical_arguments({Level.HIGH: 1, Text("z"): 2}) == '{"high":1,"z":2}'


STRANGE = [Hostile, HostileMapping, object, lambda: sys, lambda: print, lambda: Bag, lambda: 10**5000]


@pytest.mark.parametrize("make", STRANGE)
def test_nothing_crashes_on_strange_objects(make):
    value = make()
    canonical_arguments(value).encode()
    canonical_arguments({"a": [value]}).encode()
    assert isinstance(fingerprint("t", {"a": value}), int)
    assert isinstance(result_hash(value), int)


def test_an_object_with_half_a_program_behind_it_is_known_by_its_repr():
    bag = Bag(name="big", rows=[Bag(n=n) for n in range(100_000)])
    assert len(canonical_arguments(bag)) < 10_000


def test_a_million_open_tags_are_read_in_one_pass():
    text = "<a>" * 300_000
    assert canonical_arguments(text) == text


def test_fingerprints_are_the_documented_bytes():
    """Pins version 1: what is stored must be found again by every later release."""
    data = b'4:read{"path":"a"}'
    expected = int.from_bytes(blake2b(data).digest()[:8], "big", signed=True)
    assert fingerprint("read", {"path": "a"}) == expected == -4649034970241093781
    assert result_hash("hello") == int.from_bytes(blake2b(b"hello").digest()[:8], "big", signed=True)


def test_name_and_arguments_do_not_run_together():
    assert fingerprint("read", "x1") != fingerprint("readx", "1")
    assert fingerprint("a", "1") != fingerprint("b", "1")
    assert scope_key("r", "a1", 5) != scope_key("ra", "1", 5)
    assert scope_key("r", None, 5) != scope_key("r", "", 5)
    assert scope_key("r", None, 51) != scope_key("r", None, 5)


def test_missing_is_not_empty():
    assert fingerprint("t", None) is None
    assert fingerprint("t", "") is not None
    assert result_hash(None) is None
    assert result_hash("") is not None


def test_results_are_compared_as_recorded():
    assert result_hash('{"a":1}') != result_hash('{"a": 1}')
    assert result_hash("x") != result_hash("x ")
    assert result_hash({"a": 1, "b": 2}) == result_hash({"b": 2, "a": 1})
    assert result_hash({"a": 1}) != result_hash('{"a":1}')
    assert result_hash({"_nonce": 1}) != result_hash({})
    assert result_hash(1) != result_hash("1")


def test_every_process_gets_the_same_fingerprints():
    code = (
        "from loopscope.guard import fingerprint, result_hash, scope_key\n"
        "print(fingerprint('t', {'s': {'a', 'b', 'c', 'd'}}), result_hash([{'x', 'y', 'z'}]))\n"
        "print(scope_key('r', 'a', 1))"
    )

    def output(seed: str) -> str:
        run = [sys.executable, "-c", code]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout

    assert output("1") == output("2") != ""
