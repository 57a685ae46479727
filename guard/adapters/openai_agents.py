"""OpenAI Agents SDK: the guard around an agent's tools.

from agents import Agent, Runner
from loopscope.guard.adapters import GuardedRun
from loopscope.guard.adapters.openai_agents import guard_agent

agent = guard_agent(Agent(name="helper", tools=[…]))
with GuardedRun("policy.toml") as run:
    result = await Runner.run(agent, "…")
run.outcome      # "loop_blocked", or None
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable
from typing import Any, Literal

from agents import (
    Agent,
    AgentHooks,
    AgentsException,
    FunctionTool,
    RunContextWrapper,
    Tool,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
)
from agents.items import ItemHelpers, ModelResponse
from agents.tool_context import ToolContext

from .. import LoopscopeError
from ._call import GuardedCall
from ._decorator import same_call
from ._facts import text_of
from ._run import LoopBlocked, current_run, enclosing_call

__all__ = ["AgentLoopBlocked", "guard_agent", "guard_tool"]

OnBlock = Literal["answer", "raise"]
_BLOCKS = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
_BLOCK_TYPES = ("text", "image", "file", "input_text", "input_image", "input_file")


class AgentLoopBlocked(LoopBlocked, AgentsException):
    """LoopBlocked, as an exception that the SDK lets through with its details of the run."""


def guard_agent(agent: Agent[Any], *, on_block: OnBlock = "answer") -> Agent[Any]:
    """A copy of an agent whose tools are under guard: function tools, MCP tools, agents as tools.

    Agents among its `handoffs` are copied likewise; build `handoff(...)` objects from guarded agents.
    Run it inside of `with GuardedRun(...)`; agents of one run are counted apart.

    Notes reach the model inside of the tool's output. When a call is blocked the model is asked once
    more, having seen the note, and what it answers is the run's output. If it asks for tools or hands
    off instead, AgentLoopBlocked is raised before they run. With `on_block="raise"` it is raised
    without asking the model again.

    Raises:
        LoopscopeError: at the first call, where no run is open.
    """
    if on_block not in ("answer", "raise"):
        raise ValueError(f'on_block must be "answer" or "raise", not {on_block!r}')
    return _guard_agent(agent, on_block, {})


def _guard_agent(agent: Agent[Any], on_block: OnBlock, done: dict[int, Agent[Any]]) -> Agent[Any]:
    if id(agent) in done:  # agents hand off in circles
        return done[id(agent)]
    if getattr(type(agent), "_loopscope_guarded", False):
        return agent
    guarded = copy.copy(agent)
    guarded.__class__ = _guarded_class(type(agent))
    done[id(agent)] = guarded
    guarded.tools = [guard_tool(tool) for tool in agent.tools]
    guarded.hooks = _BlockHooks(agent.hooks, on_block)
    guarded.handoffs = [
        _guard_agent(other, on_block, done) if isinstance(other, Agent) else other for other in agent.handoffs
    ]
    return guarded


def _guarded_class(kind: type[Agent[Any]]) -> type[Agent[Any]]:
    async def get_all_tools(self: Any, run_context: RunContextWrapper[Any]) -> list[Tool]:
        # Tools of MCP servers are made anew for every turn.
        tools: Iterable[Tool] = await kind.get_all_tools(self, run_context)
        return [guard_tool(tool) for tool in tools]

    return type(kind.__name__, (kind,), {"get_all_tools": get_all_tools, "_loopscope_guarded": True})


class _BlockHooks(AgentHooks[Any]):
    """Ends a blocked run around its model requests; otherwise the agent's own hooks."""

    def __init__(self, hooks: Any, on_block: OnBlock) -> None:
        self._hooks = hooks
        self._on_block: OnBlock = on_block

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        run = current_run()
        if run is not None and run.blocked and self._on_block == "raise":
            raise AgentLoopBlocked(run)
        if self._hooks is not None:
            await self._hooks.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:
        if self._hooks is not None:
            await self._hooks.on_llm_end(context, agent, response)
        run = current_run()
        if run is None or not run.blocked:
            return
        if any(str(getattr(item, "type", "")).endswith("_call") for item in response.output):
            text = "".join(filter(None, (ItemHelpers.extract_text(item) for item in response.output)))
            raise AgentLoopBlocked(run, text or None)

    async def on_start(self, context: Any, agent: Any) -> None:
        if self._hooks is not None:
            await self._hooks.on_start(context, agent)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        if self._hooks is not None:
            await self._hooks.on_end(context, agent, output)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        if self._hooks is not None:
            await self._hooks.on_handoff(context, agent, source)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        if self._hooks is not None:
            await self._hooks.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        if self._hooks is not None:
            await self._hooks.on_tool_end(context, agent, tool, result)


