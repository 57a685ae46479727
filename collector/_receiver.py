"""The OTLP/HTTP receiver: POST /v1/traces and /v1/logs, protobuf or JSON, plain or gzip.

200 is said when the data is on the disk and not before: an exporter that got it may forget its
batch, whatever happens to this process next.
"""

from __future__ import annotations

import asyncio
import json
import os
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..guard import LoopscopeError, OtlpDecodeError
from ._group_commit import GroupCommit, OverloadedError
from ._loopback import LoopbackOnly
from ._otlp import logs_json_to_protobuf, traces_json_to_protobuf
from ._redact import captures_content, redact_logs, redact_traces
from ._span_sink import database_path
from ._spool import Signal, Spool

__all__ = ["MAX_BODY_BYTES", "otlp_app"]

MAX_BODY_BYTES = 64 << 20  # of a request, as sent and as unpacked
_MAX_WAITING_BYTES = 256 << 20  # received and not yet on the disk
_INLINE_BYTES = 64 << 10  # larger bodies are unpacked and checked beside the event loop
_RETRY_AFTER = 1  # seconds

Encoding = Literal["protobuf", "json"]
_ENCODINGS: dict[str, Encoding] = {"application/x-protobuf": "protobuf", "application/json": "json"}
_MEDIA_TYPES = {encoding: media_type for media_type, encoding in _ENCODINGS.items()}
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}  # zlib's names for the container

# google.rpc.Code, by HTTP status
_RPC_CODES = {400: 3, 403: 7, 404: 12, 413: 8, 415: 3, 503: 14}


class _RefusedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class _Checked:
    payload: bytes
    rejected: int = 0  # spans that cannot be told from others


