"""The conversation of a run as it grew: each message once, under the request that first brought it."""

from __future__ import annotations

import streamlit as st

from ..collector.dialects import content_hint
from ..guard import GuardPolicy
from ..replay.traces import MessagePart, MessageRequest, MessagesPage, RunHead, RunMessage
from . import _data, _request_link, _ui
from ._request_words import class_name
from ._text import count, cut, lit, plain
from ._theme import VERDICTS
from ._traces_words import spent
from ._units import duration

__all__ = ["draw"]

_REQUESTS = 20
_TEXT = 1_200  # characters of a message before "Show all"
_ICONS = {"user": ":material/person:", "assistant": ":material/smart_toy:", "tool": ":material/build:"}


def draw(ask: _data.Reader, head: RunHead, policy: GuardPolicy) -> None:
    """Requests a page at a time, each with its new messages and the answer."""
    ask.release()
    _messages(head, policy)


@st.fragment
@_ui.guarded
def _messages(head: RunHead, policy: GuardPolicy) -> None:
    with _data.reader() as ask:
        page = max(1, int(st.session_state.get("messages_page", 1)))
        found = ask.run_messages(head.run.run_id, policy, _REQUESTS, (page - 1) * _REQUESTS)
        if not found.requests and page > 1:
            st.session_state["messages_page"] = 1
            found = ask.run_messages(head.run.run_id, policy, _REQUESTS, 0)
        ask.release()
    if not found.total:
        st.caption(
            "No requests to a model were recorded for this run, so there is no conversation. The tab "
            "Calls has its tool calls."
        )
        return
    _not_recorded(found)
    st.caption(
        "Each message stands once, under the request that first brought it. A call stands beside its "
        "result and what the "
        "policy in force says of it."
    )
    _ui.page_of(found.total, key="messages_page", what="requests", rows=_REQUESTS)
    paired: set[str] = set()
    start = head.run.first_ns
    for request in found.requests:
        _request(request, found, paired, start)
    if found.messages_cut:
        st.caption(
            "These requests brought more messages than are drawn here; the page of a request has all of "
            "its own."
        )


def _not_recorded(found: MessagesPage) -> None:
    lacking = [
        one
        for one in found.requests
        if one.content_state == "missing" or (one.sent is None and not one.messages)
    ]
    if not lacking:
        return
    label = (
        f"The messages of {len(lacking):,} of {count(len(found.requests), 'request')} here were not recorded"
    )
    with st.expander(
        label, icon=":material/info:", expanded=len(lacking) == len(found.requests), key="messages_note"
    ):
        for dialect in dict.fromkeys(one.dialect for one in lacking):
            hint = content_hint(dialect)
            st.text(
                f"{plain(dialect, 60)}: to record them"
                if hint
                else f"{plain(dialect, 60)}: no setting is known that records them."
            )
            if hint:
                st.code(cut(hint, 1_000)[0], language=None, wrap_lines=True)


def _request(request: MessageRequest, found: MessagesPage, paired: set[str], start: int) -> None:
    with st.container(border=True, key=f"request_{request.number}", gap="small"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(
                f"**Request {request.number + 1:,}** {lit(request.model, 50) if request.model else ''}",
                width="content",
            )
            st.caption(_circumstances(request, start), width="content")
            if request.status == "error":
                st.page_link(
                    "app_pages/requests.py",
                    label="Why it failed",
                    icon=":material/forum:",
                    query_params={_request_link.PARAMETER: f"{request.trace_id}-{request.span_id}"},
                )
        if request.status == "error":
            about = f"✗ Failed: {class_name(request.error_class)}" if request.error_class else "✗ Failed"
            _ui.text_box(about, request.error_text, key=f"error_{request.number}")
        shown = 0
        for number, message in enumerate(request.messages):
            shown += _message(message, found, paired, f"m{request.number}_{number}")
        if not shown and request.status != "error":
            recorded = request.sent is not None
            st.caption(
                "Nothing in it is new, and its answer was not recorded."
                if recorded
                else ":material/block: messages not recorded"
            )


def _circumstances(request: MessageRequest, start: int) -> str:
    parts = [f"+{duration(request.start_ns - start)}"]
    if request.end_ns is None:
        parts.append("no answer yet")
    else:
        parts.append(f"answered after {duration(request.end_ns - request.start_ns)}")
    if request.sent is not None:
        parts.append(f"{count(request.sent, 'message')} sent")
    if request.input_tokens is not None:
        parts.append(f"{request.input_tokens:,} → {request.output_tokens or 0:,} tokens")
    if request.cost is not None:
        parts.append(str(spent(request.cost)))
    if request.http_status:
        parts.append(f"HTTP {request.http_status}")
    if request.content_state == "truncated":
        parts.append("recorded cut or with gaps")
    return " · ".join(parts)


def _message(message: RunMessage, found: MessagesPage, paired: set[str], key: str) -> bool:
    """Draw what of a message is not drawn yet. Was there anything?"""
    parts = [
        part
        for part in message.parts
        if part.kind != "result" or part.call_id is None or part.call_id not in paired
    ]
    if not parts and not message.media:
        return False
    icon = _ICONS.get(message.role, ":material/notes:")
    by = f"{icon} **{'Answer' if message.answered else 'Sent'}** {lit(message.role, 30)}"
    for number, part in enumerate(parts):
        _part(part, by, found, paired, f"{key}_{number}")
    if message.media:
        st.caption(f"{by} {count(message.media, 'part')} without text (an image, a file, …)")
    if message.cut:
        st.caption(f"Recorded with {message.chars:,} characters; longer texts are cut here.")
    return True


def _part(part: MessagePart, by: str, found: MessagesPage, paired: set[str], key: str) -> None:
    if part.kind == "text":
        _ui.text_box(by, part.text, key=key, limit=_TEXT)
    elif part.kind == "reasoning":
        _ui.text_box(f"{by} reasons", part.text, key=key, limit=_TEXT)
    elif part.kind == "result":
        _ui.text_box(f"{by} result {_named(part.call_id)}", part.text, key=key, limit=_TEXT)
    else:
        _call(part, by, found, paired, key)


def _call(part: MessagePart, by: str, found: MessagesPage, paired: set[str], key: str) -> None:
    call = found.calls.get(part.call_id) if part.call_id else None
    result = found.results.get(part.call_id) if part.call_id else None
    if part.call_id and result is not None:
        paired.add(part.call_id)
    left, right = st.columns(2, gap="medium")
    with left:
        _ui.text_box(
            f"{by} calls {lit(part.name or 'a tool', 60)}",
            part.text,
            key=f"{key}_a",
            language="json",
            limit=_TEXT,
        )
    with right:
        text = result.text if result is not None else call.result if call is not None else None
        verdict = ""
        if call is not None and call.action is not None:
            mark = VERDICTS[call.action]
            sure = "" if call.exact else ", projected"
            glyph = "" if call.action == "allow" else f"{mark.glyph} "
            verdict = f", {glyph}{mark.name} ({call.count:,} in a row{sure})"
        failed = ", ✗ failed" if call is not None and call.outcome not in (None, "success") else ""
        _ui.text_box(f"Result{failed}{verdict}", text, key=f"{key}_r", limit=_TEXT)


def _named(call_id: str | None) -> str:
    return f"of call {lit(call_id, 60)}" if call_id else "of a call without an id"
