"""Small sessions of command-line agents, written from their documented events."""

from __future__ import annotations

import json
from typing import Any

from loopscope.collector import logs_json_to_protobuf, traces_json_to_protobuf

SECOND = 1_000_000_000
START = 1_796_000_000 * SECOND
CLAUDE = "com.anthropic.claude_code"


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value if isinstance(value, str) else json.dumps(value)}


def _pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def log(
    at: float,
    name: str,
    scope: str = "s",
    text: str = "",
    more: dict[str, Any] | None = None,
    /,
    **attributes: Any,
) -> dict[str, Any]:
    """One log record `at` seconds; `_` in an attribute's name stands for a dot where it is doubled."""
    given = {key.replace("__", "."): value for key, value in attributes.items() if value is not None}
    given |= more or {}
    trace, span = given.pop("trace", None), given.pop("span", None)
    record = {
        "timeUnixNano": str(START + int(at * SECOND)),
        "body": _value(text),
        "attributes": _pairs({"event.name": name, **given}),
    }
    if trace is not None:
        record |= {"traceId": f"{trace:032x}", "spanId": f"{span or 1:016x}"}
    group = {"scope": {"name": scope}, "logRecords": [record]}
    return {
        "resourceLogs": [{"resource": {"attributes": _pairs({"service.name": "cli"})}, "scopeLogs": [group]}]
    }


def span(
    trace: int, number: int, name: str, at: float, end: float, scope: str = CLAUDE, **attributes: Any
) -> dict[str, Any]:
    """One span; the first of a trace is the root of the others. `failed` and `output` are taken out."""
    given = {key.replace("__", "."): value for key, value in attributes.items() if value is not None}
    failed, output, parent = given.pop("failed", False), given.pop("output", None), given.pop("parent", 1)
    record: dict[str, Any] = {
        "traceId": f"{trace:032x}",
        "spanId": f"{trace * 100 + number:016x}",
        "name": name,
        "startTimeUnixNano": str(START + int(at * SECOND)),
        "endTimeUnixNano": str(START + int(end * SECOND)),
        "attributes": _pairs(given),
    }
    if number != 1:
        record["parentSpanId"] = f"{trace * 100 + parent:016x}"
    if failed:
        record["status"] = {"code": 2}
    if output is not None:
        event = {
            "name": "tool.output",
            "timeUnixNano": record["endTimeUnixNano"],
            "attributes": _pairs({"output": output}),
        }
        record["events"] = [event]
    group = {"scope": {"name": scope}, "spans": [record]}
    return {
        "resourceSpans": [
            {"resource": {"attributes": _pairs({"service.name": "cli"})}, "scopeSpans": [group]}
        ]
    }


def claude_session(session: str = "s-1") -> list[tuple[str, dict[str, Any]]]:
    """Two prompts, each a trace: the first with a failed and a successful command, the second with one.

    All of it in log events as well, which have no trace; one more call is in the logs alone.
    """
    scope = f"{CLAUDE}.events"
    told = {"session__id": session}
    spans = [
        span(1, 1, "claude_code.interaction", 0, 9, session__id=session),
        span(1, 2, "claude_code.llm_request", 0, 1, session__id=session, model="m", input_tokens=10,
             output_tokens=2),
        span(1, 3, "claude_code.tool", 1, 3, session__id=session, tool_name="Bash", tool_use_id="t1",
             full_command="make", output="no rule"),
        span(1, 4, "claude_code.tool.execution", 1.5, 3, session__id=session, tool_use_id="t1", parent=3,
             success="false", error="ShellError", failed=True),
        span(1, 5, "claude_code.tool", 4, 5, session__id=session, tool_name="Read", tool_use_id="t2",
             file_path="/a", output="text"),
        span(2, 1, "claude_code.interaction", 20, 30, session__id=session),
        span(2, 2, "claude_code.tool", 21, 22, session__id=session, tool_name="Bash", tool_use_id="t3",
             full_command="ls", output="a"),
    ]  # fmt: skip
    logs = [
        log(1, "api_request", scope, model="m", input_tokens=10, output_tokens=2, duration_ms=1000, **told),
        log(3, "tool_result", scope, tool_name="Bash", tool_use_id="t1", success="false",
            error_type="ShellError", error="exit 2", tool_input={"command": "make", "timeout": 5},
            duration_ms=1500, **told),
        log(5, "tool_result", scope, tool_name="Read", tool_use_id="t2", success="true",
            tool_input={"file_path": "/a", "offset": 3}, **told),
        log(22, "tool_result", scope, tool_name="Bash", tool_use_id="t3", success="true",
            tool_input={"command": "ls"}, **told),
        log(40, "tool_result", scope, tool_name="Bash", tool_use_id="t4", success="true",
            tool_input={"command": "ls"}, **told),
        log(41, "api_error", scope, model="m", status_code=400, error="400 bad", **told),
    ]  # fmt: skip
    return [("traces", one) for one in spans] + [("logs", one) for one in logs]


def payload(kind: str, request: dict[str, Any]) -> tuple[str, bytes]:
    """For a segment of the spool."""
    make = traces_json_to_protobuf if kind == "traces" else logs_json_to_protobuf
    return kind, make(request)
