"""The tuning page: knobs, effect, maps and curves, what changes, the policy to take away."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import streamlit as st

from ..guard import GuardPolicy, PolicyError
from ..replay import Filters, Impact, LabelScores, Spent, Split
from . import (
    _changes,
    _data,
    _knobs,
    _knobs_draft,
    _policy,
    _rules,
    _suggestions,
    _traces_link,
    _tuning_pictures,
    _ui,
)
from ._filters import View
from ._knobs_draft import one_run
from ._queries import ChangedCalls
from ._text import count, lit
from ._theme import VERDICTS
from ._tuning_map import short
from ._units import duration, money

__all__ = ["draw"]

_CHANGES = 500
"""Changed calls that the list shows."""


@st.fragment
@_ui.guarded
def draw(view: View, saved: _policy.Saved) -> None:
    """Sliders and all that moves with them are one fragment: a slider redraws this and nothing else."""
    _traces_link.follow()
    filters = one_run(view.filters)
    if filters != view.filters:
        _back_to_all(filters.run_ids[0])
    top = st.container()
    left, right = st.columns([1, 2.6], gap="large")
    with left:
        draft = _knobs.draft(saved)
    whole = _data.in_whole_page()
    recount = draft.rule_id != st.session_state.get("_draft_rule", saved.policy.rule_id)
    _knobs_draft.remember(draft)
    st.session_state["_draft_rule"] = draft.rule_id
    with right:
        waiting = st.empty()
        if recount:
            with waiting, st.spinner("Counting every call again by the new rule…", show_time=True):
                _ask(draft, saved, filters, whole)
            waiting.empty()
    same = draft == saved.policy
    with _data.reader() as ask:
        now, before, scores = _figures_of(ask, draft, saved, filters, whole)
        with top:
            _ui.sentence(_said(draft, now, before, saved, lambda: _changed(ask, draft, saved, filters).total))
            if _ui.unjudged(now.coverage):
                _ui.coverage_note(now.coverage)
        with right, _ui.figures(4, 132):
            _effect(now, before, scores, same)
            _spent(now, before, same)
        with right:
            if not same:
                st.caption("Arrows: the change against the saved policy.")
            _tuning_pictures.draw(draft, saved.policy, filters, now)
        if not _ui.unjudged(now.coverage):
            _ui.coverage_note(now.coverage)
        changes = st.container()
        _take_away(draft, saved)
        # The calls behind the figures take as long as these: the browser draws all else meanwhile. The file
        # is held while the picture is made, which takes less than to open it again.
        changed = _changed(ask, draft, saved, filters)
        ask.release()
    with changes:
        _changes.draw(changed, same)
    if not whole:
        _knobs_draft.tell_below(draft)


def _ask(draft: GuardPolicy, saved: _policy.Saved, filters: Filters, whole: bool) -> None:
    """Ask all that this run of the page is going to ask."""
    with _data.reader() as ask:
        _figures_of(ask, draft, saved, filters, whole)
        _changed(ask, draft, saved, filters)
        ask.release()


def _figures_of(
    ask: _data.Reader, draft: GuardPolicy, saved: _policy.Saved, filters: Filters, whole: bool
) -> tuple[Impact, Impact, LabelScores | None]:
    """What the figures say; the picture's answers, and of a whole page those of its other parts, too."""
    found = (
        ask.impact(draft, filters),
        ask.impact(saved.policy, filters),
        ask.score(draft, filters) if ask.labels() else None,
    )
    _tuning_pictures.ahead(ask, draft, saved.policy, filters)
    if whole:
        ask.policies()
        for part in () if _knobs_draft.stays_below() else (_suggestions, _rules):
            part.ahead(ask, draft, filters)
    return found


def _changed(ask: _data.Reader, draft: GuardPolicy, saved: _policy.Saved, filters: Filters) -> ChangedCalls:
    return ask.changed_calls(saved.policy, draft, filters, _CHANGES)


def _back_to_all(run: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"Only run {lit(run, 60)}", width="content")
        _ui.back("Tune with all runs", "run", icon=":material/close:")


