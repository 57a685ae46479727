"""Entry script of the dashboard: navigation, filter bar, and the one reader of a rerun.

Run by the server (`loopscope serve`), or by hand: LOOPSCOPE_DB=traces.duckdb streamlit run dashboard/app.py
"""

from __future__ import annotations

import logging
import time

import streamlit as st

from loopscope.dashboard import _data, _filters, _live, _logo, _policy, _theme, _ui
from loopscope.guard import LoopscopeError

st.set_page_config(page_title="Loopscope", page_icon=_logo.ICON, layout="wide", initial_sidebar_state=230)
_theme.style()

page = st.navigation(
    [
        st.Page(
            "app_pages/overview.py",
            title="Overview",
            icon=":material/monitoring:",
            url_path="overview",
            default=True,
            help="Is anything looping, and what does it cost?",
        ),
        st.Page(
            "app_pages/incidents.py",
            title="Incidents",
            icon=":material/all_inclusive:",
            url_path="incidents",
            help="Every loop, cycle and retry storm, worst first; each opens.",
        ),
        st.Page(
            "app_pages/tuning.py",
            title="Tuning",
            icon=":material/tune:",
            url_path="tuning",
            help="What would other thresholds have caught, and what would they have broken?",
        ),
        st.Page(
            "app_pages/errors.py",
            title="Errors",
            icon=":material/error_outline:",
            url_path="errors",
            help="What fails, how, and does the guard count it?",
        ),
        st.Page(
            "app_pages/requests.py",
            title="Requests",
            icon=":material/forum:",
            url_path="requests",
            help="Requests to a model that failed.",
        ),
        st.Page(
            "app_pages/traces.py",
            title="Traces",
            icon=":material/account_tree:",
            url_path="traces",
            help="One run whole: its spans, messages and calls.",
        ),
        st.Page(
            "app_pages/health.py",
            title="Import & health",
            icon=":material/input:",
            url_path="health",
            help="Is everything arriving, and how do I send more?",
        ),
    ]
)

started = time.perf_counter()
try:
    with _data.reader() as ask:
        _filters.bar(ask.options(), _data.now_ns())
        st.title(page.title, anchor=False)
        _policy.warn()
        page.run()
        _live.sidebar(ask, time.perf_counter() - started)
except LoopscopeError as error:
    _ui.problem(error)
except Exception as error:
    logging.getLogger("loopscope.dashboard").exception("page %s", page.url_path or "overview")
    _ui.problem(error)
