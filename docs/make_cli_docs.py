"""Write docs/cli.md from the command line's own help, so that the two cannot differ.

python docs/make_cli_docs.py           writes the file
python docs/make_cli_docs.py --check   exit code 1 if the file is not what would be written
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from generated import write_or_check

TARGET = Path(__file__).with_name("cli.md")
INTRO = """# Command line

<!-- Written by docs/make_cli_docs.py from the commands' own help: edit those, then `make docs`. -->

Every command reads and writes one database file: `traces.duckdb` in the current folder, unless `--db` or
the environment variable `LOOPSCOPE_DB` names another. Commands, agents and a running dashboard can use one
file at the same time.

Exit codes: 0 done; 1 `check` found more than its limits allow, `doctor` something that needs attention,
`lint` a broken rule, or `sanitize --check` something to repair; 2 bad input, a refusal, or an output that
cannot be written (a full disk), with one line on stderr that says what, where and what to do; 70 a bug in
Loopscope (`LOOPSCOPE_DEBUG=1` shows where); 130 interrupted.
"""


def render() -> str:
    """The whole text of docs/cli.md."""
    # Help is wrapped to the terminal's width; the docs must not depend on who writes them.
    os.environ.update(COLUMNS="100", NO_COLOR="1", TERM="dumb", LINES="40")
    for name in ("LOOPSCOPE_DB", "LOOPSCOPE_CAPTURE_CONTENT"):
        os.environ.pop(name, None)
    import typer.main
    from typer.testing import CliRunner

    from loopscope.cli._app import app

    command = typer.main.get_command(app)
    runner = CliRunner()
    parts = [INTRO]
    names = [[]]
    for name, one in command.commands.items():  # type: ignore[attr-defined]
        names.append([name])
        names.extend([name, sub] for sub in getattr(one, "commands", {}))
    for path in names:
        args = [*path, "--help"]
        result = runner.invoke(app, args, terminal_width=100, prog_name="loopscope")
        if result.exit_code != 0:
            raise SystemExit(f"loopscope {' '.join(args)} failed: {result.output}")
        heading = " ".join(["loopscope", *path])
        body = "\n".join(line.rstrip() for line in result.output.strip().splitlines())
        parts.append(f"## {heading}\n\n```text\n{body}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(write_or_check(TARGET, render(), "the commands' help"))
