"""Fixtures for the tests of adapters."""

from __future__ import annotations

import pytest
from agreement import Recorder


@pytest.fixture
def recorder(tmp_path):
    """A tracer provider of the test's own, and what came of its spans."""
    found = Recorder(tmp_path)
    yield found
    found.close()
