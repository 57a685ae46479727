"""The fold: order, repetition and crashes never matter; nothing is lost; bad input hurts nobody else."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from store_tools import (
    copy_spool,
    count,
    derive,
    dump,
    logs_payload,
    put_segment,
    span_id,
    spans_payload,
    trace_id,
)

from loopscope.collector import Derived, SpanEvent, SpanLink, Spool, Store, _contents, _fold, decode_traces
from loopscope.collector import fold as real_fold
from loopscope.collector._fold import Pace
from loopscope.guard import SpoolError, StoreBusyError, StoreError


def fold(store, spool=None, **options):
    return real_fold(store, spool, **{"derive": derive, **options})


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "t.duckdb")


@pytest.fixture
def spool(store):
    return Spool(store.path)


def call(span, *, trace=1, start=1_000, end=2_000, **attributes):
    return {
        "trace": trace,
        "span": span,
        "start": start,
        "end": end,
        "attributes": {"tool": "search", **attributes},
    }


def rows(store, query):
    with store.lease() as con:
        return con.execute(query).fetchall()


# -- what goes in --------------------------------------------------------------------------------------


def test_a_segment_becomes_spans_and_calls(store, spool):
    spool.write([("traces", spans_payload(call(1, arguments="{}", result="r")))])
    result = fold(store)
    assert (result.segments, result.spans, result.calls, result.quarantined) == (1, 1, 1, 0)
    assert spool.pending() == []
    assert rows(store, "SELECT trace_id, tool_name, arguments, result, seq FROM tool_calls") == [
        (trace_id(1), "search", "{}", "r", 1)
    ]
    assert rows(store, "SELECT attributes->>'result', service_name, ended_at FROM spans")[0][:2] == (
        "r",
        "svc",
    )


def test_a_fold_of_nothing_makes_no_file(store):
    assert not fold(store)
    assert not store.path.exists()


def test_missing_is_not_empty(store, spool):
    spool.write([("traces", spans_payload(call(1, arguments="", result=""), call(2)))])
    fold(store)
    assert rows(store, "SELECT arguments, result FROM tool_calls ORDER BY span_id") == [
        ("", ""),
        (None, None),
    ]


def test_long_texts_are_stored_once_and_shown_whole(store, spool):
    long = "größe " * 1000
    history = [{"role": "user", "content": f"{n}" + "m" * 500} for n in range(6)]
    spans = [call(n, arguments=long, result=long) for n in range(1, 4)]
    for n in range(1, 4):
        request = {"messages": json.dumps(history[: 2 * n])}
        spans.append({"span": 10 + n, "start": 10, "end": 20 + n, "attributes": request})
    spool.write([("traces", spans_payload(*spans))])
    fold(store)
    assert count(store, "contents") == 1 + len(history)
    assert rows(store, "SELECT DISTINCT arguments, result FROM tool_calls") == [(long, long)]
    assert rows(
        store, "SELECT DISTINCT attributes->>'result' FROM spans WHERE span_id < '000000000000000a'"
    ) == [(long,)]
    found = rows(store, "SELECT input_messages, output_messages FROM llm_requests ORDER BY turn")
    assert found == [([json.dumps(message) for message in history[: 2 * n]], None) for n in range(1, 4)]
    shown = rows(
        store, "SELECT attributes->>'messages' FROM spans WHERE name = 'work' ORDER BY span_id DESC LIMIT 1"
    )
    assert shown == [(json.dumps(history),)]


def test_records_are_given_back_exactly_for_a_second_derivation(store, spool):
    seen = []

    def spy(spans, logs):
        seen.append((spans, logs))
        return Derived()

    attributes = {
        "text": "x" * 3000,
        "json": json.dumps([{"a": "y" * 300}] * 5),
        "list": ["a", 1, True, 2.5, None, ["z" * 2000]],
        "map": {"k": {"deep": "w" * 1500}},
        "nan": float("nan"),
        "empty": "",
        "none": None,
        "mark": "\x01s\x00",
    }
    payload = spans_payload(
        {
            "span": 1,
            "parent": 9,
            "status": 2,
            "end": 5,
            "attributes": attributes,
            "events": [("choice", {"body": "b" * 2000, "n": 1}), ("plain", {})],
            "links": [7],
        }
    )
    spool.write(
        [("traces", payload), ("logs", logs_payload({"trace": 1, "body": {"m": "c" * 3000}, "time": 3}))]
    )
    fold(store, derive=spy)
    spool.write([("traces", spans_payload({"span": 2, "start": 2_000}))])
    fold(store, derive=spy)
    (first, first_logs), (second, second_logs) = seen
    assert second[0] == first[0]
    assert second_logs == first_logs
    assert first[0].attributes["nan"] == "NaN"
    assert first[0].attributes["list"] == attributes["list"]
    assert list(second[0].attributes) == list(attributes)
    assert second[0].events[0] == SpanEvent("choice", 1_000, {"body": "b" * 2000, "n": 1})
    assert second[0].links == [SpanLink(trace_id(7), span_id(7))]


def test_the_ended_version_wins_then_the_later_received(store, spool):
    def put(received, name, **span):
        put_segment(
            spool,
            [("traces", spans_payload({"span": 1, "name": name, **span}))],
            received_ns=received,
            name=name,
        )
        fold(store)

    def name():
        return rows(store, "SELECT name FROM spans")

    put(10, "started", end=None)
    put(5, "ended", end=9)
    assert name() == [("ended",)]
    put(20, "started again", end=None)
    assert name() == [("ended",)]
    put(7, "ended later", end=8)
    assert name() == [("ended later",)]
    put(6, "ended in between", end=99)
    assert name() == [("ended later",)]


def test_one_log_record_sent_twice_is_one(store, spool):
    payload = logs_payload(
        {"trace": 1, "body": "a"}, {"trace": None, "body": "b"}, {"trace": None, "body": "c"}
    )
    for _ in range(2):
        spool.write([("logs", payload)])
        fold(store)
    spool.write([("logs", payload), ("logs", payload)])
    fold(store)
    assert rows(store, "SELECT trace_id, body->>'$' FROM logs ORDER BY body") == [
        (trace_id(1), "a"),
        (None, "b"),
        (None, "c"),
    ]


def test_a_late_record_changes_what_was_derived(store, spool):
    spool.write([("traces", spans_payload(call(1)))])
    fold(store)
    version = store.version()
    spool.write([("logs", logs_payload({"trace": 1, "body": "late", "attributes": {"about": span_id(1)}}))])
    fold(store)
    assert rows(store, "SELECT result FROM tool_calls") == [("late",)]
    assert store.version() > version


def test_rows_that_stay_right_are_left_alone(store, spool):
    spool.write([("traces", spans_payload(call(1), call(2, start=1_500, end=2_500)))])
    fold(store)
    before = rows(store, "SELECT rowid, span_id FROM tool_call_rows ORDER BY span_id")
    spool.write([("traces", spans_payload(call(3, start=1_700, end=3_000)))])
    result = fold(store)
    assert result.calls == 1
    assert rows(store, "SELECT rowid, span_id FROM tool_call_rows ORDER BY span_id LIMIT 2") == before


def test_runs_over_several_traces_are_numbered_through(store, spool):
    def trace(number, start):
        messages = json.dumps([{"role": "user"}])
        return [
            {
                "trace": number,
                "span": 1,
                "start": start,
                "end": start + 1,
                "attributes": {"messages": messages},
            },
            call(2, trace=number, start=start + 2, end=start + 3, conversation="conv"),
            call(3, trace=number, start=start + 3, end=None, conversation="conv"),
        ]

    for number, start in ((3, 300), (1, 100), (2, 200)):
        spool.write([("traces", spans_payload(*trace(number, start)))])
        fold(store)
    assert rows(store, "SELECT trace_id, span_id, seq, turn FROM tool_calls ORDER BY start_ns") == [
        (trace_id(n), span_id(s), seq, n) for n in (1, 2, 3) for s, seq in ((2, n), (3, None))
    ]
    assert rows(store, "SELECT turn FROM llm_requests ORDER BY start_ns") == [(1,), (2,), (3,)]
    spool.write([("traces", spans_payload(call(9, trace=2, start=1, end=2)))])
    fold(store)
    assert rows(store, "SELECT seq FROM tool_calls WHERE seq IS NOT NULL ORDER BY end_ns") == [
        (1,),
        (2,),
        (3,),
        (4,),
    ]


def test_what_writers_lost_is_added_up_once(store, spool):
    for value in (3, 4):
        spool.write(
            [("traces", spans_payload(call(value)))], meta={"dropped_spans": value, "service": "a", "x": 1}
        )
    spool.write([], meta={"dropped_spans": 5, "dropped_bytes": "many", "dropped_logs": -1})
    fold(store)
    found = rows(store, "SELECT name, source, value FROM drop_counters ORDER BY value")
    assert found[1] == ("dropped_spans", "a", 7)
    assert found[0][2] == 5
    assert len(found) == 2


# -- order, repetition, crashes ------------------------------------------------------------------------

texts = st.sampled_from(["r", "", "long " * 300, "other " * 300])
numbers = st.integers(1, 3)


@st.composite
def span_dicts(draw):
    start = draw(st.integers(1, 40))
    kind = draw(st.sampled_from(["call", "request", "plain"]))
    attributes = {}
    if kind == "call":
        attributes = {"tool": draw(st.sampled_from(["a", "bb"])), "arguments": draw(texts)}
        if draw(st.booleans()):
            attributes["result"] = draw(texts)
    elif kind == "request":
        history = [{"content": draw(texts)} for _ in range(draw(st.integers(0, 3)))]
        attributes = {"messages": json.dumps(history)}
    if draw(st.integers(0, 3)) == 0:
        attributes["conversation"] = draw(st.sampled_from(["c1", "c2"]))
    if draw(st.integers(0, 30)) == 0:
        attributes["explode"] = True
    return {
        "trace": draw(numbers),
        "span": draw(st.integers(1, 4)),
        "parent": draw(st.none() | st.integers(1, 4)),
        "start": start,
        "end": draw(st.none() | st.integers(start, 60)),
        "attributes": attributes,
        "events": [("e", {"body": draw(texts)})] if draw(st.booleans()) else [],
    }


@st.composite
def log_dicts(draw):
    return {
        "trace": draw(st.none() | numbers),
        "span": 1,
        "time": draw(st.integers(1, 50)),
        "body": draw(texts),
        "attributes": {"about": span_id(draw(st.integers(1, 4)))} if draw(st.booleans()) else {},
    }


@st.composite
def segment_lists(draw):
    """Segments: (receive time, spans, logs, spans lost)."""
    return draw(
        st.lists(
            st.tuples(
                st.integers(1, 4),
                st.lists(span_dicts(), max_size=4),
                st.lists(log_dicts(), max_size=2),
                st.integers(0, 2),
            ),
            min_size=1,
            max_size=6,
        )
    )


def write_segments(spool, segments):
    for number, (received, spans, logs, lost) in enumerate(segments):
        # Two payloads, so that small batches end inside a segment.
        half = len(spans) // 2
        payloads = [("traces", spans_payload(*spans[:half])), ("traces", spans_payload(*spans[half:]))]
        if logs:
            payloads.append(("logs", logs_payload(*logs)))
        put_segment(
            spool, payloads, received_ns=received, name=f"{number:03d}-h-1", meta={"dropped_spans": lost}
        )
    return [path.name for path in spool.pending()]


@contextmanager
def fresh_folder():
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class DyingSpool(Spool):
    """Dies when it is to delete its n-th segment: after the commit, before the unlink."""

    def __init__(self, db_path, lives):
        super().__init__(db_path)
        self.lives = lives

    def remove(self, path):
        if self.lives == 0:
            raise KeyboardInterrupt
        self.lives -= 1
        super().remove(path)


@given(segments=segment_lists(), data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_folding_in_any_order_any_grouping_any_number_of_times_gives_equal_tables(segments, data):
    with (
        fresh_folder() as folder,
        ExitStack() as held,
    ):  # held: opening the files every time would take most of it
        source = Spool(folder / "source.duckdb")
        names = write_segments(source, segments)

        together = Store(folder / "together.duckdb")
        held.enter_context(together.lease())
        copy_spool(source, Spool(together.path))
        fold(together)
        expected = dump(together)

        # In another order, in groups, some more than once, in small transactions, with deaths in between.
        store = Store(folder / "other.duckdb")
        held.enter_context(store.lease())
        order = data.draw(st.permutations(names))
        again = data.draw(st.lists(st.sampled_from(names), max_size=2))
        queue = list(order)
        while queue:
            size = data.draw(st.integers(1, len(queue)))
            spool = DyingSpool(store.path, data.draw(st.sampled_from([0, 1, 99])))
            copy_spool(source, spool, queue[:size])
            queue = queue[size:]
            try:
                fold(store, spool, max_bytes=data.draw(st.sampled_from([1, 300, 1 << 20])))
            except KeyboardInterrupt:
                if data.draw(st.booleans()):
                    fold(store)
        fold(store)
        assert Spool(store.path).pending() == []
        assert dump(store) == expected

        # What was folded before and comes back (from a backup, say) changes only the count of lost spans.
        copy_spool(source, Spool(store.path), again)
        fold(store)
        assert dump(store, without={"drop_counters"}) == {
            k: v for k, v in expected.items() if k != "drop_counters"
        }


@given(spans=st.lists(span_dicts(), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(spans=[{"span": 1, "attributes": {"tool": "a", "result": "r" * 2000}}] * 2)
def test_no_text_is_kept_that_nothing_refers_to(spans):
    with fresh_folder() as folder, Store(folder / "t.duckdb").lease():
        store = Store(folder / "t.duckdb")
        for span in spans:
            Spool(store.path).write([("traces", spans_payload(span))])
            fold(store)
        used = rows(
            store,
            """
            SELECT unnest(attribute_parts) FROM span_rows UNION SELECT unnest(event_parts) FROM span_rows
            UNION SELECT unnest(input_parts) FROM llm_request_rows
            UNION SELECT arguments_content FROM tool_call_rows UNION SELECT result_content FROM tool_call_rows
            """,
        )
        assert {key for (key,) in rows(store, "SELECT hash FROM contents")} == {
            key for (key,) in used if key is not None
        }


def test_a_segment_folded_by_somebody_else_meanwhile_is_not_counted_twice(store, spool):
    spool.write([("traces", spans_payload(call(1)))], meta={"dropped_spans": 2})
    others = []

    def slow_derive(spans, logs):
        if not others:  # while this round derives, another fold does the whole work
            others.append(None)
            others.append(fold(store, Spool(store.path)))
        return derive(spans, logs)

    result = fold(store, derive=slow_derive)
    assert others[1].segments == 1
    assert result.segments == 0
    assert rows(store, "SELECT value FROM drop_counters") == [(2,)]
    assert count(store, "tool_call_rows") == 1


def test_a_fold_that_always_loses_takes_the_file_for_itself(store, spool):
    spool.write([("traces", spans_payload(call(1)))])
    tries = []

    def disturbed(spans, logs):
        tries.append(None)
        if len(tries) <= 10:
            other = Store(store.path, timeout=0.01)
            try:
                with other.write(timeout=0.01) as con:
                    con.execute(
                        "UPDATE meta SET value = (value::BIGINT + 1)::VARCHAR WHERE key = 'fold_serial'"
                    )
            except StoreBusyError:
                pass
        return derive(spans, logs)

    assert fold(store, derive=disturbed).segments == 1
    assert count(store, "span_rows") == 1


def test_names_of_segments_that_are_gone_are_forgotten(store, spool):
    for n in range(3):
        spool.write([("traces", spans_payload(call(n + 1)))])
        fold(store)
    assert count(store, "folded_segments") == 1


# -- bad input -----------------------------------------------------------------------------------------


def test_bad_segments_go_to_quarantine_and_their_neighbours_in(store, spool):
    spool.write([("traces", spans_payload(call(1)))])
    torn = spool.write([("traces", spans_payload(call(2)))])
    torn.write_bytes(torn.read_bytes()[:-20])
    (spool.path / "00000-garbage.seg").write_bytes(b"garbage")
    mixed = spool.write([("traces", b"\xff\xff not protobuf"), ("traces", spans_payload(call(3)))])
    spool.write([("traces", spans_payload(call(4)))])
    result = fold(store)
    assert result.quarantined == 3
    assert rows(store, "SELECT span_id FROM spans ORDER BY 1") == [(span_id(n),) for n in (1, 3, 4)]
    reasons = dict(spool.quarantined())
    assert set(reasons) == {torn.name, "00000-garbage.seg", mixed.name}
    assert "checksum" in reasons[torn.name]
    assert spool.pending() == []


def test_a_decoder_that_fails_in_an_unforeseen_way_blocks_nobody(store, spool):
    def decode(data):
        raise ZeroDivisionError("oops")

    spool.write([("traces", b"x"), ("logs", logs_payload({"trace": 1, "body": "kept"}))])
    result = fold(store, decode_traces=decode)
    assert (result.quarantined, result.logs) == (1, 1)
    assert "ZeroDivisionError: oops" in spool.quarantined()[0][1]


def test_a_derivation_that_fails_keeps_the_records_and_is_noted(store, spool):
    spool.write([("traces", spans_payload(call(1, explode=True), call(1, trace=2)))])
    result = fold(store)
    assert (result.spans, result.calls, result.quarantined) == (2, 1, 0)
    assert rows(store, "SELECT trace_id, derive_error FROM trace_rows ORDER BY 1") == [
        (trace_id(1), "RuntimeError: cannot make sense"),
        (trace_id(2), None),
    ]
    # It is derived again, without the fault, when something new comes for the trace.
    spool.write([("traces", spans_payload(call(1)))])
    fold(store)
    assert count(store, "tool_call_rows") == 2
    assert rows(store, "SELECT count(*) FROM trace_rows WHERE derive_error IS NOT NULL") == [(0,)]


@pytest.mark.parametrize("field", ["tool_name", "run_id", "start_ns", "dialect"])
def test_a_derivation_that_leaves_out_what_every_call_has_is_noted(store, spool, field):
    def partial(spans, logs):
        derived = derive(spans, logs)
        setattr(derived.tool_calls[0], field, None)
        return derived

    spool.write([("traces", spans_payload(call(1)))])
    fold(store, derive=partial)
    assert field in rows(store, "SELECT derive_error FROM trace_rows")[0][0]
    assert count(store, "span_rows") == 1


def test_values_that_no_column_can_hold_do_not_block(store, spool):
    def odd(spans, logs):
        derived = derive(spans, logs)
        first = derived.tool_calls[0]
        first.http_status, first.error_message, first.result = 10**30, "bad \ud800", "x" * 2000 + "\udfff"
        first.call_id = 5
        return derived

    spool.write([("traces", spans_payload(call(1, start=2**64 - 1, end=2**64 - 1)))])
    fold(store, derive=odd)
    assert rows(
        store, "SELECT http_status, error_message, right(result, 1), call_id, start_ns FROM tool_calls"
    ) == [(None, "bad \ufffd", "\ufffd", "5", 2**63 - 1)]
    assert rows(store, "SELECT started_at IS NOT NULL FROM spans") == [(True,)]


def test_a_segment_the_database_does_not_take_is_found_and_put_aside(store, spool, monkeypatch):
    for n in range(1, 6):
        spool.write([("traces", spans_payload(call(n)))])
    real = _fold.write_changes

    def fussy(con, changes, waiting):
        if span_id(3) in changes.spans.column("span_id").to_pylist():
            raise duckdb.ConversionException("cannot convert this\nat all")
        return real(con, changes, waiting)

    monkeypatch.setattr(_fold, "write_changes", fussy)
    result = fold(store)
    assert (result.segments, result.quarantined, count(store, "span_rows")) == (4, 1, 4)
    assert "cannot convert this" in spool.quarantined()[0][1]


def test_a_record_that_cannot_be_packed_is_put_aside_too(store, spool):
    deep: list = []
    for _ in range(100_000):
        deep = [deep]

    def decode(data):
        spans = decode_traces(data)
        if spans[0].span_id == span_id(2):
            spans[0].attributes["deep"] = deep
        if spans[0].span_id == span_id(3):
            spans[0].attributes["object"] = object()
        return spans

    for n in range(1, 5):
        spool.write([("traces", spans_payload(call(n)))])
    result = fold(store, decode_traces=decode)
    assert (result.segments, result.quarantined) == (2, 2)
    assert rows(store, "SELECT span_id FROM spans ORDER BY 1") == [(span_id(1),), (span_id(4),)]
    assert sorted(reason.split(":")[0] for _, reason in spool.quarantined()) == [
        "RecursionError",
        "TypeError",
    ]


def test_an_error_of_our_own_puts_nothing_aside(store, spool, monkeypatch):
    spool.write([("traces", spans_payload(call(1)))])

    def wrong(con, changes, waiting):
        con.execute("SELECT no_such_column FROM span_rows")

    monkeypatch.setattr(_fold, "write_changes", wrong)
    with pytest.raises(StoreError, match="no_such_column"):
        fold(store)
    assert len(spool.pending()) == 1
    assert spool.quarantined() == []


def test_a_conflict_with_another_writer_of_this_process_is_tried_again(store, spool, monkeypatch):
    spool.write([("traces", spans_payload(call(1)))])
    real = _fold.write_changes
    failures = iter([duckdb.TransactionException("conflict")] * 2)

    def unlucky(con, changes, waiting):
        for failure in failures:
            raise failure
        return real(con, changes, waiting)

    monkeypatch.setattr(_fold, "write_changes", unlucky)
    assert fold(store).spans == 1


def test_a_file_that_cannot_be_read_for_now_is_not_put_aside(store, spool, monkeypatch):
    spool.write([("traces", spans_payload(call(1)))])

    def fail(path):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(spool, "read", fail)
    with pytest.raises(SpoolError, match="Too many open files"):
        fold(store, spool)
    assert len(spool.pending()) == 1
    assert spool.quarantined() == []


def test_a_full_disk_leaves_everything_in_the_spool(store, spool, monkeypatch):
    spool.write([("traces", spans_payload(call(1)))])

    def full(con, changes, waiting):
        raise duckdb.IOException("could not write: No space left on device")

    monkeypatch.setattr(_fold, "write_changes", full)
    with pytest.raises(StoreError, match="No space left on device"):
        fold(store)
    assert len(spool.pending()) == 1
    monkeypatch.undo()
    assert fold(store).spans == 1


@pytest.mark.parametrize("weak_half", [0, 1])
def test_texts_with_one_hash_are_all_kept(store, spool, monkeypatch, weak_half):
    real = _contents._digest

    def weak(raw):
        halves = list(real(raw))
        if len(raw) > 1000:
            halves[weak_half] %= 2
        return tuple(halves)

    monkeypatch.setattr(_contents, "_digest", weak)
    expected = []
    for n in range(1, 7):
        text = f"{n} " + "x" * 2000
        expected.append((text, text))
        spool.write([("traces", spans_payload(call(n, result=text)))])
        if n % 2:
            fold(store)
    spool.write([("traces", spans_payload(call(8, result=text)))])  # a text that is there
    expected.append((text, text))
    fold(store)
    assert (
        rows(
            store,
            "SELECT attributes->>'result', t.result FROM spans JOIN tool_calls t USING (span_id) ORDER BY 1",
        )
        == expected
    )
    assert count(store, "contents") == 6


# -- bounded work --------------------------------------------------------------------------------------


def test_a_large_segment_is_stored_in_several_transactions(store, spool):
    payloads = [("traces", spans_payload(call(n))) for n in range(1, 11)]
    spool.write(payloads)
    sizes = []
    real = store.write

    def write(**options):
        sizes.append(len(spool.pending()))
        return real(**options)

    store.write = write
    fold(store, max_bytes=2 * len(payloads[0][1]))
    assert len(sizes) == 5
    assert count(store, "tool_call_rows") == 10
    assert rows(store, "SELECT max(seq) FROM tool_calls") == [(10,)]
    assert spool.pending() == []


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def small_large(monkeypatch):
    """Traces of more than five spans count as large."""
    monkeypatch.setattr(_fold, "LARGE_TRACE", 5)


def derived_sizes(store, spool, pace, batches, **options):
    sizes = []

    def spy(spans, logs):
        sizes.append(len(spans))
        pace.clock.now += 0.0
        return derive(spans, logs)

    for spans in batches:
        spool.write([("traces", spans_payload(*spans))])
        fold(store, derive=spy, pace=pace, **options)
    return sizes


def test_a_large_trace_is_derived_at_growing_intervals_but_in_the_end(store, spool, small_large):
    pace = Pace(clock=Clock())
    batches = [[{**call(n), "parent": 99}] for n in range(1, 21)]
    sizes = derived_sizes(store, spool, pace, batches, settle=False)
    assert sizes[:6] == [1, 2, 3, 4, 5, 6], "small, then due once"
    assert len(sizes) == 6, "the clock stands still"
    assert count(store, "span_rows") == 20
    assert rows(store, "SELECT spans, stale FROM trace_rows") == [(20, True)]
    assert count(store, "tool_call_rows") == 6
    pace.clock.now += 1e6
    assert pace.ripe()
    fold(store, pace=pace, settle=False)
    assert count(store, "tool_call_rows") == 20
    assert rows(store, "SELECT spans, stale FROM trace_rows") == [(20, False)]


def test_a_large_trace_whose_root_ended_is_derived_at_once(store, spool, small_large):
    pace = Pace(clock=Clock())
    batches = [[{**call(n), "parent": 99}] for n in range(1, 10)]
    batches.append([{"span": 99, "end": 5_000}])
    derived_sizes(store, spool, pace, batches, settle=False)
    assert rows(store, "SELECT spans, stale FROM trace_rows") == [(10, False)]


def test_another_fold_settles_what_was_put_off(store, spool, small_large):
    pace = Pace(clock=Clock())
    derived_sizes(store, spool, pace, [[{**call(n), "parent": 99}] for n in range(1, 10)], settle=False)
    assert rows(store, "SELECT stale FROM trace_rows") == [(True,)]
    assert fold(store).calls == 3
    assert rows(store, "SELECT stale FROM trace_rows") == [(False,)]


def test_replacing_spans_of_a_large_trace_counts_them_once(store, spool, small_large):
    pace = Pace(clock=Clock())
    batches = [[{**call(n), "parent": 99}] for n in range(1, 10)] * 2
    derived_sizes(store, spool, pace, batches, settle=False)
    assert rows(store, "SELECT spans FROM trace_rows") == [(9,)]
    assert count(store, "span_rows") == 9


def test_many_grown_traces_are_derived_in_bounded_rounds(store, spool, monkeypatch):
    monkeypatch.setattr(_fold, "_ROUND_SPANS", 6)
    for part in range(3):
        spans = [call(part * 2 + n, trace=t, end=2_000 + part) for t in range(1, 6) for n in (1, 2)]
        spool.write([("traces", spans_payload(*spans))])
        loads = []
        real = _fold.load
        monkeypatch.setattr(
            _fold,
            "load",
            lambda con, whole, *keys, real=real, loads=loads: (
                loads.append(len(whole)) or real(con, whole, *keys)
            ),
        )
        fold(store, settle=False)
        monkeypatch.setattr(_fold, "load", real)
        assert max(loads) <= 3
    assert count(store, "tool_call_rows") == 30
    assert rows(store, "SELECT DISTINCT spans, stale FROM trace_rows") == [(6, False)]


def test_stop_ends_a_fold_between_rounds(store, spool):
    for n in range(1, 5):
        spool.write([("traces", spans_payload(call(n)))])
    answers = iter([False, False, True])
    result = fold(store, max_bytes=1, stop=lambda: next(answers))
    assert result.segments == 2
    assert len(spool.pending()) == 2


def test_the_real_derivation_is_the_default(store, spool):
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    spool.write([("traces", spans_payload({"span": 1, "end": 9, "attributes": attributes}))])
    assert real_fold(store).calls == 1


def test_keys_of_texts_are_counted_past_those_that_are_there(store, spool):
    """A database of an earlier version has hashes for keys."""
    with store.write() as con:
        con.execute(
            "INSERT INTO contents VALUES (-5, 1, 'a'), (3, 2, 'b'), (4611686018427387904, 3, 'c'),"
            " (6, 4, 'd')"
        )
        con.execute("INSERT INTO meta VALUES ('next_text', '2')")
    spool.write([("traces", spans_payload(call(1, arguments="x" * 900, result="y" * 900)))])
    fold(store)
    spool.write([("traces", spans_payload(call(2, arguments="x" * 900, result="z" * 900)))])
    fold(store)
    found = dict(rows(store, "SELECT left(text, 1), hash FROM contents"))
    assert found == {"a": -5, "b": 3, "c": 1 << 62, "d": 6, **{name: found[name] for name in "xyz"}}
    assert sorted(found[name] for name in "xyz") == [4, 5, 7]
    assert rows(store, "SELECT left(arguments, 1), left(result, 1) FROM tool_calls ORDER BY span_id") == [
        ("x", "y"),
        ("x", "z"),
    ]
