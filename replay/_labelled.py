"""What people said of incidents, as it is stored: one label per incident key."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ..guard import LoopscopeError
from ._sql import rows, sql_text

if TYPE_CHECKING:
    import duckdb

__all__ = ["UNLABELLED", "Label", "LabelVerdict", "label_filter", "label_verdict", "read_labels"]

UNLABELLED = "none"
"""In a filter: incidents without a label."""


class LabelVerdict(StrEnum):
    """What an incident was."""

    TRUE_LOOP = "true_loop"  # a guard should have stepped in
    POLLING = "polling"  # it waited for an answer to change
    LEGITIMATE_REPEAT = "legitimate_repeat"  # the same call was due again, such as a check after an edit
    RETRY_THAT_WORKED = "retry_that_worked"  # it failed, was tried again, and succeeded
    UNSURE = "unsure"  # looked at, not decided


@dataclass(frozen=True, slots=True)
class Label:
    """One label. `labelled_ns`: when it was last changed."""

    key: str  # of the incident
    verdict: LabelVerdict
    note: str | None
    labelled_ns: int


def read_labels(con: duckdb.DuckDBPyConnection) -> dict[str, Label]:
    """All labels by incident key, in order of keys; also of incidents that are no longer found.

    A verdict that this version does not know (of a later one) is left out, and stays where it is.
    """
    known = {verdict.value: verdict for verdict in LabelVerdict}
    return {
        row["key"]: Label(row["key"], known[row["verdict"]], row["note"], row["labelled_ns"])
        for row in rows(con, sql_text("labels"))
        if row["verdict"] in known
    }


def label_verdict(text: str) -> LabelVerdict:
    """The verdict that a text names, whatever its case; "-" and " " are taken for "_".

    Raises:
        LoopscopeError: there is no such verdict; names the nearest one.
    """
    wanted = "_".join(text.strip().lower().replace("-", "_").split())
    known = [verdict.value for verdict in LabelVerdict]
    if wanted in known:
        return LabelVerdict(wanted)
    raise LoopscopeError(_no_such(text, wanted, known))


def label_filter(text: str) -> str:
    """A value of `Filters.labels`: the name of a verdict, or "none". Raises LoopscopeError."""
    if text.strip().lower() == UNLABELLED:
        return UNLABELLED
    try:
        return label_verdict(text).value
    except LoopscopeError as error:
        raise LoopscopeError(f"{error}, or {UNLABELLED!r} for incidents without a label") from None


def _no_such(text: str, wanted: str, known: list[str]) -> str:
    shown = text if len(text) <= 40 else f"{text[:39]}…"
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.0)
    return f"there is no verdict {shown!r}; did you mean {near[0]}? There are {', '.join(known)}"
