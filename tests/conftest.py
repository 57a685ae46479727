"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from shared_corpus import corpus

# How long an example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# What a command prints must not depend on the window in which the tests were begun.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)


@pytest.fixture(name="corpus")
def corpus_fixture():
    """The `corpus` function, for tests that build the path themselves."""
    return corpus


@pytest.fixture
def samples() -> Path:
    """The folder of the project's own recordings."""
    return Path(__file__).resolve().parent.parent / "sample_traces"
