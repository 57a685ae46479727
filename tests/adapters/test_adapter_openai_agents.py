"""guard_agent with real agents of the OpenAI Agents SDK, with scripted models."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("agents.testing", reason="openai-agents is not installed (loopscope[openai-agents])")

from agents import (
    Agent,
    AgentHooks,
    RunConfig,
    Runner,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
    handoff,
)
from agents.exceptions import AgentsException, UserError
from agreement import agreed
from scripted import DONE, SEARCH, agents_model

from loopscope.guard import ABORT_MARKER, GUIDANCE_MARKER, GuardPolicy
from loopscope.guard.adapters import LOOP_BLOCKED, GuardedRun, LoopBlocked
from loopscope.guard.adapters.openai_agents import AgentLoopBlocked, guard_agent, guard_tool

POLICY = GuardPolicy()
QUIET = RunConfig(tracing_disabled=True)


@function_tool
def search(query: str) -> str:
    return "nothing"


@function_tool
async def item(number: int) -> dict[str, int]:
    return {"number": number}


@function_tool
def chart(kind: str) -> list[ToolOutputText | ToolOutputImage]:
    return [ToolOutputText(text="a chart"), ToolOutputImage(image_url="http://example.org/a.png")]


@function_tool
def picture(kind: str) -> ToolOutputImage:
    return ToolOutputImage(image_url="http://example.org/a.png")


@function_tool
def broken(number: int) -> str:
    raise ConnectionError("refused")


@function_tool(failure_error_function=lambda context, error: f"Sorry: {error}")
def polite(number: int) -> str:
    raise ValueError("HTTP 422: no such number")


@function_tool(failure_error_function=None)
def harsh(number: int) -> str:
    raise ConnectionError("refused")


TOOLS = [search, item, chart, picture, broken, polite, harsh]


def agent(turns, *, on_block="answer", tools=TOOLS, name="helper", first_id=1, **options):
    model = agents_model(turns, first_id=first_id)
    return guard_agent(Agent(name=name, model=model, tools=tools, **options), on_block=on_block)


class Ran:
    """A run that has ended: result or exception, and the guard's run."""

    def __init__(self, one, recorder, policy=POLICY, **options):
        self.result = self.error = None
        with GuardedRun(policy, tracer_provider=recorder.provider) as self.run:
            try:
                self.result = asyncio.run(Runner.run(one, "?", run_config=QUIET, max_turns=30, **options))
            except AgentsException as error:
                self.error = error

    @property
    def outputs(self):
        return [
            item.raw_item["output"] for item in self.result.new_items if item.type == "tool_call_output_item"
        ]


def test_the_nudge_stands_behind_the_real_output(recorder):
    ran = Ran(agent([[SEARCH]] * 4 + [DONE]), recorder)
    assert ran.outputs[:2] == ["nothing", "nothing"]
    assert all(output.startswith(f"nothing\n\n{GUIDANCE_MARKER}") for output in ran.outputs[2:])
    assert ran.run.outcome is None
    assert agreed(recorder, POLICY) == [
        ("search", "allow", 1),
        ("search", "allow", 2),
        ("search", "nudge", 3),
        ("search", "nudge", 4),
    ]


def test_an_answer_after_the_block_stays_and_the_outcome_tells(recorder):
    ran = Ran(agent([[SEARCH]] * 5 + [DONE]), recorder)
    assert ABORT_MARKER in ran.outputs[-1]
    assert ran.result.final_output == DONE
    assert ran.run.outcome == LOOP_BLOCKED
    assert agreed(recorder, POLICY)[-1] == ("search", "block", 5)


def test_tools_asked_for_after_the_block_are_not_run(recorder):
    ran = Ran(agent([[SEARCH]] * 5 + [["One more time.", SEARCH], "not reached"]), recorder)
    assert isinstance(ran.error, AgentLoopBlocked)
    assert isinstance(ran.error, LoopBlocked)
    assert ran.error.answer == "One more time."
    assert "5 times in a row" in str(ran.error)
    assert ran.error.run_data is not None  # the SDK's details of the run
    assert len(agreed(recorder, POLICY)) == 5


def test_the_block_can_be_raised_at_once(recorder):
    ran = Ran(agent([[SEARCH]] * 5 + ["not reached"], on_block="raise"), recorder)
    assert isinstance(ran.error, AgentLoopBlocked)
    assert agreed(recorder, POLICY)[-1] == ("search", "block", 5)


def test_on_block_is_checked():
    with pytest.raises(ValueError, match="on_block"):
        guard_agent(Agent(name="helper"), on_block="end")


