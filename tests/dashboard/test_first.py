"""What a page says while a big store is counted for the first time."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from loopscope.collector import Store
from loopscope.dashboard import _first

APP = str(Path(_first.__file__).with_name("app.py"))


@pytest.mark.parametrize(("big", "words"), [(0, ["Counting repeats in 0 calls…"]), (1, [])])
def test_a_big_store_is_said_to_be_counted_once_and_a_small_one_is_not(
    tmp_path, monkeypatch, big: int, words: list[str]
) -> None:
    db = tmp_path / "some.duckdb"
    with Store(db).lease():
        pass
    monkeypatch.setenv("LOOPSCOPE_DB", str(db))
    monkeypatch.setattr(_first, "_BIG", big)
    said: list[str] = []
    real = st.spinner
    monkeypatch.setattr(st, "spinner", lambda text, **rest: said.append(text) or real(text, **rest))
    st.cache_data.clear()
    st.cache_resource.clear()
    app = AppTest.from_file(APP, default_timeout=120).run()
    assert not app.exception
    assert said == words
    app.run()
    assert said == words
    assert not [one for one in app.main if one.type == "spinner"]


@pytest.mark.parametrize(
    ("page", "link", "words"),
    [
        ("requests", {}, "Judging refused requests of a store with 0 calls…"),
        ("incidents", {"incident": "0123456789abcdef"}, "Counting repeats in 0 calls…"),
    ],
)
def test_a_link_to_a_page_says_what_it_waits_for(tmp_path, monkeypatch, page, link, words) -> None:
    db = tmp_path / "some.duckdb"
    with Store(db).lease():
        pass
    monkeypatch.setenv("LOOPSCOPE_DB", str(db))
    monkeypatch.setattr(_first, "_BIG", 0)
    st.cache_data.clear()
    st.cache_resource.clear()
    app = AppTest.from_file(APP, default_timeout=120).run()
    _first._counted.clear()  # as in a server that nobody has asked yet
    said: list[str] = []
    real = st.spinner
    monkeypatch.setattr(st, "spinner", lambda text, **rest: said.append(text) or real(text, **rest))
    for name, value in link.items():
        app.query_params[name] = value
    app.switch_page(f"app_pages/{page}.py")
    for name, value in link.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    assert said == [words]
