"""`loopscope demo`: the sample traces in a database of their own, and the dashboard on them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..guard import LoopscopeError
from ._import import import_and_show
from ._output import console
from ._serve import GrpcPort, Host, Port, ReceiverPort, free, run
from ._store import reading

__all__ = ["demo"]


def demo(
    db: Annotated[Path, typer.Option("--db", help="Where to put the samples.")] = Path("demo.duckdb"),
    host: Host = "127.0.0.1",
    port: Port = 8501,
    otlp_http_port: ReceiverPort = 4318,
    otlp_grpc_port: GrpcPort = 4317,
) -> None:
    """Import the sample traces into a database of their own and open the dashboard on it."""
    from ..sample_traces import files

    _refuse_own_recordings(db)
    http_port = _free_or_any(host, otlp_http_port, "OTLP/HTTP")
    grpc_port = _free_or_any(host, otlp_grpc_port, "OTLP/gRPC") if otlp_grpc_port else None
    # Importing again changes nothing, so a second demo keeps what was labelled or sent to the first.
    import_and_show(db, files())
    console().print(f"The samples are in {db}. Stop with Ctrl-C; delete the file to start afresh.")
    run(db, host=host, port=port, otlp_http_port=http_port, otlp_grpc_port=grpc_port, dashboard=True)


def _refuse_own_recordings(db: Path) -> None:
    """A database with recordings and none of the samples is somebody's own, and nobody unmixes them again."""
    from ..collector import Spool
    from ..sample_traces import stories

    if not db.exists() and not Spool(db).pending():
        return
    services = [story["service"] for story in stories()]
    with reading(db) as connection:
        spans, samples = connection.execute(
            "SELECT (SELECT count(*) FROM span_rows), "
            "(SELECT count(*) FROM tool_call_rows WHERE list_contains(?, service_name))",
            [services],
        ).fetchall()[0]
    if spans and not samples:
        raise LoopscopeError(
            f"{db} holds recordings of your own, and the samples would be mixed into them; "
            f"name a new file, or open yours with: loopscope serve --db {shlex.quote(str(db))}"
        )


def _free_or_any(host: str, port: int, what: str) -> int:
    """The port, or 0 for a free one where another server has it: a demo needs no known port."""
    if free(host, port):
        return port
    console().print(f"Port {port} is taken; the {what} receiver of this demo takes a free one.")
    return 0
