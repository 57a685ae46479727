"""Labels as CSV, to be filled in with a spreadsheet and taken back."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...guard import ImportFileError, LoopscopeError
from .._facts import facts_of
from .._filters import ALL, Filters
from .._incidents import all_incidents, touching
from .._labelled import Label, LabelVerdict, label_verdict, read_labels
from .._text import utc
from .._types import Incident
from ..reports._csv import looks_like_formula, safe_cell
from ._write import clean_note, is_key, set_labels

if TYPE_CHECKING:
    import duckdb

    from ...collector import Store

__all__ = ["CSV_COLUMNS", "LabelImport", "labels_from_csv", "labels_to_csv"]

_READ = ("key", "verdict", "note")
CSV_COLUMNS = (*_READ, "run", "agent", "tool", "kind", "calls", "when", "ending", "arguments")
"""The columns written. The first three are read back; the others are there for who fills them in."""

_ARGUMENTS = 200  # characters
_FAULTS = 5  # bad lines that a message names
_DELIMITERS = ",;\t"
_NO_COLUMNS = "the first line must name the columns, `key` and `verdict` among them"

# Spreadsheets turn such keys into numbers and write back other ones: 12e4567890123456 becomes infinite.
_NUMBER = re.compile(r"\d+(e\d+)?")


@dataclass(frozen=True, slots=True)
class LabelImport:
    """What an import did. `skipped`: lines without a verdict; `unknown`: keys that no incident has, kept."""

    added: int
    changed: int
    unchanged: int
    skipped: int
    unknown: tuple[str, ...] = ()


def labels_to_csv(con: duckdb.DuckDBPyConnection, filters: Filters = ALL, *, unlabelled: bool = False) -> str:
    """The labels as CSV (UTF-8, CRLF), in order of incidents; labels without an incident last.

    With `unlabelled` also every other incident under the filter, its verdict left empty to be filled in.
    Cells that a spreadsheet would run begin with an apostrophe, which the import takes off.
    """
    labels = read_labels(con)
    facts = facts_of(con)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(CSV_COLUMNS)
    incidents = [one.incident for one in touching(facts, con, filters)]
    incidents.sort(key=lambda one: (one.first_ns, one.key))
    for one in incidents:
        label = labels.get(one.key)
        if label is not None or unlabelled:
            writer.writerow(_row(one.key, label, one))
    if filters == ALL:
        known = {one.key for one in incidents}
        for key, label in labels.items():
            if key not in known:
                writer.writerow(_row(key, label, None))
    return out.getvalue()


def _row(key: str, label: Label | None, incident: Incident | None) -> list[str]:
    said = [_key_cell(key), label.verdict.value if label else "", _note_cell(label.note if label else None)]
    if incident is None:
        return said + [""] * (len(CSV_COLUMNS) - len(said))
    arguments = incident.sample_arguments
    context = (
        incident.run_id,
        incident.agent_name or incident.service_name,
        " → ".join(incident.tools),
        incident.kind.value,
        incident.calls,
        utc(incident.first_ns),
        incident.ending,
        arguments if arguments is None or len(arguments) <= _ARGUMENTS else f"{arguments[:_ARGUMENTS]}…",
    )
    return said + [safe_cell(value) for value in context]


def _key_cell(key: str) -> str:
    return f"'{key}" if _NUMBER.fullmatch(key) else key


def _note_cell(note: str | None) -> str:
    # Not `safe_cell`, which writes line ends and the like as signs: a note has to come back as it was.
    return "" if note is None else f"'{note}" if looks_like_formula(note) else note


def labels_from_csv(store: Store, text: str) -> LabelImport:
    """Set the labels that a CSV holds: all of them, or (where a line is wrong) none.

    Needs the columns `key` and `verdict`, in any order and case; `note` may be there; others are not read.
    Commas, semicolons and tabs divide cells. A line without a verdict says nothing, an empty note
    leaves the note as it is. Labels that are not in the file stay. Keys of no incident are kept as well:
    their traces may be imported later.

    Raises:
        ImportFileError: no such columns, or lines that are wrong; names them. Nothing was changed.
    """
    wanted: dict[str, tuple[LabelVerdict, str | None]] = {}
    lines: dict[str, int] = {}
    faults: list[str] = []
    skipped = 0
    for line, key, verdict, note in _cells(text):
        if not verdict:
            skipped += bool(key)
            continue
        try:
            if not is_key(key):
                raise LoopscopeError(f"{key[:40]!r} is no incident's key (16 digits of 0-9 and a-f)")
            said = (label_verdict(verdict), clean_note(note) or None)
        except LoopscopeError as error:
            faults.append(f"line {line}: {error}")
            continue
        if wanted.get(key, said) != said:
            faults.append(f"line {line}: line {lines[key]} says something else of {key}")
        wanted[key] = said
        lines.setdefault(key, line)
    if faults:
        more = f"; and {len(faults) - _FAULTS:,} more lines" if len(faults) > _FAULTS else ""
        raise ImportFileError(f"nothing was changed: {'; '.join(faults[:_FAULTS])}{more}")
    changes = set_labels(store, wanted)
    with store.lease() as con:
        known = {one.incident.key for one in all_incidents(facts_of(con), con)}
    return LabelImport(
        added=changes.added,
        changed=len(changes.changed),
        unchanged=changes.unchanged,
        skipped=skipped,
        unknown=tuple(sorted(set(wanted) - known)),
    )


def _cells(text: str) -> Iterator[tuple[int, str, str, str]]:
    """(line, key, verdict, note) of every line."""
    text = text.removeprefix("\ufeff")
    head = text.lstrip("\r\n").splitlines()[:1]
    delimiter = max(_DELIMITERS, key=head[0].count) if head else ","
    # Strict: a quotation mark that is never closed would swallow the lines after it.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    places: dict[str, int] | None = None
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if places is None:
                places = {name.strip().lower(): place for place, name in reversed(list(enumerate(row)))}
                if not {"key", "verdict"} <= places.keys():
                    raise ImportFileError(_NO_COLUMNS)
                continue
            key, verdict, note = (_cell(row, places.get(name)) for name in _READ)
            key = key.removeprefix("'").strip().lower()
            note = note[1:] if note.startswith("'") and looks_like_formula(note[1:]) else note
            yield reader.line_num, key, verdict, note
    except csv.Error as error:
        raise ImportFileError(f"line {reader.line_num}: not CSV: {error}") from None
    if places is None:
        raise ImportFileError(f"it is empty: {_NO_COLUMNS}")


def _cell(row: list[str], place: int | None) -> str:
    return "" if place is None or place >= len(row) else row[place].strip()
