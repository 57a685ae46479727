"""Links to other tools: what a trace says never leads anywhere but into a part of the address."""

from __future__ import annotations

import pytest

from loopscope.dashboard._links import LINKS_VARIABLE, checked, file, links, parsed
from loopscope.guard import LoopscopeError


def test_ids_are_percent_encoded():
    link = checked("Jaeger", "http://localhost:16686/trace/{trace_id}?at={start_ms}&run={run_id}")
    address = link.to({"trace_id": "ab/../c?d#e", "start_ms": 5, "run_id": "<script> &x=1"})
    assert address == "http://localhost:16686/trace/ab%2F..%2Fc%3Fd%23e?at=5&run=%3Cscript%3E%20%26x%3D1"


def test_braces_in_a_value_are_not_looked_up():
    link = checked("x", "https://x.example/{trace_id}/{run_id}")
    assert link.to({"trace_id": "{run_id}", "run_id": "r"}) == "https://x.example/%7Brun_id%7D/r"


@pytest.mark.parametrize("session", [None, ""])
def test_a_link_that_needs_what_is_not_recorded_is_left_out(session):
    link = checked("Langfuse", "https://x.example/sessions/{session_id}")
    assert link.to({"trace_id": "ab", "session_id": session}) is None


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("javascript:alert(1)//{trace_id}", "http:// or https://"),
        ("data:text/html,{trace_id}", "http:// or https://"),
        ("//x.example/{trace_id}", "http:// or https://"),
        ("https:///{trace_id}", "http:// or https://"),
        ("http://[::1/{trace_id}", "http:// or https://"),
        ("https://{service_name}.example/", "must not choose the host"),
        ("https://x.example:{start_ms}/", "must not choose the host"),
        ("https://x.example/{traceid}", "there is no {traceid}"),
        ("https://x.example/{}", "there is no {}"),
        ("https://x.example/{trace_id", "a brace is left open"),
        ("https://x.example/{trace_id!r}", "there is no {trace_id!r}"),
        ("https://x.example/ {trace_id}", "no address"),
        ("https://x.example/\n{trace_id}", "no address"),
        ("https://x.example/<b>", "no address"),
        ("https://x.example/" + "a" * 3_000, "no address"),
        (7, "in quotes"),
    ],
)
def test_bad_templates_are_refused_with_a_reason(template, said):
    with pytest.raises(LoopscopeError, match="the link 'x'") as error:
        checked("x", template)
    assert said in str(error.value)


def test_a_line_without_a_name_is_refused():
    with pytest.raises(LoopscopeError, match="write Name="):
        parsed(["https://x.example/"])
    with pytest.raises(LoopscopeError, match="the name of a link"):
        parsed(["=https://x.example/"])


def test_the_file_beside_the_database_and_the_variable_over_it(tmp_path, monkeypatch):
    db = tmp_path / "traces.duckdb"
    monkeypatch.delenv(LINKS_VARIABLE, raising=False)
    assert links(db).links == ()
    file(db).write_text(
        'Jaeger = "http://one.example/{trace_id}"\nPhoenix = "http://two.example/{trace_id}"\n'
    )
    assert file(db).name == "traces.links.toml"
    monkeypatch.setenv(LINKS_VARIABLE, "\nJaeger=https://three.example/{trace_id}\n")
    found = links(db)
    assert found.problem is None
    assert {link.name: link.to({"trace_id": "ab"}) for link in found.links} == {
        "Jaeger": "https://three.example/ab",
        "Phoenix": "http://two.example/ab",
    }


@pytest.mark.parametrize("text", ["Jaeger = ", 'Jaeger = "ftp://x.example"', "x" * 70_000, "\xff"])
def test_a_bad_file_is_named_and_the_variable_still_holds(tmp_path, monkeypatch, text):
    db = tmp_path / "traces.duckdb"
    file(db).write_text(text, encoding="latin-1")
    monkeypatch.setenv(LINKS_VARIABLE, "Phoenix=https://x.example/{trace_id}")
    found = links(db)
    assert [link.name for link in found.links] == ["Phoenix"]
    assert "traces.links.toml" in (found.problem or "")
