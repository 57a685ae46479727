"""Which requests were refused, and would a repair have saved them? One of them under its own URL."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import streamlit as st

from loopscope.dashboard import (
    _charts,
    _data,
    _filters,
    _first,
    _policy,
    _request,
    _request_charts,
    _request_link,
    _request_tables,
    _request_words,
    _snippets,
    _ui,
)
from loopscope.dashboard._text import count, cut, plain
from loopscope.guard import NotFoundError
from loopscope.replay import RequestAnalysis
from loopscope.replay.reports import safe_cell

view, saved = _filters.current_view(), _policy.saved()

_SECONDS = 1.0
"""Time for one round of checks behind the page."""
_EVERY = 2.5
_DOWNLOAD_SECONDS = 20.0
_ROWS = 100


def main() -> None:
    _request_link.follow()
    key = st.query_params.get(_request_link.PARAMETER)
    if key:
        _one(key)
    else:
        _all()


def _one(key: str) -> None:
    with _data.reader() as ask:
        try:
            _request.draw(key, saved.policy, view.filters)
        except NotFoundError:
            ask.release()
            _ui.sentence("That request is not in this database.")
            st.caption(
                "The link may belong to another database. The one in use stands at the foot of the sidebar."
            )


def _all() -> None:
    with _data.reader() as ask:
        with _first.counting(ask, "Judging refused requests of a store with"):
            seen = ask.refused(saved.policy, view.filters)
        checked, current = None, False
        if 0 < seen.coverage.passed <= _data.CHECKED_AT_ONCE:
            checked = ask.checked_requests(saved.policy, view.filters, _SECONDS)
            current = not checked.coverage.passed_waiting
        elif seen.coverage.passed:
            checked = ask.known_requests(saved.policy, view.filters)
            current = checked is not None
            if checked is None and _state().get("about") == _about():
                checked = _state()["found"]  # of the store as it was, while what is new is checked
        ask.release()
    totals = seen.totals
    if not totals.requests:
        _empty()
        return
    _ui.sentence(_request_words.said(totals, seen.requests))
    if view.filters.tools:
        st.caption("The tool filter does not apply to requests: these are those of all tools.")
    _figures(seen)
    _coverage(seen)
    if totals.failed:
        _failed(seen)
    else:
        st.caption(
            "Refused requests would stand here: what was wrong with the history, what came just before it, "
            "and what the sanitizer makes of it."
        )
    _passed(seen, checked, current)
    _take_away()


def _empty() -> None:
    if view.narrowed:
        _snippets.nothing_here(view, "")
        return
    _ui.sentence("No request to a model has been recorded yet.")
    ways = _snippets.grouped()
    _ui.empty(
        "No requests yet",
        "Requests to a model that a provider refused stand here: what was wrong with the history, whether a "
        "repair would have prevented it, and the history before and after. They come from the spans of an "
        "LLM instrumentation that records messages, or from imported files that hold them.",
        ways["Samples"],
        ways["Import files"],
        ways["Python agent"],
    )


# -- failed requests -----------------------------------------------------------------------------


def _figures(seen: RequestAnalysis) -> None:
    totals = seen.totals
    with _ui.figures(6, narrowest=130):
        _ui.figure("Requests", f"{totals.requests:,}", note=f"in {view.period}")
        _ui.figure(
            "Failed",
            f"{totals.failed:,}",
            note=(f"{_share(totals.failed / totals.requests)} of all" if totals.failed else "none")
            + (f"; {totals.cancelled:,} more cancelled" if totals.cancelled else ""),
        )
        _ui.figure(
            "About calls",
            f"{totals.tool_related:,}",
            note=f"of {totals.failed:,} failed; {count(totals.causes, 'cause')}",
            help="Refused over tool calls and results, as the provider's words say. The others (too long, no "
            "credit, no such model, …) are never judged.",
        )
        _ui.figure(
            "✓ Preventable",
            f"{totals.prevented + totals.prevented_by_guard:,}",
            note=_prevented(seen),
            help="By the sanitizer: the recorded history breaks a rule of that provider, the repaired one "
            "none. By the guard: a provider that refuses loops itself, and the guard would have stepped in "
            "before.",
        )
        _ui.figure("✗ Not preventable", f"{totals.not_prevented:,}", note="judged on the recorded history")
        _ui.figure("? Cannot be judged", f"{totals.undetermined:,}", note=_undetermined(seen))


def _share(part: float) -> str:
    """Of few failures among many requests it is not said that there were none."""
    return f"{part:.1%}" if part >= 0.001 else "< 0.1%"


def _prevented(seen: RequestAnalysis) -> str:
    totals = seen.totals
    if not totals.prevented and not totals.prevented_by_guard:
        return f"of {totals.tool_related:,} about calls"
    parts = []
    if totals.prevented:
        parts.append(f"{totals.prevented_by_dedup:,} by dropping doubles alone")
    if totals.prevented_by_guard:
        parts.append(f"{totals.prevented_by_guard:,} by the guard")
    return "; ".join(parts)


def _undetermined(seen: RequestAnalysis) -> str:
    if not seen.totals.undetermined:
        return "all were recorded well enough" if seen.totals.tool_related else "nothing to judge"
    why = _request_words.reasons(one for one in seen.requests if one.verdict == "undetermined")
    return "; ".join(f"{number:,} {what}" for what, number in why[:2])


def _coverage(seen: RequestAnalysis) -> None:
    said = _request_words.covers(seen.coverage)
    if not said:
        return
    coverage = seen.coverage
    missing = coverage.failed_without_messages + coverage.failed_truncated
    with st.expander(said, icon=":material/info:", expanded=False, key="coverage_note"):
        parts = [
            (coverage.without_messages, "without recorded messages"),
            (coverage.truncated, "with messages cut or with gaps"),
        ]
        text = "; ".join(f"{count(number, 'request')} {what}" for number, what in parts if number)
        st.text(f"{text}; {missing:,} of these failed.")
        for part in coverage.dialects:
            if part.without_messages:
                st.text(
                    f"{plain(part.dialect)}: {part.without_messages:,} of {count(part.requests, 'request')} "
                    f"without messages, {part.failed_without_messages:,} of them failed."
                    + (" To record them:" if part.hint else "")
                )
            if part.hint:
                st.code(cut(part.hint, 1000)[0], language=None, wrap_lines=True)


def _failed(seen: RequestAnalysis) -> None:
    totals = seen.totals
    left, right = st.columns([1.2, 1], gap="medium")
    with left:
        _ui.section("What was wrong", "Failed requests by what the provider refused, and the verdict.")
        _charts.show(
            _request_charts.class_bars(seen.by_class),
            key="by_class",
            alt="Failed requests by error class and verdict",
        )
    with right:
        _ui.section("Preventable by which repair", _repair_note(seen))
        if seen.by_repair:
            _charts.show(
                _request_charts.repair_bars(seen.by_repair),
                key="by_repair",
                alt="Preventable requests by kind of repair",
            )
    if totals.causes:
        _ui.section(
            "Causes",
            "One broken history is refused again and again: a line each, newest first, and what came just "
            "before it, in short. Click Open to see it whole, and the history before and after the repair.",
        )
        rows = _ui.page_of(len(seen.causes), key="causes_page", what="causes", rows=_ROWS)
        _request_tables.causes(seen.causes[rows])
        if len(seen.causes) < totals.causes:
            st.caption(f"The newest {len(seen.causes):,} of {totals.causes:,} causes.")
    _ui.section("Failed requests", "Each of them, newest first.")
    kinds = [name for name in _request_words.REQUEST_MARKS if _has(seen, name)]
    chosen = st.pills(
        "Verdict",
        kinds,
        selection_mode="multi",
        format_func=_pill,
        key="verdict",
        bind="query-params",
        label_visibility="collapsed",
        wrap=True,
    )
    shown = [one for one in seen.requests if not chosen or (one.verdict or "not_judged") in chosen]
    rows = _ui.page_of(len(shown), key="requests_page", what="requests", rows=_ROWS)
    _request_tables.requests(shown[rows])
    if len(seen.requests) < totals.failed:
        st.caption(
            f"Out of the newest {len(seen.requests):,} of {totals.failed:,}; the filter above narrows."
        )


def _has(seen: RequestAnalysis, verdict: str) -> bool:
    return any((one.verdict or "not_judged") == verdict for one in seen.requests)


def _pill(verdict: str) -> str:
    mark = _request_words.REQUEST_MARKS[verdict]
    return f"{mark.glyph} {mark.name}"


def _repair_note(seen: RequestAnalysis) -> str:
    totals = seen.totals
    if not totals.tool_related:
        return "No failed request was about calls and results, so there was nothing to repair."
    if not seen.by_repair:
        return f"None of {count(totals.tool_related, 'request')} about calls would be prevented by a repair."
    return (
        f"The {count(totals.prevented, 'preventable request')}; one that needs several repairs counts in "
        f"each. {totals.prevented_by_dedup:,} need no more than dropping doubles."
    )


# -- requests that succeeded ---------------------------------------------------------------------


def _state() -> dict[str, Any]:
    """What this session last saw of the requests that succeeded."""
    return st.session_state.setdefault("_latent", {})


def _about() -> tuple[Any, ...]:
    return view.filters, saved.policy.policy_hash


def _passed(seen: RequestAnalysis, checked: RequestAnalysis | None, current: bool) -> None:
    """What another provider would refuse. Of a big store it is worked out behind the page, bit by bit."""
    if not seen.coverage.passed:
        return
    _state().update(found=checked, about=_about(), drawn=False)
    with st.container(key="latent"):
        st.fragment(_latent, run_every=None if current else _EVERY)(seen.coverage.passed, current)


@_ui.guarded
def _latent(passed: int, current: bool) -> None:
    _request_link.follow()  # a table of this part was clicked
    state = _state()
    found: RequestAnalysis | None = state["found"]
    if state["drawn"] and not current:
        with _data.reader() as ask:  # the fragment runs alone: its turn to check
            found = ask.checked_requests(saved.policy, view.filters, _SECONDS)
            ask.release()
        state["found"] = found
        if not found.coverage.passed_waiting:
            st.rerun()  # the whole answer is kept now, and the timer ends
    state["drawn"] = True
    _ui.section(
        "Would another provider refuse it?",
        "Requests that succeeded, judged by every other provider's rules: what to expect of a fallback or a "
        "move. Rules that depend on the served model are left out.",
    )
    if found is None:
        st.text(f"{passed:,} requests that succeeded are being checked …")
        return
    _ui_latent(found)


def _ui_latent(found: RequestAnalysis) -> None:
    coverage, totals = found.coverage, found.totals
    checked, latent, broken = coverage.passed_checked or 0, totals.latent or 0, totals.broken or 0
    _covered(found)
    if not checked:
        return
    if latent:
        st.text(
            f"{latent:,} of {count(checked, 'checked request')} would be refused by at least one other "
            "provider. Open shows one of them, repaired for that provider."
        )
        _request_tables.risks(found.by_provider, checked)
    else:
        st.markdown(f":material/check: No other provider would refuse any of {count(checked, 'request')}.")
    _ui.section(
        "What the sanitizer would have changed for nothing",
        "Requests that succeeded and that it would not have left alone. There should be none.",
    )
    if not broken:
        st.markdown(
            f":material/check: **0 of {count(checked, 'checked request')}**: each would have stayed as it is."
        )
        return
    st.text(f"{broken:,} of {count(checked, 'checked request')}.")
    _request_tables.broken(found.broken)
    if len(found.broken) < broken:
        st.caption(f"The newest {len(found.broken):,} of {broken:,}.")


def _covered(found: RequestAnalysis) -> None:
    coverage = found.coverage
    parts = [
        (coverage.passed_not_recorded, "without messages, or cut"),
        (coverage.passed_without_ids, "recorded without call ids"),
        (coverage.passed_waiting, "not yet checked"),
    ]
    left = "; ".join(f"{number:,} {what}" for number, what in parts if number)
    text = f"Checked {coverage.passed_checked or 0:,} of {coverage.passed:,} requests that succeeded"
    text += f" ({left})." if left else "."
    if coverage.passed_against_rules:
        text += (
            f" {coverage.passed_against_rules:,} passed although our rules say that their own provider "
            "refuses them."
        )
    with st.container(key="latent_coverage"):
        st.caption(text)


# -- to take along -------------------------------------------------------------------------------


def _take_away() -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("The analysis of all requests in this view:", width="content")
        for form, write, mime in (("JSON", _json, "application/json"), ("CSV", _csv, "text/csv")):
            st.download_button(
                form,
                data=write,
                file_name=f"requests.{form.lower()}",
                mime=mime,
                icon=":material/download:",
                on_click="ignore",
                key=f"download_{form.lower()}",
            )


def _json() -> bytes:
    with _data.reader() as ask:
        found = ask.checked_requests(saved.policy, view.filters, _DOWNLOAD_SECONDS)
    return json.dumps(found.to_json(), indent=2, ensure_ascii=False).encode("utf-8", "replace")


def _csv() -> bytes:
    with _data.reader() as ask:
        found = ask.refused(saved.policy, view.filters).to_json()["requests"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for number, row in enumerate(found):
        if not number:
            writer.writerow(row)
        writer.writerow(
            [safe_cell(" ".join(value) if name == "repairs" else value) for name, value in row.items()]
        )
    return out.getvalue().encode("utf-8", "replace")


main()
