"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared_corpus import corpus


@pytest.fixture(name="corpus")
def corpus_fixture():
    """The `corpus` function, for tests that build the path themselves."""
    return corpus


@pytest.fixture
def samples() -> Path:
    """The folder of the project's own recordings."""
    return Path(__file__).resolve().parent.parent / "sample_traces"
