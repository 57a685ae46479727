"""`loopscope serve`: the dashboard, the OTLP receivers and the folding of what comes in, in one process."""

from __future__ import annotations

import errno
import socket
from typing import Annotated

import typer

from ..guard import LoopscopeError
from ._options import Db

__all__ = ["GrpcPort", "Host", "Port", "ReceiverPort", "Token", "free", "run", "serve"]

Host = Annotated[
    str,
    typer.Option(
        help="Address to listen on. Anything but a loopback address opens your traces to the network"
        " and needs a token."
    ),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")]
ReceiverPort = Annotated[
    int, typer.Option(min=0, max=65535, help="Port of the OTLP/HTTP receiver; 0 takes a free one.")
]


def _port_or_none(value: str | int) -> int:
    text = str(value).strip().lower()
    try:
        port = 0 if text == "none" else int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise typer.BadParameter(f"{text!r} is no port: give a number up to 65535, or 0 or none for no gRPC")
    return port


GrpcPort = Annotated[
    int,
    typer.Option(
        parser=_port_or_none, metavar="PORT", help="Port of the OTLP/gRPC receiver; 0 or none: no gRPC."
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        help="Ask senders for it as a bearer token, and browsers once as /?token=…; others see the"
        " command line, so prefer the variable.  [env var: LOOPSCOPE_TOKEN]",
    ),
]

LinkTemplates = Annotated[
    list[str] | None,
    typer.Option(
        "--link",
        metavar="NAME=URL",
        help="A link from each incident to its trace in another tool, such as"
        " 'Jaeger=http://localhost:16686/trace/{trace_id}'. May be given several times.",
    ),
]


def serve(
    db: Db,
    host: Host = "127.0.0.1",
    port: Port = 8501,
    otlp_http_port: ReceiverPort = 4318,
    otlp_grpc_port: GrpcPort = 4317,
    token: Token = None,
    link: LinkTemplates = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard/--no-dashboard", help="With or without the pages.")
    ] = True,
) -> None:
    """Run the dashboard and the OTLP receivers on one database."""
    run(
        db,
        host=host,
        port=port,
        otlp_http_port=otlp_http_port,
        otlp_grpc_port=otlp_grpc_port or None,
        token=token,
        links=link or (),
        dashboard=dashboard,
    )


def free(host: str, port: int) -> bool:
    """Whether a server could listen there; True for port 0 and for an address that cannot be told."""
    try:
        with socket.create_server((host, port)):
            return True
    except OSError as error:
        return error.errno != errno.EADDRINUSE


def run(db, **options) -> None:
    """Start the server, or say in one line which extra is missing."""
    try:
        from ..dashboard import serve as start
    except ModuleNotFoundError as error:
        raise LoopscopeError(
            f"the server needs {error.name}, which is not installed: pip install 'loopscope[dashboard]'"
        ) from error
    raise typer.Exit(start(db, **options) or 0)
