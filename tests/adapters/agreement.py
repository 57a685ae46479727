"""A run recorded for a test, and its verdicts twice: as the live guard wrote them, and as replay has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from loopscope.collector import DuckDBSpanProcessor, Store, fold
from loopscope.guard import GuardPolicy
from loopscope.replay import call_verdicts

ACTION = "loopscope.guard.action"
COUNT = "loopscope.guard.count"
CALL_ID = "gen_ai.tool.call.id"


@dataclass(frozen=True)
class Judged:
    """One recorded call; `live` and `replayed` are (action, count)."""

    tool: str
    live: tuple[str, int] | None
    replayed: tuple[str, int]
    outcome: str | None
    run_id: str
    agent: str | None


class Recorder:
    """A tracer provider that records into a database of the test."""

    def __init__(self, folder: Path) -> None:
        self.db = folder / "traces.duckdb"
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(DuckDBSpanProcessor(self.db))

    def close(self) -> None:
        self.provider.shutdown()

    def spans(self) -> list[dict[str, Any]]:
        """Every span by start time: name, ids, status_code, end_ns, attributes, events."""
        self.provider.force_flush()
        store = Store(self.db)
        fold(store)
        names = ("name", "trace_id", "span_id", "parent_span_id", "status_code", "end_ns")
        with store.lease() as con:
            rows = con.execute(
                f"SELECT {', '.join(names)}, attributes, events FROM spans ORDER BY start_ns"
            ).fetchall()
        return [
            dict(zip(names, row[:6], strict=True))
            | {"attributes": json.loads(row[6]), "events": json.loads(row[7] or "[]")}
            for row in rows
        ]

    def verdicts(self, policy: GuardPolicy) -> list[Judged]:
        """The recorded calls in the order of counting. Every live verdict must have its call."""
        by_span: dict[str, tuple[str, int]] = {}
        by_call: dict[str, tuple[str, int]] = {}
        live = 0
        for span in self.spans():
            attributes = span["attributes"]
            if ACTION in attributes:
                live += 1
                by_span[span["span_id"]] = attributes[ACTION], attributes[COUNT]
            for event in span["events"]:
                if event["name"] == "loopscope.guard.verdict":
                    live += 1
                    by_call[event["attributes"][CALL_ID]] = (
                        event["attributes"][ACTION],
                        event["attributes"][COUNT],
                    )
        with Store(self.db).lease() as con:
            ids = dict(con.execute("SELECT trace_id || span_id, call_id FROM tool_calls").fetchall())
            rows = call_verdicts(con, policy).to_pylist()
        judged = [
            Judged(
                row["tool_name"],
                by_span.get(row["span_id"]) or by_call.get(ids[row["trace_id"] + row["span_id"]]),
                (row["action"], row["count"]),
                row["outcome"],
                row["run_id"],
                row["agent_name"],
            )
            for row in rows
        ]
        assert live == len(judged), (live, judged)
        return judged


def agreed(recorder: Recorder, policy: GuardPolicy) -> list[tuple[str, str, int]]:
    """(tool, action, count) of all recorded calls, once live and offline have been found equal."""
    judged = recorder.verdicts(policy)
    assert judged, "nothing was recorded"
    assert [one.live for one in judged] == [one.replayed for one in judged], judged
    return [(one.tool, *one.replayed) for one in judged]
