"""Times, durations and sizes carry their units and their zone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopscope.dashboard._units import ago, day, duration, instant, money, size, tokens, when

SECOND = 1_000_000_000
NOON = 1_751_630_400 * SECOND  # 2025-07-04 12:00:00 UTC


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0123, "12 ms"),
        (1.25, "1.2 s"),
        (1, "1 s"),
        (42.4, "42 s"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_duration(seconds, text):
    assert duration(int(seconds * SECOND)) == text


def test_unknown_is_said():
    assert duration(None) == instant(None) == ago(None, NOON) == tokens(None) == money(None) == "unknown"
    assert when(None) is None


def test_instants_name_their_zone():
    assert instant(NOON + 120_000_000) == "2025-07-04 12:00:00.120 UTC"


def test_the_last_nanosecond_of_a_day_belongs_to_it():
    assert day(NOON + 43_200 * SECOND - 1) == "2025-07-04"
    assert day(NOON + 43_200 * SECOND) == "2025-07-05"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "just now"),
        (90, "1 min ago"),
        (7_300, "2 h ago"),
        (3 * 86_400, "3 d ago"),
        (40 * 86_400, "2025-07-04"),
        (-30, "just now"),
    ],
)
def test_ago(seconds, text):
    assert ago(NOON, NOON + seconds * SECOND) == text


@given(st.integers(0, 10**18))
def test_every_duration_has_a_unit(ns):
    assert duration(ns).split()[-1] in {"ms", "s", "min", "h", "d"}


@pytest.mark.parametrize(
    ("count", "text"), [(812, "812 B"), (4200, "4.2 kB"), (1_300_000, "1.3 MB"), (5 * 10**11, "500 GB")]
)
def test_size(count, text):
    assert size(count) == text


def test_money_shows_small_sums():
    assert money(0.42) == "$0.42"
    assert money(0.0004) == "$0.0004"
    assert money(1234.5) == "$1,234.50"
