"""Words and marks of labels, and how a click or a key writes one: with the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import streamlit as st

from ..guard import LoopscopeError
from ..replay import UNLABELLED, Label, LabelVerdict, keys_of_group, read_labels, remove_label, set_labels
from . import _data
from ._text import count

__all__ = [
    "LABELS",
    "NONE",
    "LabelMark",
    "Step",
    "label_text",
    "label_texts",
    "last_step",
    "say",
    "take_off",
    "undo",
    "write",
    "write_note",
]


@dataclass(frozen=True, slots=True)
class LabelMark:
    """How one label is drawn."""

    verdict: LabelVerdict
    name: str
    glyph: str
    key: str  # on the keyboard
    badge: Literal["red", "blue", "green", "violet", "grey"]  # Streamlit's name of a colour
    means: str


LABELS: dict[str, LabelMark] = {
    mark.verdict.value: mark
    for mark in (
        LabelMark(LabelVerdict.TRUE_LOOP, "true loop", "●", "1", "red", "A guard should have stepped in."),
        LabelMark(LabelVerdict.POLLING, "polling", "◔", "2", "blue", "It waited for an answer to change."),
        LabelMark(
            LabelVerdict.LEGITIMATE_REPEAT,
            "legitimate repeat",
            "◆",
            "3",
            "green",
            "The same call was due again, such as a build after an edit.",
        ),
        LabelMark(
            LabelVerdict.RETRY_THAT_WORKED,
            "retry that worked",
            "↗",
            "4",
            "violet",
            "It failed, was tried again, and succeeded.",
        ),
        LabelMark(LabelVerdict.UNSURE, "unsure", "?", "5", "grey", "Looked at, not decided."),
    )
}
NONE = UNLABELLED

_STEPS = "_label_steps"
_SAID = "_label_said"
_MOST_STEPS = 50


@dataclass(frozen=True, slots=True)
class Step:
    """One act of labelling: what the labels were before, and what they were made."""

    incident: str  # where the reader stood
    before: dict[str, Label | None]
    after: dict[str, Label] = field(default_factory=dict)
    text: str = ""


def label_text(verdict: str | None) -> str:
    """A label for a cell or a sentence: glyph and name; "unlabelled" where there is none."""
    if verdict is None or verdict == NONE:
        return "○ unlabelled"
    mark = LABELS.get(verdict)
    return f"{mark.glyph} {mark.name}" if mark else verdict


def label_texts() -> list[str]:
    """Every text of `label_text`."""
    return [*(label_text(name) for name in LABELS), label_text(None)]


def write(incident: str, verdict: str, note: str | None, *, group: str | None = None) -> bool:
    """Label an incident, or with `group` all incidents of that group; for callbacks. False: it failed.

    What was done, or why not, is what the next `say` shows.
    """
    store = _data.store()
    try:
        with store.lease() as con:
            keys: Sequence[str] = (incident,) if group is None else keys_of_group(con, group)
            known = read_labels(con)
        before = {key: known.get(key) for key in keys}
        changes = set_labels(
            store, {key: (verdict, note if key == incident or note is None else None) for key in keys}
        )
        with store.lease() as con:
            known = read_labels(con)
    except LoopscopeError as error:
        st.session_state[_SAID] = (str(error), False)
        return False
    after = {key: known[key] for key in keys if key in known}
    text = f"Labelled {label_text(verdict)}."
    if group is not None:
        text = f"Labelled {count(len(keys), 'incident')} {label_text(verdict)}"
        text += f"; {len(changes.changed):,} had another label." if changes.changed else "."
    steps: list[Step] = st.session_state.setdefault(_STEPS, [])
    steps.append(Step(incident, before, after, text))
    del steps[:-_MOST_STEPS]
    st.session_state[_SAID] = (text, True)
    return True


def write_note(incident: str, note: str) -> bool:
    """Change the note of a label that is there already; for callbacks."""
    store = _data.store()
    try:
        with store.lease() as con:
            old = read_labels(con).get(incident)
    except LoopscopeError as error:
        st.session_state[_SAID] = (str(error), False)
        return False
    return old is None or write(incident, old.verdict.value, note)


def take_off(incident: str) -> bool:
    """Remove the label of an incident; for callbacks."""
    store = _data.store()
    try:
        with store.lease() as con:
            old = read_labels(con).get(incident)
        removed = remove_label(store, incident)
    except LoopscopeError as error:
        st.session_state[_SAID] = (str(error), False)
        return False
    if old is not None and removed:
        text = f"Took off {label_text(old.verdict.value)}."
        st.session_state.setdefault(_STEPS, []).append(Step(incident, {incident: old}, {}, text))
        st.session_state[_SAID] = (text, True)
    return True


def last_step() -> Step | None:
    """What `undo` would take back."""
    steps: list[Step] = st.session_state.get(_STEPS) or []
    return steps[-1] if steps else None


def undo() -> Step | None:
    """Take the last act back; for callbacks. What others labelled anew meanwhile stays."""
    steps: list[Step] = st.session_state.get(_STEPS) or []
    if not steps:
        return None
    step = steps[-1]
    store = _data.store()
    try:
        with store.lease() as con:
            now = read_labels(con)
        mine = [key for key in step.before if _same(now.get(key), step.after.get(key))]
        again = {key: old for key in mine if (old := step.before[key]) is not None}
        if again:
            set_labels(store, {key: (old.verdict, old.note or "") for key, old in again.items()})
        for key in mine:
            if key not in again:
                remove_label(store, key)
    except LoopscopeError as error:
        st.session_state[_SAID] = (str(error), False)
        return None
    steps.pop()
    left = len(step.before) - len(mine)
    text = f"Taken back: {step.text[:1].lower()}{step.text[1:]}"
    if left:
        text += f" {count(left, 'label')} that somebody else changed meanwhile stayed."
    st.session_state[_SAID] = (text, True)
    return step


def _same(one: Label | None, other: Label | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.verdict, one.note, one.labelled_ns) == (other.verdict, other.note, other.labelled_ns)


def say() -> tuple[str, bool] | None:
    """What the last act of labelling in this session has to say: the text, and whether it worked."""
    return st.session_state.get(_SAID)
