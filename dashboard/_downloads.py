"""Tables to take along: CSV that a spreadsheet may open, and JSON."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from typing import Any

import pandas as pd
import streamlit as st

from ..replay.reports import safe_cell

__all__ = ["csv_of", "pair"]


def csv_of(rows: pd.DataFrame) -> str:
    """The table as CSV. Text of a trace that a spreadsheet would run is led by an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(rows.columns)
    for values in rows.astype(object).itertuples(index=False):
        writer.writerow([_cell(value) for value in values])
    return out.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, datetime) and not pd.isna(value):
        return value.isoformat(sep=" ", timespec="milliseconds")
    missing = value is None or (not isinstance(value, list | tuple | str) and pd.isna(value))
    return safe_cell(None if missing else value)


def pair(name: str, rows: pd.DataFrame, data: Any) -> None:
    """Two buttons: the table as CSV and the data as JSON, both bounded by what the page itself shows."""
    with st.container(horizontal=True, gap="small", key=f"{name}_downloads"):
        st.download_button(
            "CSV",
            data=csv_of(rows).encode("utf-8"),
            file_name=f"loopscope-{name}.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            key=f"{name}_csv",
            help="The table above. Cells that a spreadsheet would run begin with an apostrophe.",
        )
        st.download_button(
            "JSON",
            data=json.dumps(data, ensure_ascii=False, indent=1, default=str).encode("utf-8"),
            file_name=f"loopscope-{name}.json",
            mime="application/json",
            icon=":material/download:",
            on_click="ignore",
            key=f"{name}_json",
            help="All that this page shows.",
        )
