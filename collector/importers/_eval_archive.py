"""Inspect's `.eval` files: zip archives with a header and one JSON file for each sample."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ._inspect import DIALECT, sample_parts
from ._json_stream import json_values
from ._otlp import Part
from ._report import FileReport, FormatError, NotATraceError, SkipList, printable
from ._spans import json_object
from ._zip import Archive

__all__ = ["eval_parts"]

# The header is written last; until then the journal's beginning says the same of the evaluation.
_HEADERS = ("header.json", "_journal/start.json")
_SAMPLE = re.compile(r"samples/[^\x00]+\.json")


def eval_parts(archive: Archive, report: FileReport, skipped: SkipList) -> Iterator[Part]:
    """Requests of each sample of the archive, one sample at a time.

    Raises NotATraceError for an archive of something else, FormatError for what is wrong in it.
    """
    names = archive.names()
    header = next((name for name in _HEADERS if name in names), None)
    if header is None:
        raise NotATraceError("a zip archive, but no evaluation log of Inspect", hint="unpack it first")
    report.format = DIALECT
    about = json_object(json_object(_one_value(archive, header)).get("eval"))
    samples = sorted(name for name in names if _SAMPLE.fullmatch(name))
    if not samples:
        skipped.add(header, "the log has no samples")
    for name in samples:
        yield from sample_parts(_one_value(archive, name), about, printable(name), skipped)


def _one_value(archive: Archive, name: str) -> Any:
    where = printable(name)
    try:
        found = list(islice(json_values(archive.reader(name)), 2))
    except FormatError as error:
        place = f"{where}: {error.where}" if error.where and error.where != where else where
        raise FormatError(error.what, where=place, hint=error.hint) from None
    if len(found) != 1 or found[0].array:
        raise FormatError("not one JSON object", where=where)
    return found[0].value
