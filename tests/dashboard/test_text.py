"""Trace text stays text, whatever is in it."""

from __future__ import annotations

import html
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopscope.dashboard._text import count, cut, lit, plain, plot

hostile = st.text() | st.text(alphabet="`<>&$[]()*_:!\\\n\r\t\x1b\u202e\u200b ab", max_size=80)


@given(hostile, st.integers(2, 80))
def test_plain_is_one_bounded_line_without_control_characters(text, limit):
    line = plain(text, limit)
    assert len(line) <= limit
    assert not any(unicodedata.category(character) in {"Cc", "Cs"} for character in line)
    assert "\u202e" not in line


@given(hostile)
def test_lit_is_a_code_span_that_nothing_inside_closes(text):
    span = lit(text)
    fence = span[: len(span) - len(span.lstrip("`"))]
    assert fence
    assert span.endswith(fence)
    inside = span[len(fence) : len(span) - len(fence)]
    assert fence not in inside
    assert not inside.startswith("`")
    assert not inside.endswith("`")


def test_lit_hides_icons_from_streamlit():
    assert ":material/" not in lit("see :material/home: there")
    assert lit("see :material/home: there").replace("\u2060", "") == "`see :material/home: there`"


@given(hostile, st.integers(2, 80))
def test_plot_escapes_all_that_plotly_reads(text, limit):
    shown = plot(text, limit)
    assert "<" not in shown
    assert ">" not in shown
    assert "$" not in shown
    assert html.unescape(shown) == plain(text, limit)


@given(st.text(max_size=300), st.integers(1, 200))
def test_cut_says_how_much_it_left_out(text, limit):
    shown, left = cut(text, limit)
    assert left == max(0, len(text) - limit)
    assert "\x1b" not in shown


def test_cut_keeps_lines_and_shows_escapes():
    assert cut("a\r\nb\tc\x1b[31m", 100) == ("a\nb\tc\N{SYMBOL FOR ESCAPE}[31m", 0)


@pytest.mark.parametrize(("number", "text"), [(0, "0 runs"), (1, "1 run"), (1204, "1,204 runs")])
def test_count(number, text):
    assert count(number, "run") == text


def test_count_with_a_plural_of_its_own():
    assert count(2, "query", "queries") == "2 queries"
