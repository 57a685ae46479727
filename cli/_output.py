"""Printing: tables for people, JSON and CSV for programs, one line for errors.

Everything a trace contributes is hostile: control characters (ANSI escapes among them) and
bidirectional overrides are shown as `\\x1b`-style text, and rich markup is never interpreted.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_LAST_COLUMN = 24  # characters that the last column keeps before optional columns go

__all__ = [
    "console",
    "one_line",
    "plain",
    "plural",
    "print_csv",
    "print_error",
    "print_json",
    "print_note",
    "print_table",
]

# C0 and C1 controls but tab and newline, line/paragraph separators, bidi marks and isolates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(value: object) -> str:
    """`value` as text that a terminal shows and does not obey."""
    text = "" if value is None else str(value)
    return _UNSAFE.sub(lambda m: ascii(m.group())[1:-1], text)


def one_line(text: str, limit: int = 400) -> str:
    """`text` on one line, safe for a terminal, cut to `limit` characters."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def plural(number: int, noun: str) -> str:
    """A number and its noun: "1 call", "2 calls"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def console() -> Console:
    """Where results go. Markup, emoji codes and guessing of paths are off: content is not ours."""
    # A pipe or a file has no width to respect, and a cut cell there is lost information.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 400
    return Console(markup=False, emoji=False, highlight=False, width=width)


def print_error(text: str) -> None:
    """One line on stderr."""
    print(f"loopscope: {one_line(text, 1000)}", file=sys.stderr)  # noqa: T201


def print_note(text: str) -> None:
    """One line on stderr that is no error: what a result rests on."""
    print(one_line(text, 1000), file=sys.stderr)  # noqa: T201


def print_json(value: object) -> None:
    """`value` as indented JSON with stable key order as given."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))  # noqa: T201


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Rows as CSV; text that a spreadsheet would take for a formula is quoted with a leading '."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_csv_cell(row.get(column)) for column in columns])


def _csv_cell(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else value


def print_table(
    columns: Mapping[str, str],
    rows: Iterable[Mapping[str, Any]],
    *,
    title: str | None = None,
    width: int = 60,
    optional: Sequence[str] = (),
    wrap: bool = False,
) -> None:
    """Rows as a table. `columns` maps a key of the rows to its heading; numbers stand to the right.

    A cell is one line of at most `width` characters. Where the terminal is too narrow the `optional`
    columns go, first to last; then the last column is cut, or goes on in more lines (`wrap`).
    """
    rows = list(rows)
    out = console()
    last = list(columns)[-1]
    cells = [{key: _cell(row.get(key), width, wrap and key == last) for key in columns} for row in rows]
    needs = {key: max(len(columns[key]), *(one[key].cell_len for one in cells), 0) for key in columns}
    needs[last] = min(needs[last], _LAST_COLUMN)
    shown = dict(columns)
    for key in optional:
        if sum(needs[name] + 2 for name in shown) <= out.width:
            break
        shown.pop(key, None)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for key, heading in shown.items():
        numeric = any(isinstance(row.get(key), int | float) for row in rows)
        # Rich takes room from columns that may wrap before it takes it from the others.
        table.add_column(
            heading,
            justify="right" if numeric else "left",
            no_wrap=key != last,
            overflow="fold" if wrap and key == last else "ellipsis",
        )
    for one in cells:
        table.add_row(*(one[key] for key in shown))
    out.print(table)


def _cell(value: object, width: int, wrap: bool = False) -> Text:
    if value is None:
        return Text("–")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:,.2f}")
    if isinstance(value, int):
        return Text(f"{value:,}")
    text = one_line(str(value), width)
    if str(value).startswith("  "):  # a part of the row above it
        text = f"  {text}"
    return Text(text, overflow="fold") if wrap else Text(text, no_wrap=True, overflow="ellipsis")
