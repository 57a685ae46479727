"""Is everything arriving, and how do I send more?"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from loopscope.dashboard import _data, _drop, _filters, _queries, _snippets, _ui
from loopscope.dashboard._text import count, lit, plain
from loopscope.dashboard._units import ago, size, when
from loopscope.replay import Coverage

view = _filters.current_view()


def main() -> None:
    with _data.reader() as ask:
        seen = ask.coverage(view.filters)
        services = ask.services()
        lost = ask.losses()
        ask.release()
    waiting, refused = _data.spool().pending(), _data.spool().quarantined()
    now = _data.now_ns()
    last = services[0].last_ns if services else None
    _ui.sentence(_said(seen, last, len(waiting), len(refused), now))
    with _ui.figures():
        _ui.figure(
            "Last activity", ago(last, now) if last else "never", note="end of the newest call or request"
        )
        _ui.figure("Waiting in the spool", f"{len(waiting):,}", note="segments received, not folded yet")
        _ui.figure("Quarantined", f"{len(refused):,}", note="segments that could not be read")
        _ui.figure("Database", size(_size()), note=lit(_data.database().name, 40))
        judged = seen.calls - max(seen.calls_without_arguments, seen.calls_without_result)
        share = f"{judged / seen.calls:.0%}" if seen.calls else "—"
        _ui.figure("Calls with content", share, note=f"{judged:,} of {count(seen.calls, 'finished call')}")
    _ui.section("Import files", "Drop them here and watch them come in.")
    _drop.draw()
    _send()
    if services:
        _services(services, now)
        _dialects(seen)
    _writers(waiting, now)
    if refused:
        _quarantine(refused)
    if lost:
        _lost(lost)
    _keep()


def _said(seen: Coverage, last: int | None, waiting: int, refused: int, now: int) -> str:
    if last is None:
        return "Nothing has arrived yet. Choose a way to send traces below and copy it."
    fresh = now - last < 10 * 60 * 1_000_000_000
    parts = [
        f"Data is arriving, the newest {ago(last, now)}"
        if fresh
        else f"The newest data is from {ago(last, now)}"
    ]
    if waiting:
        parts.append(f"{count(waiting, 'segment')} waiting to be folded")
    parts.append(f"{refused:,} in quarantine" if refused else "nothing in quarantine")
    lacking = sum(1 for part in seen.dialects if part.hint)
    if lacking:
        parts.append(f"{count(lacking, 'source')} sent calls without content")
    return "; ".join(parts) + "."


def _size() -> int:
    try:
        return _data.database().stat().st_size
    except OSError:
        return 0


def _send() -> None:
    _ui.section(
        "Send traces here",
        "Choose what your agent is made with and copy the lines, filled in for this server.",
    )
    endpoint = _snippets.endpoint()
    if endpoint:
        st.caption(
            f":material/sensors: This server receives OTLP/HTTP at `{endpoint}/v1/traces` "
            f"and `{endpoint}/v1/logs`."
        )
    else:
        st.caption(
            ":material/sensors_off: No receiver runs in this server; files and agents in Python write "
            "to the database directly."
        )
    ways = {way.name: way for way in _snippets.frameworks()}
    chosen = st.selectbox("Framework", list(ways), key="framework", bind="query-params", width=340)
    way = ways[chosen]
    st.markdown(way.about)
    for caption, code, language in way.parts:
        st.caption(caption)
        st.code(code, language=language, wrap_lines=True)
    st.caption(f":material/visibility: {way.content}")
    with st.expander("Other ways: one line in Python, a processor of your own, from a terminal"):
        for name, (about, code, language) in _snippets.grouped().items():
            st.caption(f"**{name}.** {about}")
            st.code(code, language=language, wrap_lines=True)


def _services(services, now: int) -> None:
    _ui.section("Who is sending", "Services, the last one heard of first.")
    _ui.table(
        pd.DataFrame(
            {
                "service": ["not recorded" if one.name is None else plain(one.name) for one in services],
                "last": [ago(one.last_ns, now) for one in services],
                "at": [when(one.last_ns) for one in services],
                "calls": [one.calls for one in services],
                "requests": [one.requests for one in services],
            }
        ),
        key="services",
        alt="Services that sent traces",
        columns={
            "service": st.column_config.TextColumn("Service", width=240),
            "last": st.column_config.TextColumn("Last heard of", width=130),
            "at": st.column_config.DatetimeColumn("At (UTC)", format="YYYY-MM-DD HH:mm:ss", width=170),
            "calls": st.column_config.NumberColumn("Tool calls", format="localized", width=110),
            "requests": st.column_config.NumberColumn("Requests", format="localized", width=110),
        },
    )


def _dialects(seen: Coverage) -> None:
    _ui.section(
        "What was recorded",
        "Calls without arguments or result cannot be judged. The setting records them from now on.",
    )
    parts = seen.dialects
    _ui.table(
        pd.DataFrame(
            {
                "dialect": [plain(part.dialect) for part in parts],
                "calls": [part.calls for part in parts],
                "arguments": [
                    _share(part.calls - part.calls_without_arguments, part.calls) for part in parts
                ],
                "result": [_share(part.calls - part.calls_without_result, part.calls) for part in parts],
                "truncated": [part.calls_truncated for part in parts],
                "hint": ["" if part.hint is None else plain(part.hint, 400) for part in parts],
            }
        ),
        key="dialects",
        alt="Content coverage by dialect",
        columns={
            "dialect": st.column_config.TextColumn("Recorded as", width=170),
            "calls": st.column_config.NumberColumn("Calls", format="localized", width=80),
            "arguments": st.column_config.ProgressColumn("With arguments", format="percent", width=140),
            "result": st.column_config.ProgressColumn("With result", format="percent", width=140),
            "truncated": st.column_config.NumberColumn("Cut", width=70),
            "hint": st.column_config.TextColumn("Setting that records them", width=460),
        },
    )
    _ui.coverage_note(seen)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 2) if whole else 0.0


def _writers(waiting, now: int) -> None:
    _ui.section(
        "Who is writing",
        "Writers put segments into the spool; one process at a time brings them into the database.",
    )
    holder = _queries.folder(_data.database())
    st.text(f"Brought in by: {holder or 'nobody at the moment; the next writer will do it'}")
    writers = _queries.writers(waiting)
    if not writers:
        st.caption("No segment is waiting.")
        return
    _ui.table(
        pd.DataFrame(
            {
                "writer": [plain(one.name) for one in writers],
                "segments": [one.segments for one in writers],
                "size": [size(one.size) for one in writers],
                "last": [ago(one.last_ns, now) for one in writers],
            }
        ),
        key="writers",
        alt="Writers with segments that wait",
        columns={
            "writer": st.column_config.TextColumn("Host and process", width=240),
            "segments": st.column_config.NumberColumn("Segments", format="localized", width=90),
            "size": st.column_config.TextColumn("Size", width=90),
            "last": st.column_config.TextColumn("Last written", width=130),
        },
    )


def _keep() -> None:
    _ui.section("Keep it small", "Nothing is removed by itself. Labels and policies stay when runs go.")
    for about, code in _snippets.retention():
        st.caption(about)
        st.code(code, language="bash", wrap_lines=True)


def _lost(lost) -> None:
    _ui.section(
        "Lost on the way",
        "What writers dropped and receivers refused before it reached the spool, and traces that could not be"
        " read.",
    )
    _ui.table(
        pd.DataFrame(
            {
                "number": [one.number for one in lost],
                "what": [plain(one.name).removeprefix("dropped_").replace("_", " ") for one in lost],
                "source": [plain(one.source) for one in lost],
                "reason": ["" if one.reason is None else plain(one.reason, 400) for one in lost],
            }
        ),
        key="lost",
        alt="What was lost on the way",
        columns={
            "number": st.column_config.NumberColumn("Number", format="localized", width=90),
            "what": st.column_config.TextColumn("What", width=140),
            "source": st.column_config.TextColumn("Where", width=260),
            "reason": st.column_config.TextColumn("Why", width=420),
        },
    )


def _quarantine(refused) -> None:
    _ui.section("Quarantine", "These segments could not be read; they stay in the spool's quarantine folder.")
    _ui.table(
        pd.DataFrame(
            {
                "segment": [plain(name) for name, _ in refused],
                "reason": [plain(reason, 400) for _, reason in refused],
            }
        ).head(_ui.PAGE_ROWS),
        key="quarantine",
        alt="Quarantined segments",
        total=len(refused),
        columns={
            "segment": st.column_config.TextColumn("Segment", width=300),
            "reason": st.column_config.TextColumn("Why", width=600),
        },
    )


main()
