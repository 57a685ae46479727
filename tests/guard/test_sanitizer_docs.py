"""The page about the sanitizer says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from histories import A, T, U, call, kinds, sanitized

from loopscope.guard import RepairKind, is_stub_result
from loopscope.guard.messages._repairs import MAX_QUOTED

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sanitizer.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\s*prints)?\s*```text\n(.*?)```", re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| (`.+?`)? ?\| (`.+?`)? ?\|$", re.MULTILINE)
TOKEN = re.compile(r"~?[TA]\(.*?\)|A\[.*?\]|A\".*?\"|\w+")


def test_the_examples_print_what_the_page_says(capsys):
    examples = EXAMPLE.findall(PAGE)
    assert len(examples) == PAGE.count("```python") == 5
    for code, printed in examples:
        exec(code, {})
        assert capsys.readouterr().out == printed


def read(short: str) -> list[dict[str, Any]]:
    """A history in the notation of the page."""
    out: list[dict[str, Any]] = []
    for token in TOKEN.findall(short):
        if token.startswith("A["):
            calls = [call(*one.strip().split(":", 1)) for one in token[2:-1].split(",") if one]
            out.append(A(*calls, text="a") if calls else A(text="a", tool_calls=[]))
        elif token.startswith('A"'):
            out.append(A(text=token[2:-1]))
        elif token.startswith("T("):
            name, _, function = token[2:-1].partition(":")
            out.append(T(name, **({"name": function} if function else {})))
        elif token.startswith("~T("):
            out.append({"stub": token[3:-1]})
        elif token in ("U", "A"):
            out.append(U() if token == "U" else A(text="a"))
        else:
            out.append({"role": token, "content": "q"})
    return out


ROWS = ROW.findall(PAGE)


def test_every_kind_of_repair_is_described():
    assert [row[0] for row in ROWS] == list(dict.fromkeys(row[0] for row in ROWS))
    assert {row[0] for row in ROWS} == set(RepairKind)


@pytest.mark.parametrize("row", [row for row in ROWS if row[2]], ids=lambda row: row[0])
def test_the_examples_of_repairs(row):
    kind, _, before, after = row
    result = sanitized(read(before))
    assert set(kinds(result)) == {kind}
    messages = [
        {"stub": one["tool_call_id"]} if one["role"] == "tool" and is_stub_result(one["content"]) else one
        for one in result.messages
    ]
    assert messages == read(after)


def test_the_figures_of_the_text():
    assert f"cut to {MAX_QUOTED} characters" in PAGE
