"""Policies under a name: save the draft, load, compare two, delete, download."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy, LoopscopeError, describe_changes
from ..replay import Filters, PolicyComparison
from . import _data, _knobs_draft, _policy, _ui
from ._filters import View
from ._queries import NamedPolicy
from ._text import count, lit, plain
from ._theme import verdict_text
from ._units import duration, money

__all__ = ["draw", "named"]

_LONGEST = 80
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_DRAFT, _FORCE, _DEFAULT = ("the draft", "the policy in force", "the default policy")


@st.fragment
@_ui.guarded
def draw(view: View, saved: _policy.Saved) -> None:
    """A fragment of its own: comparing two policies may take a second on a big store."""
    if st.session_state.pop("_draft_moved", False):
        st.rerun()  # sliders and figures lie outside this fragment
    _knobs_draft.say_now()
    filters = _knobs_draft.one_run(view.filters)
    with _data.reader() as ask:
        shelf = ask.policies()
        ask.release()
    _ui.section("Policies", "Drafts kept under a name in this database. None of them is in force by that.")
    said = st.session_state.pop("_shelf_said", None)
    if said:
        st.caption(f":red[:material/error:] {lit(said, 300)}")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="save_as_row"):
        st.text_input(
            "Save the draft under a name", key="policy_name", max_chars=_LONGEST, placeholder="stricter polls"
        )
        st.button(
            "Save as",
            icon=":material/bookmark_add:",
            key="save_as",
            on_click=_save_as,
            args=(saved,),
        )
    if shelf:
        _kept(shelf, saved)
    else:
        st.caption("None yet. Save a draft to come back to it, to compare it, or to show it to others.")
    _compare(shelf, saved, filters)


def named(text: str) -> str:
    """A policy's name as it is kept: one line, trimmed. Raises LoopscopeError where nothing is left."""
    name = " ".join(_CONTROL.sub(" ", text).split())[:_LONGEST].strip()
    if not name:
        raise LoopscopeError("a policy needs a name")
    return name


def _save_as(saved: _policy.Saved) -> None:
    try:
        name = named(st.session_state.get("policy_name") or "")
        policy = _knobs_draft.current(saved.policy)
        with _data.store().write() as con:
            con.execute(
                "INSERT INTO policies VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET toml = excluded.toml,"
                " policy_hash = excluded.policy_hash, saved_at = excluded.saved_at",
                [name, policy.to_toml(), policy.policy_hash, datetime.now(UTC).replace(tzinfo=None)],
            )
    except LoopscopeError as error:
        st.session_state["_shelf_said"] = str(error)
    else:
        st.session_state["policy_name"] = ""
        st.session_state["shelf_chosen"] = name
        _knobs_draft.say_next(
            "Saved under its name. It is not in force by that.", ":material/bookmark_added:"
        )


def _kept(shelf: dict[str, NamedPolicy], saved: _policy.Saved) -> None:
    _ui.table(
        pd.DataFrame(
            [
                {
                    "name": plain(one.name, _LONGEST),
                    "thresholds": "cannot be read" if one.policy is None else _policy.name(one.policy),
                    "force": "yes" if one.policy == saved.policy and saved.in_force else None,
                    "saved": one.saved_at,
                }
                for one in shelf.values()
            ]
        ),
        key="shelf",
        alt="Policies saved under a name",
        columns={
            "name": st.column_config.TextColumn("Name", width=180),
            "thresholds": st.column_config.TextColumn("Thresholds", width=260),
            "force": st.column_config.TextColumn("In force", width=80),
            "saved": st.column_config.DatetimeColumn("Saved (UTC)", format="YYYY-MM-DD HH:mm", width=140),
        },
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        if st.session_state.get("shelf_chosen") not in shelf:
            st.session_state.pop("shelf_chosen", None)
        name = st.selectbox(
            "Policy", list(shelf), format_func=lambda one: plain(one, _LONGEST), key="shelf_chosen", width=240
        )
        if name is None:
            return
        one = shelf[name]
        st.button(
            "Load into the draft",
            icon=":material/tune:",
            key="shelf_load",
            disabled=one.policy is None,
            on_click=_load,
            args=(one.policy, saved),
        )
        st.download_button(
            "Download TOML",
            data="" if one.policy is None else one.policy.to_toml(),
            file_name=f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'policy'}.toml",
            mime="application/toml",
            icon=":material/download:",
            on_click="ignore",
            key="shelf_download",
            disabled=one.policy is None,
        )
        with st.popover("Delete", icon=":material/delete:", key="shelf_delete_popover"):
            st.markdown(f"Delete {lit(name, 80)} from this database? The policy in force stays.")
            st.button("Delete it", type="primary", key="shelf_delete", on_click=_delete, args=(name,))
    if one.problem:
        st.caption(f":red[:material/error:] {lit(one.problem, 300)}")


