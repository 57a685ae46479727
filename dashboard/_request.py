"""One request whole: what the provider said, the verdict, and its history before and after the repair."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy, NotFoundError, provider_rules
from ..replay import Filters, HistoryMessage, RequestAnalysis, RequestHistory
from . import _data, _history, _policy, _request_tables, _ui
from ._queries import RequestFacts
from ._request_link import FAMILIES, PARAMETER, RULES
from ._request_words import class_name, mark_of, provider_name
from ._text import count, cut, plain
from ._traces_link import run_query
from ._units import duration, instant, tokens

__all__ = ["draw", "live_snippet"]

_OWN = "own"
_SAME = 20  # other requests of a cause that are listed
_WHOLE = 50_000_000  # characters and messages of a download: all of it


def draw(key: str, policy: GuardPolicy, filters: Filters) -> None:
    """The page of one request. Raises NotFoundError."""
    _ui.back("All requests", PARAMETER, RULES)
    found = re.fullmatch(r"([0-9a-f]{1,64})-([0-9a-f]{1,32})", key)
    if not found:
        raise NotFoundError("no such request")
    trace_id, span_id = found.groups()
    named = st.query_params.get(RULES)
    provider = named if named in FAMILIES else None
    with st.spinner("Reading the history …"), _data.reader() as ask:
        history, facts = ask.request(trace_id, span_id, policy, provider)
    _ui.sentence(_said(history, facts, provider))
    _badges(history, facts)
    with st.spinner("Looking for the cause …"), _data.reader() as ask:
        seen = ask.refused(policy, filters)
        ask.release()
    if history.request is not None:
        _refusal(history)
    _cause(seen, trace_id, span_id)
    if history.request is not None and history.request.verdict == "prevented_by_guard":
        _guarded(facts)
    if not history.before:
        _nothing(history)
        _facts(history, facts)
        return
    _figures(history)
    _ui.section("Before and after", _note(history))
    if history.note:
        st.text(plain(history.note, 800))
    if not history.repairs:
        st.markdown("**The sanitizer changes nothing in this history.**")
    _history.draw(history, lambda: _chooser(provider))
    _rules(history)
    _live(history, span_id, provider)
    _facts(history, facts)


# -- what it says --------------------------------------------------------------------------------


def _said(history: RequestHistory, facts: RequestFacts, provider: str | None) -> str:
    request = history.request
    who = provider_name(history.provider)
    if provider is not None or request is None:
        start = "This request succeeded; " if request is None else ""
        if not history.before:
            text = f"{start}its messages were not recorded, so nothing can be said of them."
        elif history.provider is None:
            text = f"{start}whose rules hold for it is not known."
        elif not history.violations_before:
            text = f"{start}{who} is not known to refuse its history."
        else:
            over = ", ".join(dict.fromkeys(class_name(one.error_class) for one in history.violations_before))
            ends = (
                "the repair does not cure it."
                if history.violations_after
                else f"repaired, it breaks no rule ({count(len(history.repairs), 'repair')})."
            )
            text = f"{start}{who} would refuse its history over: {over}; {ends}"
        return text[:1].upper() + text[1:]
    by = provider_name(request.judged_as or request.provider)
    if request.verdict is None:
        return f"Refused or failed at {by}, and not over tool calls and results: never judged."
    start = f"Refused by {by} over: {class_name(request.error_class)}"
    ends = {
        "prevented": f"the sanitizer would have prevented it with {count(request.repairs_total, 'repair')}",
        "prevented_by_guard": "the guard would have stepped in before",
        "not_prevented": "the sanitizer would not have prevented it",
        "undetermined": "whether the sanitizer would have prevented it cannot be judged",
    }[request.verdict]
    return f"{start}; {ends}."


def _badges(history: RequestHistory, facts: RequestFacts) -> None:
    request = history.request
    with st.container(horizontal=True, gap="xsmall"):
        if request is None:
            st.badge("✓ succeeded", color="green")
        else:
            mark = mark_of(request.verdict)
            st.badge(f"{mark.glyph} {mark.name}", color=mark.badge)  # pyright: ignore[reportArgumentType]
            if request.verdict is not None:
                st.badge(class_name(request.error_class), color="grey")
            if request.prevented_by_dedup:
                st.badge("by dropping doubles alone", color="green")
        if facts.http_status:
            st.badge(f"HTTP {facts.http_status}", color="grey")
    who = (facts.provider, facts.model, facts.agent_name or facts.service_name)
    st.text(" · ".join([*(plain(one, 60) for one in who if one), instant(facts.start_ns)]))
    st.page_link(
        "app_pages/traces.py",
        label="Its run, and what came around it",
        icon=":material/account_tree:",
        query_params=run_query(facts.run_id, f"{history.trace_id}/{history.span_id}"),
    )


def _refusal(history: RequestHistory) -> None:
    request = history.request
    assert request is not None
    _ui.text_box(
        "What the provider said", request.error_text or request.error_type, key="refusal", limit=2000
    )
    if request.reason:
        with st.container(gap=None, key="reason"):
            st.caption("Why this verdict")
            st.text(plain(request.reason, 1500))


def _cause(seen: RequestAnalysis, trace_id: str, span_id: str) -> None:
    """What came before the broken history, and the other requests that carried it."""
    mine = next((one for one in seen.requests if (one.trace_id, one.span_id) == (trace_id, span_id)), None)
    cause = next((one for one in seen.causes if mine is not None and one.number == mine.cause), None)
    if cause is None:
        return
    others = cause.requests - 1
    with st.container(gap=None, key="cause"):
        st.caption(
            f"What came just before the first of {count(cause.requests, 'request')} with this fault"
            if others
            else "What came just before it"
        )
        st.text(plain(cause.before, 800))
    if not others:
        return
    # An analysis lists so many requests; more of them may have the fault.
    listed = [one for one in seen.requests if one.cause == cause.number and one is not mine][:_SAME]
    label = f"The other {count(others, 'request')} with this fault" if others > 1 else "The other request"
    with st.expander(label, icon=":material/repeat:", key="same_fault"):
        _request_tables.requests(listed, key="same_fault")
        if len(listed) < others:
            st.caption(f"The newest {len(listed):,} of {others:,}.")


def _guarded(facts: RequestFacts) -> None:
    """A provider that refuses loops itself: here the guard is the cure, and not the sanitizer."""
    saved = _policy.saved()
    _ui.section("Have it prevented live", "The guard steps in before the provider does:")
    st.code(
        _policy.loading_lines(saved.path)
        if saved.in_force
        else "from loopscope.guard import DuplicateCallGuard, GuardPolicy\n\n"
        "guard = DuplicateCallGuard(GuardPolicy())",
        language="python",
        wrap_lines=True,
    )
    st.page_link(
        "app_pages/tuning.py",
        label="Tune with this run",
        icon=":material/tune:",
        query_params={"run": facts.run_id},
    )


def _nothing(history: RequestHistory) -> None:
    with st.container(border=True, key="no_history"):
        st.subheader("No history to show", anchor=False, icon=":material/lightbulb:")
        st.markdown(
            "The messages before and after the repair would stand here, with each repair marked at its place."
        )
        st.code(cut(history.note or "", 1500)[0], language=None, wrap_lines=True)


def _figures(history: RequestHistory) -> None:
    before, after = len(history.violations_before), len(history.violations_after)
    who = provider_name(history.provider)
    with _ui.figures(4):
        _ui.figure(
            "Messages",
            f"{history.messages_before:,} → {history.messages_after:,}",
            note="as recorded → repaired",
        )
        _ui.figure("Repairs", f"{len(history.repairs):,}", note=_kinds(history))
        known = history.provider is not None
        _ui.figure("Faults before", f"{before:,}" if known else "—", note=f"that {who} refuses")
        _ui.figure("Faults after", f"{after:,}" if known else "—", note=f"that {who} would still refuse")


def _kinds(history: RequestHistory) -> str:
    touched = len({repair.origin for repair in history.repairs})
    return f"at {count(touched, 'message')}" if touched else "nothing to repair"


def _note(history: RequestHistory) -> str:
    return (
        f"Read as {history.format}. Places count from 0. \N{MINUS SIGN} dropped, ~ changed, ↕ moved, + made; "
        "a message without a mark is kept as it is."
    )


def _chooser(provider: str | None) -> None:
    def chosen() -> None:
        name = st.session_state[RULES]
        if name == _OWN:
            st.query_params.pop(RULES, None)
        else:
            st.query_params[RULES] = name

    st.session_state[RULES] = provider or _OWN
    st.selectbox(
        "Judged by the rules of",
        [_OWN, *FAMILIES],
        format_func=lambda name: "the provider that it went to" if name == _OWN else provider_name(name),
        key=RULES,
        on_change=chosen,
        width=300,
    )


def _rules(history: RequestHistory) -> None:
    if history.provider is None:
        return
    who = provider_name(history.provider)
    left, right = st.columns(2, gap="medium")
    with left:
        _ui.section("Rules broken as recorded")
        _history.violations(history.violations_before, f"None that {who} is known to have.")
    with right:
        _ui.section("Rules broken after the repair")
        _history.violations(history.violations_after, f"None that {who} is known to have.")


# -- to take along -------------------------------------------------------------------------------


def live_snippet(history: RequestHistory) -> str:
    """The lines that make these repairs before a request is sent."""
    use = "provider=rules"
    head = "from loopscope.guard import provider_rules, sanitize_messages\n\n"
    proven = _proven(history)
    if history.provider is None:
        head, use = "from loopscope.guard import sanitize_messages\n\n", ""
    elif not proven:
        head, use = "from loopscope.guard import sanitize_messages\n\n", f'provider="{history.provider}"'
    elif proven == ["unique_in_history"]:
        head += f'rules = provider_rules("{history.provider}").with_unique_call_ids("history")\n'
    else:
        named = ", ".join(f'Rule("{rule}")' for rule in proven)
        head += f'rules = provider_rules("{history.provider}").with_rules({named})\n'
        head = head.replace("\n\n", "\nfrom loopscope.guard.messages import Rule\n\n", 1)
    return (
        f"{head}# Before each request. Send `send`; `messages` stays as it is.\n"
        f"send = sanitize_messages(messages{', ' + use if use else ''}).messages"
    )


def _proven(history: RequestHistory) -> list[str]:
    """Rules that the refusal itself proves: they are not in the table and have to be switched on."""
    rules = provider_rules(history.provider)
    known = set() if rules is None else {str(rule) for rule in rules.rules}
    return sorted({violation.rule for violation in history.violations_before} - known)


def _live(history: RequestHistory, span_id: str, provider: str | None) -> None:
    if history.repairs:
        _ways(history, span_id, provider)
    _ui.section("Take it away", "The whole history as JSON, long texts and all.")
    name = re.sub(r"[^0-9a-f]", "", span_id)[:16]
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for label, side in (("Repaired history", "after"), ("As recorded", "before")):
            st.download_button(
                label,
                data=_write(history, side, provider),
                file_name=f"request-{name}-{'repaired' if side == 'after' else 'recorded'}.json",
                mime="application/json",
                icon=":material/download:",
                on_click="ignore",
                key=f"download_{side}",
            )


def _ways(history: RequestHistory, span_id: str, provider: str | None) -> None:
    _ui.section("Have it repaired live", "In the agent, on the copy of the history that is sent:")
    st.code(live_snippet(history), language="python", wrap_lines=True)
    proven = _proven(history)
    if proven:
        st.caption(
            "The refusal proves a rule that is not in the table of this provider, so it is switched on here."
        )
    db = shlex.quote(str(_data.database().absolute()))
    by = f" --provider {provider}" if provider else ""
    known = f" --provider {history.provider}" if history.provider else ""
    st.caption("From a terminal: this request again; and any history in a file.")
    st.code(
        f"loopscope requests --show {span_id}{by} --db {db}\n"
        f"loopscope sanitize history.json{known} --output repaired.json",
        language="bash",
        wrap_lines=True,
    )


def _write(history: RequestHistory, side: str, provider: str | None):
    def write() -> bytes:
        with _data.reader() as ask:
            whole, _ = ask.request(
                history.trace_id,
                history.span_id,
                _policy.saved().policy,
                provider,
                text_limit=_WHOLE,
                message_limit=_WHOLE,
            )
        return json.dumps(_values(getattr(whole, side)), indent=2, ensure_ascii=False).encode(
            "utf-8", "replace"
        )

    return write


def _values(messages: Iterable[HistoryMessage]) -> list[Any]:
    values: list[Any] = []
    for message in messages:
        try:
            values.append(json.loads(message.text))
        except (ValueError, RecursionError):
            values.append(message.text)
    return values


def _facts(history: RequestHistory, facts: RequestFacts) -> None:
    known: Sequence[tuple[str, str | None]] = (
        ("Trace", history.trace_id),
        ("Span", history.span_id),
        ("Run", facts.run_id),
        ("Session", facts.session_id),
        ("Service", facts.service_name),
        ("Agent", facts.agent_name),
        ("Provider", facts.provider),
        ("Model", facts.model),
        ("Recorded as", facts.dialect),
        ("Content", facts_content(history)),
        ("Began", instant(facts.start_ns)),
        ("Took", duration(None if facts.end_ns is None else facts.end_ns - facts.start_ns)),
        ("Tokens sent", tokens(facts.input_tokens)),
    )
    with st.expander("Facts of the request", icon=":material/list:", key="facts"):
        _ui.table(
            pd.DataFrame(
                {
                    "fact": [name for name, _ in known],
                    "value": ["not recorded" if value is None else plain(value, 400) for _, value in known],
                }
            ),
            key="facts_table",
            alt="Facts of the request",
            height="content",
            columns={
                "fact": st.column_config.TextColumn("", width=140),
                "value": st.column_config.TextColumn("", width="large"),
            },
        )


def facts_content(history: RequestHistory) -> str:
    """How much of the messages was recorded."""
    return {
        "full": "recorded whole",
        "truncated": "recorded cut or with gaps",
        "missing": "not recorded",
    }.get(history.content_state, plain(history.content_state, 40))
