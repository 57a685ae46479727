"""How recordings are cleaned and written: OTLP/JSON lines, one export request per line.

Four things are changed on the way, and nothing else (the README says the same):
  - resource attributes are cut to the service's name, version and environment and the SDK's;
  - paths in stack traces start at `site-packages/`, `python3.11/`, `node_modules/` or `scripts/`;
  - memory addresses in reprs become 0x0;
  - the whole file is moved in time by one constant, so that the samples spread over a few days.
    Durations and distances are as recorded. Two attributes with wall-clock times (Strands) move along.

Standard library only: it also runs for recorders that are not written in Python.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parent
OUT = Path(os.environ.get("SAMPLE_TRACES_OUT", SCRIPTS.parent))

_KEPT_RESOURCE = re.compile(r"service\.(name|namespace|version)|deployment\.environment\.name|telemetry\.sdk\..*")
_TIME_KEYS = {"startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "observedTimeUnixNano"}

_PATHS = [
    (re.compile(r"(?:file://)?/[^\s\"'<>()]*/site-packages/"), "site-packages/"),
    (re.compile(r"(?:file://)?/[^\s\"'<>()]*/node_modules/"), "node_modules/"),
    (re.compile(r"/[^\s\"'<>()]*/lib/(python3\.\d+)/"), r"\1/"),
    (re.compile(r"(?:file://)?" + re.escape(str(SCRIPTS)) + "/"), "scripts/"),
]
_TIME_ATTRIBUTES = {"gen_ai.event.start_time", "gen_ai.event.end_time"}
_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,16}\b")


def write_requests(name: str, requests: list[dict[str, Any]]) -> None:
    """Cleans OTLP/JSON trace requests (ids in hex) and writes them as the lines of `<name>.jsonl`."""
    start = min(int(t) for r in requests for t in _values(r, "startTimeUnixNano"))
    shift = _story_start(name) - start
    text = "".join(json.dumps(_clean(r, shift), ensure_ascii=False) + "\n" for r in requests)
    path = OUT / f"{name}.jsonl"
    path.write_text(text, encoding="utf-8")
    spans = sum(1 for r in requests for _ in _values(r, "spanId"))
    print(f"{path.name}: {len(requests)} traces, {spans} spans, {len(text) / 1000:.0f} kB", file=sys.stderr)


def _story_start(name: str) -> int:
    stories = json.loads((SCRIPTS.parent / "stories.json").read_text(encoding="utf-8"))["stories"]
    begins = next(s["begins"] for s in stories if s["file"] == f"{name}.jsonl")
    return int(datetime.datetime.fromisoformat(begins).timestamp()) * 1_000_000_000


def _clean(value: Any, shift: int) -> Any:
    if isinstance(value, dict):
        if value.get("key") in _TIME_ATTRIBUTES:
            return {"key": value["key"], "value": {"stringValue": _moved(value["value"]["stringValue"], shift)}}
        out = {}
        for key, item in value.items():
            if key in _TIME_KEYS:
                out[key] = str(int(item) + shift)
            elif key == "resource":
                kept = [a for a in item.get("attributes", []) if _KEPT_RESOURCE.fullmatch(a["key"])]
                out[key] = {"attributes": sorted(kept, key=lambda a: a["key"])}
            else:
                out[key] = _clean(item, shift)
        return out
    if isinstance(value, list):
        return [_clean(item, shift) for item in value]
    return _clean_text(value) if isinstance(value, str) else value


def _moved(instant: str, shift: int) -> str:
    return (datetime.datetime.fromisoformat(instant) + datetime.timedelta(microseconds=shift // 1000)).isoformat()


def _clean_text(text: str) -> str:
    for pattern, replacement in _PATHS:
        text = pattern.sub(replacement, text)
    return _ADDRESS.sub("0x0", text)


def _values(value: Any, wanted: str) -> list[Any]:
    """All values under a key, at any depth (span ids of links are not counted: links have no start)."""
    if isinstance(value, dict):
        here = [value[wanted]] if wanted in value and "startTimeUnixNano" in value else []
        return here + [v for item in value.values() for v in _values(item, wanted)]
    return [v for item in value for v in _values(item, wanted)] if isinstance(value, list) else []
