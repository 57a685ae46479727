"""The notes: their words, their templates, and taking them off recorded results."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopscope.guard import (
    ABORT_MARKER,
    GUIDANCE_MARKER,
    Guidance,
    PolicyError,
    strip_annotation,
)

OURS = Guidance.default()
NUDGE = OURS.nudge_note("search", 3)
BLOCK = OURS.block_note("search", 5)
# Aura's notes: the same markers, other words.
AURA_NUDGE = f"{GUIDANCE_MARKER}\n'search' came back equal 3 times.\n\nConsider:\n- another tool\n"
AURA_BLOCK = f"{ABORT_MARKER}\n'search' came back equal 5 times. The loop ends here.\n"
NOTES = [(NUDGE, "nudge"), (BLOCK, "block"), (AURA_NUDGE, "nudge"), (AURA_BLOCK, "block")]


@pytest.mark.parametrize("text", [OURS.nudge, OURS.block])
def test_our_words_state_what_was_seen_and_offer_ways_to_go_on(text):
    assert "{tool_name}" in text
    assert "{count}" in text
    assert text.count("\n- ") >= 3
    lowered = text.lower()
    for phrase in (
        "give up",
        "final answer",
        "do not call",
        "don't call",
        "must not",
        "stop calling",
        "never",
    ):
        assert phrase not in lowered


def test_a_tools_name_is_text_and_not_a_template():
    assert "{count}" in Guidance(nudge="{tool_name} {count}", block="{count}").nudge_note("{count}", 3)
    assert len(OURS.nudge_note("x" * 100_000, 3)) < 4_000


def test_templates_from_a_folder(tmp_path):
    (tmp_path / "nudge.txt").write_text("Again: {tool_name}, {count} times.\n")
    found = Guidance.from_folder(tmp_path)
    assert found.nudge_note("f", 3) == f"{GUIDANCE_MARKER}\nAgain: f, 3 times."
    assert found.block == OURS.block


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no nudge.txt and no block.txt"),
        ({"nudge.txt": b"again"}, "the nudge text must say {count}"),
        ({"block.txt": b"{count}" + b"x" * 4000}, "at most 3000 are allowed"),
        ({"block.txt": b"\xff"}, "block.txt: cannot be read: not UTF-8 text"),
    ],
)
def test_templates_that_cannot_be_used(tmp_path, files, says):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        Guidance.from_folder(tmp_path)
    assert says in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(("note", "kind"), NOTES)
@pytest.mark.parametrize("result", ["rows: 3", "", "x\n", "x\n\n", '{"a": 1}', "[1]", '"quoted"'])
def test_a_note_at_the_end_of_text_comes_off(note, kind, result):
    assert strip_annotation(f"{result}\n\n{note}") == (result, kind)
    assert strip_annotation(result) == (result, None)


def test_a_note_on_an_empty_output_whose_blank_line_was_trimmed():
    assert strip_annotation(NUDGE) == ("", "nudge")


def test_notes_of_guards_around_guards_all_come_off():
    assert strip_annotation(f"x\n\n{NUDGE}\n\n{BLOCK}") == ("x", "block")
    assert strip_annotation(f"x\n\n{BLOCK}\n\n{NUDGE}") == ("x", "block")


SHAPES = [
    json.dumps,
    lambda text: json.dumps({"result": text}),
    lambda text: json.dumps([{"type": "text", "text": text}], indent=2),
    lambda text: json.dumps(
        {"content": [{"type": "text", "text": text, "annotations": None}], "isError": False}
    ),
    lambda text: json.dumps({"content": text, "status": "success"}, separators=(",", ":")),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("note", "kind"), NOTES)
def test_a_note_at_the_end_of_the_last_string_of_json_comes_off(shape, note, kind):
    result = 'say "hi"\\\n'
    assert strip_annotation(shape(f"{result}\n\n{note}")) == (shape(result), kind)
    assert strip_annotation(shape(result)) == (shape(result), None)


BLOCKS = [
    lambda *texts: json.dumps([{"type": "text", "text": text} for text in texts]),
    lambda *texts: json.dumps(
        {"content": [{"text": text, "type": "text"} for text in texts], "isError": False}
    ),
    lambda *texts: json.dumps([{"text": text} for text in texts], separators=(",", ":")),
]


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize(("note", "kind"), NOTES)
def test_a_block_that_holds_nothing_but_the_note_goes_as_a_whole(blocks, note, kind):
    assert strip_annotation(blocks("one", "two", note)) == (blocks("one", "two"), kind)


@pytest.mark.parametrize(
    "result",
    [
        f"a file\n\n{NUDGE}\n\n" + "more of the file, line 1\n" * 400,
        f"a template\n\n{GUIDANCE_MARKER}\ncalled {{count}} times",
        f"inline {GUIDANCE_MARKER}\n3 times",
        f"x\n\n{GUIDANCE_MARKER} 3 times",
        f"x\n{NUDGE}",
        json.dumps([{"type": "text", "text": f"a\n\n{NUDGE}"}, {"type": "text", "text": "b"}]),
        json.dumps(
            {"content": f"a\n\n{NUDGE}", "next": "a text that follows, with more than sixty characters in it"}
        ),
        GUIDANCE_MARKER,
        f'{{"broken": "a\\n\\n{GUIDANCE_MARKER}\\n3 times',
    ],
    ids=lambda text: text[:40],
)
def test_markers_elsewhere_stay(result):
    assert strip_annotation(result) == (result, None)


@given(st.text(max_size=200), st.sampled_from(NOTES))
@settings(deadline=None)
def test_stripping_gives_back_any_result(result, note):
    if strip_annotation(result)[1] is None:
        assert strip_annotation(f"{result}\n\n{note[0]}") == (result, note[1])


@given(st.text(alphabet='[]{}",:\\\n ab1', max_size=60), st.sampled_from([GUIDANCE_MARKER, ABORT_MARKER]))
@settings(deadline=None)
def test_what_is_left_is_always_what_stood_in_front(noise, marker):
    text = f"{noise}{marker}{noise}"
    left, kind = strip_annotation(text)
    assert (left == text) == (kind is None)
    assert len(left) <= len(text)


def test_many_markers_are_no_burden():
    text = f"\n\n{GUIDANCE_MARKER}\n1" * 20_000
    assert strip_annotation(text)[1] == "nudge"
