"""Who may see the pages of a server that listens beyond this machine: who has its token.

A browser is let in once by `/?token=…` and remembered by a cookie, which holds a hash and not the token;
programs send `Authorization: Bearer …`.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["TokenOnly"]

_COOKIE = "loopscope_access"
_REFUSAL = "This server asks for its token: open it once with /?token=… at the end of its address.\n"


class TokenOnly:
    """ASGI middleware that refuses requests which show neither the token nor the cookie it was traded for."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self._token = token.encode()
        self._pass = hashlib.blake2b(self._token, digest_size=32, person=b"loopscope pages").hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or self._is_known(HTTPConnection(scope)):
            await self.app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "no token"})
            return
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(name == "token" and self._is_token(value) for name, value in query):
            # The token leaves the address at once: addresses end up in histories and screenshots.
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            response = RedirectResponse("/" + scope["path"].lstrip("/") + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(_COOKIE, self._pass, httponly=True, samesite="lax")
        else:
            response = PlainTextResponse(_REFUSAL, 401, {"WWW-Authenticate": "Bearer"})
        await response(scope, receive, send)

    def _is_known(self, connection: HTTPConnection) -> bool:
        scheme, _, shown = Headers(scope=connection.scope).get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(shown.strip()):
            return True
        return hmac.compare_digest(connection.cookies.get(_COOKIE, "").encode(), self._pass.encode())

    def _is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self._token)
