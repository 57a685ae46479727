"""MCP: the guard around a client session.

from mcp import Client
from loopscope.guard.adapters import GuardedRun
from loopscope.guard.adapters.mcp import guard_session

async with Client("http://localhost:8000/mcp") as client:
    session = guard_session(client)
    with GuardedRun("policy.toml") as run:
        result = await session.call_tool("search", {"q": "x"})
"""

from __future__ import annotations

import json
from typing import Any

from mcp.types import CallToolResult, TextContent

from .. import LoopscopeError
from ._call import GuardedCall
from ._decorator import same_call
from ._facts import text_of
from ._run import GuardedRun, current_run, enclosing_call

__all__ = ["GuardedSession", "guard_session"]


class GuardedSession:
    """A client session whose `call_tool` is under guard. Everything else is the session's own."""

    def __init__(self, session: Any, run: GuardedRun | None = None) -> None:
        self._session = session
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Call a tool, and judge the call.

        A note is one more text block behind the result's own content; `structuredContent` stays what
        the server's schema says it is. A JSON-RPC error is raised on, with the note behind its message.

        Raises:
            LoopscopeError: no run is open.
            MCPError: as the session raises it.
        """
        run = self._run or current_run()
        if run is None:
            raise LoopscopeError("no run is open: call tools inside of `with GuardedRun(...):`")
        if same_call(enclosing_call(), name):  # an agent framework's adapter judges it
            return await self._session.call_tool(name, arguments, *args, **kwargs)
        # No arguments are the empty ones, and not unknown ones.
        with run.tool_call(name, {} if arguments is None else arguments) as call:
            try:
                result = await self._session.call_tool(name, arguments, *args, **kwargs)
            except Exception as error:
                _judge_error(call, error)
                raise
            return _judge(call, result)


def guard_session(session: Any, run: GuardedRun | None = None) -> GuardedSession:
    """Put a session (`Client`, `ClientSession`, `ClientSessionGroup`) under guard.

    Args:
        session: anything with MCP's `call_tool`. It is not changed.
        run: the run that calls belong to; None: the run that is open where the call is made.
    """
    return GuardedSession(session, run)


def _judge(call: GuardedCall, result: Any) -> Any:
    if not isinstance(result, CallToolResult):  # a question back to the client
        call.judge(None)
        return result
    verdict = call.judge(_text(result), failed=_is_error(result))
    if verdict.guidance is None:
        call.record(None)
        return result
    call.record(f"{_text(result)}\n\n{verdict.guidance}")
    note = TextContent(type="text", text=verdict.guidance)
    return result.model_copy(update={"content": [*result.content, note]})


def _judge_error(call: GuardedCall, error: Exception) -> None:
    verdict = call.judge_error(error)
    data = getattr(error, "error", None)
    message = getattr(data, "message", None)
    if verdict.guidance is None or not isinstance(message, str):
        return
    noted = f"{message}\n\n{verdict.guidance}"
    call.record(noted)
    error.error = data.model_copy(update={"message": noted})  # type: ignore[attr-defined]
    error.args = tuple(noted if argument == message else argument for argument in error.args)


def _is_error(result: Any) -> bool:
    # Version 2 of the SDK spells it like Python, version 1 like the protocol.
    return bool(getattr(result, "is_error", getattr(result, "isError", False)))


def _text(result: Any) -> str:
    """What the model is shown of a result: its text blocks, and the structured part if that says more."""
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    if all(block.get("type") == "text" and isinstance(block.get("text"), str) for block in blocks):
        text = "\n".join(block["text"] for block in blocks)
    else:
        text = text_of(blocks)
    structured = getattr(result, "structured_content", getattr(result, "structuredContent", None))
    if structured is None or _says_the_same(text, structured):
        return text
    return f"{text}\n{text_of(structured)}" if text else text_of(structured)


def _says_the_same(text: str, structured: Any) -> bool:
    if structured == {"result": text}:  # how servers in Python wrap what is no object
        return True
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return structured in (value, {"result": value})
