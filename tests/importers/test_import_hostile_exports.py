"""Anything in any place of an export or a trajectory: it is read or refused, never a traceback."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import export_files as ours
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_import_inspect import log, sample

from loopscope.collector import decode_traces, derive_trace
from loopscope.collector.importers._json_stream import JsonValue
from loopscope.collector.importers._registry import JSON_FORMATS, json_format, recognise
from loopscope.collector.importers._report import FormatError, SkipList

ENTRIES: dict[str, Callable[[], list[Any]]] = {
    "langfuse": lambda: [ours.langfuse(), *ours.langfuse_observations()],
    "langsmith": ours.langsmith,
    "mlflow": lambda: [ours.mlflow()],
    "phoenix": ours.phoenix,
    "otel-console": lambda: [
        {**span, "kind": "SpanKind.CLIENT", "resource": {"attributes": {}}} for span in ours.phoenix()
    ],
    "jaeger": lambda: [ours.jaeger()],
    "atif": lambda: [ours.atif()],
    "openhands": lambda: [*ours.openhands(), *ours.openhands_new(), {"history": ours.openhands()}],
    "inspect": lambda: [log(sample()), log(sample(events=[]))],
    "intercode": lambda: [ours.intercode()],
    "swe-agent": lambda: [ours.swe_agent(), ours.swe_agent_text()],
    "mini-swe-agent": lambda: [ours.mini_swe_agent()],
}

JUNK = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        7,
        1 << 70,
        1e300,
        float("nan"),
        "",
        "x",
        "\ud800",
        "\x00",
        "{'a': 1}",
        '{"a": 1}',
        "attachment://r",
        "2023-11-14T22:13:20Z",
        [],
        [None],
        [[]],
        {},
        {"a": None},
        {"": {"": ""}},
        [{"id": 1}],
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        found += places(inner, (*path, key))
    return found


def put(value: Any, path: tuple[Any, ...], what: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    if what is ...:
        del value[path[-1]]
    else:
        value[path[-1]] = what


def read(name: str, entries: list[Any]) -> int:
    """How many spans come out; everything that does can be stored and derived."""
    format = json_format(name)
    assert format is not None
    values = [JsonValue(entry, index, None, index, 1) for index, entry in enumerate(entries, 1)]
    spans = [span for part in format.parts(values, SkipList()) for span in decode_traces(part.data)]
    derive_trace(spans)
    return len(spans)


def test_every_format_is_here_and_its_own():
    assert set(ENTRIES) == {format.name for format in JSON_FORMATS}
    for name, make in ENTRIES.items():
        assert {recognise(entry) for entry in make()} == {name}
        assert read(name, make())


@pytest.mark.parametrize("name", ENTRIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_junk_in_any_place_is_read_or_refused(name: str, data: st.DataObject):
    entries = copy.deepcopy(ENTRIES[name]())
    for _ in range(data.draw(st.integers(1, 3))):
        found = places(entries)
        if found:
            place = data.draw(st.sampled_from(found))
            put(entries, place, copy.deepcopy(data.draw(JUNK | st.just(...))))
    for format in JSON_FORMATS:
        for entry in entries:
            assert format.matches(entry) in (True, False)
    with suppress(FormatError):
        read(name, entries)


@given(
    st.recursive(
        JUNK | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "data",
                        "spans",
                        "context",
                        "trace_id",
                        "id",
                        "run_type",
                        "observations",
                        "history",
                        "eval",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_anything_can_be_looked_at(value: Any):
    name = recognise(value)
    if name is not None and json_format(name) is not None:
        with suppress(FormatError):
            read(name, [value])