def _said(
    draft: GuardPolicy, now: Impact, before: Impact, saved: _policy.Saved, changed: Callable[[], int]
) -> str:
    """`changed`: how many calls are judged otherwise; asked only where the totals are alike."""
    totals, old = now.totals, before.totals
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
    parts = [
        _more(totals.runs_nudged - old.runs_nudged, "run", "nudged"),
        _more(totals.runs_blocked - old.runs_blocked, "run", "ended"),
        _more(totals.calls_avoidable - old.calls_avoidable, "needless call", "spared"),
        _more(totals.calls_lost - old.calls_lost, "useful call", "lost"),
    ]
    moved = [part for part in parts if part]
    if moved:
        # Gain and harm are said together: where one of them stays, that is part of the trade.
        if not parts[2] and parts[3]:
            moved.insert(-1, "as many needless calls spared")
        elif parts[2] and not parts[3]:
            moved.append("as many useful calls lost")
        return f"{text} Against the {name}: {', '.join(moved)}."
    otherwise = changed()
    if otherwise:
        return f"{text} The {name} has the same counts, but judges {count(otherwise, 'call')} otherwise."
    return f"{text} The {name} judges every recorded call alike."


def _more(number: int, what: str, how: str) -> str:
    if not number:
        return ""
    return (
        f"{abs(number):,} {'more' if number > 0 else 'fewer'} {what}{'' if abs(number) == 1 else 's'} {how}"
    )


def _effect(now: Impact, before: Impact, scores: LabelScores | None, same: bool) -> None:
    totals, old, exact = now.totals, before.totals, now.exact_totals

    def sure(field: str) -> str:
        return _sure(getattr(exact, field), getattr(totals, field))

    for field, calls, label, done in (
        ("runs_nudged", "calls_nudged", f"{VERDICTS['nudge'].glyph} Runs nudged", "nudge"),
        ("runs_blocked", "calls_blocked", f"{VERDICTS['block'].glyph} Runs ended", "block"),
    ):
        value = getattr(totals, field)
        notes = [f"of {count(totals.runs, 'run')}"]
        if done == "nudge" and value:
            notes.append(count(getattr(totals, calls), "call"))
        notes += [sure(field)] if value else []
        _figure(label, value, None if same else value - getattr(old, field), "", notes)
    notes = ["after a block, brought nothing new"]
    notes += [sure("calls_avoidable")] if totals.calls_avoidable else []
    if totals.calls_unjudged:
        notes.append(f"{totals.calls_unjudged:,} more cannot be judged")
    delta = None if same else totals.calls_avoidable - old.calls_avoidable
    _figure("Calls spared", totals.calls_avoidable, delta, "up", notes)
    notes = ["after a block, brought something new"]
    notes += [sure("calls_lost")] if totals.calls_lost else []
    delta = None if same else totals.calls_lost - old.calls_lost
    _figure("Calls lost", totals.calls_lost, delta, "down", notes)
    _caught(now, before, scores, same)


def _figure(label: str, value: int, delta: int | None, good: str, notes: list[str]) -> None:
    change = f"{delta:+,}" if delta else delta
    _ui.figure(label, f"{value:,}", note="; ".join(notes), delta=change, good=good or "off")


def _caught(now: Impact, before: Impact, scores: LabelScores | None, same: bool) -> None:
    """Caught and missed: by labels where there are any, else by runs that looped to their end."""
    if scores is not None and scores.labels.positive + scores.labels.negative and scores.rows:
        part = scores.rows[0].nudge[Split.ALL]
        blocked = scores.rows[0].block[Split.ALL].fp
        note = count(part.fp, "false alarm")
        if part.fp:
            note += f", {blocked:,} by a block" if blocked else ", none by a block"
        said = (
            f"By your labels, nudge or block: {part.fn:,} missed; {part.fp:,} of {part.fp + part.tn:,} "
            f"others caught wrongly, {blocked:,} of them by a block."
        )
        if part.cut_off:
            said += f" {part.cut_off:,} cut off by an earlier block."
        _ui.figure("True loops caught", f"{part.tp:,} of {part.tp + part.fn:,}", note=note, help=said)
        return
    soft, old = now.soft_failures, before.soft_failures
    spoken = soft.unresolved_nudged + soft.unresolved_blocked
    notes = [f"ended, {soft.unresolved_nudged:,} nudged", count(soft.resolved_blocked, "false alarm")]
    if not soft.unresolved:
        notes[0] = "no run looped to its end"
    elif not spoken:
        notes[0] = f"ended, {soft.unresolved:,} missed"
    _ui.figure(
        "Loops caught",
        f"{soft.unresolved_blocked:,} of {soft.unresolved:,}",
        note=" · ".join(notes),
        delta=None if same else soft.unresolved_blocked - old.unresolved_blocked,
        good="up",
        help="Runs that looped until they ended, and whose agent span ended OK all the same. False "
        f"alarms: of {count(soft.resolved, 'run')} that got out by themselves, those that would have been "
        "ended, too. With labels this figure says what people called a true loop.",
    )


