"""Tables of a database with large texts: what is there is not written again; small folds stay few groups."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_tools import derive, dump, put_segment, spans_payload

from loopscope.collector import Spool, Store, _growth, _write, fold

LARGE = 20_000


def text(number: int, size: int) -> str:
    return f"{number} " + "".join(chr(97 + (number * 7 + at * at) % 26) for at in range(size))


def add(store: Store, number: int, size: int, *, span: int | None = None, end: int | None = 2_000) -> None:
    """Fold one segment with one call."""
    span = number if span is None else span
    call = {
        "trace": span % 5 + 1,
        "span": span,
        "start": 1_000 + number,
        "end": end and end + number,
        "attributes": {"tool": "search", "result": text(number, size)},
    }
    put_segment(
        Spool(store.path),
        [("traces", spans_payload(call))],
        name=f"{number:04d}.seg",
        received_ns=number + 1,
    )
    fold(store, derive=derive)


def groups(store: Store, table: str, column: str) -> list[tuple[int, int]]:
    """Rows and first block of every group of rows."""
    with store.lease() as con:
        return con.execute(
            "SELECT sum(count)::INTEGER, min(block_id) FROM pragma_storage_info(?)"
            " WHERE column_name = ? AND segment_type <> 'VALIDITY'"
            " GROUP BY row_group_id ORDER BY row_group_id",
            [table, column],
        ).fetchall()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "t.duckdb")


def test_large_texts_are_written_once(store, monkeypatch):
    monkeypatch.setattr(_growth, "MERGED_BYTES", 5 * LARGE)
    seen: list[list[tuple[int, int]]] = []
    for number in range(9):
        add(store, number, LARGE)
        seen.append(groups(store, "contents", "text"))
    assert sum(rows for rows, _ in seen[-1]) == 9
    assert [rows for rows, _ in seen[3]] == [4]
    # Once a group is as large as groups get, it stays where it is.
    assert seen[3][0] == seen[-1][0]


@pytest.mark.parametrize("large", [0, 2])
def test_small_folds_make_few_groups(store, large):
    for number in range(26):
        add(store, number, LARGE if number < large else 300)
    for table, column in (("span_rows", "start_ns"), ("tool_call_rows", "start_ns"), ("contents", "text")):
        found = groups(store, table, column)
        assert sum(rows for rows, _ in found) == 26
        assert len(found) <= 9, table
    assert len(groups(store, "folded_segments", "name")) <= 1


def test_groups_are_joined_whole_again_and_again(store):
    """Joined groups have holes of row ids between them: by their rows alone, a part of one would be taken."""
    for number in range(34):
        add(store, number, 300)
    for table, column in (("span_rows", "start_ns"), ("tool_call_rows", "start_ns"), ("contents", "text")):
        assert [rows for rows, _ in groups(store, table, column)] == [16, 16, 1, 1], table


def test_one_transaction_writes_little_again(store, monkeypatch):
    """What it frees cannot be used before the next one, so the file grows by it."""
    taken: dict[int, dict[str, int]] = {}
    real = _growth.rows_to_add

    def watched(con, table, rows, notes):
        found = real(con, table, rows, notes)
        if found.num_rows > rows.num_rows:
            taken.setdefault(number, {})[table] = found.nbytes
        return found

    monkeypatch.setattr(_write, "rows_to_add", watched)
    monkeypatch.setattr(_growth, "MERGED_BYTES", 2_500)
    for number in range(12):
        add(store, number, 400)
    assert {"contents", "span_rows", "tool_call_rows"} <= set().union(*taken.values())
    assert all(sum(tables.values()) <= 2_500 for tables in taken.values())


def test_texts_of_one_kind_stand_side_by_side(store):
    """They compress better so, and those of one trace are still in the order of its spans."""
    spans = []
    for number in range(1, 6):
        texts = {"arguments": '{"query": "' + text(number, 200), "result": text(number, 300)}
        spans.append({"trace": 1, "span": number, "start": number, "end": 9, "attributes": texts})
    put_segment(Spool(store.path), [("traces", spans_payload(*spans))], name="a.seg", received_ns=1)
    fold(store, derive=derive)
    with store.lease() as con:
        found = con.execute("SELECT left(text, 13) FROM contents ORDER BY hash").fetchall()
    results = [(text(number, 300)[:13],) for number in range(1, 6)]
    arguments = [(f'{{"query": "{number} ',) for number in range(1, 6)]
    assert found == [*results, *arguments]


def test_duckdb_merges_nothing_by_itself(store):
    """It would go by the number of rows, however large they are."""
    with store.lease() as con:
        assert con.execute("SELECT current_setting('max_vacuum_tasks')").fetchall() == [(0,)]


def test_what_was_removed_at_the_end_is_not_missed(store):
    """The groups noted of a table may be gone when the next rows come."""
    for number in range(3):
        add(store, number, 300)
    with store.write() as con:
        for table in ("span_rows", "tool_call_rows", "contents", "trace_rows"):
            con.execute(f"DELETE FROM {table}")
    for number in range(3, 9):
        add(store, number, 300)
    with store.lease() as con:
        found = con.execute("SELECT result FROM tool_calls ORDER BY start_ns").fetchall()
    assert found == [(text(number, 300),) for number in range(3, 9)]


def test_memory_is_limited(store):
    with store.lease() as con:
        amount, unit = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    assert unit in ("MiB", "GiB")
    assert unit == "MiB" or float(amount) <= 4


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.sampled_from([10, 400, LARGE]), st.booleans()), min_size=2, max_size=5
    )
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_tables_are_the_same_however_groups_are_joined(tmp_path_factory, monkeypatch, steps):
    dumps = []
    for most in (0, 1 << 40):
        monkeypatch.setattr(_growth, "MERGED_BYTES", most)
        store = Store(tmp_path_factory.mktemp("growth") / "t.duckdb")
        for number, (span, size, ended) in enumerate(steps):
            add(store, number, size, span=span, end=2_000 if ended else None)
        dumps.append(dump(store))
    assert dumps[0] == dumps[1]
