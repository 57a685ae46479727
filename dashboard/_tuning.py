"""The tuning page: knobs, effect, map of thresholds, what changes, the policy to take away."""

from __future__ import annotations

import shlex
from dataclasses import replace

import streamlit as st

from ..guard import GuardPolicy, PolicyError
from ..replay import Filters, ReplayResult
from . import _changes, _charts, _data, _knobs, _policy, _ui
from ._filters import View
from ._text import count, lit
from ._theme import VERDICTS

__all__ = ["draw"]

_CHANGES = 1_000
"""Changed calls that the list shows."""

_FIELDS = {
    "runs_blocked": ("Runs ended", "runs ended"),
    "calls_avoidable": ("Calls spared", "calls spared"),
    "calls_lost": ("Calls lost", "calls lost"),
    "runs_nudged": ("Runs nudged", "runs nudged"),
}


@st.fragment
@_ui.guarded
def draw(view: View, saved: _policy.Saved) -> None:
    """The whole page is one fragment: a slider redraws this and nothing else."""
    filters = _one_run(view.filters)
    top = st.container()
    left, right = st.columns([1, 2.6], gap="large")
    with left:
        draft = _knobs.draft(saved)
    with _data.reader() as ask:
        now = ask.replay(draft, filters)
        before = ask.replay(saved.policy, filters)
        nudges, blocks = _axes(draft, saved.policy)
        # The map does not depend on where the sliders stand: one answer serves all their places.
        still = replace(
            draft, nudge_threshold=saved.policy.nudge_threshold, block_threshold=saved.policy.block_threshold
        )
        grid = ask.sweep(still, nudges, blocks, filters)
        changed = ask.changed_calls(saved.policy, draft, filters, _CHANGES)
        incidents = {one.run_id: one.key for one in reversed(ask.incidents(saved.policy, filters))}
        ask.release()
    with top:
        _ui.sentence(_said(draft, now, before, saved))
        if _ui.unjudged(now.coverage):
            _ui.coverage_note(now.coverage)
    with right:
        _effect(now, before, draft == saved.policy)
        _map(grid, draft, saved.policy)
    if not _ui.unjudged(now.coverage):
        _ui.coverage_note(now.coverage)
    _changes.draw(changed, incidents, draft == saved.policy)
    _take_away(draft, saved)


def _one_run(filters: Filters) -> Filters:
    run = st.query_params.get("run")
    if not run:
        return filters
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"Only run {lit(run, 60)}", width="content")
        _ui.back("Tune with all runs", "run", icon=":material/close:")
    return replace(filters, run_ids=(run,))


def _said(draft: GuardPolicy, now: ReplayResult, before: ReplayResult, saved: _policy.Saved) -> str:
    totals = now.totals
    nothing = _ui.unjudged(now.coverage)
    if nothing:
        return nothing
    text = (
        f"With {_policy.name(draft)} the guard would have spoken up in {totals.runs_nudged:,} of "
        f"{count(totals.runs, 'run')} and ended {totals.runs_blocked:,}: "
        f"{count(totals.calls_avoidable, 'needless call')} spared, "
        f"{count(totals.calls_lost, 'useful one')} lost."
    )
    name = "saved policy" if saved.in_force else "default policy"
    if draft == saved.policy:
        if saved.problem:
            return f"{text} These are the defaults, in force because the policy file cannot be read."
        return f"{text} This is the {name}."
    ended = totals.runs_blocked - before.totals.runs_blocked
    lost = totals.calls_lost - before.totals.calls_lost
    if not ended and not lost:
        return f"{text} The {name} ends as many runs and loses as many calls."
    return f"{text} Against the {name}: {_more(ended, 'run')} ended, {_more(lost, 'useful call')} lost."


def _more(number: int, what: str) -> str:
    if not number:
        return f"as many {what}s"
    return f"{abs(number):,} {'more' if number > 0 else 'fewer'} {what}{'' if abs(number) == 1 else 's'}"


