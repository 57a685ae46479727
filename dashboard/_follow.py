"""How an open page learns that the store has something new: it asks the server for the store's version.

A part of the script that runs on a timer would cut short the run that a click began, and Streamlit then
leaves parts standing that the page no longer has.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..guard import LoopscopeError

__all__ = ["PATH", "answers", "route"]

PATH = "/_loopscope/version"

_routes: list[Route] = []


def route() -> Route:
    """The route of `PATH`: the version as text of JSON; null while the store is busy or gone."""
    _routes.append(Route(PATH, _version))
    return _routes[-1]


def answers() -> bool:
    """Whether the server of this process has the route; not where the script is run by Streamlit itself."""
    return bool(_routes)


async def _version(request: Request) -> Response:
    from . import _data  # needs Streamlit's runtime

    try:
        version = await run_in_threadpool(lambda: _data.store().version())
    except LoopscopeError:  # the page's next rerun says what it is
        version = None
    text = None if version is None else str(version)  # too large for a number of JavaScript
    return JSONResponse({"version": text}, headers={"Cache-Control": "no-store"})