def guard_tool(tool: Tool) -> Tool:
    """A copy of a function tool under guard. Hosted tools, which run elsewhere, are returned as they are."""
    if not isinstance(tool, FunctionTool) or getattr(tool.on_invoke_tool, "_loopscope_guarded", False):
        return tool
    inner = copy.copy(tool)
    failures = _remember_failures(inner)
    invoke = inner.on_invoke_tool
    is_agent = getattr(tool, "_is_agent_tool", False)
    has_schema = getattr(tool, "output_json_schema", None) is not None

    async def guarded(ctx: ToolContext[Any], arguments: str) -> Any:
        run = current_run()
        if run is None:
            raise LoopscopeError("no run is open: run the agent inside of `with GuardedRun(...):`")
        if same_call(enclosing_call(), tool.name):
            return await invoke(ctx, arguments)
        agent = getattr(getattr(ctx, "agent", None), "name", None)
        with run.tool_call(tool.name, arguments or "{}", call_id=ctx.tool_call_id, agent=agent) as call:
            failures.pop(id(ctx), None)
            try:
                if is_agent:
                    with run.nested(tool.name):
                        output = await invoke(ctx, arguments)
                else:
                    output = await invoke(ctx, arguments)
            finally:
                error = failures.pop(id(ctx), None)
            return _judge(call, output, error, can_be_noted=not has_schema)

    guarded._loopscope_guarded = True  # type: ignore[attr-defined]
    outer = copy.copy(tool)
    outer.on_invoke_tool = guarded
    return outer


def _remember_failures(tool: FunctionTool) -> dict[int, Exception]:
    """Have a tool's failures noted before its error function turns them into text. By id of the context."""
    failures: dict[int, Exception] = {}
    try:
        from agents.tool import (
            default_tool_error_function,
            resolve_function_tool_failure_error_function,
            set_function_tool_failure_error_function,
        )
    except ImportError:  # not part of the SDK's documented interface
        return failures
    original = copy.copy(tool)

    async def remember(ctx: RunContextWrapper[Any], error: Exception) -> Any:
        failures[id(ctx)] = error
        function = resolve_function_tool_failure_error_function(original, ctx)
        if function is None:
            return None  # raised on
        text = function(ctx, error)
        text = await text if inspect.isawaitable(text) else text
        if function is default_tool_error_function:
            text = await _formatted(ctx, error, text)
        return text

    set_function_tool_failure_error_function(tool, remember)
    return failures


async def _formatted(ctx: Any, error: Exception, text: str) -> str:
    """The run's own wording for the default error text, where it has one."""
    formatter = getattr(getattr(ctx, "run_config", None), "tool_error_formatter", None)
    if formatter is None:
        return text
    from agents.run_config import ToolErrorFormatterArgs

    worded = formatter(
        ToolErrorFormatterArgs(
            kind="tool_exception",
            tool_type="function",
            tool_name=ctx.qualified_tool_name,
            call_id=ctx.tool_call_id,
            default_message=text,
            run_context=ctx,
            error=error,
        )
    )
    worded = await worded if inspect.isawaitable(worded) else worded
    return text if worded is None else worded


def _judge(call: GuardedCall, output: Any, error: Exception | None, *, can_be_noted: bool) -> Any:
    text = _text(output)
    verdict = call.judge(text) if error is None else call.judge_error(error, text)
    if verdict.guidance is None or not can_be_noted:
        call.record(None)
        return output
    noted = _with_note(output, verdict.guidance)
    call.record(_text(noted))
    return noted


def _is_block(output: Any) -> bool:
    return isinstance(output, _BLOCKS) or (isinstance(output, dict) and output.get("type") in _BLOCK_TYPES)


def _text(output: Any) -> str:
    """An output as the SDK shows it to the model: content blocks, or its string."""
    if isinstance(output, list | tuple) and output and all(map(_is_block, output)):
        return text_of([_plain_block(block) for block in output])
    if _is_block(output):
        return text_of([_plain_block(output)])
    return str(output)


def _plain_block(block: Any) -> dict[str, Any]:
    return block if isinstance(block, dict) else block.model_dump(mode="json", exclude_none=True)


def _with_note(output: Any, note: str) -> Any:
    block = ToolOutputText(text=note)
    if isinstance(output, list | tuple) and output and all(map(_is_block, output)):
        return [*output, block]
    if _is_block(output):
        return [output, block]
    return f"{output}\n\n{note}"
