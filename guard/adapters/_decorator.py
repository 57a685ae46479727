"""@guarded_tool: the guard around a plain function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ._call import GuardedCall
from ._run import current_run, enclosing_call

__all__ = ["guarded_tool", "same_call"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
# A server's tool behind a framework's own tool often carries the server's name in front.
_SEPARATORS = "_-./:"


def same_call(outer: GuardedCall | None, tool_name: str) -> bool:
    """Is a call of `tool_name` inside of `outer` the same call, seen by a second wrapper?"""
    if outer is None:
        return False
    name = outer.tool_name
    return name == tool_name or (
        bool(tool_name) and name.endswith(tool_name) and name[-len(tool_name) - 1] in _SEPARATORS
    )


@overload
def guarded_tool(function: _Function, /) -> _Function: ...
@overload
def guarded_tool(
    *, name: str | None = None, note_into: Callable[[Any, str], Any] | None = None
) -> Callable[[_Function], _Function]: ...
def guarded_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    note_into: Callable[[Any, str], Any] | None = None,
) -> Any:
    """Put a tool function, sync or async, under the guard of the run that calls it.

    What the function returns is the output, with a note behind it when the guard has something to
    say: text gets it appended, a list of content blocks gets one more block. Any other output becomes
    its JSON text then, unless `note_into(output, note)` puts the note where it belongs. What the
    function raises is judged and goes on.

    Where no GuardedRun is open the function is what it was. Where the call is under guard already,
    because an adapter wraps the same tool, it is judged once.

    Args:
        name: the tool's name, if that is not the function's.
        note_into: puts a note into an output of a type of your own.
    """
    if function is None:
        return functools.partial(_wrap, name=name, note_into=note_into)
    return _wrap(function, name=name, note_into=note_into)


def _wrap(
    function: Callable[..., Any], *, name: str | None, note_into: Callable[[Any, str], Any] | None
) -> Callable[..., Any]:
    tool_name = name or function.__name__
    signature = inspect.signature(function)

    def open_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> GuardedCall | None:
        run = current_run()
        if run is None or same_call(enclosing_call(), tool_name):
            return None
        return run.tool_call(tool_name, _arguments(signature, args, kwargs))

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def guarded_async(*args: Any, **kwargs: Any) -> Any:
            opened = open_call(args, kwargs)
            if opened is None:
                return await function(*args, **kwargs)
            with opened as call:
                return call.returned(await function(*args, **kwargs), note_into=note_into)

        return guarded_async

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        opened = open_call(args, kwargs)
        if opened is None:
            return function(*args, **kwargs)
        with opened as call:
            return call.returned(function(*args, **kwargs), note_into=note_into)

    return guarded


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The call's arguments by name, however they were passed; without `self` and `cls`."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the function itself will say what is wrong with them
        return {"args": list(args), **kwargs}
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif name not in ("self", "cls"):
            found[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return found