def _sure(exact: int, value: int) -> str:
    if exact == value:
        return "all exact"
    return f"{exact:,} exact, {value - exact:,} projected" if exact else "all projected"


def _spent(now: Impact, before: Impact, same: bool) -> None:
    """What the calls after blocks took: time, tokens, money; spared and lost each."""
    spared, lost = now.effect.after.avoidable, now.effect.after.lost
    old = before.effect.after.avoidable
    rest = now.effect.after.rest
    for label, text, worth, step in (
        ("Time spared", _time, lambda one: one.wall_ns, duration),
        ("Tokens spared", _tokens, _all_tokens, _many),
        ("Money spared", _money, lambda one: one.cost, money),
    ):
        notes = []
        now_worth, old_worth = worth(spared), worth(old)
        delta = None
        if not same and now_worth is not None and old_worth is not None:
            more = now_worth - old_worth
            delta = f"{'-' if more < 0 else '+'}{step(abs(more))}" if more else 0
        if label == "Time spared" and rest.wall_ns:
            notes.append(f"plus {duration(rest.wall_ns)} of model requests after them")
        if lost.calls:
            notes.append(f"lost calls took {text(lost)}")
        if label == "Money spared" and spared.requests:
            notes.append(f"cost known of {spared.requests_with_cost:,} of {spared.requests:,} requests")
        if label == "Tokens spared" and spared.requests:
            exact = f"{now_worth:,}, " if now_worth is not None and now_worth >= 1_000_000 else ""
            notes.append(
                f"{exact}recorded for {spared.requests_with_usage:,} of {spared.requests:,} requests"
            )
        _ui.figure(
            label,
            text(spared),
            note="; ".join(notes) or "no run is ended",
            delta=delta,
            good="up",
        )


_AT_LEAST = "≥ "
"""In front of a sum of which a part was not recorded."""


def _time(one: Spent) -> str:
    return duration(one.wall_ns)


def _all_tokens(one: Spent) -> int | None:
    known = [number for number in (one.input_tokens, one.output_tokens) if number is not None]
    return sum(known) if known else None


def _tokens(one: Spent) -> str:
    known = _all_tokens(one)
    if known is None:
        return "unknown" if one.requests or one.calls else "none"
    return f"{'' if one.usage_whole else _AT_LEAST}{_many(known)}"


def _many(number: int) -> str:
    """Millions take less room than a figure has."""
    return f"{number:,}" if number < 1_000_000 else short(number)


def _money(one: Spent) -> str:
    if one.cost is None:
        return "unknown" if one.requests or one.calls else "none"
    if 0 < one.cost < 0.0001:
        return "under $0.0001"
    return f"{'' if one.cost_whole else _AT_LEAST}{money(one.cost)}"


def _take_away(draft: GuardPolicy, saved: _policy.Saved) -> None:
    _ui.section(
        "Ship it", "The rule that was tuned here is the rule that runs: the live guard reads this file."
    )
    left, right = st.columns(2, gap="large")
    toml = draft.to_toml()
    with left:
        st.code(toml, language="toml", height="content")
        with st.container(horizontal=True, gap="small"):
            same = saved.in_force and draft == saved.policy
            if st.button(
                "Save policy",
                type="primary",
                icon=":material/save:",
                disabled=same,
                key="save",
                help="Puts it in force on all pages, and in agents that load the file.",
            ):
                try:
                    draft.to_file(saved.path)
                except (PolicyError, OSError) as error:
                    _ui.problem(error)
                else:
                    _knobs_draft.forget()
                    st.toast("Policy saved: all pages judge by it now.", icon=":material/check:")
                    st.rerun()
            st.download_button(
                "Download TOML",
                data=toml,
                file_name="loopscope-policy.toml",
                mime="application/toml",
                icon=":material/download:",
                on_click="ignore",
                key="download_toml",
            )
        where = lit(saved.path, 200)
        if saved.problem:
            st.caption(f"Saving replaces the broken file {where}.")
        elif same:
            st.caption(f"Saved in {where}.")
        else:
            st.caption(f"Saving {'replaces' if saved.exists else 'writes'} {where}.")
    with right:
        if not same:
            force = where if saved.in_force else "the default policy"
            st.caption(
                f":material/warning: Not saved yet. In force: {force}; save before copying these lines."
            )
        st.caption("Load it in the agent:")
        st.code(_policy.loading_lines(saved.path), language="python", wrap_lines=True)
        st.caption("Check a trace file against it, in CI or on call:")
        st.code(
            shlex.join(
                ("loopscope", "check", "--db", str(_data.database().absolute()), "--policy", str(saved.path))
            ),
            language="bash",
            wrap_lines=True,
        )
