"""Keeps web pages of other sites away from servers that listen on this machine only.

A page may point its own host name at 127.0.0.1 (DNS rebinding) and then read and write here as if it
were this server's. Its requests still carry that name in `Host`, and its address in `Origin`.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["LoopbackOnly", "is_loopback"]

_REFUSAL = "This server listens on this machine only: use http://127.0.0.1 or http://localhost to reach it.\n"


def is_loopback(host: str) -> bool:
    """Whether a host name or address always means this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class LoopbackOnly:
    """ASGI middleware that refuses requests made under a foreign name, or by a page of another site."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"} and not _is_local(Headers(scope=scope)):
            if scope["type"] == "http":
                await PlainTextResponse(_REFUSAL, status_code=403)(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": "not from this machine"})
            return
        await self.app(scope, receive, send)


def _is_local(headers: Headers) -> bool:
    origin = headers.get("origin")
    return _names_this_machine("//" + headers.get("host", "")) and (
        origin is None or _names_this_machine(origin)
    )


def _names_this_machine(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
