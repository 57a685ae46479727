"""Pydantic AI: the guard as a capability of an agent, or around a single toolset.

from pydantic_ai import Agent
from loopscope.guard.adapters.pydantic_ai import LoopGuard

agent = Agent(model, tools=[…], capabilities=[LoopGuard("policy.toml")])
result = agent.run_sync("…")
result.metadata["loopscope_outcome"]      # "loop_blocked", or None
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, replace
from os import PathLike
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import (
    ModelResponse,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    is_multi_modal_content,
    tool_return_ta,
)
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from .. import GuardPolicy, Guidance
from . import _telemetry as telemetry
from ._call import GuardedCall
from ._decorator import same_call
from ._run import GuardedRun, LoopBlocked, enclosing_call, enter_invocation

__all__ = ["GuardedToolset", "LoopGuard"]

OnBlock = Literal["answer", "raise"]
_CONTROL_FLOW = (CallDeferred, ApprovalRequired)


class ToolInputValidationError(ModelRetry):
    """Refused arguments, with the guard's note behind what the model is told about them.

    Its `str` is that of the refusal, with the note behind it: what traces keep of an exception.
    """

    def __init__(self, message: str, refusal: Exception, note: str) -> None:
        super().__init__(message)
        self.args = (f"{refusal}\n\n{note}",)


class ToolValidationError(ToolRetryError):
    """The same for arguments that the tool itself refused."""


class LoopGuard(AbstractCapability[Any]):
    """Watches the tool calls of every run of an agent. One instance serves any number of runs at once.

    Notes reach the model inside of the tool's return, behind its real content. When a call is blocked the
    model is asked once more, having seen the note, and what it answers is the run's output. If it asks
    for tools instead, they are not run and LoopBlocked is raised: a run cannot end without an output.
    With `on_block="raise"` LoopBlocked is raised without asking the model again.

    The outcome stands in `result.metadata["loopscope_outcome"]`, and in `run.outcome` of the enclosing
    `with GuardedRun(...) as run:`, where there is one; then that run's policy is used.

    Args:
        policy: a GuardPolicy, the path of a policy file, or None for the defaults.
        on_block: how a blocked run ends.
        guidance: the wording of the notes.
        spans, capture_content, tracer_provider: as for GuardedRun. Where Pydantic AI is instrumented
            the verdicts go on its spans.
    """

    def __init__(
        self,
        policy: GuardPolicy | str | PathLike[str] | None = None,
        *,
        on_block: OnBlock = "answer",
        guidance: Guidance | None = None,
        spans: bool | None = None,
        capture_content: bool | None = None,
        tracer_provider: Any = None,
    ) -> None:
        if on_block not in ("answer", "raise"):
            raise ValueError(f'on_block must be "answer" or "raise", not {on_block!r}')
        if policy is not None and not isinstance(policy, GuardPolicy):
            policy = GuardPolicy.from_file(policy)
        self._policy = policy
        self._on_block: OnBlock = on_block
        self._options: dict[str, Any] = {
            "guidance": guidance,
            "spans": spans,
            "capture_content": capture_content,
            "tracer_provider": tracer_provider,
        }
        self._run: GuardedRun | None = None
        self._own = False

    # -- the run --------------------------------------------------------------------------------------

    async def for_run(self, ctx: RunContext[Any]) -> LoopGuard:
        """A copy for one run, with a guard of its own."""
        mine = copy.copy(self)
        mine._run, mine._own = enter_invocation(self._policy, agent=_agent_name(ctx), **self._options)
        return mine

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[Any]]) -> Any:
        """Open the run around the agent's."""
        run = self._opened()
        if not self._own:
            result = await handler()
        else:
            with run:
                result = await handler()
        state = getattr(result, "_state", None)
        if state is not None:
            state.metadata = {**(result.metadata or {}), "loopscope_outcome": run.outcome}
        return result

    def _opened(self) -> GuardedRun:
        assert self._run is not None, "for_run makes the copy that is used"
        return self._run

    # -- the block ------------------------------------------------------------------------------------

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Raise after a block, if the model is not to be asked again."""
        if self._on_block == "raise":
            self._opened().check()
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: Any, response: ModelResponse
    ) -> ModelResponse:
        """After the answer to a block: end the run if the model asks for tools all the same."""
        run = self._opened()
        if run.blocked:
            final = {tool.name for tool in request_context.model_request_parameters.output_tools}
            if any(isinstance(part, ToolCallPart) and part.tool_name not in final for part in response.parts):
                raise LoopBlocked(run, response.text)
        return response

    # -- the calls ------------------------------------------------------------------------------------

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Judge a call that ran."""
        return await _execute(self._opened(), call, ctx, lambda: handler(args))

    async def on_tool_validate_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        error: ValidationError | ModelRetry,
    ) -> dict[str, Any]:
        """Judge a call whose arguments were refused."""
        # Pydantic AI makes its span of this call when everybody has declined to mend it.
        spans = False if _is_instrumented() else None
        with _open(self._opened(), call, ctx, spans=spans) as guarded:
            note = _noted(guarded, error, _refusal_text(error))
            if note is None:
                raise error
            raise _refused(guarded, note, error) from error


