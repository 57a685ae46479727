"""LangChain and LangGraph: the guard as agent middleware.

from langchain.agents import create_agent
from loopscope.guard.adapters.langchain import LoopGuardMiddleware

agent = create_agent(model, tools=[…], middleware=[LoopGuardMiddleware("policy.toml")])
state = agent.invoke({"messages": […]})
state["loopscope_outcome"]      # "loop_blocked", or None
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from os import PathLike
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import OmitFromInput, PrivateStateAttr, ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from langgraph.types import Command

from .. import GuardPolicy, Guidance, LoopscopeError
from ._call import GuardedCall
from ._facts import text_of
from ._run import GuardedRun, LoopBlocked, current_run, enter_invocation

__all__ = ["LoopGuardMiddleware", "LoopGuardState"]

OnBlock = Literal["answer", "end", "raise"]
_Response = ToolMessage | Command[Any] | list[Any]

# Runs that were interrupted or failed are not told to end. So many are remembered, the last used ones.
_MAX_RUNS = 4_096


class LoopGuardState(AgentState[Any]):
    """What the middleware adds to the agent's state."""

    loopscope_outcome: NotRequired[Annotated[str | None, OmitFromInput]]
    loopscope_run: NotRequired[Annotated[str | None, PrivateStateAttr]]


class _Invocation(NamedTuple):
    """An invocation of an agent: its run, the agent's name, and whether the run is ours to end."""

    run: GuardedRun
    agent: str | None
    own: bool

    def end(self) -> None:
        if self.own:
            self.run.end_span()


