"""guard_session around real MCP clients, connected to a server in this process."""

from __future__ import annotations

import asyncio
import logging

import pytest

pytest.importorskip("mcp.server.mcpserver", reason="mcp 2 is not installed (loopscope[mcp])")

from agreement import agreed
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, ImageContent, TextContent

from loopscope.guard import ABORT_MARKER, GUIDANCE_MARKER, GuardPolicy, LoopscopeError
from loopscope.guard.adapters import LOOP_BLOCKED, GuardedRun
from loopscope.guard.adapters.mcp import guard_session

POLICY = GuardPolicy()
SERVER = MCPServer("handbook")
logging.getLogger("mcp").setLevel(logging.CRITICAL)


@SERVER.tool()
def search(query: str) -> str:
    return "nothing"


@SERVER.tool()
def item(number: int) -> dict[str, int]:
    return {"number": number}


@SERVER.tool()
def chart(kind: str) -> CallToolResult:
    return CallToolResult(
        content=[
            ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png"),
            TextContent(type="text", text="a chart"),
        ]
    )


@SERVER.tool()
def broken(number: int) -> str:
    raise ToolError("the handbook is closed")


@SERVER.tool()
def rpc(code: int) -> str:
    raise MCPError(code, "no such number")


CLOCK = iter(range(1_000_000))


@SERVER.tool()
def clock() -> CallToolResult:
    """Its text is always the same, its structured content is not."""
    return CallToolResult(
        content=[TextContent(type="text", text="the time")], structured_content={"tick": next(CLOCK)}
    )


def calls(recorder, name, arguments=None, *, times=3, agent=None):
    """Results, or exceptions, of the same call several times; and the run."""

    async def main():
        found = []
        with GuardedRun(POLICY, tracer_provider=recorder.provider, agent=agent) as run:
            async with Client(SERVER) as client:
                session = guard_session(client)
                for _ in range(times):
                    try:
                        found.append(await session.call_tool(name, arguments))
                    except MCPError as error:
                        found.append(error)
        return found, run

    return asyncio.run(main())


def test_the_note_is_one_more_text_block(recorder):
    results, run = calls(recorder, "search", {"query": "refunds"}, times=6)
    assert [len(result.content) for result in results] == [1, 1, 2, 2, 2, 1]
    assert {result.content[0].text for result in results} == {"nothing"}
    assert results[2].content[1].text.startswith(GUIDANCE_MARKER)
    assert results[4].content[1].text.startswith(ABORT_MARKER)
    assert run.outcome == LOOP_BLOCKED
    assert [action for _, action, _ in agreed(recorder, POLICY)] == [
        "allow",
        "allow",
        "nudge",
        "nudge",
        "block",
        "after_block",
    ]


def test_structured_content_stays_what_the_schema_says(recorder):
    results, _ = calls(recorder, "item", {"number": 7})
    assert [result.structured_content for result in results] == [{"number": 7}] * 3
    assert results[2].content[-1].text.startswith(GUIDANCE_MARKER)
    assert agreed(recorder, POLICY)[-1] == ("item", "nudge", 3)


def test_structured_content_counts_as_part_of_the_result(recorder):
    results, _ = calls(recorder, "clock")
    assert {len(result.content) for result in results} == {1}
    assert agreed(recorder, POLICY) == [("clock", "allow", 1)] * 3


def test_images(recorder):
    results, _ = calls(recorder, "chart", {"kind": "bar"}, times=4)
    assert results[2].content[:-1] == results[0].content
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]


def test_a_failed_tool_is_not_counted(recorder):
    results, _ = calls(recorder, "broken", {"number": 1})
    assert all(result.is_error for result in results)
    assert agreed(recorder, POLICY) == [("broken", "not_counted", 0)] * 3


def test_refused_arguments_are_counted(recorder):
    results, _ = calls(recorder, "item", {"number": "one"})
    assert results[2].is_error
    assert results[2].content[-1].text.startswith(GUIDANCE_MARKER)
    assert [one.outcome for one in recorder.verdicts(POLICY)] == ["schema_error"] * 3
    assert agreed(recorder, POLICY)[-1] == ("item", "nudge", 3)


@pytest.mark.parametrize("code", [-32602, -32600, -32700, -32603])
def test_json_rpc_errors(recorder, code):
    errors, _ = calls(recorder, "rpc", {"code": code})
    assert [error.code for error in errors] == [code] * 3
    assert str(errors[0]) == "no such number"
    if code == -32603:
        assert agreed(recorder, POLICY) == [("rpc", "not_counted", 0)] * 3
    else:
        assert str(errors[2]).startswith(f"no such number\n\n{GUIDANCE_MARKER}")
        assert errors[2].error.message == str(errors[2]) == errors[2].args[1]
        assert agreed(recorder, POLICY)[-1] == ("rpc", "nudge", 3)


def test_no_arguments_are_the_empty_ones(recorder):
    async def main():
        with GuardedRun(POLICY, tracer_provider=recorder.provider):
            async with Client(SERVER) as client:
                session = guard_session(client)
                await session.call_tool("search")
                await session.call_tool("search", {})

    asyncio.run(main())
    assert [count for _, _, count in agreed(recorder, POLICY)] == [1, 2]


def test_parallel_calls(recorder):
    async def main():
        with GuardedRun(POLICY, tracer_provider=recorder.provider) as run:
            async with Client(SERVER) as client:
                session = guard_session(client)
                await asyncio.gather(*(session.call_tool("search", {"query": "x"}) for _ in range(6)))
        return run

    assert asyncio.run(main()).outcome == LOOP_BLOCKED
    assert [count for _, _, count in agreed(recorder, POLICY)] == [1, 2, 3, 4, 5, 5]


def test_a_session_of_several_runs(recorder):
    async def main():
        async with Client(SERVER) as client:
            with pytest.raises(LoopscopeError, match="no run is open"):
                await guard_session(client).call_tool("search", {"query": "x"})
            runs = []
            for _ in range(2):
                run = GuardedRun(POLICY)
                session = guard_session(client, run)
                for _ in range(3):
                    result = await session.call_tool("search", {"query": "x"})
                runs.append(len(result.content))
            return runs

    assert asyncio.run(main()) == [2, 2]


def test_everything_else_is_the_session_s_own():
    async def main():
        async with Client(SERVER) as client:
            session = guard_session(client)
            return {tool.name for tool in (await session.list_tools()).tools}

    assert "search" in asyncio.run(main())


def test_inside_of_a_guarded_tool_the_call_is_judged_once(recorder):
    async def main():
        with GuardedRun(POLICY, tracer_provider=recorder.provider) as run:
            async with Client(SERVER) as client:
                session = guard_session(client)
                for _ in range(3):
                    with run.tool_call("handbook_search", {"query": "x"}) as call:
                        result = await session.call_tool("search", {"query": "x"})
                        shown = call.returned(result.content[0].text)
        return shown

    assert asyncio.run(main()).count(GUIDANCE_MARKER) == 1
    assert agreed(recorder, POLICY)[-1] == ("handbook_search", "nudge", 3)
