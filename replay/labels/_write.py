"""Labels are set, changed and removed; which incidents a user means."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ...guard import LoopscopeError, NotFoundError
from .._detail import KEY_DIGITS, choose_incident
from .._facts import facts_of
from .._incidents import all_incidents
from .._labelled import Label, LabelVerdict, label_verdict, read_labels

if TYPE_CHECKING:
    import duckdb

    from ...collector import Store

__all__ = [
    "LabelChanges",
    "clean_note",
    "is_key",
    "keys_of_group",
    "labelled_key",
    "remove_label",
    "set_label",
    "set_labels",
]

_KEY = re.compile("[0-9a-f]{16}")
_NOTE = 4_000  # characters
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """How many labels were new, other than before, or the same. `changed`: the verdicts before, by key."""

    added: int
    changed: Mapping[str, LabelVerdict]
    unchanged: int


def set_label(store: Store, key: str, verdict: LabelVerdict | str, note: str | None = None) -> Label:
    """Label an incident, in place of the label it may have; the label as it is then.

    Args:
        key: of the incident, whole. It need not be found in the store (yet).
        note: None leaves the note as it is, "" takes it away.

    Raises:
        LoopscopeError: no such verdict, no incident's key, or a note of more than 4,000 characters.
    """
    set_labels(store, {key: (verdict, note)})
    with store.lease() as con:
        label = read_labels(con).get(key)
    if label is None:
        raise NotFoundError(f"the label of {key} was removed meanwhile")
    return label


def set_labels(store: Store, wanted: Mapping[str, tuple[LabelVerdict | str, str | None]]) -> LabelChanges:
    """Set many labels (key → verdict and note, as for `set_label`) in one transaction: all or none.

    Where nothing differs, nothing is written. Raises LoopscopeError.
    """
    checked = {
        _checked(key): (label_verdict(verdict), None if note is None else clean_note(note))
        for key, (verdict, note) in wanted.items()
    }
    with store.lease() as con:
        changes, rows = _compare(read_labels(con), checked)
    if not rows:
        return changes
    with store.write() as con:
        # Again, in the transaction: another process may have labelled meanwhile.
        changes, rows = _compare(read_labels(con), checked)
        if rows:
            con.executemany(
                "INSERT INTO labels VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET verdict = excluded.verdict, note = excluded.note, labelled_at = excluded.labelled_at",
                rows,
            )
    return changes


def remove_label(store: Store, key: str) -> bool:
    """Take the label off; False where there was none."""
    with store.lease() as con:
        if not con.execute("SELECT 1 FROM labels WHERE key = ?", [key]).fetchall():
            return False
    with store.write() as con:
        return bool(con.execute("DELETE FROM labels WHERE key = ? RETURNING key", [key]).fetchall())


def _compare(
    before: Mapping[str, Label], wanted: Mapping[str, tuple[LabelVerdict, str | None]]
) -> tuple[LabelChanges, list[tuple[str, str, str | None, datetime]]]:
    """What setting the labels changes, and the rows to write."""
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time.time_ns() // 1_000)
    added, unchanged = 0, 0
    changed: dict[str, LabelVerdict] = {}
    rows: list[tuple[str, str, str | None, datetime]] = []
    for key, (verdict, note) in wanted.items():
        old = before.get(key)
        kept = (old.note if old else None) if note is None else note or None
        if old is None:
            added += 1
        elif (old.verdict, old.note) == (verdict, kept):
            unchanged += 1
            continue
        else:
            changed[key] = old.verdict
        rows.append((key, verdict.value, kept, now.replace(tzinfo=None)))
    return LabelChanges(added, changed, unchanged), rows


def _checked(key: str) -> str:
    if not is_key(key):
        shown = key if len(key) <= 40 else f"{key[:39]}…"
        raise LoopscopeError(f"{shown!r} is no incident's key: these are 16 digits of 0-9 and a-f")
    return key


def is_key(text: str) -> bool:
    """Is it the form of a whole incident key?"""
    return _KEY.fullmatch(text) is not None


def clean_note(text: str) -> str:
    """A note as it is stored: no control characters but tab and newline, no space around it.

    Raises:
        LoopscopeError: more than 4,000 characters.
    """
    note = text.replace("\r\n", "\n").replace("\r", "\n")
    note = _CONTROL.sub("\ufffd", note).strip()
    if len(note) > _NOTE:
        raise LoopscopeError(f"a note holds at most {_NOTE:,} characters; this one has {len(note):,}")
    return note


def labelled_key(con: duckdb.DuckDBPyConnection, key: str) -> str:
    """The whole key of the one incident or label that is meant by a key, or its first 6 or more characters.

    Raises:
        NotFoundError: nothing has that key, or several begin with it.
    """
    found = all_incidents(facts_of(con), con)
    labels = read_labels(con)
    if key in labels:
        return key
    keys = {one.incident.key for one in found}
    near = [other for other in labels if other not in keys and other.startswith(key)]
    if len(key) < KEY_DIGITS or not near:
        return choose_incident(found, key).incident.key
    near += [other for other in keys if other.startswith(key)]
    if len(near) > 1:
        raise NotFoundError(f"{len(near)} incidents and labels begin with {key!r}; give more of the key.")
    return near[0]


def keys_of_group(con: duckdb.DuckDBPyConnection, key: str) -> tuple[str, ...]:
    """The keys of all incidents of a group.

    Args:
        key: of the group, or of one of its incidents; or its first 6 or more characters.

    Raises:
        NotFoundError: neither a group nor an incident has that key, or several begin with it.
    """
    found = all_incidents(facts_of(con), con)
    groups = {
        one.incident.group for one in found if len(key) >= KEY_DIGITS and one.incident.group.startswith(key)
    }
    if len(groups) > 1:
        raise NotFoundError(f"{len(groups)} groups begin with {key!r}; give more of the key.")
    group = groups.pop() if groups else choose_incident(found, key).incident.group
    return tuple(sorted(one.incident.key for one in found if one.incident.group == group))
