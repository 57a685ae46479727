"""Result patterns: what may be used, what it costs at most, and that bounding changes no meaning."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopscope.guard import GuardPolicy, PolicyError, ToolPolicy
from loopscope.guard._patterns import MAX_REPEAT, MAX_STEPS, MAX_TEXT, _Reader, compile_pattern, leave_out

USEFUL = [
    (r"\d+", "took 31 ms", "took  ms"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "at 2026-01-02T03:04:05.6Z", "at "),
    (r"\d+:\d+:\d+", "12:00:01 up", " up"),
    (r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "id 0123ABCD-0000-1111-2222-0123456789ab", "id "),
    (r"\d+(\.\d+)? ?(ms|s)\b", "1.5s 20 ms 3 sec", "  3 sec"),
    (r"\n\n\(\d+ of \d+ lines shown.*\)$", "text\n\n(5 of 9 lines shown · read 3×)", "text"),
    (r"(?<=id=)\w+", "id=ab cd", "id= cd"),
    (r"^#.*\n", "# one\ntwo\n# three\n", "two\n"),
    (r"(?P<t>\d{1,3}\.){3}\d{1,3}", "from 10.0.0.17 ok", "from  ok"),
    (r"[]x]+|[^]\w ]", "a]x]b c!", "ab c"),
    (r"\[artifact: [^\]]*\]", "ok [artifact: call-7.txt]", "ok "),
    (r"id: .* time: .*", "id: 7 time: 8", ""),
    (r"a{,2}b{2,}c{3}?\{7}", "aabbbccc{7}", ""),
    (r"\x41+A?", "xAAAAy", "xy"),
]


@pytest.mark.parametrize(("pattern", "text", "left"), USEFUL)
def test_patterns_that_one_would_want(pattern, text, left):
    assert leave_out(text, (compile_pattern(pattern),)) == left
    GuardPolicy(ignored_result_patterns=[pattern])


REFUSED = [
    ("(", "not a regular expression: "),
    ("*a", "not a regular expression: "),
    ("[z-a]", "not a regular expression: "),
    ("a" * 201, "has 201 characters; at most 200 are allowed"),
    ("(a+)+$", "could take too long"),
    ("(a|aa)+$", "could take too long"),
    ("(a|b|ab)*c", "could take too long"),
    (r"(\w+\s?)*\.", "could take too long"),
    (r"(.*)*x", "could take too long"),
    (r".*.*.*=", "could take too long"),
    (r"(?:(?:a?){8}){8}", "could take too long"),
    (r"(?=(a+)+$)b", "could take too long"),
    (r"\w+0*\d*?\.{2,}x", "could take too long"),  # \d* ends in one place, but begins in thousands
    (r"x{1,5000}", "repeats more than 100 times"),
    (r"x{101}", "repeats more than 100 times"),
    (r"(a)\1", "a reference to a group"),
    (r"(?P<n>a)(?P=n)", "a reference to a group"),
    (r"(a)(?(1)b|c)", "a reference to a group"),
    (r"(?x) a + ", "the flag x"),
    (r"a(?#note)", "a comment"),
]


@pytest.mark.parametrize(("pattern", "says"), REFUSED)
def test_patterns_that_could_take_too_long_or_are_none(pattern, says):
    for make in (
        lambda: GuardPolicy(ignored_result_patterns=[pattern]),
        lambda: GuardPolicy(tools={"t": ToolPolicy(ignored_result_patterns=[pattern])}),
    ):
        with pytest.raises(PolicyError) as caught:
            make()
        assert says in str(caught.value)
        assert "ignored_result_patterns: " in str(caught.value)
        assert "\n" not in str(caught.value)


def test_there_may_be_16_patterns_for_a_tool():
    many = [f"a{index}" for index in range(9)]
    GuardPolicy(ignored_result_patterns=many, tools={"t": ToolPolicy(ignored_result_patterns=many)})
    others = [f"b{index}" for index in range(9)]
    with pytest.raises(
        PolicyError, match=r"tools\.t\.ignored_result_patterns: 18 regular expressions; at most 16"
    ):
        GuardPolicy(ignored_result_patterns=many, tools={"t": ToolPolicy(ignored_result_patterns=others)})


def test_open_repeats_reach_over_a_hundred_characters():
    pattern = (compile_pattern("<.*>"),)
    assert leave_out(f"<{'x' * MAX_REPEAT}>", pattern) == ""
    long = f"<{'x' * (MAX_REPEAT + 1)}>"
    assert leave_out(long, pattern) == long


def test_of_a_long_result_the_two_ends_are_looked_at():
    pattern = (compile_pattern(r"\d"),)
    middle = "x" * MAX_TEXT
    assert leave_out(f"1{middle}2{middle}3", pattern) == f"{middle}2{middle}"
    assert leave_out("1" * MAX_TEXT, pattern) == ""


# Bounding a pattern changes nothing but how far open repeats reach.

_literals = st.sampled_from(["a", "b", r"\.", ".", r"\d", "[ab]", r"[^a\]]", "0", " ", "[]a]"])
_repeats = st.sampled_from(
    ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{,2}", "*?", "+?", "{1,2}?", "++"]
)
_pieces = st.recursive(
    st.builds(str.__add__, _literals, _repeats),
    lambda inner: st.builds(
        lambda head, parts, repeat: f"{head}{'|'.join(parts)}){repeat}",
        st.sampled_from(["(", "(?:", "(?=", "(?>", "(?i:"]),
        st.lists(inner, min_size=1, max_size=3),
        _repeats,
    ),
    max_leaves=6,
)
_patterns = st.lists(_pieces, min_size=1, max_size=4).map("".join)
_texts = st.text(alphabet="ab.0 ]A\n", max_size=14)


@given(_patterns, _texts)
@settings(deadline=None, max_examples=600)
def test_a_bounded_pattern_matches_what_it_did(pattern, text):
    try:
        bounded = compile_pattern(pattern)
    except PolicyError:
        return
    plain = re.compile(pattern, re.MULTILINE)
    assert [match.span() for match in bounded.finditer(text)] == [
        match.span() for match in plain.finditer(text)
    ]


@given(_patterns)
@settings(deadline=None, max_examples=300)
def test_no_pattern_that_is_used_has_too_many_steps_or_an_open_end(pattern):
    try:
        bounded = compile_pattern(pattern)
    except PolicyError:
        return
    assert _Reader(pattern).read()[1] <= MAX_STEPS
    again, _ = _Reader(bounded.pattern).read()
    assert again == bounded.pattern


@given(st.text(max_size=30))
@settings(deadline=None)
def test_any_text_is_a_pattern_or_refused(text):
    try:
        GuardPolicy(ignored_result_patterns=[text])
    except PolicyError as error:
        assert "\n" not in str(error)  # noqa: PT017 - some texts are patterns
