"""What every receiver does with a request, whatever carried it: who may send, how much, is it OTLP, keep it.

The order: the sender is known, the body is no larger than allowed (as sent and as unpacked), it is OTLP,
records that cannot be told from others are left out and counted, content is redacted where that is asked
for, and the rest goes to the spool together with what other requests brought meanwhile.
"""

from __future__ import annotations

import hmac
import json
import os
import threading
import zlib
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ..guard import OtlpDecodeError
from ._group_commit import GroupCommit, OverloadedError
from ._otlp import logs_json_to_protobuf, traces_json_to_protobuf
from ._redact_rules import RedactionRules, redactor
from ._span_sink import database_path
from ._spool import Signal, Spool
from ._utf8 import with_valid_text

__all__ = ["MAX_BODY_BYTES", "RETRY_AFTER", "TOKEN_VARIABLE", "Checked", "Encoding", "Intake", "RefusedError"]

MAX_BODY_BYTES = 64 << 20  # of a request, as sent and as unpacked
TOKEN_VARIABLE = "LOOPSCOPE_TOKEN"  # noqa: S105  a name
RETRY_AFTER = 1  # seconds, said to a sender under pressure
_STEP_BYTES = 1 << 20  # unpacked at a time
_MAX_WAITING_BYTES = 256 << 20  # received and not yet on the disk

Encoding = Literal["protobuf", "json"]
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}  # zlib's names for the container
_REQUESTS: dict[Signal, Any] = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}


class RefusedError(Exception):
    """A request that is not taken; `status` is the HTTP status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Checked:
    """What of a request goes into the spool, and what does not."""

    payload: bytes
    rejected: int = 0
    reason: str = ""


class Intake:
    """The common part of the receivers of one database. Safe to use from several threads.

    Args:
        db_path: the database; requests go to the spool beside it.
        capture_content: None: as `LOOPSCOPE_CAPTURE_CONTENT` says.
        redaction: None: as `LOOPSCOPE_REDACT` and its relatives say.
        max_body_bytes: limit for a request, compressed and unpacked.
        token: what senders must show as `Authorization: Bearer …`; None: nothing.

    Raises SpoolError where the spool folder cannot be used, LoopscopeError for rules that cannot be read.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str],
        *,
        capture_content: bool | None = None,
        redaction: RedactionRules | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
        token: str | None = None,
    ) -> None:
        spool = Spool(database_path(db_path))
        self.max_body_bytes = max_body_bytes
        self._redact = redactor(capture_content, redaction)
        self._token = None if token is None else token.encode()
        self._commits = GroupCommit(spool, _MAX_WAITING_BYTES)
        self._budget = _Budget(_MAX_WAITING_BYTES)

    def admit(self, authorization: str | None) -> None:
        """Raise RefusedError unless the header names the token."""
        if self._token is None:
            return
        scheme, _, credentials = (authorization or "").strip().partition(" ")
        shown = credentials.strip().encode("utf-8", "replace")
        if scheme.lower() != "bearer" or not hmac.compare_digest(shown, self._token):
            raise RefusedError(401, "send the token of this server as `Authorization: Bearer <token>`")

    def hold(self) -> Held:
        """A context in which bytes of a request count against what may be in memory."""
        return Held(self._budget)

    def too_large(self) -> RefusedError:
        return RefusedError(
            413, f"the request is larger than {self.max_body_bytes} bytes; send smaller batches"
        )

    def check(self, body: bytes, packing: str, encoding: Encoding, signal: Signal, held: Held) -> Checked:
        """From a body to what goes into the spool. Raises RefusedError, OverloadedError."""
        data = _unpack(body, packing, self, held)
        try:
            checked = _checked_json(data, signal) if encoding == "json" else _checked_protobuf(data, signal)
            if self._redact is not None:
                checked.payload = self._redact(signal, checked.payload)
        except OtlpDecodeError as error:
            raise RefusedError(400, str(error)) from error
        return checked

    def commit(self, signal: Signal, checked: Checked) -> Future[None]:
        """Done when the payload is on the disk. Raises OverloadedError; the future may hold a SpoolError."""
        return self._commits.submit(signal, checked.payload, checked.rejected)

    def close(self) -> None:
        """Wait for what is being written."""
        self._commits.close()