def test_parallel_calls_of_the_turn_of_the_block_run_to_their_end(recorder):
    ran = Ran(agent([[SEARCH] * 3, [SEARCH] * 3, DONE]), recorder)
    assert len(ran.outputs) == 6
    assert ran.result.final_output == DONE
    assert [action for _, action, _ in agreed(recorder, POLICY)] == [
        "allow",
        "allow",
        "nudge",
        "nudge",
        "block",
        "after_block",
    ]


def test_an_object_is_the_text_that_the_sdk_makes_of_it(recorder):
    ran = Ran(agent([[("item", {"number": 7})]] * 3 + [DONE]), recorder)
    assert ran.outputs[2].startswith(f"{ran.outputs[0]}\n\n{GUIDANCE_MARKER}")
    assert agreed(recorder, POLICY)[-1] == ("item", "nudge", 3)


@pytest.mark.parametrize("tool", ["chart", "picture"])
def test_content_blocks_get_one_more_block(recorder, tool):
    ran = Ran(agent([[(tool, {"kind": "bar"})]] * 4 + [DONE]), recorder)
    assert ran.outputs[2][:-1] == ran.outputs[0]
    assert ran.outputs[2][-1]["text"].startswith(GUIDANCE_MARKER)
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]


def test_refused_arguments_are_counted(recorder):
    ran = Ran(agent([[("item", {"number": "one"})]] * 3 + [DONE]), recorder)
    assert GUIDANCE_MARKER in ran.outputs[2]
    assert [one.outcome for one in recorder.verdicts(POLICY)] == ["schema_error"] * 3
    assert agreed(recorder, POLICY)[-1] == ("item", "nudge", 3)


def test_arguments_that_are_no_json_are_counted(recorder):
    ran = Ran(agent([[("item", '{"number": ')]] * 3 + [DONE]), recorder)
    assert GUIDANCE_MARKER in ran.outputs[2]
    assert agreed(recorder, POLICY)[-1] == ("item", "nudge", 3)


def test_a_failure_that_the_sdk_hides_is_seen(recorder):
    ran = Ran(agent([[("broken", {"number": 1})]] * 3 + [DONE]), recorder)
    assert ran.outputs == ["An error occurred while running the tool. Please try again."] * 3
    assert agreed(recorder, POLICY) == [("broken", "not_counted", 0)] * 3
    assert recorder.spans()[1]["attributes"]["error.type"] == "ConnectionError"


def test_a_tool_s_own_words_for_a_failure_stay(recorder):
    ran = Ran(agent([[("polite", {"number": 1})]] * 3 + [DONE]), recorder)
    assert ran.outputs[0] == "Sorry: HTTP 422: no such number"
    assert ran.outputs[2].startswith(f"{ran.outputs[0]}\n\n{GUIDANCE_MARKER}")
    assert agreed(recorder, POLICY)[-1] == ("polite", "nudge", 3)


def test_the_run_s_own_words_for_failures_stay(recorder):
    one = agent([[("broken", {"number": 1})], DONE])
    with GuardedRun(POLICY, tracer_provider=recorder.provider):
        config = RunConfig(
            tracing_disabled=True, tool_error_formatter=lambda failure: f"Failed: {failure.error}"
        )
        result = asyncio.run(Runner.run(one, "?", run_config=config))
    output = next(item for item in result.new_items if item.type == "tool_call_output_item")
    assert output.raw_item["output"] == "Failed: refused"


def test_a_failure_that_ends_the_run_is_judged(recorder):
    ran = Ran(agent([[("harsh", {"number": 1})], DONE]), recorder)
    assert isinstance(ran.error, UserError)
    assert agreed(recorder, POLICY) == [("harsh", "not_counted", 0)]


def test_without_a_run_the_first_call_says_what_to_do():
    with pytest.raises(UserError, match="no run is open"):
        asyncio.run(Runner.run(agent([[SEARCH], DONE]), "?", run_config=QUIET))


def test_runs_at_the_same_time_do_not_mix(recorder):
    async def one(times):
        with GuardedRun(POLICY, tracer_provider=recorder.provider) as run:
            await Runner.run(agent([[SEARCH]] * times + [DONE]), "?", run_config=QUIET)
        return run.outcome

    async def main():
        return await asyncio.gather(one(2), one(5), one(4))

    assert asyncio.run(main()) == [None, LOOP_BLOCKED, None]
    assert len(agreed(recorder, POLICY)) == 11


def test_streamed_runs(recorder):
    async def main():
        with GuardedRun(POLICY, tracer_provider=recorder.provider) as run:
            result = Runner.run_streamed(agent([[SEARCH]] * 5 + [DONE]), "?", run_config=QUIET)
            async for _ in result.stream_events():
                pass
        return run.outcome, result.final_output

    assert asyncio.run(main()) == (LOOP_BLOCKED, DONE)
    assert agreed(recorder, POLICY)[-1] == ("search", "block", 5)


