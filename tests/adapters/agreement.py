"""A run recorded for a test, and its verdicts twice: as the live guard wrote them, and as replay finds them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from loopscope.collector import DuckDBSpanProcessor, Store, fold
from loopscope.guard import GuardPolicy
from loopscope.replay import call_verdicts
from opentelemetry.sdk.trace import TracerProvider

ACTION = "loopscope.guard.action"
COUNT = "loopscope.guard.count"


@dataclass(frozen=True)
class Judged:
    """One call of the recording; `live` and `replayed` are (action, count)."""

    tool: str
    live: tuple[str, int] | None
    replayed: tuple[str, int]
    outcome: str | None
    run_id: str


class Recorder:
    """A tracer provider that records into a database of the test."""

    def __init__(self, folder: Path) -> None:
        self.db = folder / "traces.duckdb"
        self.provider = TracerProvider()
        self.provider.add_span_processor(DuckDBSpanProcessor(self.db))

    def close(self) -> None:
        self.provider.shutdown()

    def spans(self) -> list[dict[str, object]]:
        """Every span: name, ids, status_code, attributes, events."""
        self.provider.force_flush()
        store = Store(self.db)
        fold(store)
        with store.lease() as con:
            rows = con.execute(
                "SELECT name, trace_id, span_id, parent_span_id, status_code, end_ns, attributes, events "
                "FROM spans ORDER BY start_ns"
            ).fetchall()
        names = ("name", "trace_id", "span_id", "parent_span_id", "status_code", "end_ns")
        return [
            {
                **dict(zip(names, row, strict=False)),
                "attributes": json.loads(row[6]),
                "events": json.loads(row[7] or "[]"),
            }
            for row in rows
        ]

    def verdicts(self, policy: GuardPolicy) -> list[Judged]:
        """The recorded calls in the order of counting."""
        by_span: dict[str, tuple[str, int]] = {}
        by_call: dict[str, tuple[str, int]] = {}
        for span in self.spans():
            attributes = span["attributes"]
            if ACTION in attributes:
                by_span[span["span_id"]] = attributes[ACTION], attributes[COUNT]
                if "gen_ai.tool.call.id" in attributes:
                    by_call[attributes["gen_ai.tool.call.id"]] = attributes[ACTION], attributes[COUNT]
            for event in span["events"]:
                if event["name"] == "loopscope.guard.verdict":
                    found = event["attributes"]
                    by_call[found["gen_ai.tool.call.id"]] = found[ACTION], found[COUNT]
        with Store(self.db).lease() as con:
            ids = dict(con.execute("SELECT trace_id || span_id || position, call_id FROM tool_calls").fetchall())
            rows = call_verdicts(con, policy).to_pylist()
        judged = [
            Judged(
                row["tool_name"],
                by_span.get(row["span_id"])
                or by_call.get(ids[f"{row['trace_id']}{row['span_id']}{row['position']}"]),
                (row["action"], row["count"]),
                row["outcome"],
                row["run_id"],
            )
            for row in rows
        ]
        assert len(judged) >= len(set(by_span) | set()), "a live verdict has no recorded call"
        return judged


def agreed(recorder: Recorder, policy: GuardPolicy) -> list[str]:
    """The actions of all recorded calls, in order, once live and offline have been found equal."""
    judged = recorder.verdicts(policy)
    assert judged, "nothing was recorded"
    assert [one.live for one in judged] == [one.replayed for one in judged], judged
    return [one.replayed[0] for one in judged]
