"""Check the documentation: links lead somewhere, code blocks parse, written pages are current.

Prints one line per fault (file:line: what) and exits with 1 if there is any.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^```(\w*)\s*$")
HEADING = re.compile(r"^#{1,6}\s+(.*)$")


def documents() -> list[Path]:
    """Every Markdown file that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    return [ROOT / name for name in listed if name and (ROOT / name).exists()]


def anchors(path: Path) -> set[str]:
    """The heading anchors of a Markdown file, as the usual renderers make them."""
    found = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := HEADING.match(line):
            text = re.sub(r"[`*_]", "", match.group(1)).strip().lower()
            found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text)))
    return found


def faults(path: Path) -> Iterator[str]:
    """Dead links and code blocks that do not parse, as `line: what`."""
    language, block, start = "", [], 0
    in_block = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if fence and not in_block:
            in_block, language, block, start = True, fence.group(1), [], number
        elif in_block and line.startswith("```"):
            in_block = False
            if (why := broken(language, "\n".join(block))) is not None:
                yield f"{start}: {language} block does not parse: {why}"
        elif in_block:
            block.append(line)
        else:
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                file = (path.parent / name) if name else path
                if not file.exists():
                    yield f"{number}: link to {target}: no such file"
                elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                    yield f"{number}: link to {target}: no such heading"
    if in_block:
        yield f"{start}: code block is not closed"


def broken(language: str, text: str) -> str | None:
    """Why a code block of this language does not parse; None if it does (or is not checked)."""
    try:
        if language == "python":
            ast.parse(text)
        elif language == "json":
            json.loads(text)
        elif language == "toml":
            tomllib.loads(text)
    except (SyntaxError, ValueError) as error:
        return str(error)
    return None


def main() -> int:
    count = 0
    for path in documents():
        for fault in faults(path):
            count += 1
            print(f"{path.relative_to(ROOT)}:{fault}")  # noqa: T201
    for script in (
        "make_cli_docs.py",
        "make_providers_docs.py",
        "make_refusals_docs.py",
        "make_rules_docs.py",
    ):
        done = subprocess.run([sys.executable, str(ROOT / "docs" / script), "--check"], check=False)  # noqa: S603
        count += bool(done.returncode)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
