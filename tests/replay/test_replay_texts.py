"""Texts: masked, compared, made visible."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopscope.replay._changes import compare
from loopscope.replay._mask import mask, mask_error
from loopscope.replay._text import cut, duration, utc, visible
from loopscope.replay._time import bucket_width


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 4711 is locked", "order 12 is locked"),
        ("at 2026-01-02T03:04:05Z", "at 2025-12-31T23:59:59.123Z"),
        ("id 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id 00000000-0000-0000-0000-000000000000"),
        ("call_9Ab3xYz12 failed", "call_7Qq8wEr99 failed"),
        ("commit deadbeef1234", "commit 00ff00ff00ff"),
        ("took 1.5s", "took 22.75s"),
    ],
)
def test_volatile_parts_are_masked(one: str, other: str) -> None:
    assert mask(one) == mask(other)
    assert mask(one) != one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HTTP 503", "HTTP 429"),
        ("status 404", "status 500"),
        ("code -32602", "code -32603"),
        ("disk full", "no seat"),
    ],
)
def test_what_tells_faults_apart_stays(one: str, other: str) -> None:
    assert mask_error(one) != mask_error(other)


def test_errors_lose_paths_quoted_words_and_what_the_arguments_said() -> None:
    one = mask_error("cannot open '/tmp/a/b.txt' of alice: can't read", '{"user": "alice"}')
    other = mask_error("cannot open '/srv/x/y.log' of bob42: can't read", '{"user": ["bob42"]}')
    assert one == other == "cannot open <quoted> of <arg>: can't read"


def test_json_errors_keep_their_words() -> None:
    assert mask_error('{"error": "not found"}') != mask_error('{"error": "denied"}')


@pytest.mark.parametrize("arguments", ["[" * 5_000, '{"a": ', "plain", "", None, "1" * 5_000])
def test_arguments_that_are_no_object_are_no_trouble(arguments: str | None) -> None:
    assert mask_error("no seat", arguments) == "no seat"


@given(st.text())
def test_masking_is_bounded_and_total(text: str) -> None:
    long = text * (8_000 // len(text)) if text else ""
    assert len(mask_error(long, text)) <= len(mask_error(long[:4_000], text)) <= 4_000 * len("<quoted>")


# Changes


def test_same_and_missing() -> None:
    assert compare("a", "a").same
    assert compare('{"a": 1, "b": 2}', '{"b":2,"a":1}').summary == "same values, written differently"
    for before, after in ((None, "a"), ("a", None), (None, None)):
        change = compare(before, after)
        assert not change.same
        assert "recorded" in change.summary


def test_minus_zero_is_another_number() -> None:
    assert not compare('{"x": 0.0}', '{"x": -0.0}').same


def test_json_differences_have_paths_and_values() -> None:
    change = compare(
        json.dumps({"status": "pending", "tries": [1, 2], "old": None, "deep": {"a": {"b": True}}}),
        json.dumps({"status": "done", "tries": [1, 3, 4], "new": "x", "deep": {"a": {"b": 1}}}),
    )
    assert [(one.path, one.kind, one.before, one.after) for one in change.changes] == [
        ("status", "changed", '"pending"', '"done"'),
        ("tries[1]", "changed", "2", "3"),
        ("tries[2]", "added", None, "4"),
        ("old", "removed", "null", None),
        ("deep.a.b", "changed", "true", "1"),
        ("new", "added", None, '"x"'),
    ]
    assert change.summary == "changed: status, tries[1], deep.a.b; added: tries[2], new; removed: old"


def test_many_differences_are_counted_and_long_values_cut() -> None:
    change = compare(json.dumps(dict.fromkeys(range(50), 1)), json.dumps(dict.fromkeys(range(50), "x" * 999)))
    assert (len(change.changes), change.more) == (20, 30)
    assert all(len(one.after or "") <= 200 for one in change.changes)


def test_text_differences() -> None:
    assert compare("12:00", "12:01").summary == "differs from character 5 on; 5 characters as before"
    assert compare("a\nb\nc", "a\nx\nc\nd").summary == "2 of 4 lines new, 1 of 3 gone"
    assert compare("", "abc").summary == "0 characters before, 3 now"
    assert compare("abc", "abcd").summary == "differs from character 4 on; 4 characters, 3 before"
    assert not compare("[" * 2_000, "[" * 2_001).same


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, json_values)
def test_two_values_are_called_the_same_exactly_if_they_are(one: object, other: object) -> None:
    change = compare(json.dumps(one), json.dumps(other))

    def canonical(value: object) -> str:
        return json.dumps(value, sort_keys=True)

    assert change.same is (canonical(one) == canonical(other))
    assert change.summary


# Visible text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\u202etxt.exe", "a\\u202etxt.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\U000e0041tag", "\\U000e0041tag"),
        ("lone \ud800", "lone \\ud800"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("käse 東京 🙂", "käse 東京 🙂"),
    ],
)
def test_unseen_characters_are_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_breaks_stay_where_lines_are_meant() -> None:
    assert visible("a\n\tb\r", keep="\n\t") == "a\n\tb\\r"


def test_piled_marks_do_not_run_over_other_lines() -> None:
    assert visible("z" + "\u0300" * 50).count("\u0300") == 3


@given(st.text(), st.integers(1, 20))
def test_a_cut_text_says_how_much_there_is(text: str, limit: int) -> None:
    shown, note = cut(text, limit)
    assert text.startswith(shown)
    assert len(shown) <= limit
    assert note == (None if len(text) <= limit else f"cut at {limit:,} of {len(text):,} characters")


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 s"),
        (1_500, "2 µs"),
        (850_000_000, "850 ms"),
        (12_500_000_000, "12.5 s"),
        (60_000_000_000, "1 min"),
        (250_000_000_000, "4 min 10 s"),
        (7_500_000_000_000, "2 h 5 min"),
        (273_600_000_000_000, "3 d 4 h"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_times_are_utc_and_never_fail() -> None:
    assert utc(1_760_000_000_123_456_789) == "2025-10-09 08:53:20.123 UTC"
    assert utc(2**63 - 1).endswith("UTC")
    assert utc(10**30).endswith("ns")


@given(st.integers(0, 2 * 10**18), st.integers(0, 10**18), st.integers(1, 200))
def test_buckets_cover_the_span_and_are_few(first: int, span: int, buckets: int) -> None:
    origin, width = bucket_width(first, first + span, buckets)
    assert origin <= first < origin + width
    assert (first + span - origin) // width <= buckets