def _load(policy: GuardPolicy, saved: _policy.Saved) -> None:
    _knobs_draft.put(policy, saved.policy, _knobs_draft.current(saved.policy))
    st.session_state["_draft_moved"] = True


def _delete(name: str) -> None:
    try:
        with _data.store().write() as con:
            con.execute("DELETE FROM policies WHERE name = ?", [name])
    except LoopscopeError as error:
        st.session_state["_shelf_said"] = str(error)
    else:
        _knobs_draft.say_next("Deleted.", ":material/delete:")


def _compare(shelf: dict[str, NamedPolicy], saved: _policy.Saved, filters: Filters) -> None:
    choices: dict[tuple[str, str], GuardPolicy] = {
        ("", _FORCE): saved.policy,
        ("", _DRAFT): _knobs_draft.current(saved.policy),
        ("", _DEFAULT): GuardPolicy(),
        **{("named", name): one.policy for name, one in shelf.items() if one.policy is not None},
    }
    names = list(choices)
    with st.expander(
        "Compare two policies", icon=":material/compare_arrows:", key="compare", on_change="rerun"
    ) as box:
        if not box.open:
            return

        def shown(one: tuple[str, str]) -> str:
            return plain(one[1], _LONGEST)

        left, right = st.columns(2)
        with left:
            before = st.selectbox("This one", names, index=0, format_func=shown, key="compare_before")
        with right:
            after = st.selectbox(
                "in place of it this one", names, index=1, format_func=shown, key="compare_after"
            )
        a, b = choices[before or names[0]], choices[after or names[1]]
        if a == b:
            st.caption("These two are the same policy.")
            return
        for sentence in describe_changes(a, b)[:30]:
            st.text(plain(sentence, 300))
        with st.spinner("Comparing…"), _data.reader() as ask:
            found = ask.comparison(a, b, filters)
            ask.release()
        _differences(found)


def _differences(found: PolicyComparison) -> None:
    exact = f" ({found.calls_changed_exact:,} of them exact)" if found.calls_changed else ""
    st.text(
        f"{count(found.calls_changed, 'call')}{exact} in {count(found.runs_changed, 'run')} "
        f"{'is' if found.calls_changed == 1 else 'are'} judged otherwise: "
        f"{count(found.runs_newly_blocked, 'run')} newly ended, {found.runs_spared:,} no longer; "
        f"{count(found.newly_avoided, 'needless call')} newly spared, {found.no_longer_avoided:,} no longer; "
        f"{count(found.newly_lost, 'useful call')} newly lost, {found.no_longer_lost:,} no longer."
    )
    sides = [one.effect for one in (found.before, found.after)]
    rows = [
        ("Runs nudged", *(f"{one.runs_nudged:,}" for one in sides)),
        ("Runs ended", *(f"{one.runs_blocked:,}" for one in sides)),
        ("Calls spared", *(f"{one.after.avoidable.calls:,}" for one in sides)),
        ("Calls lost", *(f"{one.after.lost.calls:,}" for one in sides)),
        ("Cannot be judged", *(f"{one.after.unjudged.calls:,}" for one in sides)),
        ("Time spared", *(duration(one.after.avoidable.wall_ns) for one in sides)),
        (
            "Money spared",
            *(
                ("" if one.after.avoidable.cost_whole else "at least ") + money(one.after.avoidable.cost)
                if one.after.avoidable.cost is not None
                else "unknown"
                for one in sides
            ),
        ),
    ]
    text = st.column_config.TextColumn
    _ui.table(
        pd.DataFrame(rows, columns=["what", "before", "after"]),
        key="compare_table",
        alt="Two policies beside each other",
        columns={
            "what": text("", width=130),
            "before": text("This one", width=120),
            "after": text("The other", width=120),
        },
    )
    if found.changes:
        _ui.table(
            pd.DataFrame(
                [
                    {
                        "before": verdict_text(one.before),
                        "after": verdict_text(one.after),
                        "calls": one.calls,
                        "runs": one.runs,
                        "exact": one.exact_calls,
                    }
                    for one in found.changes
                ]
            ),
            key="compare_changes",
            alt="Verdicts that change between the two policies",
            columns={
                "before": text("From", width=120),
                "after": text("To", width=120),
                "calls": st.column_config.NumberColumn("Calls", width=75),
                "runs": st.column_config.NumberColumn("Runs", width=75),
                "exact": st.column_config.NumberColumn("Exact calls", width=95),
            },
        )
