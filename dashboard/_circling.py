"""The head of the overview: what is looping now, and what the incidents cost."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from ..replay import Circling, CirclingRun, Impact, Spent
from . import _incident_table, _live, _ui
from ._text import count, lit, plain
from ._theme import KIND_NAMES
from ._units import ago, clock, duration, money, tokens

__all__ = ["cost", "now", "said"]

_EVERY = 20
"""Seconds between looks at the clock: what looped a moment ago grows old although nothing new comes in."""

_CARDS = 3
_STATES = {
    "running": ":material/sync: running",
    "active": ":material/sync: no end recorded",
    "ended": ":material/stop_circle: ended in it",
    "stopped": ":material/shield: stopped by the guard",
}


def said(found: Circling, now_ns: int) -> str:
    """Whether anything loops now, since when, where, and what it cost."""
    if not found.going_on:
        parts: list[str] = []
        if found.just_ended:
            parts.append(f"{count(found.just_ended, 'run')} ended in a loop")
        if found.just_stopped:
            parts.append(f"a live guard stopped {count(found.just_stopped, 'run')}")
        if not parts:
            return "Nothing is looping now."
        return f"Nothing is looping now; {' and '.join(parts)} in the last 10 minutes."
    worst = found.now[0].incident
    so_far = duration(max(0, now_ns - worst.first_ns))
    text = (
        f"Looping now: {_incident_table.who(worst)}, {count(worst.calls, 'call')} since "
        f"{clock(worst.first_ns)} ({so_far}), {_price(found.now[0])} so far"
    )
    more = found.going_on - 1
    return f"{text}; {count(more, 'more run')}." if more else f"{text}."


def _price(one: CirclingRun) -> str:
    incident = one.incident
    if incident.cost is not None:
        return money(incident.cost)
    if incident.input_tokens is not None:
        return tokens(incident.input_tokens + (incident.output_tokens or 0))
    return "cost not recorded"


def now(found: Circling, now_ns: int, history: str) -> None:
    """The page's sentence, and a card for each run that loops. `history`: the sentence on the period."""
    if found.going_on or found.just_ended or found.just_stopped:
        _live.redraw_after(_EVERY)
    _ui.sentence(f"{said(found, now_ns)} {history}")
    for number, one in enumerate(found.now[:_CARDS]):
        _card(one, now_ns, f"now_{number}")
    left = found.going_on + found.just_ended + found.just_stopped - min(len(found.now), _CARDS)
    if left > 0:
        st.caption(f"{count(left, 'more run')}; all of them are among the newest incidents below.")


def _card(one: CirclingRun, now_ns: int, key: str) -> None:
    incident = one.incident
    with st.container(
        border=True, horizontal=True, vertical_alignment="center", gap="small", key=f"{key}_card"
    ):
        with st.container(gap="xxsmall", width="stretch"):
            st.markdown(f"{_STATES[one.state]} · **{KIND_NAMES.get(incident.kind, incident.kind)}**")
            st.text(plain(_incident_table.who(incident), 160))
            parts = [
                f"{incident.repeated_calls:,} repeated of {count(incident.calls, 'call')}",
                f"since {clock(incident.first_ns)}, last call {ago(incident.last_ns, now_ns)}",
                _price(one),
            ]
            if incident.service_name:
                parts.append(f"service {lit(incident.service_name, 40)}")
            if incident.stopped_at is not None:
                parts.append(f"a live guard stopped it at call {incident.stopped_at:,}")
            elif incident.block_at:
                parts.append(f"the policy in force would block its call {incident.block_at:,}")
            elif incident.nudge_at:
                parts.append(f"the policy in force would nudge its call {incident.nudge_at:,}")
            st.caption(" · ".join(parts).replace("$", "\\$"))
        st.button("Open", key=key, on_click=_opens(incident.key), width="content")
    if st.session_state.get("_open_now") == incident.key:
        del st.session_state["_open_now"]
        _incident_table.open_incident(incident.key)


def _opens(key: str) -> Callable[[], None]:
    return lambda: st.session_state.update({"_open_now": key})


def cost(found: Circling, effect: Impact, policy_name: str) -> None:
    """Figures of what calls in circles took, and of what a block would have spared."""
    _ui.section(
        "What the incidents cost",
        "Requests that a run made from the first to the last call of an incident, each counted once.",
    )
    spent, after = found.spent, effect.effect.after
    with _ui.figures(4, 150):
        _ui.figure(
            "Calls in incidents",
            f"{spent.calls:,}",
            note=f"in {count(found.runs, 'run')}, {duration(spent.wall_ns)} in all",
        )
        _ui.figure("Tokens", _sum(spent), note=_known(spent.requests_with_usage, spent.requests))
        _ui.figure("Cost", money_of(spent), note=_known(spent.requests_with_cost, spent.requests))
        _ui.figure(
            "Calls spared by a block",
            f"{after.avoidable.calls:,}",
            note=_spared(effect, policy_name),
            help="Calls after a block of the policy in force that brought nothing the run did not know. "
            "Lost: calls after a block that brought something new.",
        )


def _sum(spent: Spent) -> str:
    if spent.input_tokens is None and spent.output_tokens is None:
        return "unknown" if spent.requests else "0"
    return f"{(spent.input_tokens or 0) + (spent.output_tokens or 0):,}"


def money_of(spent: Spent) -> str:
    """ "$0.42"; "$0" where nothing was asked of a model; "unknown" where no cost is known."""
    return money(spent.cost) if spent.requests else "$0"


def _known(known: int, requests: int) -> str:
    if not requests:
        return "no request to a model in them"
    if known == requests:
        return f"of all {count(requests, 'request')}"
    return f"recorded by {known:,} of {count(requests, 'request')}; the rest is not in it"


def _spared(effect: Impact, policy_name: str) -> str:
    after = effect.effect.after
    if not effect.effect.runs_blocked:
        return f"{policy_name}: ends no run"
    parts = [f"{policy_name}; {after.lost.calls:,} lost"]
    if after.unjudged.calls:
        parts.append(f"{after.unjudged.calls:,} not judged")
    if after.avoidable.cost is not None:
        parts.append(f"{money(after.avoidable.cost)} spared")
    elif after.avoidable.input_tokens is not None:
        parts.append(f"{tokens(after.avoidable.input_tokens + (after.avoidable.output_tokens or 0))} spared")
    return "; ".join(parts).replace("$", "\\$")
