"""What a fold keeps in memory does not grow with the backlog, nor with what lies in the database."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest

from loopscope.collector import Store
from loopscope.collector._stored import registered, rows_where

# The peak after two fifths of the backlog, and in the end. In a process of its own: pytest's has the peaks of
# other tests.
BACKLOG = """
    import random, re, sys
    from pathlib import Path
    from loopscope.collector import Spool, Store, fold
    from store_tools import put_segment, spans_payload

    segments, spans, size = 250, 20, 20_000
    chance = random.Random(1)
    store = Store(sys.argv[1], memory=32 << 20)
    spool = Spool(store.path)
    for number in range(segments):
        payload = spans_payload(*(
            {
                "trace": number + 1, "span": number * spans + at + 1, "start": 1 + at, "end": 2 + at,
                "attributes": {
                    "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read",
                    "gen_ai.tool.call.result": chance.randbytes(size // 2).hex(),
                },
            }
            for at in range(spans)
        ))
        put_segment(spool, [("traces", payload)], name=f"{number:04d}.seg", received_ns=number + 1)

    def peak():
        return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

    early = []

    def stop():
        left = len(spool.pending())
        if left <= segments * 3 // 5 and not early:
            early.append(peak())
        return False

    result = fold(store, max_bytes=1 << 20, stop=stop)
    print(early[0], peak(), result.calls)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_backlog_of_many_batches_takes_the_memory_of_a_few(tmp_path):
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BACKLOG), str(tmp_path / "t.duckdb")],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert said.returncode == 0, said.stderr
    early, late, calls = map(float, said.stdout.split())
    assert calls == 5_000
    # 60 MB of texts came in between: kept as records, or as Arrow tables, they would all be there.
    assert late - early < 32, (early, late)


def test_of_the_rows_between_those_of_a_long_trace_little_is_read(tmp_path):
    store = Store(tmp_path / "t.duckdb")
    with store.write() as con:
        con.execute(
            "CREATE TABLE wide AS SELECT i AS number, 'trace ' || (i // 10) AS trace_id,"
            + ", ".join(f"md5(i || '{name}') AS {name}" for name in "abcdefgh")
            + " FROM range(150_000) r(i)"
        )
    wanted = pa.table({"trace_id": [f"trace {n}" for n in range(0, 15_000, 1_000)]})
    with store.lease() as con:
        condition = "number BETWEEN 0 AND 150_000 AND trace_id IN (SELECT trace_id FROM wanted)"
        with registered(con, wanted=wanted):
            found = rows_where(con, "wide", ["rowid AS id", "number", "trace_id", *"abcdefgh"], condition)
        read = con.execute(
            "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'BASE_TABLE'"
        ).fetchall()[0][0]
    assert sorted(found.column("number").to_pylist()) == [
        n * 10_000 + at for n in range(15) for at in range(10)
    ]
    assert found.column("id").to_pylist() == found.column("number").to_pylist()
    assert read < 20_000_000  # of 39 MB


@pytest.mark.parametrize(("asked", "got"), [(100 << 20, 100 << 20), (1 << 60, None)])
def test_a_store_may_be_given_less_memory(tmp_path, asked, got):
    with Store(tmp_path / "t.duckdb", memory=asked).lease() as con:
        said = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    amount, unit = said.split()
    found = float(amount) * 1024 ** ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)
    if got is not None:
        assert found == pytest.approx(got, rel=1e-2)
    else:  # never more than half of what DuckDB would take
        assert found < 1 << 44
