"""Two texts side by side: every difference is marked, and taking the marks off gives the texts back."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from loopscope.dashboard._incident_diff import CLOSE, OPEN, marked, shaped


def lines(text: str) -> list[str]:
    """The lines of one side without what was put into them."""
    return [line[2:].replace(OPEN, "").replace(CLOSE, "") for line in text.split("\n")]


def test_a_value_that_changed_is_marked_inside_its_line():
    found = marked('{"q": "cats", "page": 1}', '{"q": "cats", "page": 2}')
    assert '-   "page": ⟦1⟧' in found.before
    assert '+   "page": ⟦2⟧' in found.after
    assert '\u00a0\u00a0  "q": "cats",' in found.before
    assert found.inside
    assert not found.hidden


def test_lines_with_little_in_common_are_replaced_whole():
    found = marked("the pod is pending", "timeout after 30 s: gave up!")
    assert found.before == "- the pod is pending"
    assert found.after == "+ timeout after 30 s: gave up!"
    assert not found.inside


def test_equal_lines_far_away_are_counted_and_shown_on_demand():
    before = "\n".join(f"line {number}" for number in range(50))
    after = before.replace("line 25", "line 25 changed")
    short = marked(before, after)
    assert short.hidden == 25 - 3 + 24 - 3
    assert "… 22 equal lines" in short.before
    whole = marked(before, after, whole=True)
    assert lines(whole.after) == after.split("\n")
    assert whole.hidden == 0


def test_long_lines_are_marked_from_the_first_to_the_last_difference():
    start, end = "a " * 5_000, " z" * 5_000
    found = marked(f"{start}old{end}", f"{start}new thing{end}")
    assert f"⟦old⟧{end}" in found.before
    assert f"⟦new thing⟧{end}" in found.after


def test_a_text_that_only_grew_shows_what_came():
    found = marked("one\ntwo", "one\ntwo\nthree")
    assert found.after.endswith("+ three")
    assert "- " not in found.before


def test_thousands_of_different_lines_are_no_trouble():
    found = marked("\n".join(f"a{n}" for n in range(3_000)), "\n".join(f"b{n}" for n in range(3_000)))
    assert found.before.count("- ") == 3_000
    assert found.after.count("+ ") == 3_000


def test_json_gets_a_line_for_each_value_and_other_text_stays():
    assert shaped('{"a":[1]}') == json.dumps({"a": [1]}, indent=2)
    for text in ("{not json", "plain", "", "[" * 5_000):
        assert shaped(text) == text


plain_text = st.text(st.characters(codec="utf-8", exclude_characters=OPEN + CLOSE), max_size=60)


@settings(max_examples=60)
@given(plain_text, plain_text)
def test_without_the_marks_both_sides_are_what_was_given(before, after):
    found = marked(before, after, whole=True)
    assert lines(found.before) == (shaped(before).splitlines() or [""]) or not found.before
    assert lines(found.after) == (shaped(after).splitlines() or [""]) or not found.after