class LoopGuardMiddleware(AgentMiddleware[LoopGuardState, Any]):
    """Watches the tool calls of every run of an agent. One instance serves any number of runs at once.

    Notes reach the model inside of the ToolMessage, behind the tool's real output. When a call is
    blocked, the state's `loopscope_outcome` becomes "loop_blocked", and the run ends as `on_block` says:

    - "answer": the model is asked once more, having seen the note. What it answers stays. If it asks for
      tools instead, they are not run and the run ends.
    - "end": the run ends without asking the model again.
    - "raise": LoopBlocked is raised, after the outputs of that turn are in the state.

    Put it first in the list of middleware, so that it sees what the model sees; behind one that
    decorates outputs with what is new each time (a running number, a time).

    Args:
        policy: a GuardPolicy, the path of a policy file, or None for the defaults. Inside of
            `with GuardedRun(...)` that run's policy is used.
        on_block: how a blocked run ends.
        guidance: the wording of the notes.
        agent: the agent's name; by default the one that `create_agent` was given.
        spans, capture_content, tracer_provider: as for GuardedRun. By default no spans are made where
            an OpenTelemetry instrumentation of LangChain traces the call already.
    """

    state_schema = LoopGuardState

    def __init__(
        self,
        policy: GuardPolicy | str | PathLike[str] | None = None,
        *,
        on_block: OnBlock = "answer",
        guidance: Guidance | None = None,
        agent: str | None = None,
        spans: bool | None = None,
        capture_content: bool | None = None,
        tracer_provider: Any = None,
    ) -> None:
        super().__init__()
        if on_block not in ("answer", "end", "raise"):
            raise ValueError(f'on_block must be "answer", "end" or "raise", not {on_block!r}')
        self.tools = []
        if policy is not None and not isinstance(policy, GuardPolicy):
            policy = GuardPolicy.from_file(policy)
        self._policy = policy
        self._on_block: OnBlock = on_block
        self._agent = agent
        self._options: dict[str, Any] = {
            "guidance": guidance,
            "spans": spans,
            "capture_content": capture_content,
            "tracer_provider": tracer_provider,
        }
        self._runs: OrderedDict[str, _Invocation] = OrderedDict()
        self._lock = threading.Lock()

    # -- the run --------------------------------------------------------------------------------------

    def before_agent(self, state: LoopGuardState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Start a run."""
        key = uuid.uuid4().hex
        self._begin(key)
        return {"loopscope_run": key, "loopscope_outcome": None}

    def after_agent(self, state: LoopGuardState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End the run and say what came of it."""
        outcome = self._find(state).run.outcome
        self._forget(state)
        return {"loopscope_outcome": outcome}

    def _begin(self, key: str) -> _Invocation:
        config = get_config()
        options = dict(self._options)
        if options["spans"] is None and _is_traced(config):
            options["spans"] = False
        agent = self._agent or config.get("metadata", {}).get("lc_agent_name")
        run, own = enter_invocation(self._policy, agent=agent, **options)
        invocation = _Invocation(run, agent, own)
        dropped: list[_Invocation] = []
        with self._lock:
            if key in self._runs:  # parallel calls of a continued run
                return self._runs[key]
            if own:
                run.start_span(current=False)
            self._runs[key] = invocation
            while len(self._runs) > _MAX_RUNS:
                dropped.append(self._runs.popitem(last=False)[1])
        for old in dropped:
            old.end()
        return invocation

    def _forget(self, state: LoopGuardState) -> None:
        with self._lock:
            found = self._runs.pop(state.get("loopscope_run") or "", None)
        if found is not None:
            found.end()

    def _find(self, state: Any) -> _Invocation:
        key = state.get("loopscope_run") if isinstance(state, dict) else getattr(state, "loopscope_run", None)
        if key is not None:
            with self._lock:
                found = self._runs.get(key)
                if found is not None:
                    self._runs.move_to_end(key)
                    return found
            # A run that is continued in another process, or after very many others: it counts anew.
            return self._begin(key)
        run = current_run()
        if run is None:
            raise LoopscopeError(
                "no run is open: add LoopGuardMiddleware to create_agent(middleware=[...]), "
                "or invoke your own graph inside of `with GuardedRun(...):`"
            )
        return _Invocation(run, self._agent, False)

    # -- the block ------------------------------------------------------------------------------------

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: LoopGuardState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """After a block: end, raise, or let the model answer."""
        run = self._find(state).run
        if not run.blocked:
            return None
        if self._on_block == "raise":
            self._forget(state)
            raise LoopBlocked(run)
        if self._on_block == "end":
            return {"jump_to": "end", "loopscope_outcome": run.outcome}
        return {"loopscope_outcome": run.outcome}

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: LoopGuardState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """After the answer to a block: end the run if the model asks for tools all the same."""
        run = self._find(state).run
        if not run.blocked:
            return None
        pending = _pending_calls(state["messages"])
        if not pending:
            return None
        why = f"Not run: this run has ended, because {run.explanation}."
        return {
            "jump_to": "end",
            "loopscope_outcome": run.outcome,
            # A history with an unanswered call is refused by providers.
            "messages": [
                ToolMessage(why, tool_call_id=call["id"], name=call["name"], status="error")
                for call in pending
            ],
        }

    # -- the calls ------------------------------------------------------------------------------------

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Judge a call; in a graph of your own: `ToolNode(tools, wrap_tool_call=guard.wrap_tool_call)`."""
        with self._open(request) as call:
            return _judge(call, handler(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """The same for async runs."""
        with self._open(request) as call:
            return _judge(call, await handler(request))

    def _open(self, request: ToolCallRequest) -> GuardedCall:
        call = request.tool_call
        invocation = self._find(request.state)
        return invocation.run.tool_call(
            call["name"],
            call["args"],
            call_id=call["id"],
            agent=invocation.agent,
            control_flow=(GraphBubbleUp,),
        )


def _is_traced(config: Any) -> bool:
    """Does an OpenTelemetry instrumentation of LangChain listen in?"""
    callbacks = config.get("callbacks")
    handlers = callbacks if isinstance(callbacks, list) else getattr(callbacks, "handlers", None)
    return any(
        type(handler).__module__.startswith(("openinference.", "opentelemetry.instrumentation."))
        for handler in handlers or ()
    )


def _pending_calls(messages: list[Any]) -> list[Any]:
    answered = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] not in answered]
    return []


def _judge(call: GuardedCall, response: Any) -> Any:
    """The response of a tool, with the note in the message that answers the call."""
    message = _message_of(call, response)
    if message is None:  # a Command without a message: nothing that the model is shown
        call.judge(None)
        return response
    content = message.content
    verdict = call.judge(text_of(content), failed=message.status == "error")
    if verdict.guidance is None:
        call.record(None)
        return response
    noted: Any
    if isinstance(content, str):
        noted = f"{content}\n\n{verdict.guidance}"
    else:
        noted = [*content, {"type": "text", "text": verdict.guidance}]
    call.record(text_of(noted))
    return _swap(response, message, message.model_copy(update={"content": noted}))


def _message_of(call: GuardedCall, response: Any) -> ToolMessage | None:
    if isinstance(response, ToolMessage):
        return response
    items: Any = response
    if isinstance(response, Command):
        update = response.update
        items = update.get("messages") if isinstance(update, dict) else update
    if not isinstance(items, list):
        return None
    for item in items:
        found = _message_of(call, item) if isinstance(item, ToolMessage | Command) else None
        if found is not None and found.tool_call_id == call.call_id:
            return found
    return None


def _swap(response: Any, old: ToolMessage, new: ToolMessage) -> Any:
    if response is old:
        return new
    if isinstance(response, list):
        return [_swap(item, old, new) for item in response]
    if isinstance(response, Command):
        update = response.update
        if isinstance(update, dict) and isinstance(update.get("messages"), list):
            return replace(response, update={**update, "messages": _swap(update["messages"], old, new)})
        if isinstance(update, list):
            return replace(response, update=_swap(update, old, new))
    return response
