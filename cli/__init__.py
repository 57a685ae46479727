"""The `loopscope` command."""

from __future__ import annotations

from ._app import main

__all__ = ["main"]
