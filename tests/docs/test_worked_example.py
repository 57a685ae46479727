"""The worked example's page and the commands on it agree, figure by figure."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from loopscope.cli import main
from loopscope.collector import Store
from loopscope.guard import GuardPolicy
from loopscope.replay import call_verdicts

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "worked-example.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n\$ loopscope (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module", name="place")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the trace where the page says it is, imported."""
    folder = tmp_path_factory.mktemp("example")
    (folder / "docs").mkdir()
    shutil.copy(DOCS / "worked-example.json", folder / "docs")
    assert (
        main(["import", str(folder / "docs/worked-example.json"), "--db", str(folder / "example.duckdb")])
        == 0
    )
    return folder


def table(first_line: str) -> list[list[str]]:
    """The cells of the page's table that begins with this line."""
    found = []
    for line in PAGE[PAGE.index(first_line) :].splitlines():
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return found[2:]


def words(text: str) -> list[list[str]]:
    """Lines without their spacing, which depends on the width of the terminal."""
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_commands_print_what_the_page_says(place, capsys, monkeypatch, number):
    command, output = BLOCKS[number]
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "200")
    args = command.replace("example.duckdb", "again.duckdb") if command.startswith("import") else command
    capsys.readouterr()
    code = main(args.split())
    printed = words(capsys.readouterr().out.replace("again.duckdb", "example.duckdb"))
    assert code == (1 if command.startswith("check") else 0)
    wanted = words(output)
    at = len(printed) - len(wanted) if command.startswith("check") else 0  # the page shows its last line
    assert printed[at : at + len(wanted)] == wanted


def test_the_page_shows_commands():
    shown = [command.split()[0] for command, _ in BLOCKS]
    assert shown == ["import", "replay", "replay", "replay", "sweep", "check"]


def test_the_calls_are_those_of_the_trace(place):
    with Store(place / "example.duckdb").lease() as con:
        rows = con.execute(
            "SELECT seq, tool_name, arguments, result, outcome FROM tool_calls ORDER BY seq"
        ).fetchall()
    arguments = {'{"q": "refund"}': "refund", '{"page": 1}': "page 1", '{"page": 2}': "page 2"}
    outcomes = {"success": "success", "general_tool_error": "general error", None: "not recorded"}
    found = [
        [str(seq), tool, arguments[args], "not recorded" if result is None else result, outcomes[outcome]]
        for seq, tool, args, result, outcome in rows
    ]
    assert found == table("| call | tool |")
    assert len(found) == 12


def test_counts_and_verdicts_call_by_call(place):
    def judged(nudge: int | None, block: int | None) -> list[dict[str, Any]]:
        with Store(place / "example.duckdb").lease() as con:
            return call_verdicts(con, GuardPolicy(nudge_threshold=nudge, block_threshold=block)).to_pylist()

    counts, high, low = judged(None, None), judged(3, 5), judged(2, 4)
    found = [
        [str(c["seq"]), str(c["count"]), h["action"], h["judged"] or "", w["action"], w["judged"] or ""]
        for c, h, w in zip(counts, high, low, strict=True)
    ]
    assert found == table("| call | count |")
    assert [row["seq"] for row in high if row["exact"]] == [1, 2, 3, 4]
    assert [row["seq"] for row in low if row["exact"]] == [1, 2]


def said(place: Path, capsys, monkeypatch, command: str, *more: str) -> dict[str, Any]:
    monkeypatch.chdir(place)
    capsys.readouterr()
    assert main([command, "--db", "example.duckdb", "--format", "json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_incident(place, capsys, monkeypatch):
    found = said(place, capsys, monkeypatch, "incidents", "--nudge", "3", "--block", "5")["incidents"]
    keys = ("kind", "calls", "repeated_calls", "interleaved", "resolved", "nudge_at", "block_at")
    named = {True: "yes", False: "no"}
    rows = [
        [named.get(one[key], str(one[key])) if isinstance(one[key], bool) else str(one[key]) for key in keys]
        for one in found
    ]
    assert rows == table("| incident |")
    (loop,) = found
    assert loop["ending"] == "other_work"
    assert f"{(loop['last_ns'] - loop['first_ns']) / 1e9:.1f} seconds" in PAGE


def test_what_it_covers(place, capsys, monkeypatch):
    coverage = said(place, capsys, monkeypatch, "replay")["coverage"]
    errors = said(place, capsys, monkeypatch, "errors")
    keys = ("calls", "calls_without_arguments", "calls_without_result")
    row = [*(coverage[key] for key in keys), errors["failed"], errors["counted"]]
    assert [list(map(str, row))] == table("| calls | without arguments |")