@dataclass
class GuardedToolset(WrapperToolset[Any]):
    """Watches the calls of one toolset only: `Agent(model, toolsets=[GuardedToolset(toolset, policy=…)])`.

    Calls whose arguments Pydantic AI refuses do not reach a toolset; use LoopGuard to have them counted.
    When a call is blocked the model is asked once more; the first call it asks for then raises LoopBlocked.
    """

    _: KW_ONLY
    policy: GuardPolicy | str | PathLike[str] | None = None
    guidance: Guidance | None = None
    spans: bool | None = None
    capture_content: bool | None = None
    tracer_provider: Any = None
    run: GuardedRun | None = None
    blocked_at: int | None = None

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """A copy for one run, with a guard of its own."""
        run, own = enter_invocation(
            self.policy,
            agent=_agent_name(ctx),
            guidance=self.guidance,
            spans=self.spans,
            capture_content=self.capture_content,
            tracer_provider=self.tracer_provider,
        )
        if own:
            run.start_span(current=False)
        return replace(self, wrapped=await self.wrapped.for_run(ctx), run=run, blocked_at=None)

    async def __aexit__(self, *args: Any) -> bool | None:
        """End the run's span."""
        if self.run is not None:
            self.run.end_span()
        return await self.wrapped.__aexit__(*args)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Judge a call."""
        run = self.run
        if run is None or same_call(enclosing_call(), name):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        if self.blocked_at is not None and ctx.run_step > self.blocked_at:
            raise LoopBlocked(run)
        call = _requested(ctx, name) or ToolCallPart(name, tool_args, tool_call_id=ctx.tool_call_id or "")
        try:
            return await _execute(run, call, ctx, lambda: self.wrapped.call_tool(name, tool_args, ctx, tool))
        finally:
            if run.blocked and self.blocked_at is None:
                self.blocked_at = ctx.run_step


def _agent_name(ctx: RunContext[Any]) -> str | None:
    return getattr(getattr(ctx, "agent", None), "name", None)


def _requested(ctx: RunContext[Any], name: str) -> ToolCallPart | None:
    """The call as the model asked for it; a toolset is only given the validated arguments."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            for part in message.parts:
                if isinstance(part, ToolCallPart) and part.tool_call_id == ctx.tool_call_id:
                    return replace(part, tool_name=name)
            break
    return None


def _is_instrumented() -> bool:
    scope = getattr(telemetry.current_span(), "instrumentation_scope", None)
    return str(getattr(scope, "name", "")).startswith("pydantic-ai")


