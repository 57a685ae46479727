"""Which message of a history became which: the lines of the view before and after."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from loopscope.dashboard._history_rows import Gap, HistoryRow, folded, lines_of, marked, rows_of
from loopscope.replay import (
    HistoryMessage,
    HistoryPart,
    HistoryRepair,
    HistoryViolation,
    RequestHistory,
)


def message(position: int, origin: int | None, **more) -> HistoryMessage:
    return HistoryMessage(position, origin, "user", json.dumps({"role": "user"}), False, **more)


def history(
    before: Sequence[int],
    origins: Sequence[int | None],
    *repairs: HistoryRepair,
    changed: tuple[int, ...] = (),
    total: int | None = None,
    broken: tuple[int, ...] = (),
    results: dict[int, str] | None = None,
) -> RequestHistory:
    """A history of the recorded places `before`, whose repaired form comes from the places `origins`."""
    given_results = results or {}
    after = tuple(
        message(
            at,
            origin,
            changed=origin is None or origin in changed,
            results=(given_results[at],) if at in given_results else (),
        )
        for at, origin in enumerate(origins)
    )
    return RequestHistory(
        trace_id="aa",
        span_id="bb",
        provider="openai",
        format="openai-chat",
        native=True,
        content_state="full",
        before=tuple(message(at, at, changed=at in changed) for at in before),
        after=after,
        repairs=repairs,
        violations_before=tuple(
            HistoryViolation("missing_result", "missing_result", at, None, "…") for at in broken
        ),
        violations_after=(),
        messages_before=total or len(before),
        messages_after=len(after),
    )


def kinds(rows: list[HistoryRow]) -> list[tuple[str, int | None, list[int]]]:
    return [
        (row.kind, row.before.position if row.before else None, [one.position for one in row.after])
        for row in rows
    ]


def test_dropped_changed_and_made() -> None:
    one = history([0, 1, 2, 3], [0, 1, None, 3], changed=(1,))
    assert kinds(rows_of(one)) == [
        ("same", 0, [0]),
        ("changed", 1, [1]),
        ("made", None, [2]),
        ("dropped", 2, []),
        ("same", 3, [3]),
    ]


def test_a_moved_result_stands_in_both_places() -> None:
    moved = HistoryRepair("moved_result", 3, "a", "moved it")
    rows = rows_of(history([0, 1, 2, 3], [0, 1, 3, 2], moved))
    assert kinds(rows) == [
        ("same", 0, [0]),
        ("same", 1, [1]),
        ("moved", None, [2]),
        ("same", 2, [3]),
        ("moved_away", 3, []),
    ]
    assert rows[2].repairs == [moved]
    assert (rows[2].place, rows[4].place) == (3, 2)


def test_a_merged_message_is_not_called_dropped() -> None:
    merged = HistoryRepair("merged_messages", 1, None, "merged it")
    rows = rows_of(history([0, 1], [0], merged, changed=(0,)))
    assert kinds(rows) == [("changed", 0, [0]), ("merged", 1, [])]
    assert rows[1].repairs == [merged]


def test_a_stub_is_told_at_the_stub() -> None:
    stub = HistoryRepair("added_stub_result", 0, "call_x", "added it")
    rows = rows_of(history([0, 1], [0, None, 1], stub, results={1: "call_x"}))
    assert [(row.kind, row.repairs) for row in rows] == [("same", []), ("made", [stub]), ("same", [])]


def test_messages_of_one_recorded_message_stand_together() -> None:
    assert kinds(rows_of(history([0, 1], [0, 0, 1]))) == [("same", 0, [0, 1]), ("same", 1, [2])]


@st.composite
def histories(draw: st.DrawFn) -> RequestHistory:
    total = draw(st.integers(0, 30))
    before = sorted(draw(st.sets(st.integers(0, total - 1)))) if total else []
    kept = draw(st.lists(st.sampled_from(before), unique=True)) if before else []
    origins: list[int | None] = list(kept)
    for at in draw(st.lists(st.integers(0, 30), max_size=4)):
        origins.insert(min(at, len(origins)), None)
    return history(before, origins, total=total, changed=tuple(draw(st.sets(st.sampled_from(before or [0])))))


@given(histories())
def test_each_side_reads_in_its_own_order_and_nothing_is_lost(one: RequestHistory) -> None:
    rows = rows_of(one)
    assert [message for row in rows for message in row.after] == list(one.after)
    assert [row.before for row in rows if row.before is not None] == list(one.before)


@given(histories(), st.booleans())
def test_what_is_left_out_is_counted(one: RequestHistory, whole: bool) -> None:
    shown = folded(rows_of(one), whole=whole)
    last = max((at.position for at in one.before), default=-1)
    recorded = sum(row.before is not None for row in shown if isinstance(row, HistoryRow))
    gaps = sum(gap.messages for gap in shown if isinstance(gap, Gap))
    assert recorded + gaps == last + 1


def test_a_long_history_shows_what_is_around_the_repairs() -> None:
    places = list(range(100))
    shown = folded(rows_of(history(places, [at for at in places if at != 50], broken=(80,))))
    places_shown = [one.before.position for one in shown if isinstance(one, HistoryRow) and one.before]
    assert places_shown == [0, 48, 49, 50, 51, 52, 78, 79, 80, 81, 82, 99]
    assert [one for one in shown if isinstance(one, Gap)] == [Gap(47), Gap(25), Gap(16)]
    assert len(folded(rows_of(history(places, places[:50])), whole=True)) == 100


def test_messages_in_words() -> None:
    parts = (
        HistoryPart("text", ""),
        HistoryPart("call", '{"q": 1}', "call_a", "search"),
        HistoryPart("result", "two\nlines", "call_b", None, True),
        HistoryPart("media", None),
    )
    assert lines_of([message(0, 0, parts=parts)]) == [
        "call search   id call_a",
        '    {"q": 1}',
        "result   id call_b   (a stub: no tool said this)",
        "    two",
        "    lines",
        "(media)",
    ]
    assert lines_of([message(0, 0, parts=(HistoryPart("text", ""),))]) == ["(empty text)"]
    assert lines_of([message(0, 0, parts=parts)], as_json=True) == ["{", '  "role": "user"', "}"]
    assert lines_of([HistoryMessage(0, 0, "user", '{"role": "us', True)]) == ['{"role": "us']


def test_lines_that_differ_carry_a_sign() -> None:
    left, right = marked(["call", "id a"], ["call", "id b", "- no sign of ours"])
    kept = "\u00a0\u00a0"
    assert left.splitlines() == [f"{kept}call", "- id a"]
    assert right.splitlines() == [f"{kept}call", "+ id b", "+ - no sign of ours"]
