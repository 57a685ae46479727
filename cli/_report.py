"""`loopscope report`: one incident, or all of them, to take away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..guard import LoopscopeError
from ._options import Block, Db, Nudge, PolicyFile, load_policy
from ._output import console
from ._store import reading

__all__ = ["report"]


def report(
    db: Db,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="File to write; its ending chooses the format: .md, .html, .json or .csv."
        ),
    ] = None,
    incident: Annotated[
        str | None,
        typer.Option(
            help="Key of one incident, or its first 6 characters or more. All incidents without it."
        ),
    ] = None,
    policy: PolicyFile = None,
    nudge: Nudge = None,
    block: Block = None,
) -> None:
    """Write an incident report. Without -o it is printed as Markdown."""
    from .. import replay as engine

    format_name = "md" if output is None else output.suffix.lower().lstrip(".")
    if format_name not in engine.FORMATS:
        endings = ", ".join(f".{name}" for name in engine.FORMATS)
        raise LoopscopeError(f"{output}: the ending chooses the format; use one of {endings}")
    rules = load_policy(db, policy, nudge, block)
    with reading(db) as connection:
        text = engine.report(connection, incident, rules, format_name, db=str(db))
    if output is None:
        print(text)  # noqa: T201
        return
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise LoopscopeError(f"{output}: cannot be written: {error.strerror or error}") from error
    console().print(f"Wrote {output} ({len(text.encode()):,} bytes).")