class _Budget:
    """Bytes of request bodies in memory, over all requests."""

    def __init__(self, limit: int) -> None:
        self.lock = threading.Lock()
        self.left = limit


class Held:
    """What one request holds of the budget."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._bytes = 0

    def add(self, count: int) -> None:
        """Count more bytes. Raises OverloadedError."""
        with self._budget.lock:
            if count > self._budget.left:
                raise OverloadedError
            self._budget.left -= count
        self._bytes += count

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        with self._budget.lock:
            self._budget.left += self._bytes


# -- from a body to a payload ---------------------------------------------------------------------


def _unpack(body: bytes, packing: str, intake: Intake, held: Held) -> bytes:
    """The body without its Content-Encoding, never more than the limit of it; what it grows is held, too."""
    if packing in {"", "identity"}:
        return body
    bits = _WINDOW_BITS.get(packing)
    if bits is None:
        raise RefusedError(415, f"Content-Encoding {packing[:100]!r} is not supported; use gzip or none")
    limit = intake.max_body_bytes
    chunks: list[bytes] = []
    size = 0
    rest = body
    try:
        while rest:  # a gzip body may have several members
            unpacker = zlib.decompressobj(bits)
            while not unpacker.eof:
                chunk = unpacker.decompress(rest, min(limit - size + 1, _STEP_BYTES))
                held.add(len(chunk))
                size += len(chunk)
                if size > limit:
                    raise intake.too_large()
                chunks.append(chunk)
                rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
                if not (chunk or rest or unpacker.eof):
                    raise RefusedError(400, f"the {packing} body ends in the middle")
    except zlib.error as error:
        raise RefusedError(400, f"the body is not {packing}: {error}") from error
    return b"".join(chunks)


def _checked_json(data: bytes, signal: Signal) -> Checked:
    try:
        parsed = json.loads(data)
    except RecursionError:
        raise RefusedError(400, "the body is JSON nested too deeply") from None
    except ValueError as error:  # also UnicodeDecodeError, and numbers of thousands of digits
        raise RefusedError(400, f"the body is not JSON: {error}"[:300]) from error
    faults: list[str] = []
    convert = traces_json_to_protobuf if signal == "traces" else logs_json_to_protobuf
    checked = _checked_protobuf(convert(parsed, faults), signal)
    if faults:
        checked.rejected += len(faults)
        checked.reason = faults[0][:300]
    return checked


def _checked_protobuf(data: bytes, signal: Signal) -> Checked:
    """Refuse what is no such request, leave out spans without usable ids (they would spoil the segment)."""
    request = _REQUESTS[signal]()
    try:
        request.ParseFromString(data)
    except DecodeError as error:
        # Text that is not UTF-8 makes protobuf refuse the whole batch for one span's sake.
        try:
            data = with_valid_text(data, request.DESCRIPTOR)
            request.ParseFromString(data)
        except (DecodeError, ValueError):
            name = request.DESCRIPTOR.name
            raise OtlpDecodeError(f"the body is not an {name}: {error}"[:300]) from error
    rejected = _without_unusable(request) if signal == "traces" else 0
    if not rejected:
        return Checked(data)
    reason = f"{rejected} spans have no usable trace or span id"
    return Checked(request.SerializeToString(), rejected, reason)


def _without_unusable(request: ExportTraceServiceRequest) -> int:
    rejected = 0
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            kept = [span for span in scope_spans.spans if _has_ids(span)]
            if lost := len(scope_spans.spans) - len(kept):
                rejected += lost
                del scope_spans.spans[:]
                scope_spans.spans.extend(kept)
    return rejected


def _has_ids(span: Span) -> bool:
    return (
        len(span.trace_id) <= 16
        and any(span.trace_id)
        and len(span.span_id) <= 8
        and any(span.span_id)
        and len(span.parent_span_id) <= 8
    )
