"""Writes the tables of ../README.md from ../stories.json.

    python sample_traces/scripts/readme_table.py
"""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
STORIES, README = FOLDER / "stories.json", FOLDER / "README.md"
BEGIN, END = "<!-- tables: written by scripts/readme_table.py -->", "<!-- end of tables -->"


def tables(stories: list[dict]) -> str:
    lines = ["| file | story | calls | what the guard says at 3/5 | why it matters |", "| --- | --- | ---: | --- | --- |"]
    for s in stories:
        lines.append(f"| `{s['file']}` | {s['story']} | {s['calls']} | {s['guard_says']} | {s['why']} |")
    lines += ["", "| file | recorded from | with | service / agent / model |", "| --- | --- | --- | --- |"]
    for s in stories:
        who = f"{s['service']} / {', '.join(s['agents'])} / {s['model']}"
        lines.append(f"| `{s['file']}` | {s['framework']} | {s['instrumentation']} | {who} |")
    return "\n".join(lines)


def updated(readme: str, stories: list[dict]) -> str:
    """The README with both tables as they should be."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{tables(stories)}\n\n{END}{after}"


def update() -> None:
    stories = json.loads(STORIES.read_text(encoding="utf-8"))["stories"]
    README.write_text(updated(README.read_text(encoding="utf-8"), stories), encoding="utf-8")


if __name__ == "__main__":
    update()
