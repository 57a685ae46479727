"""Options that choose recorded calls, spelled and explained once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._prune import cutoff

if TYPE_CHECKING:
    from ..replay import Filters

__all__ = ["Agent", "Model", "Run", "Service", "Since", "Tool", "Until", "filters_of", "flags_given"]


def _several(flag: str, what: str) -> Any:
    return typer.Option(flag, help=f"Only {what}. May be given several times.")


Service = Annotated[list[str] | None, _several("--service", "calls of this service")]
Agent = Annotated[list[str] | None, _several("--agent", "calls of this agent")]
Tool = Annotated[list[str] | None, _several("--tool", "calls of this tool")]
Model = Annotated[list[str] | None, _several("--model", "runs that asked this model")]
Run = Annotated[list[str] | None, _several("--run", "calls of this run")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", help="Only calls from then on: an age such as 24h, or a day such as 2026-01-31 (UTC)."
    ),
]
Until = Annotated[str | None, typer.Option("--until", help="Only calls before then.")]


def filters_of(
    service: list[str] | None,
    agent: list[str] | None,
    tool: list[str] | None,
    model: list[str] | None,
    run: list[str] | None,
    since: str | None,
    until: str | None,
) -> Filters:
    """What the options choose. Raises LoopscopeError for an age or day that is none."""
    from ..replay import Filters

    now = time.time_ns()
    return Filters(
        since=None if since is None else cutoff(since, now, "--since"),
        until=None if until is None else cutoff(until, now, "--until"),
        services=tuple(service or ()),
        agents=tuple(agent or ()),
        tools=tuple(tool or ()),
        models=tuple(model or ()),
        run_ids=tuple(run or ()),
    )


_FLAGS = ("--service", "--agent", "--tool", "--model", "--run", "--since", "--until")


def flags_given(*values: list[str] | str | None) -> list[str]:
    """Of the options of `filters_of`, in its order, those that were given."""
    return [flag for flag, value in zip(_FLAGS, values, strict=True) if value]
