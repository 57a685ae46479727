"""GuardedRun: one guard over one run of an agent, whatever runs the agent."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from os import PathLike
from threading import Lock
from types import TracebackType
from typing import Any

from .. import Action, DuplicateCallGuard, Escalation, GuardPolicy, Guidance, LoopscopeError, Outcome, Verdict
from . import _telemetry as telemetry
from ._call import CallResult, GuardedCall

__all__ = ["LOOP_BLOCKED", "GuardedRun", "LoopBlocked", "current_run", "enter_invocation"]

LOOP_BLOCKED = "loop_blocked"
"""The outcome of a run that the guard has blocked."""


class LoopBlocked(LoopscopeError):  # noqa: N818 - the name of an outcome, known by that name in traces
    """A run was ended because it went round in circles.

    Attributes:
        run: the run.
        answer: what the model said last, where it said anything; for salvage, not an answer.
    """

    def __init__(self, run: GuardedRun, answer: str | None = None) -> None:
        self.run = run
        self.answer = answer
        super().__init__(run.explanation or "the run was blocked by its guard")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the running code is: in which run, and inside of which of its calls."""

    run: GuardedRun
    call: GuardedCall | None = None


_place: ContextVar[_Place | None] = ContextVar("loopscope_guarded_run", default=None)


def current_run() -> GuardedRun | None:
    """The run that the running code belongs to, or None. Follows threads' and tasks' contexts."""
    place = _place.get()
    return None if place is None else place.run


def _leave(token: Token[_Place | None]) -> None:
    try:
        _place.reset(token)
    except ValueError:  # closed in another context than it was opened in, which has its own place
        _place.set(None)


