"""`loopscope demo`: the sample traces in a database of their own, and the dashboard on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._import import import_and_show
from ._output import console
from ._serve import Host, Port, ReceiverPort, free, run

__all__ = ["demo"]


def demo(
    db: Annotated[Path, typer.Option("--db", help="Where to put the samples.")] = Path("demo.duckdb"),
    host: Host = "127.0.0.1",
    port: Port = 8501,
    otlp_http_port: ReceiverPort = 4318,
) -> None:
    """Import the sample traces into a database of their own and open the dashboard on it."""
    from ..sample_traces import files

    if not free(host, otlp_http_port):
        # A Collector or another viewer often has 4318, and the demo needs no receiver of a known port.
        console().print(f"Port {otlp_http_port} is taken; the receiver of this demo takes a free one.")
        otlp_http_port = 0
    grpc_port = 4317 if free(host, 4317) else None
    # Importing again changes nothing, so a second demo keeps what was labelled or sent to the first.
    import_and_show(db, files())
    console().print(f"The samples are in {db}. Stop with Ctrl-C; delete the file to start afresh.")
    run(db, host=host, port=port, otlp_http_port=otlp_http_port, otlp_grpc_port=grpc_port, dashboard=True)
