"""One span whole: the call or request that it is, its attributes, events, links and log records as text."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import streamlit as st

from ..guard import GuardPolicy, NotFoundError
from ..replay.traces import LogPage, RunCall, RunHead, SpanDetail, SpanRow
from . import _data, _request_link, _ui
from ._text import count, lit, plain, sized
from ._theme import VERDICTS
from ._traces_link import run_query
from ._units import duration, instant

__all__ = ["call_facts", "call_texts", "draw", "log_table"]

_STATUS = {0: "status not set", 1: "status OK", 2: "✗ status error"}
_LISTED = 60  # attributes in the table
_EVENTS = 40


def draw(row: SpanRow, head: RunHead, policy: GuardPolicy) -> None:
    """Draw the selected span."""
    found: SpanDetail | None = None
    call: RunCall | None = None
    logs = LogPage((), 0)
    with _data.reader() as ask:
        if row.trace_id and row.span_id:
            try:
                found = ask.span(row.trace_id, row.span_id)
            except NotFoundError:
                found = None
            if head.logs:
                logs = ask.logs(head.run.run_id, row.trace_id, row.span_id, 50, 0)
        trace_id, _, span_id = row.key.partition("/")
        if row.kind == "call" and row.run_id:
            calls = ask.calls_of_run(row.run_id, policy, span=(trace_id, span_id.partition("#")[0]), limit=20)
            wanted = span_id.partition("#")[2]
            call = next((one for one in calls.calls if not wanted or str(one.position) == wanted), None)
        ask.release()
    st.markdown(f"**{row.kind.capitalize()}** {lit(row.name, 100)}")
    st.caption(_circumstances(row, found))
    _ways(row, head, found)
    if found is not None and found.status_message:
        _ui.text_box("Status message", found.status_message, key=f"status_{row.key}")
    if call is not None:
        st.caption(call_facts(call))
        call_texts(call, key=f"span_{row.key}")
    if found is None:
        st.caption("It was recorded in log records, so it has no span and no attributes of its own.")
        return
    _attributes(found, row.key)
    _events(found, row.key)
    if logs.total:
        st.caption(f"Log records of this span ({logs.total:,})")
        log_table(logs, key="span_logs")


def _circumstances(row: SpanRow, found: SpanDetail | None) -> str:
    parts = [f"begins {instant(row.start_ns)}"]
    parts.append("not ended" if row.end_ns is None else f"ran {duration(row.end_ns - row.start_ns)}")
    if found is not None:
        parts.append(_STATUS.get(found.status_code, "status unknown"))
        if found.dropped_attributes or found.dropped_events:
            parts.append(
                f"the SDK dropped {found.dropped_attributes:,} attributes and {found.dropped_events:,} events"
            )
    if row.inside:
        parts.append(f"{count(row.inside, 'span')} inside, {row.failed_inside:,} of them failed")
    return " · ".join(parts)


def _ways(row: SpanRow, head: RunHead, found: SpanDetail | None) -> None:
    with st.container(horizontal=True, gap="small"):
        if row.kind == "request" and row.failed and found is not None:
            st.page_link(
                "app_pages/requests.py",
                label="Why it was refused, and the repair",
                icon=":material/forum:",
                query_params={_request_link.PARAMETER: f"{found.trace_id}-{found.span_id}"},
            )
        if row.run_id and row.run_id != head.run.run_id:
            st.page_link(
                "app_pages/traces.py",
                label="Its run",
                icon=":material/account_tree:",
                query_params=run_query(row.run_id),
            )


def call_facts(call: RunCall) -> str:
    """What is known of a call, in a line of our own words."""
    parts: list[str] = []
    if call.action is None:
        parts.append("never ended, so it is not counted")
    else:
        mark = VERDICTS[call.action]
        parts.append(
            f"{mark.glyph} {mark.name}{'' if call.exact else ' (projected)'}, {call.count:,} equal in a row"
        )
    parts.append(call.outcome.replace("_", " ") if call.outcome else "outcome not known")
    if call.error_kind:
        parts.append(call.error_kind.replace("_", " "))
    if call.http_status:
        parts.append(f"HTTP {call.http_status}")
    if call.seq is not None:
        parts.append(f"call {call.seq:,} of its run")
    if call.content_state == "truncated":
        parts.append("content was cut when it was recorded")
    if call.recorded_verdict:
        parts.append(f"a live guard said {call.recorded_verdict} in the recording")
    return " · ".join(parts)


def call_texts(call: RunCall, *, key: str) -> None:
    """Arguments and result side by side."""
    left, right = st.columns(2, gap="medium")
    with left:
        _ui.text_box(
            sized("Arguments", call.arguments_length), call.arguments, key=f"{key}_a", language="json"
        )
    with right:
        _ui.text_box(sized("Result", call.result_length), call.result, key=f"{key}_r")
    if call.error_message and call.error_message not in (call.result or ""):
        _ui.text_box("Error", call.error_message, key=f"{key}_e")


def _attributes(found: SpanDetail, key: str) -> None:
    value = _parsed(found.attributes)
    if isinstance(value, dict) and value:
        shown = list(value.items())[:_LISTED]
        text = st.column_config.TextColumn
        _ui.table(
            pd.DataFrame(
                {
                    "name": [plain(name, 120) for name, _ in shown],
                    "value": [
                        plain(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False), 300)
                        for _, one in shown
                    ],
                }
            ),
            key="span_attributes",
            alt="Attributes of the span",
            height="content" if len(shown) <= 14 else 35 * 15,
            columns={"name": text("Attribute", width=260), "value": text("Value", width="large")},
            total=len(value),
        )
    with st.expander("As recorded", icon=":material/data_object:", key="span_raw"):
        for label, raw, length in (
            ("Attributes", found.attributes, found.attributes_length),
            ("Resource", found.resource, found.resource_length),
            ("Links to other spans", found.links, found.links_length),
        ):
            if raw in ("[]", "{}"):
                st.caption(f"{label}: none")
                continue
            _ui.text_box(
                sized(label, length),
                _pretty(raw),
                key=f"raw_{label[:4]}_{key}",
                language="json",
                limit=4_000,
            )
            if length > len(raw):
                st.caption(
                    f"The first {len(raw):,} of {length:,} characters; `loopscope query` gives all of them."
                )
        scope = " ".join(one for one in (found.scope_name, found.scope_version) if one)
        st.text(f"Instrumentation: {plain(scope, 120) or 'not recorded'}")
        st.text(f"Span {plain(found.span_id, 40)} of trace {plain(found.trace_id, 64)}")
        st.text(f"Parent: {plain(found.parent_span_id or 'none', 40)}; came in {instant(found.received_ns)}")


def _events(found: SpanDetail, key: str) -> None:
    events = _parsed(found.events)
    if not isinstance(events, list) or not events:
        return
    with st.expander(f"{count(len(events), 'event')}", icon=":material/bolt:", key="span_events"):
        for number, event in enumerate(events[:_EVENTS]):
            if not isinstance(event, dict):
                continue
            at = event.get("time_ns") or event.get("time") or event.get("timeUnixNano")
            when = (
                f" +{duration(int(at) - found.start_ns)}"
                if isinstance(at, (int, str)) and str(at).isdigit()
                else ""
            )
            label = f"{lit(str(event.get('name', 'without a name')), 80)}{when}"
            rest = {name: value for name, value in event.items() if name not in ("name", "time_ns")}
            _ui.text_box(
                label,
                json.dumps(rest, ensure_ascii=False, indent=1),
                key=f"event_{number}_{key}",
                language="json",
            )
        if len(events) > _EVENTS:
            st.caption(f"The first {_EVENTS:,} of {len(events):,} events.")


def log_table(page: LogPage, *, key: str) -> None:
    """Log records, a line each."""
    text = st.column_config.TextColumn
    lines = page.lines
    _ui.table(
        pd.DataFrame(
            {
                "time": [instant(one.time_ns) for one in lines],
                "event": [plain(one.event_name, 80) if one.event_name else None for one in lines],
                "severity": [plain(one.severity, 20) if one.severity else None for one in lines],
                "body": [None if one.body is None else plain(one.body, 300) for one in lines],
                "attributes": [plain(one.attributes, 300) for one in lines],
                "span": [one.span_id for one in lines],
            }
        ),
        key=key,
        alt="Log records",
        height="content" if len(lines) <= 20 else 35 * 21,
        columns={
            "time": text("Time", width=210),
            "event": text("Event", width=190),
            "severity": text("Severity", width=75),
            "body": text("Body", width=320),
            "attributes": text("Attributes", width=420),
            "span": text("Span", width=140),
        },
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # cut, or deeper than can be read
        return None


def _pretty(text: str) -> str:
    value = _parsed(text) if len(text) <= 200_000 else None
    if value is None:
        return text
    try:
        return json.dumps(value, ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return text