def otlp_app(
    db_path: str | os.PathLike[str],
    *,
    capture_content: bool | None = None,
    loopback_only: bool = True,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Starlette:
    """The receiver as an ASGI application.

    Args:
        db_path: the database; requests go to the spool beside it. Folding is somebody else's work.
        capture_content: whether arguments, results and messages are written. None: as
            `LOOPSCOPE_CAPTURE_CONTENT` says, on by default.
        loopback_only: refuse requests that were not addressed to this machine by a loopback name.
        max_body_bytes: limit for a request body, compressed and unpacked.

    Answers: 200 durable; 400 not OTLP; 413 too large; 415 another type; 503 the spool cannot be
    written now (with Retry-After). Errors carry a google.rpc.Status in the encoding of the request.
    Raises SpoolError where the spool folder cannot be used.
    """
    spool = Spool(database_path(db_path))
    redact = not captures_content(capture_content)
    commits = GroupCommit(spool, _MAX_WAITING_BYTES)
    budget = _Budget(_MAX_WAITING_BYTES)

    def exporter(signal: Signal) -> Callable[[Request], Awaitable[Response]]:
        async def export(request: Request) -> Response:
            encoding = _ENCODINGS.get(_media_type(request))
            try:
                if encoding is None:
                    raise _RefusedError(
                        415, "Content-Type must be application/x-protobuf or application/json"
                    )
                with budget.hold() as held:
                    body = await _read(request, max_body_bytes, held)
                    packing = request.headers.get("content-encoding", "identity").strip().lower()
                    check = partial(
                        _check, body, packing, encoding, signal, limit=max_body_bytes, redact=redact
                    )
                    checked = await asyncio.to_thread(check) if len(body) > _INLINE_BYTES else check()
                    await commits.commit(signal, checked.payload)
            except _RefusedError as refusal:
                return _error(refusal.status, str(refusal), encoding)
            except OverloadedError:
                return _error(503, "too many bytes wait for the disk; try again", encoding)
            except (LoopscopeError, OSError) as error:
                return _error(503, f"cannot write to the spool: {error}", encoding)
            except ClientDisconnect:
                return Response(status_code=400)
            return _success(encoding, checked.rejected)

        return export

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await commits.close()

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


# -- reading a request ----------------------------------------------------------------------------


class _Budget:
    """Bytes of request bodies in memory, over all requests."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def hold(self) -> _Held:
        return _Held(self)


class _Held:
    """What one request holds of the budget."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._bytes = 0

    def add(self, count: int) -> None:
        if count > self._budget._left:
            raise OverloadedError
        self._budget._left -= count
        self._bytes += count

    def __enter__(self) -> _Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget._left += self._bytes


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _read(request: Request, limit: int, held: _Held) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        held.add(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limit: int) -> _RefusedError:
    return _RefusedError(413, f"the request is larger than {limit} bytes; send smaller batches")


def _check(
    body: bytes, packing: str, encoding: Encoding, signal: Signal, *, limit: int, redact: bool
) -> _Checked:
    """From a body to what goes into the spool. Raises _RefusedError."""
    data = _unpack(body, packing, limit)
    traces = signal == "traces"
    try:
        if encoding == "json":
            data = (traces_json_to_protobuf if traces else logs_json_to_protobuf)(_parse_json(data))
        checked = _check_traces(data) if traces else _check_logs(data)
        if redact:
            checked.payload = (redact_traces if traces else redact_logs)(checked.payload)
    except OtlpDecodeError as error:
        raise _RefusedError(400, str(error)) from error
    return checked


def _unpack(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its Content-Encoding, never more than `limit` bytes of it."""
    if encoding in {"", "identity"}:
        return body
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        raise _RefusedError(415, f"Content-Encoding {encoding[:100]!r} is not supported; use gzip or none")
    chunks: list[bytes] = []
    size = 0
    rest = body
    try:
        while rest:  # a gzip body may have several members
            unpacker = zlib.decompressobj(bits)
            while not unpacker.eof:
                chunk = unpacker.decompress(rest, limit - size + 1)
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                chunks.append(chunk)
                rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
                if not rest and not unpacker.eof:
                    raise _RefusedError(400, f"the {encoding} body ends in the middle")
    except zlib.error as error:
        raise _RefusedError(400, f"the body is not {encoding}: {error}") from error
    return b"".join(chunks)


def _parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise _RefusedError(400, "the body is JSON nested too deeply") from None
    except ValueError as error:  # also UnicodeDecodeError, and numbers of thousands of digits
        raise _RefusedError(400, f"the body is not JSON: {error}"[:300]) from error


def _check_traces(data: bytes) -> _Checked:
    """Refuse what is no trace request, leave out spans without usable ids (they would spoil the segment)."""
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(data)
    except DecodeError as error:
        raise OtlpDecodeError(f"the body is not an ExportTraceServiceRequest: {error}"[:300]) from error
    rejected = 0
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            kept = [span for span in scope_spans.spans if _has_ids(span)]
            if lost := len(scope_spans.spans) - len(kept):
                rejected += lost
                del scope_spans.spans[:]
                scope_spans.spans.extend(kept)
    return _Checked(request.SerializeToString() if rejected else data, rejected)


def _has_ids(span: Span) -> bool:
    return (
        len(span.trace_id) <= 16
        and any(span.trace_id)
        and len(span.span_id) <= 8
        and any(span.span_id)
        and len(span.parent_span_id) <= 8
    )


def _check_logs(data: bytes) -> _Checked:
    request = ExportLogsServiceRequest()
    try:
        request.ParseFromString(data)
    except DecodeError as error:
        raise OtlpDecodeError(f"the body is not an ExportLogsServiceRequest: {error}"[:300]) from error
    return _Checked(data)


# -- answers --------------------------------------------------------------------------------------


def _success(encoding: Encoding | None, rejected: int) -> Response:
    message = f"{rejected} spans have no usable trace or span id" if rejected else ""
    if encoding == "json":
        answer: dict[str, Any] = {}
        if rejected:
            answer["partialSuccess"] = {"rejectedSpans": str(rejected), "errorMessage": message}
        return Response(json.dumps(answer), media_type="application/json")
    response = ExportTraceServiceResponse()  # an empty one is also an empty ExportLogsServiceResponse
    if rejected:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = message
    return Response(response.SerializeToString(), media_type="application/x-protobuf")


def _error(status: int, message: str, encoding: Encoding | None) -> Response:
    code = _RPC_CODES[status]
    if encoding == "protobuf":
        # google.rpc.Status: int32 code = 1, string message = 2; its Python package is not a dependency.
        text = message[:1000].encode()
        body = bytes((0x08, code, 0x12)) + _varint(len(text)) + text
    else:
        body = json.dumps({"code": code, "message": message}).encode()
    headers = {"Retry-After": str(_RETRY_AFTER)} if status == 503 else None
    return Response(body, status, headers, _MEDIA_TYPES.get(encoding or "json"))


def _varint(number: int) -> bytes:
    return bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80, number >> 7))
