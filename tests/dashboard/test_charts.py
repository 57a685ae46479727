"""Figures: the data they show, and names out of traces that stay text."""

from __future__ import annotations

import json

import pytest

from loopscope.dashboard import _charts, _tuning_map
from loopscope.replay import ErrorBucket, NamedCount, SweepRow, TimeBucket, Totals

HOSTILE = "<b>bold</b><img src=x onerror=alert(1)>&amp;$x$"
HOUR = 3_600_000_000_000
NOON = 1_751_630_400_000_000_000


def texts(figure) -> str:
    """All that a figure sends to the browser, unescaped from JSON."""
    return json.dumps(json.loads(figure.to_json()), ensure_ascii=False)


def test_calls_over_time_stacks_every_verdict_in_its_colour():
    buckets = [TimeBucket(NOON, 5, 2, 1, 3, 4), TimeBucket(NOON + HOUR, 7)]
    figure = _charts.calls_over_time(buckets, HOUR)
    bars = {bar.name: list(bar.y) for bar in figure.data}
    assert bars == {
        "· allowed": [5, 7],
        "○ not counted": [3, None],
        "▲ nudge": [2, None],
        "■ block": [1, None],
        "□ after block": [4, None],
    }
    assert figure.layout.barmode == "stack"


def test_calls_over_time_leaves_out_verdicts_that_do_not_occur():
    assert [bar.name for bar in _charts.calls_over_time([TimeBucket(NOON, 5)], HOUR).data] == ["· allowed"]
    assert _charts.calls_over_time([], HOUR).data == ()


def test_incidents_are_marked_above_the_bar_in_which_they_began():
    buckets = [
        TimeBucket(NOON, 5, incidents=1),
        TimeBucket(NOON + HOUR, 2),
        TimeBucket(NOON + 3 * HOUR, 7, incidents=2),
    ]
    marks = _charts.calls_over_time(buckets, HOUR).data[-1]
    assert marks.name == "◆ incidents begin"
    assert list(marks.customdata) == [1, 2]
    assert [str(x)[:16] for x in marks.x] == ["2025-07-04 12:30", "2025-07-04 15:30"]


def test_bar_counts_keeps_names_text():
    figure = _charts.bar_counts(
        [NamedCount(HOSTILE, 9, 4, 1, 1), NamedCount(None, 5, 2, 0, 0)], "none recorded"
    )
    assert "<b>bold" not in texts(figure)
    assert "<img" not in texts(figure)
    assert "&lt;b&gt;bold" in texts(figure)
    assert list(figure.data[0].text) == ["4 of 9", "2 of 5"]
    assert figure.layout.yaxis.ticktext[1] == "none recorded"


def test_bar_counts_shows_only_what_repeated():
    figure = _charts.bar_counts([NamedCount("a", 9, 4, 1, 1), NamedCount("b", 5, 0, 0, 0)], "")
    assert list(figure.data[0].x) == [4]


def test_error_kinds_adds_up_and_sorts_by_weight():
    cells = [("quiet", "timeout", 1), (HOSTILE, "validation", 4), (HOSTILE, "validation", 2)]
    figure = _charts.error_kinds(cells)
    assert [list(line) for line in figure.data[0].z] == [[6, None], [None, 1]]
    assert list(figure.layout.xaxis.ticktext) == ["validation", "timeout"]
    assert "<img" not in texts(figure)


def test_errors_over_time_has_one_series_a_kind():
    buckets = [
        ErrorBucket(NOON, "timeout", 3),
        ErrorBucket(NOON + HOUR, "timeout", 1),
        ErrorBucket(NOON, "auth", 2),
    ]
    figure = _charts.errors_over_time(buckets, HOUR)
    assert [(bar.name, list(bar.y)) for bar in figure.data] == [("timeout", [3, 1]), ("auth", [2])]


def sweep(nudges, blocks):
    return [
        SweepRow(nudge, block, Totals(runs_blocked=10 * nudge + block))
        for nudge in nudges
        for block in blocks
        if nudge < block
    ]


def test_a_figure_keeps_of_the_house_style_what_it_does_not_change():
    layout = _charts.base(100, legend={"y": 2.0}, barmode="stack").layout
    assert (layout.height, layout.barmode, layout.legend.y) == (100, "stack", 2.0)
    assert layout.legend.orientation == "h"


def test_threshold_map_has_a_number_in_every_cell_and_a_place_to_click():
    rows = sweep((2, 3), (3, 4))
    figure = _tuning_map.threshold_map(rows, "runs_blocked", "runs ended", (2, 4), (3, 4))
    assert [list(line) for line in figure.data[0].z] == [[23, None], [24, 34]]
    clickable, texts = figure.data[1:3]
    assert list(texts.text) == ["23", "24", "34"]
    assert (texts.x, texts.y) == (clickable.x, clickable.y)
    assert list(zip(clickable.x, clickable.y, strict=True)) == [(2, 3), (2, 4), (3, 4)]
    assert list(clickable.customdata) == ["23 runs ended", "24 runs ended", "34 runs ended"]
    assert [trace.name for trace in figure.data[3:]] == ["draft", "saved"]


def test_threshold_map_says_one_call():
    figure = _tuning_map.threshold_map(sweep((0,), (1,)), "runs_blocked", "calls lost", (0, 1), (0, 1))
    assert list(figure.data[1].customdata) == ["1 call lost"]


@pytest.mark.parametrize("draft", [(None, 4), (2, None), (9, 12)])
def test_threshold_map_without_the_draft_where_it_is_off_the_map(draft):
    figure = _tuning_map.threshold_map(sweep((2, 3), (3, 4)), "runs_blocked", "runs ended", draft, (3, 4))
    assert [trace.name for trace in figure.data[3:]] == ["saved"]


def test_status_bars_name_the_status():
    figure = _charts.status_bars({"400": 3, "none": 1, HOSTILE: 1})
    assert list(figure.layout.yaxis.ticktext)[:1] == ["400 bad request"]
    assert "<img" not in texts(figure)
