"""Real recordings through the real derivation: the order in which records arrive never matters."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from shared_corpus import corpus
from store_tools import dump, put_segment

from loopscope.collector import Spool, Store, fold, logs_json_to_protobuf, traces_json_to_protobuf
from loopscope.sample_traces import files


def records(path: Path) -> list[tuple[str, bytes]]:
    """Every span and log record of an OTLP/JSON lines file, as a request of its own."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        for group in message.get("resourceSpans", []):
            for scope in group["scopeSpans"]:
                for span in scope["spans"]:
                    one = {"resourceSpans": [{**group, "scopeSpans": [{**scope, "spans": [span]}]}]}
                    found.append(("traces", traces_json_to_protobuf(one)))
        for group in message.get("resourceLogs", []):
            for scope in group["scopeLogs"]:
                for record in scope["logRecords"]:
                    one = {"resourceLogs": [{**group, "scopeLogs": [{**scope, "logRecords": [record]}]}]}
                    found.append(("logs", logs_json_to_protobuf(one)))
    return found


def fold_in_groups(store: Store, requests, order: list[int], groups: int):
    spool = Spool(store.path)
    with store.lease():  # opening the file for every group would take most of the time
        for first in range(groups):
            for number in order[first::groups]:
                put_segment(spool, [requests[number]], received_ns=1_000 + number, name=f"{number:06d}-h-1")
            fold(store)
        with store.lease() as con:
            assert (
                con.execute("SELECT derive_error FROM trace_rows WHERE derive_error IS NOT NULL").fetchall()
                == []
            )
        return dump(store)


def check_any_order(folder: Path, requests) -> None:
    order = list(range(len(requests)))
    expected = fold_in_groups(Store(folder / "together.duckdb"), requests, order, 1)
    assert len(expected["spans"]) + len(expected["logs"]) > 0
    for seed in (1, 2):
        random.Random(seed).shuffle(order)
        assert fold_in_groups(Store(folder / f"{seed}.duckdb"), requests, order, 6) == expected


def test_our_own_recordings(tmp_path):
    requests = [request for path in files() for request in records(path)]
    assert len(requests) > 100
    check_any_order(tmp_path, requests)


@pytest.mark.parametrize("part", range(3))
def test_recordings_of_many_dialects(tmp_path, part):
    paths = sorted(corpus("dialects").glob("*.jsonl"))[part::3]
    check_any_order(tmp_path, [request for path in paths for request in records(path)])
