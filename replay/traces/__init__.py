"""Whole runs: which there are, and everything in one of them, in pieces of a bounded size.

Every function takes a leased DuckDB cursor and reads only. A run may have tens of thousands of spans, so
its tree
is read in short (`span_tree`) and given in windows of rows; texts are read for what is shown.
"""

from ._calls import run_calls
from ._list import list_runs
from ._messages import run_messages
from ._run import find_run, run_head
from ._span import run_logs, span_detail
from ._spans import span_tree
from ._tree import SpanTree
from ._types import (
    LogLine,
    LogPage,
    MessagePart,
    MessageRequest,
    MessagesPage,
    RunCall,
    RunCalls,
    RunHead,
    RunMessage,
    RunPage,
    RunRow,
    RunSort,
    SpanDetail,
    SpanRow,
    SpanWindow,
)

__all__ = [
    "LogLine",
    "LogPage",
    "MessagePart",
    "MessageRequest",
    "MessagesPage",
    "RunCall",
    "RunCalls",
    "RunHead",
    "RunMessage",
    "RunPage",
    "RunRow",
    "RunSort",
    "SpanDetail",
    "SpanRow",
    "SpanTree",
    "SpanWindow",
    "find_run",
    "list_runs",
    "run_calls",
    "run_head",
    "run_logs",
    "run_messages",
    "span_detail",
    "span_tree",
]
