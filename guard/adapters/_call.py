"""One tool call under the guard: what adapters put around a tool's execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import Outcome, Verdict
from . import _telemetry as telemetry
from ._facts import CallFailure, failure_of, is_blocks, outcome_of, text_of, with_note

if TYPE_CHECKING:
    from ._run import GuardedRun

__all__ = ["CallResult", "GuardedCall"]


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call, and what the model is to be shown.

    Attributes:
        content: the output, whole, with the guard's note behind it where there is one. An output that
            is neither text nor content blocks is its JSON text.
        is_error: did the tool fail?
        verdict: the guard's verdict.
        error: the exception, if there was one.
    """

    content: str | list[Any]
    is_error: bool
    verdict: Verdict
    error: Exception | None = None


class GuardedCall:
    """A call while it runs. Use it as a `with` block; judge it once, by `returned` or `failed`."""

    def __init__(
        self,
        run: GuardedRun,
        tool_name: str,
        arguments: object,
        *,
        call_id: str | None,
        agent: str | None,
        control_flow: tuple[type[BaseException], ...],
        spans: bool | None,
    ) -> None:
        self.run = run
        self.tool_name = tool_name
        self.arguments_text = None if arguments is None else text_of(arguments)
        self.call_id = call_id
        self.agent = agent
        self.verdict: Verdict | None = None
        self.outcome: Outcome | None = None
        self._text: str | None = None
        self.spans = spans
        self._control_flow = control_flow
        self._span: telemetry.CallSpan | None = None
        self._token: Any = None
        self._end_ns: int | None = None

    @property
    def span(self) -> Any:
        """The span that the verdict goes on, or None."""
        return None if self._span is None else self._span.span

    def __enter__(self) -> GuardedCall:
        self._token, self._span = self.run._enter_call(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.verdict is None and not isinstance(error, self._control_flow):
            self.judge_error(error)
        self.run._leave_call(self._token)
        if self._span is not None:
            self._span.close(self._end_ns)

    # -- what came of it ------------------------------------------------------------------------------

    def returned(
        self,
        output: object,
        *,
        failed: bool | None = False,
        note_into: Callable[[Any, str], object] | None = None,
    ) -> object:
        """Judge a call that returned. Gives what the model is to be shown in its place.

        Args:
            output: what the tool gave; None is the result `null`.
            failed: True where the caller was told of a failure in some other way than by an exception.
            note_into: puts a note into an output that is neither text nor content blocks.
        """
        verdict = self.judge(text_of(output), failed=failed)
        if verdict.guidance is None:
            self.record(None)
            return output
        shown = (note_into or with_note)(output, verdict.guidance)
        self.record(text_of(with_note(output, verdict.guidance)))
        return shown

    def succeeded(self, output: object, *, failed: bool = False) -> CallResult:
        """`returned`, as a CallResult."""
        content = self.returned(output, failed=failed)
        verdict = self.verdict
        assert verdict is not None
        shown: Any = content if isinstance(content, str) or is_blocks(content) else text_of(content)
        return CallResult(shown, failed or self.outcome is not Outcome.SUCCESS, verdict)

    def failed(self, error: Exception, text: str | None = None) -> CallResult:
        """Judge a call that raised, where the model is shown `text` (by default type and message)."""
        failure = failure_of(error)
        shown = f"{type(error).__name__}: {failure.text}" if text is None else text
        verdict = self.judge_error(error, shown)
        if verdict.guidance is not None:
            shown = f"{shown}\n\n{verdict.guidance}"
        self.record(shown)
        return CallResult(shown, True, verdict, error)

    # -- for adapters ---------------------------------------------------------------------------------

    def judge(self, text: str | None, *, failed: bool | None = False) -> Verdict:
        """Judge by the text that the model would be shown. The adapter attaches the note itself."""
        self._text = text
        outcome = self._outcome(text, failed=failed)
        if failed and self._span is not None:
            self._span.record_failure(None, None)
        return self._decide(text, outcome)

    def judge_error(self, error: BaseException, text: str | None = None) -> Verdict:
        """Judge by an exception; `text` is what the model is shown, where that is known."""
        failure = failure_of(error)
        self._text = text
        if self._span is not None:
            self._span.record_failure(error, failure)
        return self._decide(
            failure.text if text is None else text, self._outcome(text, failed=True, failure=failure)
        )

    def record(self, text: str | None) -> None:
        """Write what the model is shown; None: the text that was judged."""
        if self._span is not None:
            self._span.record_result(self._text if text is None else text)

    def _outcome(
        self, text: str | None, *, failed: bool | None, failure: CallFailure | None = None
    ) -> Outcome | None:
        return outcome_of(
            text, failed=failed, failure=failure, policy=self.run.policy, tool_name=self.tool_name
        )

    def _decide(self, text: str | None, outcome: Outcome | None) -> Verdict:
        if self.verdict is not None:
            raise RuntimeError(f"this call of {self.tool_name!r} has been judged already")
        self.outcome = outcome
        self.verdict, self._end_ns = self.run._observe(self, text, outcome)
        if self._span is not None:
            self._span.record_verdict(
                self.verdict, self.run.policy, tool_name=self.tool_name, call_id=self.call_id, text=text
            )
        return self.verdict
