"""Verdicts can be told apart: by anybody, on either page, and without colour."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from loopscope.dashboard._theme import CHOICE, SEQUENCE, VERDICTS, streamlit_options, verdict_text
from loopscope.guard import Action

OPTIONS = streamlit_options()
PAGES = {mode: OPTIONS[f"theme.{mode}.backgroundColor"] for mode in ("light", "dark")}

# Machado, Oliveira and Fernandes 2009, severity 1.0.
SIGHTS = {
    "full colour": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    bright = sorted((float(linear(colour) @ _TO_XYZ[1]) for colour in (one, other)), reverse=True)
    return (bright[0] + 0.05) / (bright[1] + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = _TO_XYZ @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_every_action_has_a_mark_of_its_own():
    assert set(VERDICTS) == {action.value for action in Action}
    assert len({mark.glyph for mark in VERDICTS.values()}) == len(VERDICTS)
    assert len({mark.symbol for mark in VERDICTS.values()}) == len(VERDICTS)
    assert verdict_text("block") == "■ block"


@pytest.mark.parametrize("mode", PAGES)
@pytest.mark.parametrize(
    "colour", sorted({mark.colour for mark in VERDICTS.values()} | {CHOICE, *SEQUENCE[:4]})
)
def test_marks_stand_out_from_the_page(mode, colour):
    assert contrast(colour, PAGES[mode]) >= 3


@pytest.mark.parametrize("sight", SIGHTS)
def test_allowed_nudge_and_block_differ_for_every_sight(sight):
    seen = [lab(SIGHTS[sight] @ linear(VERDICTS[action].colour)) for action in ("allow", "nudge", "block")]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 30


@pytest.mark.parametrize("mode", PAGES)
def test_text_is_readable(mode):
    page, panel = OPTIONS[f"theme.{mode}.backgroundColor"], OPTIONS[f"theme.{mode}.secondaryBackgroundColor"]
    for name in ("textColor", "linkColor"):
        assert contrast(OPTIONS[f"theme.{mode}.{name}"], page) >= 4.5
        assert contrast(OPTIONS[f"theme.{mode}.{name}"], panel) >= 4.5
    assert contrast("#FFFFFF", OPTIONS[f"theme.{mode}.primaryColor"]) >= 4.5  # primary buttons


def test_options_are_known_to_streamlit():
    from streamlit import config

    for name in OPTIONS:
        config.get_option(name)  # raises for a name Streamlit does not have