class GuardedRun:
    """Watches the tool calls of one run. A retry of the run, or the next one, gets a new GuardedRun.

        with GuardedRun("policy.toml") as run:
            ...  # the agent's loop
        if run.outcome == LOOP_BLOCKED: ...

    Inside of the `with` block `current_run()`, `@guarded_tool` and the adapters find it, in threads
    and tasks that inherit the context as well. Runs of other tasks do not see each other.

    Args:
        policy: a GuardPolicy, the path of a policy file, or None for the defaults.
        guidance: the wording of the notes; None is our own.
        agent: name of the agent; for traces, and to count agents of one run apart.
        spans: whether calls get `execute_tool` spans of their own. None: where the current span is not
            already this call's. False: never; verdicts go on the current span.
        capture_content: whether those spans carry arguments and results. None: as
            LOOPSCOPE_CAPTURE_CONTENT says, on by default.
        tracer_provider: where spans go; None is OpenTelemetry's global provider.
        guard: a guard to use instead of a new one, for counts that span more than this run: the
            same object for all runs of a trace or a session, with a policy of that scope.

    Raises:
        PolicyError: the policy file cannot be read or is wrong.
    """

    def __init__(
        self,
        policy: GuardPolicy | str | PathLike[str] | None = None,
        *,
        guidance: Guidance | None = None,
        agent: str | None = None,
        spans: bool | None = None,
        capture_content: bool | None = None,
        tracer_provider: Any = None,
        guard: DuplicateCallGuard | None = None,
        _outer: GuardedRun | None = None,
    ) -> None:
        if guard is not None and policy is not None:
            raise ValueError("give a policy or a guard, which has its policy, not both")
        if policy is not None and not isinstance(policy, GuardPolicy):
            policy = GuardPolicy.from_file(policy)
        if guard is None:
            blocked = _outer is not None and _outer.guard.after_block
            guard = DuplicateCallGuard(policy, guidance=guidance, blocked=blocked)
        self._guard = guard
        self._guidance = guidance
        self._outer = _outer
        self.agent = agent
        self._spans = spans
        self._content = telemetry.capture_content() if capture_content is None else capture_content
        self._provider = tracer_provider
        self._lock = Lock()
        self._last_ns = 0
        self._span: Any = None  # of the run: ours, or that of a framework
        self._own_span = False
        self._attached: Any = None
        self._token: Token[_Place | None] | None = None

    # -- what came of it ------------------------------------------------------------------------------

    @property
    def guard(self) -> DuplicateCallGuard:
        """The guard itself."""
        return self._guard

    @property
    def policy(self) -> GuardPolicy:
        """The policy it follows."""
        return self._guard.policy

    @property
    def blocked(self) -> bool:
        """Has the guard blocked this run (or the one it is nested in)? Then it is to end."""
        return self._guard.escalated

    @property
    def escalation(self) -> Escalation | None:
        """The call that was blocked, if one was in this run."""
        return self._guard.escalation

    @property
    def outcome(self) -> str | None:
        """LOOP_BLOCKED, or None for a run that was not blocked. A final answer does not change it."""
        return LOOP_BLOCKED if self.blocked else None

    @property
    def explanation(self) -> str | None:
        """Why the run was blocked, in one sentence."""
        if not self.blocked:
            return None
        found = self.escalation
        if found is None:
            return "the run that this one is part of was blocked"
        return f'"{found.tool_name}" gave the same result {found.count} times in a row for the same arguments'

    def check(self) -> None:
        """Raise LoopBlocked if the run is blocked."""
        if self.blocked:
            raise LoopBlocked(self)

    # -- the run as a place ---------------------------------------------------------------------------

    def nested(
        self,
        agent: str | None = None,
        *,
        policy: GuardPolicy | str | PathLike[str] | None = None,
    ) -> GuardedRun:
        """A run that starts now inside of this one, say of an agent that is a tool. Counts for itself.

        Where this run is blocked already, the inner one is from the start. Under a policy whose scope
        is more than a run, both share one guard.
        """
        shared = policy is None and self.policy.scope != "run"
        return GuardedRun(
            None if shared else self.policy if policy is None else policy,
            guard=self._guard if shared else None,
            guidance=self._guidance,
            agent=agent,
            spans=self._spans,
            capture_content=self._content,
            tracer_provider=self._provider,
            _outer=self,
        )

    def __enter__(self) -> GuardedRun:
        if self._token is not None:
            raise LoopscopeError("this GuardedRun is open already; make a new one for every run")
        self._token = _place.set(_Place(self))
        self.start_span(current=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _leave(self._token)
            self._token = None
        self.end_span(None if isinstance(error, LoopBlocked) else error)

    def start_span(self, *, current: bool) -> None:
        """For adapters: find or make the span of the run, and make it current if asked to."""
        if self._span is not None:
            return
        theirs = telemetry.current_span()
        outer_span = None if self._outer is None else self._outer._span
        if theirs is not None and theirs is not outer_span and telemetry.is_agent_span(theirs):
            self._span = theirs
        elif self._spans is not False:
            self._span = telemetry.open_agent_span(self.agent, self._provider)
            self._own_span = self._span is not None
            if self._own_span and current:
                self._attached = telemetry.attach(self._span)

    def end_span(self, error: BaseException | None = None) -> None:
        """For adapters: write the outcome on the span of the run, and end it if it is ours."""
        span, self._span = self._span, None
        if self._attached is not None:
            telemetry.detach(self._attached)
            self._attached = None
        if span is None:
            return
        self._mark_outcome(span)
        if self._own_span:
            telemetry.end_agent_span(span, error, content=self._content)

    def _mark_outcome(self, span: Any) -> None:
        if span is not None and self.outcome is not None:
            telemetry.mark_outcome(span, self.outcome, self.policy, self.escalation)

    # -- calls ----------------------------------------------------------------------------------------

    def tool_call(
        self,
        tool_name: str,
        arguments: object,
        *,
        call_id: str | None = None,
        agent: str | None = None,
        control_flow: tuple[type[BaseException], ...] = (),
        spans: bool | None = None,
    ) -> GuardedCall:
        """A call, as a `with` block around the tool's execution. For adapters and hosts' loops.

            with run.tool_call("search", {"q": "x"}, call_id="c1") as call:
                output = call.returned(search("x"))

        An exception that leaves the block is judged as a failure and goes on; one of `control_flow`
        goes on unjudged. `spans` is as for the run, where it differs for this call.
        """
        return GuardedCall(
            self,
            tool_name,
            arguments,
            call_id=call_id,
            agent=self.agent if agent is None else agent,
            control_flow=control_flow,
            spans=self._spans if spans is None else spans,
        )

    def call(
        self,
        tool_name: str,
        arguments: object,
        function: Callable[[], object],
        *,
        call_id: str | None = None,
        agent: str | None = None,
    ) -> CallResult:
        """Run a tool and say what the model is to be shown, whether it worked or not.

        An Exception becomes an error text; anything harsher (KeyboardInterrupt) goes on, and so does
        LoopBlocked.
        """
        with self.tool_call(tool_name, arguments, call_id=call_id, agent=agent) as call:
            try:
                output = function()
            except LoopBlocked:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model is told
                return call.failed(error)
            return call.succeeded(output)

    async def acall(
        self,
        tool_name: str,
        arguments: object,
        function: Callable[[], Awaitable[object]],
        *,
        call_id: str | None = None,
        agent: str | None = None,
    ) -> CallResult:
        """`call` for coroutines."""
        with self.tool_call(tool_name, arguments, call_id=call_id, agent=agent) as call:
            try:
                output = await function()
            except LoopBlocked:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model is told
                return call.failed(error)
            return call.succeeded(output)

    # -- for GuardedCall ------------------------------------------------------------------------------

    def _enter_call(self, call: GuardedCall) -> tuple[Token[_Place | None], telemetry.CallSpan | None]:
        place = _place.get()
        outer = place.call if place is not None else None
        span = telemetry.open_call_span(
            mode=call.spans,
            provider=self._provider,
            run_span=self._span,
            always_below=self._own_span and self._attached is None,
            taken=outer.span if outer is not None else None,
            tool_name=call.tool_name,
            arguments=call.arguments_text,
            call_id=call.call_id,
            agent=call.agent,
            content=self._content,
        )
        return _place.set(_Place(self, call)), span

    def _leave_call(self, token: Token[_Place | None]) -> None:
        _leave(token)

    def _observe(self, call: GuardedCall, text: str | None, outcome: Outcome | None) -> tuple[Verdict, int]:
        # Counting and the end of the span in one step: replay counts by end time.
        with self._lock:
            verdict = self._guard.observe(
                tool_name=call.tool_name,
                arguments=call.arguments_text,
                output=text,
                outcome=outcome,
                agent=call.agent,
            )
            self._last_ns = max(self._last_ns + 1, time.time_ns())
            end_ns = self._last_ns
        if verdict.action is Action.BLOCK:  # at once: a run that crashes later was blocked all the same
            self._mark_outcome(self._span)
        return verdict, end_ns


def enclosing_call() -> GuardedCall | None:
    """The call of the current run that the running code is inside of."""
    place = _place.get()
    return None if place is None else place.call


def enter_invocation(
    policy: GuardPolicy | str | PathLike[str] | None, *, agent: str | None = None, **options: Any
) -> tuple[GuardedRun, bool]:
    """For adapters that see an agent's invocation begin: (its run, is the run the adapter's own).

    Directly inside of `with GuardedRun(...)` that run is the one; inside of one of its calls the
    invocation is a run nested in it; anywhere else it is a new run.
    """
    place = _place.get()
    if place is None:
        return GuardedRun(policy, agent=agent, **options), True
    if place.call is not None:
        same = policy is None or policy == place.run.policy
        return place.run.nested(agent, policy=None if same else policy), True
    return place.run, False
