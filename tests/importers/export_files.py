"""Small exports and trajectories of our own writing, one of each kind: a loop, a failure, no answer.

Each holds the same run: three times `search {"q": "x"}` with the same result, once with an error that
the source flags, once without an answer.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from loopscope.collector import Store

TRACE = "0af7651916cd43dd8448eb211c80319c"
ROOT = "00f067aa0ba902b7"
BEGUN = 1_700_000_000  # Unix seconds
ARGUMENTS = {"q": "x"}
RESULT = "SECRET RESULT"
CALLS = (
    "SELECT tool_name, arguments, result, outcome, seq, error_message"
    " FROM tool_calls ORDER BY start_ns, span_id"
)


def query(db: Path, sql: str) -> list[tuple[Any, ...]]:
    with Store(db, create=False).lease() as con:
        return con.execute(sql).fetchall()


def save(path: Path, data: Any, *, lines: bool = False) -> Path:
    path.write_text("\n".join(map(json.dumps, data)) if lines else json.dumps(data))
    return path


def span_id(number: int) -> str:
    return f"b7ad6b716920333{number}"


def iso(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"2023-11-14T22:{13 + int(minutes):02d}:{20 + rest:06.3f}Z"


# -- Langfuse -----------------------------------------------------------------------------------------------


def observation(number: int, kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": span_id(number),
        "traceId": TRACE,
        "type": kind,
        "name": name,
        "startTime": iso(number),
        "endTime": iso(number + 0.5),
        "parentObservationId": ROOT,
        "level": "DEFAULT",
        "statusMessage": None,
        "input": None,
        "output": None,
        "metadata": {},
    } | more


def langfuse_observations() -> list[dict[str, Any]]:
    return [
        observation(0, "AGENT", "agent", id=ROOT, parentObservationId=None, endTime=iso(9)),
        observation(
            1,
            "GENERATION",
            "chat",
            input=[{"role": "user", "content": "hi"}],
            output={"role": "assistant", "content": "yo"},
            model="gpt-4o",
            usageDetails={"input": 12, "output": 3, "total": 15},
        ),
        *[observation(n, "TOOL", "search", input=ARGUMENTS, output=RESULT) for n in (2, 3, 4)],
        observation(5, "TOOL", "search", input=ARGUMENTS, level="ERROR", statusMessage="no such index"),
        observation(6, "TOOL", "search", input=ARGUMENTS, endTime=None),
    ]


def langfuse() -> dict[str, Any]:
    return {
        "trace": {"id": TRACE, "name": "t", "timestamp": iso(0), "sessionId": "s1"},
        "observations": langfuse_observations(),
    }


# -- LangSmith ----------------------------------------------------------------------------------------------


def uuid(number: int) -> str:
    return f"018f0000-0000-7000-8000-{number:012d}"


def run(number: int, kind: str, name: str, inputs: Any, outputs: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": uuid(number),
        "trace_id": uuid(0),
        "parent_run_id": uuid(0) if number else None,
        "dotted_order": f"20231114T221320000000Z{uuid(0)}",
        "name": name,
        "run_type": kind,
        "inputs": inputs,
        "outputs": outputs,
        "error": None,
        "status": "success",
        "start_time": iso(number).removesuffix("Z"),
        "end_time": iso(number + 0.5).removesuffix("Z"),
        "session_id": "11111111-0000-0000-0000-000000000000",
        "extra": {"metadata": {"thread_id": "s1", "ls_model_name": "gpt-4o", "ls_provider": "openai"}},
    } | more


def langsmith() -> list[dict[str, Any]]:
    def message(number: int) -> dict[str, Any]:
        return {
            "output": {"type": "tool", "content": RESULT, "tool_call_id": f"c{number}", "status": "success"}
        }

    return [
        run(0, "chain", "agent", {}, {}, end_time=iso(9)),
        run(
            1,
            "llm",
            "ChatOpenAI",
            {"messages": [[{"type": "human", "content": "hi"}]]},
            {"generations": [[{"message": {"type": "ai", "content": "yo"}}]]},
            prompt_tokens=12,
            completion_tokens=3,
        ),
        run(2, "tool", "search", ARGUMENTS, message(2)),
        # LangChain's older way: the repr of a dictionary.
        *[run(n, "tool", "search", {"input": "{'q': 'x'}"}, message(n)) for n in (3, 4)],
        run(5, "tool", "search", ARGUMENTS, None, error="ToolException('no such index')", status="error"),
        run(6, "tool", "search", ARGUMENTS, None, end_time=None, status="pending"),
    ]


# -- MLflow -------------------------------------------------------------------------------------------------


def mlflow() -> dict[str, Any]:
    def encoded(hex_id: str) -> str:
        return base64.b64encode(bytes.fromhex(hex_id)).decode()

    def span(number: int, kind: str, name: str, **more: Any) -> dict[str, Any]:
        attributes = {
            "mlflow.traceRequestId": "tr-x",
            "mlflow.spanType": kind,
            "mlflow.spanFunctionName": name,
        }
        start = BEGUN * 10**9 + number * 10**9
        return {
            "trace_id": encoded(TRACE),
            "span_id": encoded(span_id(number) if number else ROOT),
            "parent_span_id": encoded(ROOT) if number else None,
            "name": name,
            "start_time_unix_nano": start,
            "end_time_unix_nano": start + 5 * 10**8,
            "status": more.pop("status", {"code": "STATUS_CODE_OK", "message": ""}),
            "attributes": {k: json.dumps(v) for k, v in (attributes | more.pop("attributes", {})).items()},
            "events": [],
        } | more

    called = {"mlflow.spanInputs": ARGUMENTS, "mlflow.spanOutputs": RESULT}
    chat = {
        "mlflow.spanInputs": {"messages": [{"role": "user", "content": "hi"}]},
        "mlflow.spanOutputs": {"choices": [{"message": {"role": "assistant", "content": "yo"}}]},
        "mlflow.llm.model": "gpt-4o",
        "mlflow.chat.tokenUsage": {"input_tokens": 12, "output_tokens": 3},
    }
    asked = {"mlflow.spanInputs": ARGUMENTS}
    failed = {"code": "STATUS_CODE_ERROR", "message": "no such index"}
    return {
        "info": {"trace_id": f"tr-{TRACE}", "trace_metadata": {"mlflow.trace.session": "s1"}},
        "data": {
            "spans": [
                span(0, "AGENT", "agent"),
                span(1, "CHAT_MODEL", "chat", attributes=chat),
                *[span(n, "TOOL", "search", attributes=called) for n in (2, 3, 4)],
                span(5, "TOOL", "search", attributes=asked, status=failed),
                span(6, "TOOL", "search", attributes=asked, end_time_unix_nano=None),
            ]
        },
    }


# -- Phoenix ------------------------------------------------------------------------------------------------


def phoenix() -> list[dict[str, Any]]:
    def span(number: int, kind: str, name: str, attributes: Any, **more: Any) -> dict[str, Any]:
        return {
            "name": name,
            "context": {"trace_id": TRACE, "span_id": span_id(number) if number else ROOT},
            "span_kind": kind,
            "parent_id": ROOT if number else None,
            "start_time": iso(number),
            "end_time": iso(number + 0.5),
            "status_code": "OK",
            "status_message": "",
            "attributes": attributes,
            "events": [],
        } | more

    chat = {
        "llm": {
            "model_name": "gpt-4o",
            "token_count": {"prompt": 12, "completion": 3},
            "input_messages": [{"message": {"role": "user", "content": "hi"}}],
            "output_messages": [{"message": {"role": "assistant", "content": "yo"}}],
        }
    }
    asked = {"tool": {"name": "search"}, "input": {"value": json.dumps(ARGUMENTS)}}
    called = asked | {"output": {"value": RESULT}, "metadata": {"a": {"b": 1}}}
    raised = {"exception": {"type": "KeyError", "message": "no such index"}}
    failed = {"name": "exception", "timestamp": iso(5.5), "attributes": raised}
    return [
        span(0, "AGENT", "agent", {"agent": {"name": "bob"}, "session": {"id": "s1"}}),
        span(1, "LLM", "chat", chat),
        *[span(n, "TOOL", "search", called) for n in (2, 3)],
        # As clients of the API give them: flat.
        span(
            4, "TOOL", "search", {"tool.name": "search", "input.value": '{"q": "x"}', "output.value": RESULT}
        ),
        span(5, "TOOL", "search", asked, status_code="ERROR", events=[failed]),
        span(6, "TOOL", "search", asked, status_code="UNSET", end_time=None),
    ]


# -- Jaeger -------------------------------------------------------------------------------------------------


def tag(key: str, value: Any, kind: str = "string") -> dict[str, Any]:
    return {"key": key, "type": kind, "value": value}


def jaeger() -> dict[str, Any]:
    def span(number: int, name: str, *tags: dict[str, Any], **more: Any) -> dict[str, Any]:
        parent = [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": ROOT}] if number else []
        return {
            "traceID": TRACE,
            "spanID": span_id(number) if number else ROOT,
            "operationName": name,
            "references": parent,
            "startTime": (BEGUN + number) * 10**6,
            "duration": 500_000,
            "tags": [tag("otel.scope.name", "lib"), *tags],
            "logs": [],
            "processID": "p1",
        } | more

    asked = [
        tag("gen_ai.operation.name", "execute_tool"),
        tag("gen_ai.tool.name", "search"),
        tag("gen_ai.tool.call.arguments", json.dumps(ARGUMENTS)),
    ]
    failed = [tag("otel.status_code", "ERROR"), tag("error", True, "bool")]
    raised = [tag("event", "exception"), tag("exception.message", "no such index")]
    chat = [
        tag("gen_ai.operation.name", "chat"),
        tag("gen_ai.request.model", "gpt-4o"),
        tag("gen_ai.usage.input_tokens", 12, "int64"),
        tag("gen_ai.usage.output_tokens", "3", "int64"),
    ]
    agent = [tag("gen_ai.operation.name", "invoke_agent"), tag("gen_ai.conversation.id", "s1")]
    spans = [
        span(0, "invoke_agent", *agent),
        span(1, "chat", tag("span.kind", "client"), *chat),
        *[span(n, "execute_tool search", *asked, tag("gen_ai.tool.call.result", RESULT)) for n in (2, 3, 4)],
        span(
            5,
            "execute_tool search",
            *asked,
            *failed,
            logs=[{"timestamp": (BEGUN + 5) * 10**6, "fields": raised}],
        ),
    ]
    process = {"serviceName": "svc", "tags": [tag("host.name", "h")]}
    return {"data": [{"traceID": TRACE, "spans": spans, "processes": {"p1": process}}], "total": 0}


# -- SWE-agent, mini-swe-agent, OpenHands, ATIF, InterCode --------------------------------------------------


def asks(number: int) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}


def swe_agent() -> dict[str, Any]:
    history: list[dict[str, Any]] = [
        {"role": "system", "content": "You are", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "An example", "agent": "main", "is_demo": True},
        {"role": "assistant", "content": "", "agent": "main", "is_demo": True, "tool_calls": [asks(9)]},
        {"role": "user", "content": "Find it", "agent": "main", "message_type": "observation"},
    ]
    for number in (2, 3, 4, 5):
        history.append({"role": "assistant", "content": "", "agent": "main", "tool_calls": [asks(number)]})
        if number < 5:
            history.append(
                {"role": "tool", "content": RESULT, "agent": "main", "tool_call_ids": [f"c{number}"]}
            )
    return {
        "environment": "main",
        "trajectory": [{"action": "search", "observation": RESULT, "response": ""}],
        "history": history,
        "info": {"exit_status": "exit_cost", "model_stats": {}},
        "replay_config": json.dumps(
            {"agent": {"model": {"name": "gpt-4o"}}, "problem_statement": {"id": "i-1"}}
        ),
    }


def swe_agent_text() -> dict[str, Any]:
    step = {"action": "ls\n", "observation": RESULT, "response": "I look\n```\nls\n```", "thought": "I look"}
    return {
        "environment": "main",
        "trajectory": [step, step, step, {**step, "observation": None}, {**step, "action": ""}],
        "history": [{"role": "system", "content": "You are", "agent": "main"}],
        "info": {"exit_status": "submitted"},
    }


def mini_swe_agent() -> dict[str, Any]:
    def said(actions: list[Any]) -> dict[str, Any]:
        usage = {"usage": {"prompt_tokens": 12, "completion_tokens": 3}}
        extra = {"actions": actions, "timestamp": BEGUN + 1.5, "response": usage}
        return {"role": "assistant", "content": "I look", "extra": extra}

    return {
        "trajectory_format": "mini-swe-agent-1.1",
        "info": {"exit_status": "Submitted", "config": {"model": {"model_name": "gpt-4o"}}},
        "messages": [
            {"role": "system", "content": "You are"},
            {"role": "user", "content": "Find it", "extra": {"timestamp": BEGUN}},
            said([{"command": "ls"}]),
            {"role": "user", "content": [{"type": "text", "text": RESULT}]},
            said(["ls"]),
            {"role": "user", "content": RESULT},
            said([]),
            {"role": "user", "content": "no action found"},
            said(["ls"]),
        ],
    }


def openhands() -> list[dict[str, Any]]:
    """The older generation."""

    def response(number: int) -> dict[str, Any]:
        message = {"role": "assistant", "content": "I look", "tool_calls": [asks(number)]}
        return {
            "id": f"r{number}",
            "model": "gpt-4o",
            "usage": {"prompt_tokens": 12, "completion_tokens": 3},
            "choices": [{"message": message}],
        }

    def called(number: int, action: str = "run", name: str = "search") -> dict[str, Any]:
        return {"function_name": name, "tool_call_id": f"c{number}", "model_response": response(number)}

    def event(number: int, source: str = "agent", **more: Any) -> dict[str, Any]:
        return {
            "id": number,
            "timestamp": iso(number).removesuffix("Z"),
            "source": source,
            "message": "",
        } | more

    events = [
        event(
            0, "environment", observation="agent_state_changed", content="", extras={"agent_state": "init"}
        ),
        event(1, "user", action="message", args={"content": "Find it"}),
    ]
    for number in (2, 4, 6):
        events.append(
            event(
                number, action="run", args={"command": "x", "thought": "I"}, tool_call_metadata=called(number)
            )
        )
        events.append(
            event(
                number + 1,
                cause=number,
                observation="run",
                content=RESULT,
                success=True,
                extras={"metadata": {"exit_code": 0}},
                tool_call_metadata=called(number),
            )
        )
    # A refused call points back with nothing but its cause.
    events.append(event(8, action="run", args={"command": "x"}, tool_call_metadata=called(8)))
    events.append(event(9, cause=8, observation="error", content="no such index", extras={}))
    events.append(event(10, action="run", args={"command": "x"}, tool_call_metadata=called(10)))
    events.append(
        event(
            11, action="finish", args={"final_thought": "Done"}, tool_call_metadata=called(11, name="finish")
        )
    )
    return events


def openhands_new() -> list[dict[str, Any]]:
    """The newer generation. The first two calls stand in one answer of the model."""

    def event(number: int, kind: str, source: str = "agent", **more: Any) -> dict[str, Any]:
        return {"kind": kind, "id": f"e{number}", "timestamp": iso(number), "source": source} | more

    def action(number: int, answer: str) -> dict[str, Any]:
        return event(
            number,
            "ActionEvent",
            thought=[{"type": "text", "text": "I look"}],
            tool_name="search",
            tool_call_id=f"c{number}",
            tool_call={"id": f"c{number}", "name": "search", "arguments": '{"q": "x"}'},
            llm_response_id=answer,
        )

    def seen(number: int, call: int) -> dict[str, Any]:
        observation = {"kind": "X", "content": [{"type": "text", "text": RESULT}], "is_error": False}
        return event(
            number,
            "ObservationEvent",
            "environment",
            tool_name="search",
            tool_call_id=f"c{call}",
            observation=observation,
            action_id=f"e{call}",
        )

    message = {"role": "user", "content": [{"type": "text", "text": "Find it"}]}
    return [
        event(0, "SystemPromptEvent", system_prompt={"type": "text", "text": "You are"}),
        event(1, "MessageEvent", "user", llm_message=message),
        action(2, "r1"),
        action(3, "r1"),
        seen(4, 2),
        seen(5, 3),
        action(6, "r2"),
        seen(7, 6),
        action(8, "r3"),
        event(9, "AgentErrorEvent", tool_name="search", tool_call_id="c8", error="no such index"),
        action(10, "r4"),
        event(11, "ConversationErrorEvent", "environment", code="limit", detail="too many steps"),
    ]


def atif() -> dict[str, Any]:
    def step(number: int, **more: Any) -> dict[str, Any]:
        asked = [{"tool_call_id": f"c{number}", "function_name": "search", "arguments": ARGUMENTS}]
        return {
            "step_id": number,
            "timestamp": iso(number),
            "source": "agent",
            "message": "I look",
            "reasoning_content": "hm",
            "tool_calls": asked,
            "metrics": {"prompt_tokens": 12, "completion_tokens": 3, "cost_usd": 0.1},
        } | more

    def seen(number: int, **more: Any) -> dict[str, Any]:
        return {"results": [{"source_call_id": f"c{number}", "content": RESULT} | more]}

    failed = seen(6, content="no such index", extra={"is_error": True})
    return {
        "schema_version": "ATIF-v1.6",
        "session_id": "s1",
        "agent": {"name": "bob", "version": "1", "model_name": "gpt-4o"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "You are"},
            {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "Find it"}]},
            step(9, is_copied_context=True, observation=seen(9)),
            step(3, observation=seen(3)),
            step(4, observation={"results": [{"content": RESULT}]}),  # one call: its result needs no id
            step(5, observation=seen(5)),
            step(6, observation=failed),
            step(7),
        ],
    }


def intercode() -> dict[str, Any]:
    history = {
        "actions": ["ls", "ls", "ls", "lx"],
        "observations": [RESULT] * 3 + ["no such command"],
        "rewards": [0, 0, 0, 0],
        "valid_action": [True, True, True, False],
    }
    task = {"environment": "ic_bash", "task_id": 7, "query": "Find it", "turn_history": history}
    return {"0": task, "1": {**task, "turn_history": {"actions": []}}}
