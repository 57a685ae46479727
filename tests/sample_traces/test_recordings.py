"""The recordings as files: complete, small, clean of the machine they were made on, described."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loopscope.sample_traces import files, stories

LIMIT = 3_000_000
FOLDER = files()[0].parent
SCRIPTS = FOLDER / "scripts"
STORIES = {story["file"]: story for story in stories()}
MACHINE = re.compile(
    r"(?:^|[\s\"'=(:,\[]|file://)/(?:home|root|tmp|usr|opt|var|work|Users|private|mnt|srv|etc|proc)/\S*"
    r"|[A-Za-z]:\\\\(?:Users|Windows)|\b(?!0x0\b)0x[0-9a-f]{8,}",
)
KEPT_RESOURCE = {
    "service.name",
    "service.version",
    "deployment.environment.name",
    "telemetry.sdk.language",
    "telemetry.sdk.name",
    "telemetry.sdk.version",
}


def requests(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def spans(path: Path) -> list[dict[str, Any]]:
    return [
        span
        for request in requests(path)
        for resource in request["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {a["key"]: next(iter(a["value"].values()), None) for a in item.get("attributes", [])}


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_has_a_story_and_every_story_a_file_and_a_recorder() -> None:
    assert sorted(STORIES) == [path.name for path in files()]
    for story in STORIES.values():
        assert (SCRIPTS / story["script"]).is_file()


def test_the_stories_cover_what_a_newcomer_should_meet() -> None:
    assert len({story["framework"].split(" ")[0] for story in STORIES.values()}) >= 5
    assert {"otel_genai", "openinference", "openllmetry"} <= {story["dialect"] for story in STORIES.values()}
    kinds = {kind for story in STORIES.values() for kind in story["incidents"]}
    assert kinds == {"loop", "cycle", "retry_storm", "same_error", "twins"}
    clean = [s for s in STORIES.values() if not any(s["at_3_5"].values()) and not s["incidents"]]
    assert len([s for s in clean if not s["refused_requests"]]) >= 2


def test_all_recordings_together_stay_small() -> None:
    assert sum(path.stat().st_size for path in files()) < LIMIT


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_nothing_of_the_machine_is_left(path: Path) -> None:
    found = MACHINE.findall(path.read_text(encoding="utf-8").replace("\\n", "\n"))
    assert found == []
    for request in requests(path):
        for resource in request["resourceSpans"]:
            assert set(attributes(resource["resource"])) <= KEPT_RESOURCE


def test_the_search_for_machine_paths_finds_them() -> None:
    # The check above would pass on anything if its pattern were wrong.
    for text in (
        'File "/tmp/venv/lib/x.py"',
        "at file:///home/me/a.mjs:3",
        "<Context object at 0x7fad435e4f50>",
    ):
        assert MACHINE.search(text), text
    for text in (
        'File "site-packages/openai/_client.py"',
        "https://shop.example/products/1841",
        "object at 0x0",
    ):
        assert not MACHINE.search(text), text


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_spans_are_well_formed_and_lie_in_the_story_s_hour(path: Path) -> None:
    story, all_spans = STORIES[path.name], spans(path)
    ids = Counter((span["traceId"], span["spanId"]) for span in all_spans)
    assert set(ids.values()) == {1}
    for span in all_spans:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        parent = span.get("parentSpanId")
        assert not parent or (span["traceId"], parent) in ids
    first = min(int(span["startTimeUnixNano"]) for span in all_spans)
    last = max(int(span["endTimeUnixNano"]) for span in all_spans)
    assert story["begins"].endswith("+00:00")
    assert first % 1_000_000_000 == 0  # moved to a whole second
    assert 2e9 < last - first < 120e9  # models and tools took their time
    resource = attributes(requests(path)[0]["resourceSpans"][0]["resource"])
    assert resource["service.name"] == story["service"]


def test_content_is_recorded_exactly_where_the_story_says_so() -> None:
    content = {"gen_ai.tool.call.arguments", "gen_ai.input.messages", "traceloop.entity.input", "input.value"}
    for path in files():
        recorded = any(content & set(attributes(span)) for span in spans(path))
        assert recorded == STORIES[path.name]["content_recorded"], path.name


def test_the_readme_s_tables_are_those_of_the_stories() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert load("readme_table").updated(readme, stories()) == readme


def test_every_environment_is_pinned_to_the_last_package() -> None:
    environments = {story["environment"] for story in STORIES.values()} - {"node"}
    assert {path.stem for path in SCRIPTS.glob("requirements/*.txt")} == environments
    for path in SCRIPTS.glob("requirements/*.txt"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==\S+", line), (path.name, line)
    packages = json.loads((SCRIPTS / "requirements" / "package.json").read_text(encoding="utf-8"))
    assert all(version[0].isdigit() for version in packages["dependencies"].values())
