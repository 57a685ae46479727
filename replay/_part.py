"""Some runs that are counted alone, after others did not change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ._facts import Facts

__all__ = ["Part", "runs_offered"]


@dataclass(frozen=True)
class Part:
    """Some runs, and where the store holds their calls."""

    names: pa.Table  # run, run_id
    condition: str  # on `tool_call_rows AS c`, beside `run_names`


@contextmanager
def runs_offered(store: duckdb.DuckDBPyConnection, facts: Facts, part: Part | None) -> Iterator[str]:
    """`run_names` (run, run_id) of the part, or of all runs; gives the condition on `tool_call_rows AS c`."""
    store.register("run_names", facts.runs if part is None else part.names)
    try:
        yield "TRUE" if part is None else part.condition
    finally:
        store.unregister("run_names")
