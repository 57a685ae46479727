"""`loopscope import`: files that people already have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ._options import Db, Format, FormatOption
from ._output import console, one_line, print_csv, print_error, print_json, print_table

if TYPE_CHECKING:
    from ..collector import ImportReport

__all__ = ["import_", "import_and_show"]

_COLUMNS = {
    "path": "file",
    "format": "taken for",
    "runs": "runs",
    "calls": "calls",
    "requests": "requests",
    "spans": "spans",
    "note": "note",
}