def test_agents_of_one_run_are_counted_apart_and_handoffs_are_guarded(recorder):
    back = Agent(name="back", model=agents_model([[SEARCH]] * 2 + [DONE], first_id=9), tools=[search])
    front = Agent(
        name="front",
        model=agents_model([[SEARCH], [SEARCH], [("transfer_to_back", {})]]),
        tools=[search],
        handoffs=[back],
    )
    back.handoffs.append(front)
    ran = Ran(guard_agent(front), recorder)
    assert ran.result.final_output == DONE
    assert ran.result.last_agent.name == "back"
    judged = recorder.verdicts(POLICY)
    assert [one.live for one in judged] == [one.replayed for one in judged]
    assert [(one.agent, one.live[1]) for one in judged] == [
        ("front", 1),
        ("front", 2),
        ("back", 1),
        ("back", 2),
    ]
    assert back.tools == [search]  # the agents that were given are left alone


def test_handoff_objects_of_guarded_agents(recorder):
    back = agent([[SEARCH]] * 3 + [DONE], name="back", first_id=9)
    front = agent([[("transfer_to_back", {})]], name="front", handoffs=[handoff(back)])
    ran = Ran(front, recorder)
    assert GUIDANCE_MARKER in ran.outputs[-1]
    assert agreed(recorder, POLICY)[-1] == ("search", "nudge", 3)


def test_an_agent_as_a_tool_is_a_run_of_its_own(recorder):
    inner = agent([[SEARCH]] * 3 + [DONE], name="researcher")
    research = inner.as_tool("research", "Let another agent look.")
    outer = agent([[SEARCH], [("research", {"input": "refunds"})], [SEARCH], DONE], tools=[search, research])
    ran = Ran(outer, recorder)
    assert ran.result.final_output == DONE
    judged = recorder.verdicts(POLICY)
    assert [one.live for one in judged] == [one.replayed for one in judged]
    assert sorted((one.agent, one.tool, one.live[1]) for one in judged) == [
        ("helper", "research", 1),
        ("helper", "search", 1),
        ("helper", "search", 2),
        ("researcher", "search", 1),
        ("researcher", "search", 2),
        ("researcher", "search", 3),
    ]


def test_the_agent_s_own_hooks_are_called(recorder):
    seen = []

    class Hooks(AgentHooks):
        async def on_start(self, context, agent):
            seen.append("start")

        async def on_end(self, context, agent, output):
            seen.append(f"end {output}")

        async def on_tool_start(self, context, agent, tool):
            seen.append(f"tool {tool.name}")

        async def on_tool_end(self, context, agent, tool, result):
            seen.append(result)

        async def on_llm_start(self, context, agent, system_prompt, input_items):
            seen.append("ask")

        async def on_llm_end(self, context, agent, response):
            seen.append("told")

    Ran(agent([[SEARCH], DONE], hooks=Hooks()), recorder)
    assert seen == ["start", "ask", "told", "tool search", "nothing", "ask", "told", f"end {DONE}"]


def test_a_guarded_agent_and_its_clones_are_guarded_once(recorder):
    one = guard_agent(agent([[SEARCH]] * 3 + [DONE]))
    clone = one.clone(name="clone")
    assert guard_agent(clone) is clone
    ran = Ran(clone, recorder)
    assert ran.outputs[2].count(GUIDANCE_MARKER) == 1
    assert guard_tool(clone.tools[0]) is clone.tools[0]


def test_tools_of_mcp_servers_are_guarded(recorder):
    from agents.mcp import MCPServer
    from mcp.types import CallToolResult, TextContent
    from mcp.types import Tool as MCPTool

    class Server(MCPServer):
        name = "handbook"

        async def connect(self):
            pass

        async def cleanup(self):
            pass

        async def list_tools(self, run_context=None, agent=None):
            schema = {"type": "object", "properties": {"query": {"type": "string"}}}
            return [MCPTool(name="search", description="", input_schema=schema)]

        async def call_tool(self, tool_name, arguments, meta=None):
            return CallToolResult(content=[TextContent(type="text", text="nothing")])

        async def list_prompts(self):
            raise NotImplementedError

        async def get_prompt(self, name, arguments=None):
            raise NotImplementedError

    ran = Ran(agent([[SEARCH]] * 3 + [DONE], tools=[], mcp_servers=[Server()]), recorder)
    assert GUIDANCE_MARKER in json.dumps(ran.outputs[2])
    assert agreed(recorder, POLICY)[-1] == ("search", "nudge", 3)
