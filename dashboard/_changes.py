"""What a draft policy changes against the saved one, run by run or call by call."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from . import _traces_link, _ui
from ._queries import ChangedCall, ChangedCalls
from ._text import count, plain
from ._theme import VERDICTS, verdict_text

__all__ = ["draw"]


def draw(changed: ChangedCalls, same: bool) -> None:
    """Draw the list; each row opens its run."""
    _ui.section("What changes against the saved policy")
    if not changed.total:
        st.caption(
            "Nothing: the draft is the saved policy. Move a slider."
            if same
            else "No verdict changes: the draft and the saved policy judge every recorded call alike."
        )
        return
    by = st.segmented_control(
        "List",
        ["runs", "calls"],
        default="runs",
        required=True,
        format_func={"runs": count(changed.runs, "run"), "calls": count(changed.total, "call")}.__getitem__,
        key="changes_by",
        label_visibility="collapsed",
        wrap=True,
        persist_state="session",
    )
    rows = _changed_runs(changed) if by != "calls" else _changed_calls(changed)
    names = rows["run"].tolist()
    rows["run"] = [plain(name, 100) for name in names]
    rows.insert(0, "open", ["Open"] * len(rows))

    def clicked() -> None:
        click = st.session_state["changes_open"]
        if click is not None and 0 <= click.row < len(names):
            _traces_link.open_run(names[click.row])

    text = st.column_config.TextColumn
    _ui.table(
        rows,
        key="changes",
        alt="What changes against the saved policy",
        columns={
            "open": st.column_config.ButtonColumn(
                "", on_click=clicked, key="changes_open", type="tertiary", width=64, pinned=True
            ),
            "before": text("Saved", width=125),
            "after": text("Draft", width=125),
            "spared": st.column_config.NumberColumn("Spared", format="%+d", width=75),
            "lost": st.column_config.NumberColumn("Lost", format="%+d", width=65),
            "tool": text("Tool", width=190),
            "agent": text("Agent", width=130),
            "calls": st.column_config.NumberColumn("Changed calls", width=105),
            "number": st.column_config.NumberColumn("Call number", width=100),
            "count": st.column_config.NumberColumn("Equal in a row", width=110),
            "judged": text("After the block", width=150),
            "exact": text("Certainty", width=85),
            "run": text("Run", width=260),
        },
        total=changed.total if by == "calls" else changed.runs,
    )


def _changed_runs(changed: ChangedCalls) -> pd.DataFrame:
    runs: dict[str, list[ChangedCall]] = {}
    for call in changed.calls:
        runs.setdefault(call.run_id, []).append(call)
    return pd.DataFrame(
        [
            {
                "agent": plain(calls[0].agent_name) if calls[0].agent_name else None,
                "tool": ", ".join(plain(tool) for tool in dict.fromkeys(call.tool_name for call in calls)),
                "before": _fate(calls, "before"),
                "after": _fate(calls, "after"),
                "spared": _gained(calls, "avoidable"),
                "lost": _gained(calls, "lost"),
                "calls": len(calls),
                "exact": "exact" if all(call.exact for call in calls) else "projected",
                "run": run,
            }
            for run, calls in runs.items()
        ]
    )


def _fate(calls: list[ChangedCall], side: str) -> str:
    """What one policy does to a run. Where a block moves, its old and its new place are changed calls."""
    actions = [(getattr(call, side), call.seq) for call in calls]
    ends = [number for action, number in actions if action == "block"]
    if ends:
        return f"{VERDICTS['block'].glyph} ends at call {ends[0]}"
    if any(action == "nudge" for action, _ in actions):
        return f"{VERDICTS['nudge'].glyph} nudged"
    if any(action == "not_counted" for action, _ in actions):
        return verdict_text("not_counted")
    return f"{VERDICTS['allow'].glyph} goes on"


def _gained(calls: list[ChangedCall], judged: str) -> int | None:
    gained = sum(
        (call.after == "after_block") - (call.before == "after_block")
        for call in calls
        if call.judged == judged
    )
    return gained or None


def _changed_calls(changed: ChangedCalls) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "agent": plain(call.agent_name) if call.agent_name else None,
                "tool": plain(call.tool_name),
                "before": verdict_text(call.before),
                "after": verdict_text(call.after),
                "number": call.seq,
                "count": call.count,
                "judged": {"avoidable": "spared", "lost": "lost", "unjudged": "cannot be judged"}.get(
                    call.judged or ""
                ),
                "exact": "exact" if call.exact else "projected",
                "run": call.run_id,
            }
            for call in changed.calls
        ]
    )
