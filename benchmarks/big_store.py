"""A store of a size that agents need months for, made in SQL, with the repeats that agents make.

    python benchmarks/big_store.py PATH [--calls 1000000] [--bare]

Runs of 40 calls, one trace each, 25 agents at work at a time. Before each call its agent asked a model, with
all messages so far: histories grow by two messages a call, stored once each, as the fold stores them.

Of 100 runs 12 hold a loop of 3 to 24 equal answers (in half of them with other calls between), 25 repeat a
call once or twice, 8 poll something whose answer moves every third time, 6 retry an error. All other calls
are new to their run. 3 % of calls fail in general, 2 % on their arguments, 4 % have no recorded content.
Everything follows from the number of the call: two stores of one size are equal.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import duckdb

from loopscope.collector._schema import create_schema

__all__ = ["RUN", "add_calls", "make_store"]

RUN = 40  # calls of a run
_AT_ONCE = 25  # runs that go on at the same time
_START = 1_760_000_000_000_000_000
_STEP = 50_000_000  # ns between the ends of two calls


def _statements(values: dict[str, int]) -> dict[str, str]:
    """The statements of big_store.sql by name, with values in the place of <name>."""
    text = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"<{name}>", str(value))
    parts = re.split(r"^-- ([a-z]+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def add_calls(con: duckdb.DuckDBPyConnection, first: int, calls: int, *, requests: bool = True) -> None:
    """Add the calls numbered from `first`, as a fold would, in one transaction."""
    values = {"run": RUN, "at_once": _AT_ONCE, "first": first, "calls": calls, "start": _START, "step": _STEP}
    parts = _statements(values)
    con.execute("BEGIN")
    con.execute(parts["made"])
    con.execute(parts["calls"])
    if requests:
        con.execute(parts["texts"])
        con.execute(parts["requests"])
    con.execute("DELETE FROM trace_rows WHERE trace_id IN (SELECT trace_id FROM made)")
    con.execute(parts["traces"])
    con.execute("DROP TABLE made")
    con.execute(
        "UPDATE meta SET value = CAST(CAST(value AS BIGINT) + 1 AS VARCHAR) "
        "WHERE key IN ('version', 'fold_serial')"
    )
    con.execute("COMMIT")


def make_store(path: Path, calls: int, *, requests: bool = True) -> None:
    """A database at `path` with so many calls (a multiple of 1,000) and, before each, a request."""
    con = duckdb.connect(str(path))
    create_schema(con)
    con.execute('INSERT INTO contents VALUES (1, 1, \'{"role": "system", "content": "You are an agent."}\')')
    step = 500_000
    for first in range(0, calls, step):
        add_calls(con, first, min(step, calls - first), requests=requests)
    con.execute("CHECKPOINT")
    con.close()


def main() -> None:
    """Make a store where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", type=Path)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--bare", action="store_true", help="without the requests to models")
    options = parser.parse_args()
    start = time.perf_counter()
    make_store(options.path, options.calls, requests=not options.bare)
    size = options.path.stat().st_size
    print(
        f"{options.path}: {options.calls:,} calls, {size / 1e6:,.0f} MB, {time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
