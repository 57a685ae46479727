"""The OTLP/gRPC receiver: TraceService and LogsService, plain or gzip.

An answer without an error is given when the data is on the disk and not before, in one write with what
came by HTTP meanwhile. Needs grpcio (the extra `server`).

Messages come to this module as they were sent, still packed: gRPC's own unpacking would take a gzip bomb
into memory whole before any limit is looked at. A browser cannot speak gRPC without TLS, so there is
no page of another site to keep away, and no Host header to check.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..guard import LoopscopeError
from ._group_commit import OverloadedError
from ._intake import RETRY_AFTER, Intake, RefusedError
from ._receiver import response_bytes
from ._rpc_status import retry_info, rpc_status
from ._spool import Signal

__all__ = ["GrpcMissingError", "GrpcReceiver"]

# A message is received by the thread that answers it, so this also bounds what is in memory.
_THREADS = 32
_GRACE_SECONDS = 1.0
_GZIP = b"\x1f\x8b"  # no OTLP request begins like this
_IDENTITY_AND_GZIP = 0b101  # bits of grpc's algorithms: none, deflate, gzip
_SERVICES: dict[str, Signal] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": "traces",
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
}
_INVALID_ARGUMENT, _RESOURCE_EXHAUSTED, _UNAVAILABLE, _UNAUTHENTICATED = 3, 8, 14, 16
_CODES = {400: _INVALID_ARGUMENT, 401: _UNAUTHENTICATED, 413: _RESOURCE_EXHAUSTED}


class GrpcMissingError(LoopscopeError):
    """grpcio is not installed."""


class GrpcReceiver:
    """A gRPC server on one address, in threads of its own.

    Args:
        intake: where requests go; shared with the other receivers.
        host, port: address to listen on; port 0 takes a free one.

    Raises:
        GrpcMissingError: grpcio is not installed.
        LoopscopeError: the port is taken, or the address is not of this machine.
    """

    def __init__(self, intake: Intake, host: str = "127.0.0.1", port: int = 4317) -> None:
        self._grpc = grpc = _import_grpc()
        self._intake = intake
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="loopscope-grpc")
        self._server = grpc.server(
            self._pool,
            handlers=[
                grpc.method_handlers_generic_handler(
                    name, {"Export": grpc.unary_unary_rpc_method_handler(self._export(signal))}
                )
                for name, signal in _SERVICES.items()
            ],
            interceptors=[_AdmittedOnly(grpc, intake)],
            options=[
                ("grpc.max_receive_message_length", intake.max_body_bytes),
                ("grpc.per_message_decompression", 0),
                ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
                ("grpc.so_reuseport", 0),
                # A peer that went away without a word is let go after 80 seconds.
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 20_000),
            ],
        )
        self.host = host
        self.port = self._bind(host, port)

    @property
    def address(self) -> str:
        """Where to send to: `http://host:port`, as OTEL_EXPORTER_OTLP_ENDPOINT wants it."""
        host = "localhost" if self.host in {"0.0.0.0", "::"} else self.host  # noqa: S104  shown, not bound
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def start(self) -> None:
        """Accept requests."""
        self._server.start()

    def stop(self) -> None:
        """Refuse new requests, give those under way a second, wait for the disk."""
        self._server.stop(_GRACE_SECONDS).wait()
        self._pool.shutdown(wait=True)
        self._intake.close()

    def __enter__(self) -> GrpcReceiver:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _bind(self, host: str, port: int) -> int:
        refusal = "cannot listen on {} port {}: {}. Choose another port with --otlp-grpc-port (0: no gRPC)."
        try:
            # First by ourselves: gRPC does not say why it could not.
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen(1)
        except OSError as error:
            raise LoopscopeError(refusal.format(host, port, error.strerror)) from error
        name = f"[{host}]" if ":" in host else host
        try:
            return self._server.add_insecure_port(f"{name}:{port}")
        except RuntimeError as error:
            raise LoopscopeError(refusal.format(host, port, "gRPC could not take it")) from error

    def _export(self, signal: Signal) -> Callable[[bytes, Any], bytes]:
        intake = self._intake

        def export(body: bytes, context: Any) -> bytes:
            try:
                with intake.hold() as held:
                    held.add(len(body))
                    packing = "gzip" if body.startswith(_GZIP) else "identity"
                    checked = intake.check(body, packing, "protobuf", signal, held)
                    intake.commit(signal, checked).result()
            except RefusedError as refusal:
                return self._refuse(context, _CODES[refusal.status], str(refusal))
            except OverloadedError:
                message = "too many bytes wait for the disk; try again"
                return self._refuse(context, _RESOURCE_EXHAUSTED, message, RETRY_AFTER)
            except (LoopscopeError, OSError) as error:
                message = f"cannot write to the spool: {error}"
                return self._refuse(context, _UNAVAILABLE, message, RETRY_AFTER)
            return response_bytes(signal, checked)

        return export

    def _refuse(self, context: Any, code: int, message: str, retry_after: int | None = None) -> bytes:
        details: list[tuple[str, bytes]] = [
            ("grpc-status-details-bin", rpc_status(code, message, retry_after=retry_after))
        ]
        if retry_after is not None:  # where the Python SDK looks for it
            details.append(("google.rpc.retryinfo-bin", retry_info(retry_after)))
        context.set_trailing_metadata(details)
        context.set_code(_status(self._grpc, code))
        context.set_details(message)
        return b""


class _AdmittedOnly:
    """Asks for the token before a message is received."""

    def __init__(self, grpc: Any, intake: Intake) -> None:
        self._intake = intake
        self._refusals = {
            # Taken for a stream, so that the message is never received.
            code: grpc.stream_unary_rpc_method_handler(_refusing(_status(grpc, code)))
            for code in _CODES.values()
        }

    def intercept_service(self, continuation: Callable[[Any], Any], call: Any) -> Any:
        shown = [value for key, value in call.invocation_metadata if key == "authorization"]
        try:
            self._intake.admit(shown[0] if len(shown) == 1 and isinstance(shown[0], str) else None)
        except RefusedError as refusal:
            return self._refusals[_CODES[refusal.status]]
        return continuation(call)


def _refusing(status: Any) -> Callable[[Any, Any], bytes]:
    def refuse(_messages: Any, context: Any) -> bytes:
        context.set_code(status)
        context.set_details("send the token of this server as metadata `authorization: Bearer <token>`")
        return b""

    return refuse


def _status(grpc: Any, code: int) -> Any:
    return next(status for status in grpc.StatusCode if status.value[0] == code)


def _import_grpc() -> Any:
    # Its C core writes lines of its own to standard error, and about every fork of this process.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        import grpc
    except ImportError as error:
        raise GrpcMissingError(
            "OTLP/gRPC needs grpcio, which is not installed: pip install 'loopscope[server]'"
        ) from error
    return grpc