def _effect(now: ReplayResult, before: ReplayResult, same: bool) -> None:
    figures = (
        ("runs_nudged", f"{VERDICTS['nudge'].glyph} Runs nudged", "", f"of {count(now.totals.runs, 'run')}"),
        ("runs_blocked", f"{VERDICTS['block'].glyph} Runs ended", "", f"of {count(now.totals.runs, 'run')}"),
        ("calls_avoidable", "Calls spared", "up", "after a block, brought nothing new"),
        ("calls_lost", "Calls lost", "down", "after a block, brought something new"),
    )
    with _ui.figures(4, 128):
        for field, label, good, means in figures:
            value, exact, note = getattr(now.totals, field), getattr(now.exact, field), means
            if field.startswith("runs") and value:
                note += f"; {_sure(exact, value)}"
            if field == "calls_avoidable" and now.totals.calls_unjudged:
                note += f"; {now.totals.calls_unjudged:,} more cannot be judged"
            _ui.figure(
                label,
                f"{value:,}",
                note=note,
                delta=None if same else value - getattr(before.totals, field),
                delta_note="vs saved",
                good=good,
            )


def _sure(exact: int, value: int) -> str:
    if exact == value:
        return "all exact"
    return f"{exact:,} exact, {value - exact:,} projected" if exact else "all projected"


def _axes(draft: GuardPolicy, saved: GuardPolicy) -> tuple[range, range]:
    nudges = [policy.nudge_threshold for policy in (draft, saved) if policy.nudge_threshold]
    blocks = [policy.block_threshold for policy in (draft, saved) if policy.block_threshold]
    return (
        range(min([2, *nudges]), min(max([8, *nudges]), 40) + 1),
        range(min([3, *blocks]), min(max([10, *blocks]), 40) + 1),
    )


def _map(grid, draft: GuardPolicy, saved: GuardPolicy) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("Every pair of thresholds", anchor=False, width="content")
        field = st.segmented_control(
            "What the map shows",
            list(_FIELDS),
            default="runs_blocked",
            required=True,
            format_func=lambda name: _FIELDS[name][0],
            key="map_field",
            label_visibility="collapsed",
            persist_state="session",
        )
    field = field or "runs_blocked"
    _charts.show(
        _charts.threshold_map(
            grid,
            field,
            _FIELDS[field][1],
            (draft.nudge_threshold, draft.block_threshold),
            (saved.nudge_threshold, saved.block_threshold),
        ),
        key="threshold_map",
        alt=f"{_FIELDS[field][0]} for every pair of nudge and block thresholds",
        on_select=_pick,
        selection_mode="points",
    )
    st.caption("Click a cell to try its thresholds. Runs are projected after their first intervention.")


def _pick() -> None:
    points = (st.session_state.get("threshold_map") or {}).get("selection", {}).get("points", [])
    if points:
        _knobs.set_thresholds(int(points[0]["x"]), int(points[0]["y"]))


def _take_away(draft: GuardPolicy, saved: _policy.Saved) -> None:
    _ui.section(
        "Ship it", "The rule that was tuned here is the rule that runs: the live guard reads this file."
    )
    left, right = st.columns(2, gap="large")
    with left:
        st.code(draft.to_toml(), language="toml")
        with st.container(horizontal=True, gap="small"):
            same = saved.in_force and draft == saved.policy
            if st.button("Save policy", type="primary", icon=":material/save:", disabled=same, key="save"):
                try:
                    draft.to_file(saved.path)
                except (PolicyError, OSError) as error:
                    _ui.problem(error)
                else:
                    st.toast("Policy saved: all pages judge by it now.", icon=":material/check:")
                    st.rerun()
            st.download_button(
                "Download TOML",
                data=draft.to_toml(),
                file_name="loopscope-policy.toml",
                mime="application/toml",
                icon=":material/download:",
                on_click="ignore",
                key="download_toml",
            )
        where = lit(saved.path, 200)
        if saved.problem:
            st.caption(f"Saving replaces the broken file {where}; defaults until then")
        else:
            st.caption(
                f"Saved in {where}" + ("" if saved.exists else " once you save it; defaults until then")
            )
    with right:
        st.caption("Load it in the agent:")
        st.code(_policy.loading_lines(saved.path), language="python", wrap_lines=True)
        st.caption("Check a trace file against it, in CI or on call:")
        st.code(
            shlex.join(
                ("loopscope", "replay", "--db", str(_data.database().absolute()), "--policy", str(saved.path))
            ),
            language="bash",
            wrap_lines=True,
        )
