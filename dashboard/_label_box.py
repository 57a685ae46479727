"""The box in which a reader says what an incident was: by click or by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from ..replay import Incident, Label, WeakLabel
from . import _labels
from ._incident_list import Shown
from ._incident_table import PARAMETER, stay_and_open
from ._labels import LABELS, label_text
from ._text import count, plain
from ._units import instant

__all__ = ["draw", "for_group", "told"]

_NOTE = 4_000


def draw(
    one: Incident,
    shown: Shown,
    group: Sequence[Incident],
    suggestion: WeakLabel | None,
) -> None:
    """Buttons 1 to 5, a note, the suggestion of the recording, the same for the whole fault, and undo."""
    label = shown.labels.get(one.key)
    with st.container(border=True, key="label_box", gap="small"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown("**What was it?**", width="content")
            if label is None:
                st.caption("Not labelled yet. Click, or press its key.", width="content")
            else:
                st.badge(label_text(label.verdict.value), color=LABELS[label.verdict.value].badge)
                st.caption(f"since {instant(label.labelled_ns)}", width="content")
        if label is None and suggestion is not None:
            _suggested(one, shown, suggestion)
        with st.container(horizontal=True, gap="small", key="label_buttons"):
            for name, mark in LABELS.items():
                st.button(
                    f"{mark.glyph} {mark.name}",
                    # Its own for each incident: a key that is pressed while the next one is being drawn
                    # must not label what the reader has not seen yet.
                    key=f"label_{name}_{one.key}",
                    type="primary" if label is not None and label.verdict.value == name else "secondary",
                    shortcut=mark.key,
                    help=mark.means,
                    on_click=_pressed,
                    args=(one.key, name, shown),
                )
        with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
            _note(one.key, label)
            if label is not None:
                _more(one, label, group, shown.labels)
        told()


def _suggested(one: Incident, shown: Shown, suggestion: WeakLabel) -> None:
    mark = LABELS[suggestion.verdict.value]
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="suggestion"):
        st.badge("suggestion", color="yellow", icon=":material/lightbulb:")
        st.text(
            f"The recording suggests {label_text(mark.verdict.value)}: {plain(suggestion.evidence, 300)}",
            width="content",
        )
        st.button(
            f"Accept: {mark.name}",
            key=f"accept_{one.key}",
            icon=":material/check:",
            shortcut="Y",
            help=f"A rule said so ({suggestion.rule}), no person. Accepted, it is your label.",
            on_click=_pressed,
            args=(one.key, mark.verdict.value, shown),
        )


def _note(key: str, label: Label | None) -> None:
    field = f"note_{key}"
    kept = (label.note if label else None) or ""
    # What another reader wrote meanwhile is shown; what is being typed here is not thrown away.
    if st.session_state.get(f"{field}_kept") != kept:
        st.session_state[f"{field}_kept"] = kept
        if kept or label is not None:
            st.session_state[field] = kept
    st.text_input(
        "Note",
        key=field,
        max_chars=_NOTE,
        placeholder="Why, for whoever reads the label or the report",
        on_change=_noted,
        args=(key,),
        width=420,
    )


def _more(one: Incident, label: Label, group: Sequence[Incident], labels: Mapping[str, Label]) -> None:
    others = [other for other in group if other.key != one.key]
    differ = sum(
        other.key not in labels or labels[other.key].verdict is not label.verdict for other in others
    )
    if differ:
        st.button(
            f"Same for all {len(group):,} of this fault",
            key=f"label_group_{one.key}",
            icon=":material/done_all:",
            shortcut="G",
            on_click=_pressed_for_all,
            args=(one, label.verdict.value),
            help=f"{count(differ, 'incident')} of this fault in other places "
            f"{'has' if differ == 1 else 'have'} no label or another one.",
        )
    st.button(
        "Take off",
        key=f"label_off_{one.key}",
        type="tertiary",
        icon=":material/label_off:",
        on_click=_taken_off,
        args=(one.key,),
    )


def for_group(members: Sequence[Incident], labels: Mapping[str, Label]) -> None:
    """Buttons that label all incidents of a fault."""
    with st.container(border=True, key="label_box", gap="small"):
        done = sum(one.key in labels for one in members)
        st.markdown(f"**What was it?** {done:,} of {count(len(members), 'incident')} labelled.")
        with st.container(horizontal=True, gap="small", key="label_buttons"):
            for name, mark in LABELS.items():
                st.button(
                    f"{mark.glyph} {mark.name}: all {len(members):,}",
                    key=f"label_{name}_{members[0].group}",
                    shortcut=mark.key,
                    help=mark.means,
                    on_click=_pressed_for_all,
                    args=(members[0], name),
                )
        told()


def told() -> None:
    """What the last label did, and the way back."""
    said = _labels.say()
    step = _labels.last_step()
    if said is None and step is None:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="label_said"):
        if said is not None:
            text, worked = said
            st.badge("last act" if worked else "not done", color="green" if worked else "red")
            st.text(plain(text, 300), width="content")
        if step is not None:
            st.button(
                "Undo",
                key="label_undo",
                type="tertiary",
                icon=":material/undo:",
                shortcut="Z",
                on_click=_undone,
                help=plain(f"Takes back: {step.text}", 200),
            )


def _pressed(key: str, verdict: str, shown: Shown) -> None:
    """Label; in a list of unlabelled incidents then go to the next one."""
    typed = st.session_state.get(f"note_{key}")
    if _labels.write(key, verdict, typed or None) and shown.unlabelled_only:
        following = shown.next_unlabelled(key)
        if following:
            stay_and_open(following)
        else:
            st.session_state["_all_labelled"] = True


def _pressed_for_all(one: Incident, verdict: str) -> None:
    _labels.write(one.key, verdict, None, group=one.group)


def _taken_off(key: str) -> None:
    _labels.take_off(key)


def _noted(key: str) -> None:
    _labels.write_note(key, st.session_state.get(f"note_{key}") or "")


def _undone() -> None:
    step = _labels.undo()
    if step is not None and st.query_params.get(PARAMETER):
        stay_and_open(step.incident)
