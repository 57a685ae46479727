"""Records every sample again: one virtual environment per framework, then one recorder after the other.

    python3.11 sample_traces/scripts/record_all.py [--environments DIR] [NAME …]

NAME limits it to some stories (`helpdesk_search_loop`). The environments hold exactly the
packages of `requirements/` and are kept: about five minutes the first time, two and a half the
next. `storefront_not_found` needs Node 20 or newer and is left out where there is none.
Spans get new times and the frameworks' own random ids; everything a story says stays the same.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import readme_table

SCRIPTS = Path(__file__).resolve().parent
REQUIREMENTS = SCRIPTS / "requirements"


def python_environment(folder: Path, name: str) -> Path:
    """The interpreter of an environment, made if it is not there."""
    home = folder / name
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        # The list is complete and was installed together once, so nothing is left to resolve.
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "-r", str(REQUIREMENTS / f"{name}.txt")],
            check=True,
        )
        (home / "complete").touch()
    return python


def node_environment(folder: Path) -> Path:
    home = folder / "node"
    if not (home / "complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(REQUIREMENTS / "package.json", home)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=home, check=True)
        (home / "complete").touch()
    return home


def record(story: dict, folder: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "OPENAI_", "LANGSMITH_", "TRACELOOP_"))}
    if story["environment"] == "node":
        if shutil.which("npm") is None:
            print(f"{story['file']}: left out, npm not found", file=sys.stderr)
            return
        python, env["NODE_PACKAGES"] = Path(sys.executable), str(node_environment(folder))
    else:
        python = python_environment(folder, story["environment"])
    subprocess.run([str(python), story["script"]], cwd=SCRIPTS, env=env, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the sample traces again.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "loopscope-sample-environments")
    arguments = parser.parse_args()
    stories = json.loads(readme_table.STORIES.read_text(encoding="utf-8"))["stories"]
    known = {Path(s["file"]).stem: s for s in stories}
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        parser.error(f"no such story: {', '.join(unknown)} (there are: {', '.join(known)})")
    for name in arguments.names or known:
        record(known[name], arguments.environments)
    readme_table.update()


if __name__ == "__main__":
    main()
