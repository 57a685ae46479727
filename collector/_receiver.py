"""The OTLP/HTTP receiver: POST /v1/traces and /v1/logs, protobuf or JSON, plain or gzip.

200 is said when the data is on the disk and not before: an exporter that got it may forget its
batch, whatever happens to this process next.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..guard import LoopscopeError
from ._group_commit import OverloadedError
from ._intake import MAX_BODY_BYTES, RETRY_AFTER, Checked, Encoding, Held, Intake, RefusedError
from ._loopback import LoopbackOnly
from ._redact_rules import RedactionRules
from ._rpc_status import rpc_status
from ._spool import Signal

__all__ = ["MAX_BODY_BYTES", "http_app", "otlp_app"]

# Larger bodies are unpacked and checked beside the event loop. Packed, 4 kB may be 4 MB.
_INLINE_BYTES = 64 << 10
_INLINE_PACKED_BYTES = 4 << 10

_ENCODINGS: dict[str, Encoding] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_MEDIA_TYPES = {encoding: media_type for media_type, encoding in _ENCODINGS.items()}

# google.rpc.Code, by HTTP status
_RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 12, 413: 8, 415: 3, 503: 14}


def otlp_app(
    db_path: str | os.PathLike[str],
    *,
    capture_content: bool | None = None,
    redaction: RedactionRules | None = None,
    loopback_only: bool = True,
    max_body_bytes: int = MAX_BODY_BYTES,
    token: str | None = None,
) -> Starlette:
    """The receiver as an ASGI application.

    Args:
        db_path: the database; requests go to the spool beside it. Folding is somebody else's work.
        capture_content: whether arguments, results and messages are written. None: as
            `LOOPSCOPE_CAPTURE_CONTENT` says, on by default.
        redaction: values to replace before anything is written. None: as `LOOPSCOPE_REDACT` and its
            relatives say.
        loopback_only: refuse requests that were not addressed to this machine by a loopback name.
        max_body_bytes: limit for a request body, compressed and unpacked.
        token: refuse requests that do not carry it as a bearer token.

    Answers: 200 durable; 400 not OTLP; 401 without the token; 413 too large; 415 another type; 503 the
    spool cannot be written now (with Retry-After). Errors carry a google.rpc.Status in the encoding of
    the request. Raises SpoolError where the spool folder cannot be used.
    """
    intake = Intake(
        db_path,
        capture_content=capture_content,
        redaction=redaction,
        max_body_bytes=max_body_bytes,
        token=token,
    )
    return http_app(intake, loopback_only=loopback_only)


def http_app(intake: Intake, *, loopback_only: bool) -> Starlette:
    """`otlp_app` on an intake that other receivers share."""

    def exporter(signal: Signal) -> Callable[[Request], Awaitable[Response]]:
        async def export(request: Request) -> Response:
            encoding = _ENCODINGS.get(_media_type(request))
            try:
                intake.admit(request.headers.get("authorization"))
                if encoding is None:
                    raise RefusedError(415, "Content-Type must be application/x-protobuf or application/json")
                with intake.hold() as held:
                    body = await _read(request, intake, held)
                    packing = request.headers.get("content-encoding", "identity").strip().lower()
                    check = partial(intake.check, body, packing, encoding, signal, held)
                    few = _INLINE_BYTES if packing in {"", "identity"} else _INLINE_PACKED_BYTES
                    checked = check() if len(body) <= few else await asyncio.to_thread(check)
                    await asyncio.wrap_future(intake.commit(signal, checked))
            except RefusedError as refusal:
                return _error(refusal.status, str(refusal), encoding)
            except OverloadedError:
                # 503, not 429: SDKs of a year ago give up on a 429, and the spans would be lost.
                return _error(503, "too many bytes wait for the disk; try again", encoding)
            except (LoopscopeError, OSError) as error:
                return _error(503, f"cannot write to the spool: {error}", encoding)
            except ClientDisconnect:
                return Response(status_code=400)
            return _success(signal, encoding, checked)

        return export

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(intake.close)

    return Starlette(
        routes=[
            Route("/v1/traces", exporter("traces"), methods=["POST"]),
            Route("/v1/logs", exporter("logs"), methods=["POST"]),
            Route("/v1/metrics", _no_metrics, methods=["POST"]),
            Route("/", _hello, methods=["GET"]),
        ],
        middleware=[Middleware(LoopbackOnly)] if loopback_only else [],
        lifespan=lifespan,
    )


async def _hello(_request: Request) -> Response:
    return PlainTextResponse("Loopscope receives OTLP/HTTP here: POST /v1/traces, /v1/logs\n")


async def _no_metrics(request: Request) -> Response:
    # Said in words: an SDK logs the reason, and this is the first thing a newcomer's console shows.
    return _error(
        404,
        "Loopscope keeps traces and logs, no metrics: set OTEL_METRICS_EXPORTER=none",
        _ENCODINGS.get(_media_type(request)),
    )


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _read(request: Request, intake: Intake, held: Held) -> bytes:
    limit = intake.max_body_bytes
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 20 or int(declared) > limit):
        raise intake.too_large()
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise intake.too_large()
        held.add(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


# -- answers --------------------------------------------------------------------------------------


def _success(signal: Signal, encoding: Encoding | None, checked: Checked) -> Response:
    traces = signal == "traces"
    if encoding == "json":
        answer: dict[str, Any] = {}
        if checked.rejected:
            count = {"rejectedSpans" if traces else "rejectedLogRecords": str(checked.rejected)}
            answer["partialSuccess"] = {**count, "errorMessage": checked.reason}
        return Response(json.dumps(answer), media_type="application/json")
    return Response(response_bytes(signal, checked), media_type="application/x-protobuf")


def response_bytes(signal: Signal, checked: Checked) -> bytes:
    """The serialized Export…ServiceResponse."""
    if not checked.rejected:
        return b""
    if signal == "traces":
        response = ExportTraceServiceResponse()
        response.partial_success.rejected_spans = checked.rejected
    else:
        response = ExportLogsServiceResponse()
        response.partial_success.rejected_log_records = checked.rejected
    response.partial_success.error_message = checked.reason
    return response.SerializeToString()


def _error(status: int, message: str, encoding: Encoding | None) -> Response:
    code = _RPC_CODES[status]
    if encoding == "protobuf":
        body = rpc_status(code, message)
    else:
        body = json.dumps({"code": code, "message": message}).encode()
    headers = {}
    if status == 503:
        headers["Retry-After"] = str(RETRY_AFTER)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(body, status, headers, _MEDIA_TYPES.get(encoding or "json"))
