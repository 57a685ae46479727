"""Take the screenshots in docs/screenshots: the pages on the sample traces, in a real Chromium.

    python docs/make_screenshots.py            # all of them
    python docs/make_screenshots.py requests   # only those named

Needs the `dev` extra and a Chromium (LOOPSCOPE_CHROMIUM names it where it is not on the path).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from queue import Queue

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from loopscope.collector import Store, import_paths
from loopscope.dashboard import serve
from loopscope.dashboard._knobs_draft import link_value
from loopscope.guard import GuardPolicy, ToolPolicy
from loopscope.replay import analyse_requests, find_incidents
from loopscope.sample_traces import files

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(__file__).resolve().parent / "screenshots"
SETTLED = """() => {
    const app = document.querySelector('[data-testid="stApp"]');
    return app && app.getAttribute('data-test-script-state') === 'notRunning'
        && document.querySelector('.st-key-sentence') && !document.querySelector('[data-stale="true"]')
        && document.fonts.status === 'loaded';
}"""
TUTORIAL = GuardPolicy(tools={"search_help_center": ToolPolicy(block_threshold=9)})
"""What the README's tutorial ends with; the tests of the tutorial have the same."""

TALLEST = 1650  # pixels; what lies below is cut off


def main() -> None:
    """Import the samples into a database of their own, serve it, photograph every page."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    chromium = os.environ.get("LOOPSCOPE_CHROMIUM") or next(filter(None, found), None)
    if not chromium:
        sys.exit("no Chromium found; install it or set LOOPSCOPE_CHROMIUM to its path")
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "samples.duckdb"
        import_paths(db, files())
        with Store(db).lease() as con:
            loops = find_incidents(con)
            refused = analyse_requests(con, GuardPolicy(), passed=False).requests
        cycle = next(one.key for one in loops if one.kind == "cycle")
        run = loops[0].run_id  # with most calls for nothing
        # The one with two kinds of repair: a call and a result that stand twice.
        request = next(f"{one.trace_id}-{one.span_id}" for one in refused if len(one.repairs) == 2)
        lines: Queue[str] = Queue()
        stop = threading.Event()
        options = {"port": 0, "otlp_http_port": 0, "stop": stop, "announce": lines.put}
        server = threading.Thread(target=serve, args=(db,), kwargs=options)
        server.start()
        try:
            said = lines.get(timeout=60)
            address = re.search(r"dashboard\s+(http://\S+)", said)
            assert address, said
            only = set(sys.argv[1:])
            take(chromium, address[1], pages(cycle, loops[0].key, request, run), only)
            take(chromium, address[1], {"tutorial-stopped": (stopped(db), "light")}, only)
        finally:
            stop.set()
            server.join()


def pages(cycle: str, worst: str, request: str, run: str) -> dict[str, tuple[str, str]]:
    """Where each picture is taken, and in which colours.

    `cycle` and `worst` are keys of incidents, `request` the place of a refused request, `run` a run's id.
    """
    places = {
        "overview": "",
        "incidents": "incidents",
        "incident": f"incidents?incident={cycle}",
        "tuning": "tuning?nudge=2&block=4",
        "errors": "errors",
        "requests": "requests",
        "request": f"requests?request={request}",
        "traces": "traces?sort=Most+repeats",
        "run": f"traces?run={run}",
        "health": "health",
    }
    both = {name: (place, "light") for name, place in places.items()}
    both |= {f"{name}-dark": (place, "dark") for name, place in places.items()}
    both["tutorial-incident"] = (f"incidents?incident={worst}", "light")
    both["tutorial-tuning"] = (f"tuning?draft={link_value(TUTORIAL)}", "light")
    return both


def stopped(db: Path) -> str:
    """Let the sample agent run under the tutorial's policy; the page of its run."""
    policy = db.with_suffix(".policy.toml")
    TUTORIAL.to_file(policy)
    command = [
        sys.executable,
        str(ROOT / "examples" / "oncall_agent.py"),
        "--db",
        str(db),
        "--policy",
        str(policy),
    ]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
    with Store(db).lease() as con:
        (run,) = con.execute(
            "SELECT DISTINCT run_id FROM tool_calls WHERE service_name = 'oncall-example'"
        ).fetchall()
    return f"traces?run={run[0]}"


def take(chromium: str, base: str, shots: dict[str, tuple[str, str]], only: set[str]) -> None:
    """Photograph pages, those of `only` where it names any."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as engine:
        browser = engine.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--no-first-run"]
        )
        for name, (path, scheme) in shots.items():
            if only and name not in only:
                continue
            context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.set_default_timeout(240_000)  # a busy machine takes its time
            page.goto(f"{base}/{path}")
            settle(page)
            height = page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollHeight")
            page.set_viewport_size({"width": 1280, "height": max(700, min(height, TALLEST))})
            settle(page)
            if page.locator(".st-key-problem, [data-testid=stException]").count():
                sys.exit(f"{name} shows an error; see above")
            target = FOLDER / f"{name}.png"
            page.screenshot(path=target)
            shrink(target)
            sys.stdout.write(f"{target.name}: {target.stat().st_size:,} bytes\n")
            context.close()
        browser.close()


def settle(page: Page) -> None:
    """Wait until the script has run and two pictures in a row are equal."""
    page.wait_for_function(SETTLED)
    page.mouse.move(0, 0)
    before = b""
    while (now := page.screenshot()) != before:
        before = now
        page.wait_for_timeout(400)


def shrink(path: Path) -> None:
    """A palette instead of full colour: a third of the size, and no difference to the eye."""
    with Image.open(path) as picture:
        # Colours that few pixels have count here: the marks of verdicts are such.
        small = picture.convert("RGB").quantize(
            256, method=Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE
        )
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
