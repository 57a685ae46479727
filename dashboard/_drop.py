"""Files dropped on the page, brought into the database behind it, while agents go on writing."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from ..collector import import_paths
from ..guard import LoopscopeError
from . import _data, _ui
from ._text import count, plain
from ._units import size

__all__ = ["Job", "draw", "safe_name"]

MOST_FILES = 50
MOST_MEGABYTES = 200
"""Of one file. A longer one comes in with `loopscope import`, which reads it where it lies."""

_EVERY = 0.5
_THERE = "· already there"
_NAME = re.compile(r"[^\w.+@=,~ -]")
_one_at_a_time = threading.Lock()


def safe_name(name: str) -> str:
    """The name of an upload, fit to be a file name here: no folder, no odd sign, not too long.

    Its ending stays: some formats are known by it.
    """
    last = re.split(r"[\\/]", name)[-1]
    return _NAME.sub("_", last).strip(". ")[-120:] or "upload"


@dataclass
class Job:
    """One import, on a thread of its own; the page looks at it."""

    db: Path
    files: Sequence[tuple[str, bytes]]  # name as the browser gave it, content
    share: float = 0.0
    doing: str = "Waiting for another import"
    problem: str | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[tuple[str, str, str]] = field(default_factory=list)  # file, where, why
    totals: tuple[int, int, int] = (0, 0, 0)  # runs, calls, requests
    done: bool = False

    def start(self) -> Job:
        """Begin; the files are forgotten when it is done."""
        threading.Thread(target=self.run, name="loopscope-drop", daemon=True).start()
        return self

    def run(self) -> None:
        """Import all files. What goes wrong stands in `problem`."""
        folder = Path(tempfile.mkdtemp(prefix="loopscope-drop-"))  # readable by its owner alone
        try:
            with _one_at_a_time:
                self._import(folder)
        except LoopscopeError as error:
            self.problem = self._named(str(error), folder)
        except Exception as error:  # noqa: BLE001  a thread's end is seen by nobody else
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self.files = ()
            self.done = True

    def _import(self, folder: Path) -> None:
        self.doing = "Reading"
        names: dict[Path, str] = {}
        for number, (name, content) in enumerate(self.files):
            place = folder / str(number)  # two uploads may have one name
            place.mkdir()
            path = place / safe_name(name)
            path.write_bytes(content)
            names[path] = name
        report = import_paths(self.db, list(names), progress=self._progress)
        for one in report.files:
            name = names.get(one.path, one.path.name)
            state = "✗ not imported" if one.error else _THERE if one.already_there else "✓ came in"
            self.rows.append(
                {
                    "file": plain(name, 120),
                    "state": state,
                    "format": one.format or "not recognised",
                    "runs": one.runs,
                    "calls": one.calls,
                    "requests": one.requests,
                    "left_out": len(one.skipped),
                    "why": "" if one.error is None else plain(self._named(str(one.error), folder), 400),
                }
            )
            self.skipped += [(plain(name, 120), plain(where), plain(why, 300)) for where, why in one.skipped]
        self.skipped += [
            (plain(self._named(where, folder)), "", plain(why, 300)) for where, why in report.skipped
        ]
        self.totals = report.totals.runs, report.totals.calls, report.totals.requests

    def _progress(self, so_far: int, in_all: int, path: Path) -> None:
        self.share = min(1.0, so_far / max(1, in_all))
        stored = path == self.db or path.name == self.db.name
        self.doing = f"Into the database: {size(so_far)}" if stored else f"Reading {plain(path.name, 60)}"

    def _named(self, text: str, folder: Path) -> str:
        """Without the folder that nobody knows."""
        return re.sub(rf"{re.escape(str(folder))}[\\/]\d+[\\/]", "", text)


def draw() -> None:
    """The drop zone, and what became of the files."""
    state = st.session_state
    job: Job | None = state.get("_drop_job")
    turn = state.setdefault("_drop_turn", 0)
    if job is None:
        given = st.file_uploader(
            "Drop trace files or chat transcripts",
            accept_multiple_files=True,
            max_upload_size=MOST_MEGABYTES,
            key=f"drop_{turn}",
            help="OTLP (JSON, JSON lines, protobuf, .gz), sessions of Claude Code, Codex, Gemini CLI and pi, "
            "exports of Langfuse, LangSmith, MLflow, Phoenix and Jaeger, evaluation logs, transcripts, ZIP.",
        )
        st.caption(
            f"Up to {MOST_FILES} files of {MOST_MEGABYTES} MB. What each one is is found out; bringing "
            "one in again changes nothing. Agents go on writing meanwhile."
        )
        if not given:
            return
        if len(given) > MOST_FILES:
            st.markdown(f":material/error: {len(given):,} files; drop at most {MOST_FILES} at a time.")
            return
        files = [(one.name, one.getvalue()) for one in given]
        job = state["_drop_job"] = Job(_data.database(), files).start()
    st.fragment(_ui.guarded(_watch), run_every=None if job.done else _EVERY)(job)


def _watch(job: Job) -> None:
    if not job.done:
        with st.container(border=True, key="drop_progress"):
            st.progress(job.share, text=job.doing.replace("`", "'"))
        return
    if not st.session_state.get("_drop_seen"):
        st.session_state["_drop_seen"] = True
        st.rerun()  # the page's own figures have changed
    with st.container(border=True, key="drop_report"):
        _report(job)
        with st.container(horizontal=True, gap="small"):
            st.button("Drop more", icon=":material/add:", key="drop_more", on_click=_again)
            if any(job.totals):
                st.page_link("app_pages/overview.py", label="Overview", icon=":material/monitoring:")
                st.page_link("app_pages/incidents.py", label="Incidents", icon=":material/all_inclusive:")


def _report(job: Job) -> None:
    if job.problem:
        st.markdown(":material/error: **The import ended early.**")
        st.text(plain(job.problem, 600))
    if not job.rows:
        return
    failed = sum(1 for row in job.rows if row["why"])
    runs, calls, requests = job.totals
    there = sum(1 for row in job.rows if not row["why"] and row["state"] == _THERE)
    held = f"{count(runs, 'run')}, {count(calls, 'call')}, {count(requests, 'request')}"
    icon = "error" if failed else "check"
    st.markdown(f":material/{icon}: **{said(len(job.rows), there, failed, held)}**")
    rows = pd.DataFrame(job.rows)
    _ui.table(
        rows if failed else rows.drop(columns="why"),
        key="drop_files",
        alt="What became of each file",
        height="content" if len(rows) <= 12 else 440,
        columns={
            "file": st.column_config.TextColumn("File", width=200),
            "state": st.column_config.TextColumn("State", width=120),
            "why": st.column_config.TextColumn("Why not", width=420),
            "format": st.column_config.TextColumn("Taken for", width=130),
            "runs": st.column_config.NumberColumn("Runs", format="localized", width=64),
            "calls": st.column_config.NumberColumn("Calls", format="localized", width=64),
            "requests": st.column_config.NumberColumn("Requests", format="localized", width=84),
            "left_out": st.column_config.NumberColumn(
                "Left out", help="Parts of the file that did not come in", width=74
            ),
        },
    )
    for row in job.rows:
        if row["why"]:  # a cell of the table cuts it
            st.text(f"{row['file']}: {row['why']}")
    if job.skipped:
        with st.expander(f"{count(len(job.skipped), 'part')} left out, and why", icon=":material/info:"):
            shown = job.skipped[: _ui.PAGE_ROWS]
            _ui.table(
                pd.DataFrame(shown, columns=["file", "where", "why"]),
                key="drop_skipped",
                alt="What was left out of each file",
                total=len(job.skipped),
                columns={
                    "file": st.column_config.TextColumn("File", width=200),
                    "why": st.column_config.TextColumn("Why", width=420),
                    "where": st.column_config.TextColumn("Where in it", width=200),
                },
            )


def said(files: int, there: int, failed: int, held: str) -> str:
    """What became of the files, in a line; `held`: what those hold that could be read."""
    came = files - there - failed
    if not there:
        return f"{came:,} of {count(files, 'file')}: {held}"
    parts = [f"{came:,} new", f"{there:,} already there"]
    text = f"{', '.join(parts)} ({held}{' in both' if came else ''})"
    return text + (f", {failed:,} not imported" if failed else "")


def _again() -> None:
    state = st.session_state
    state.pop("_drop_job", None)
    state.pop("_drop_seen", None)
    state["_drop_turn"] = state.get("_drop_turn", 0) + 1
