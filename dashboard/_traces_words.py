"""What the traces page says of runs."""

from __future__ import annotations

from collections.abc import Sequence

from ..replay.traces import RunHead, RunRow
from ._text import count, plain
from ._theme import KIND_NAMES
from ._units import duration, money

__all__ = ["SOURCES", "STATUS", "costs", "ended", "ended_cell", "names", "said", "short_id", "spent", "who"]

STATUS = {
    "ok": "✓ OK",
    "unset": "· ended",
    "error": "✗ error",
    "running": "▶ running",
    None: "not recorded",
}

_ENDED = {
    "ok": "ended OK",
    "unset": "ended without saying how",
    "error": "ended in an error",
}

SOURCES = {
    "agent_span": "an invocation of an agent",
    "conversation": "a conversation",
    "mcp_session": "an MCP session",
    "trace": "a whole trace",
    "transcript": "an imported transcript",
}
"""What made it a run."""

_PREFIXES = ("conversation:", "mcp_session:")
_TRACE_ID = 32
"""Digits."""


def names(name: str | None, several: bool = False) -> str | None:
    """A name for a cell; None where none is recorded."""
    return None if name is None else plain(name, 60) + (" and others" if several else "")


def short_id(run_id: str) -> str:
    """What tells its id from others': no word for what made it a run; and which run of its trace it is."""
    inner = run_id.split(":", 1)[1] if run_id.startswith(_PREFIXES) else run_id
    trace, _, span = inner.partition("/")
    if span and len(trace) == _TRACE_ID:
        return f"{plain(trace[:8])}/{plain(span[:4])}"
    return plain(inner, 120)[:12]


def spent(cost: float | None) -> str | None:
    """A cost for a cell: runs cost little, and $0.0000 would say that they cost nothing."""
    return None if cost is None else "< $0.0001" if 0 < cost < 0.0001 else money(cost)


def costs(dollars: Sequence[float | None]) -> list[str | None]:
    """Costs for the cells of one column, all to the same place."""
    digits = 4 if any(one is not None and 0 < one < 0.01 for one in dollars) else 2
    return [
        None if one is None else "< $0.0001" if 0 < one < 0.0001 else f"${one:,.{digits}f}" for one in dollars
    ]


def who(run: RunRow) -> str:
    """Whose run it was."""
    return plain(run.agent_name or run.service_name or "an agent without a name", 60)


def ended(run: RunRow) -> str:
    """How it ended, in a sentence."""
    if run.status == "running":
        return "not ended yet"
    if run.stopped:
        return "stopped by a live guard"
    return "its end was not recorded" if run.status is None else _ENDED[run.status]


def ended_cell(run: RunRow) -> str:
    """How it ended, in a table."""
    return "■ stopped by guard" if run.stopped and run.status != "running" else STATUS[run.status]


def said(head: RunHead) -> str:
    """The answer to the page's question: what ran, how long, how it ended, what went round in a circle."""
    run = head.run
    made = f"{count(run.calls, 'call')} and {count(run.requests, 'request')} to a model"
    took = duration(run.duration_ns)
    if run.status == "running":
        text = f"{who(run)} is running: {made} so far, in {took}"
    else:
        how = "left no record of how it ended" if run.status is None else _ENDED[run.status]
        how = "was stopped by a live guard" if run.stopped else how
        text = f"{who(run)} made {made} in {took} and {how}"
    if not head.incidents:
        repeated = f"; {count(run.repeats, 'call')} brought nothing new" if run.repeats else ""
        return f"{text}{repeated}; no incident."
    worst = head.incidents[0]
    kind = KIND_NAMES.get(worst.kind, worst.kind)
    tools = " → ".join(plain(tool, 40) for tool in worst.tools[:3])
    known = "the only incident" if run.incidents == 1 else f"{run.incidents:,} incidents, the worst"
    spent_for = f"{count(worst.calls, 'call')}, {worst.repeated_calls:,} for nothing"
    return f"{text}; {known} is a {kind} of {tools}: {spent_for}."