def _open(
    run: GuardedRun, call: ToolCallPart, ctx: RunContext[Any], *, spans: bool | None = None
) -> GuardedCall:
    return run.tool_call(
        call.tool_name,
        call.args_as_json_str(),
        call_id=call.tool_call_id,
        agent=_agent_name(ctx),
        control_flow=_CONTROL_FLOW,
        spans=spans,
    )


async def _execute(
    run: GuardedRun, call: ToolCallPart, ctx: RunContext[Any], function: Callable[[], Awaitable[Any]]
) -> Any:
    with _open(run, call, ctx) as guarded:
        try:
            return _shown(guarded, await function())
        except SkipToolExecution as skip:  # somebody else's result in place of the tool's
            raise SkipToolExecution(_shown(guarded, skip.result)) from skip
        except ToolRetryError as error:
            part = error.tool_retry
            if not isinstance(part, ToolReturnPart):
                raise
            note = _noted(guarded, error, part.model_response_str(wrap_if_error=False))
            if note is None:
                raise
            raise ToolValidationError(replace(part, content=note)) from error
        except (ValidationError, ModelRetry) as error:
            # Pydantic AI records no result for these. A trace has it from the next request, where it is
            # a JSON value and no text: spelled as that is written, it is the same with and without a note.
            text = _respell(_refusal_text(error))
            note = _noted(guarded, error, text)
            if note is None:
                raise
            raise _refused(guarded, note, error) from error
        except ToolFailedError as error:
            part = error.tool_failed
            note = _noted(guarded, error, part.model_response_str(wrap_if_error=False))
            if note is None:
                raise
            raise ToolFailedError(replace(part, content=note)) from error
        except ToolFailed as error:
            note = _noted(guarded, error, error.message)
            if note is None:
                raise
            raise ToolFailed(note) from error


def _noted(call: GuardedCall, error: Exception, text: str) -> str | None:
    """Judge a failure that the model is told of by `text`: the text with the note, if there is one."""
    verdict = call.judge_error(error, text)
    noted = None if verdict.guidance is None else f"{text}\n\n{verdict.guidance}"
    call.record(noted or text)
    return noted


def _respell(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text


def _refused(call: GuardedCall, noted: str, error: Exception) -> ToolInputValidationError:
    assert call.verdict is not None
    return ToolInputValidationError(noted, error, call.verdict.guidance or "")


def _json(value: Any) -> str:
    """A result as the model is shown it, and as Pydantic AI's own spans record it."""
    return value if isinstance(value, str) else tool_return_ta.dump_json(value).decode()


def _shown(call: GuardedCall, result: Any) -> Any:
    """What the model is shown in place of `result`: the same, with the note behind it."""
    verdict = call.judge(_json(result))
    if verdict.guidance is None:
        call.record(None)
        return result
    noted = _with_note(result, verdict.guidance)
    call.record(_json(noted))
    return noted


def _with_note(result: Any, note: str) -> Any:
    if isinstance(result, ToolReturn):
        value = result.return_value
        if isinstance(value, str):
            return replace(result, return_value=f"{value}\n\n{note}")
        content = result.content
        before = [] if content is None else [content] if isinstance(content, str) else list(content)
        return replace(result, content=[*before, note])
    block = {"type": "text", "text": note}
    if is_multi_modal_content(result):
        return [result, block]
    if isinstance(result, list) and any(is_multi_modal_content(item) for item in result):
        return [*result, block]
    return f"{_json(result)}\n\n{note}"


def _refusal_text(error: ValidationError | ModelRetry) -> str:
    """What Pydantic AI tells the model about refused arguments."""
    if isinstance(error, ModelRetry):
        return error.message
    try:
        from pydantic_ai._output import build_retried_tool_return

        part = build_retried_tool_return(error, tool_name="")
        return part.model_response_str(wrap_if_error=False)
    except (ImportError, TypeError, AttributeError):  # not part of its public interface
        return tool_return_ta.dump_json(error.errors(include_url=False, include_context=False)).decode()
