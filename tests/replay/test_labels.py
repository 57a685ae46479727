"""Labels: set, changed, removed, found again, taken out and in."""

from __future__ import annotations

import csv
import io
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from label_tools import by_run, say, store_with
from replay_rows import call, database

from loopscope.collector import Store, import_paths, prune
from loopscope.guard import ImportFileError, LoopscopeError, NotFoundError
from loopscope.replay import (
    CSV_COLUMNS,
    Filters,
    LabelVerdict,
    find_incidents,
    keys_of_group,
    label_filter,
    label_verdict,
    labelled_key,
    labels_from_csv,
    labels_to_csv,
    read_labels,
    remove_label,
    set_label,
    set_labels,
)
from loopscope.sample_traces import files

KEY = "0123456789abcdef"
OTHER = "fedcba9876543210"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "t.duckdb")


def said(store: Store) -> dict[str, tuple[str, str | None]]:
    with store.lease() as con:
        return {key: (one.verdict.value, one.note) for key, one in read_labels(con).items()}


# One label


def test_a_label_is_set_changed_and_removed(store: Store) -> None:
    first = set_label(store, KEY, LabelVerdict.POLLING, "waits for the build")
    assert (first.key, first.verdict, first.note) == (KEY, LabelVerdict.POLLING, "waits for the build")
    second = set_label(store, KEY, "true_loop")
    assert (second.verdict, second.note) == (LabelVerdict.TRUE_LOOP, "waits for the build")
    assert second.labelled_ns > first.labelled_ns
    assert set_label(store, KEY, "true_loop", "").note is None
    assert remove_label(store, KEY)
    assert not remove_label(store, KEY)
    assert said(store) == {}


def test_a_change_moves_the_version_that_readers_keep_answers_by_and_no_change_does_not(store: Store) -> None:
    versions = [store.version()]
    for note in ("a", "b"):
        set_label(store, KEY, "polling", note)
        versions.append(store.version())
    remove_label(store, KEY)
    versions.append(store.version())
    assert versions == sorted(set(versions))
    set_label(store, KEY, "polling", "b")
    before = store.version()
    time = set_label(store, KEY, "polling").labelled_ns
    assert set_label(store, KEY, "polling", "b").labelled_ns == time
    remove_label(store, OTHER)
    assert store.version() == before


@pytest.mark.parametrize("key", ["", "abc", KEY.upper(), KEY + "0", "=cmd()", "k" * 100])
def test_only_the_key_of_an_incident_can_have_a_label(store: Store, key: str) -> None:
    with pytest.raises(LoopscopeError, match="no incident's key"):
        set_label(store, key, "polling")
    assert said(store) == {}


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("true_loop", "true_loop"), (" True Loop\n", "true_loop"), ("RETRY-that-worked", "retry_that_worked")],
)
def test_a_verdict_is_known_however_it_is_spelled(text: str, verdict: str) -> None:
    assert label_verdict(text).value == verdict
    assert label_filter(text) == verdict


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("truelop", "true_loop"), ("pooling", "polling"), ("retry", "retry_that_worked"), ("unsur", "unsure")],
)
def test_a_mistyped_verdict_names_the_nearest_one(text: str, nearest: str) -> None:
    with pytest.raises(LoopscopeError, match=f"did you mean {nearest}\\?"):
        label_verdict(text)
    with pytest.raises(LoopscopeError, match="'none' for incidents without a label"):
        label_filter(text)


def test_a_note_is_cleaned_and_bounded(store: Store) -> None:
    assert set_label(store, KEY, "unsure", "  a\r\nb\x1b[31m\ud800 \n").note == "a\nb\ufffd[31m\ufffd"
    with pytest.raises(LoopscopeError, match="4,000 characters; this one has 4,001"):
        set_label(store, KEY, "unsure", "x" * 4_001)


def test_a_label_of_a_later_version_is_left_alone(store: Store) -> None:
    with store.write() as con:
        say(con, {KEY: "half_a_loop"})
    assert said(store) == {}
    set_label(store, OTHER, "polling")
    with store.lease() as con:
        assert con.execute("SELECT verdict FROM labels ORDER BY key").fetchall() == [
            ("half_a_loop",),
            ("polling",),
        ]


def _label_some(path: Path, first: int) -> None:
    store = Store(path, timeout=60)
    for number in range(first, first + 8):
        set_label(store, f"{number:016x}", "polling")


def test_two_processes_that_label_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_label_some, args=(path, first)) for first in (0, 4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(120)
    assert [one.exitcode for one in writers] == [0, 0]
    assert said(Store(path)) == {f"{number:016x}": ("polling", None) for number in range(12)}


# Labels and incidents


def test_a_label_stays_when_traces_come_again_and_when_they_are_derived_again(tmp_path: Path) -> None:
    whole = next(one for one in files() if one.name == "helpdesk_search_loop.jsonl")
    lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    store = Store(tmp_path / "t.duckdb")
    part = tmp_path / "first.jsonl"
    part.write_text("".join(lines[:1]), encoding="utf-8")
    import_paths(store.path, [part])
    with store.lease() as con:
        before = find_incidents(con)
    set_label(store, before[0].key, "true_loop", "seen")
    for again in (part, whole, whole):
        import_paths(store.path, [again])
        with store.write() as con:  # as an improved derivation does: every trace anew at the next fold
            con.execute("UPDATE trace_rows SET stale = TRUE")
        import_paths(store.path, [again])
        with store.lease() as con:
            assert con.execute("SELECT count(*) FROM trace_rows WHERE stale").fetchall() == [(0,)]
            found = find_incidents(con, Filters(labels=("true_loop",)))
        assert [(one.key, one.calls) for one in found] == [(before[0].key, before[0].calls)]
    assert said(store) == {before[0].key: ("true_loop", "seen")}


def test_a_label_stays_when_its_stretch_grows(tmp_path: Path) -> None:
    con = database([call()] * 3)
    key = find_incidents(con)[0].key
    longer = say(database([call()] * 7), {key: "polling"})
    assert [one.calls for one in find_incidents(longer, Filters(labels=("polling",)))] == [7]


def test_a_label_stays_when_its_incident_goes(tmp_path: Path) -> None:
    store = Store(tmp_path / "t.duckdb")
    import_paths(store.path, [one for one in files() if one.name == "oncall_stuck_poll.jsonl"])
    with store.lease() as con:
        [incident] = find_incidents(con)
    set_label(store, incident.key, "true_loop")
    prune(store, incident.last_ns + 10**18)
    with store.lease() as con:
        assert find_incidents(con) == []
        assert labelled_key(con, incident.key[:6]) == incident.key
        [_, row] = csv.reader(io.StringIO(labels_to_csv(con)))
    assert row == [incident.key, "true_loop", *[""] * (len(CSV_COLUMNS) - 2)]
    assert said(store) == {incident.key: ("true_loop", None)}


def test_incidents_are_filtered_by_label() -> None:
    con = database([call(run=run, args=f'{{"q": "{run}"}}') for run in ("a", "b", "c") for _ in range(3)])
    incidents = by_run(con)
    say(con, {incidents["a"].key: "polling", incidents["b"].key: "unsure"})

    def chosen(*labels: str) -> set[str]:
        return {one.run_id for one in find_incidents(con, Filters(labels=labels))}

    assert chosen("polling") == {"a"}
    assert chosen("none") == {"c"}
    assert chosen("none", "unsure") == {"b", "c"}
    assert chosen("true_loop") == set()
    assert chosen() == {"a", "b", "c"}


def test_a_key_may_be_cut_short_and_a_group_named_by_a_member() -> None:
    con = database([call(run=run) for run in ("a", "b") for _ in range(3)] + [call("read", run="c")] * 3)
    incidents = by_run(con)
    one = incidents["a"]
    assert labelled_key(con, one.key[:6]) == labelled_key(con, one.key) == one.key
    both = tuple(sorted((one.key, incidents["b"].key)))
    assert keys_of_group(con, one.key) == keys_of_group(con, one.group[:6]) == both
    for wrong in (one.key[:5], "0" * 16, ""):
        with pytest.raises(NotFoundError):
            labelled_key(con, wrong)
        with pytest.raises(NotFoundError):
            keys_of_group(con, wrong)
    near = one.key[:8] + ("0" * 8 if one.key[8:] != "0" * 8 else "1" * 8)
    say(con, {near: "polling"})
    with pytest.raises(NotFoundError, match="2 incidents and labels begin with"):
        labelled_key(con, one.key[:8])
    assert labelled_key(con, near) == near


# CSV


def test_labels_go_out_with_what_a_reader_needs_to_know_them_by(tmp_path: Path) -> None:
    calls = [call(run="b")] * 4 + [call("poll", '{"job": 7}', run="a", agent="=evil()")] * 3
    store = store_with(tmp_path, calls)
    with store.lease() as con:
        incidents = by_run(con)
    set_label(store, incidents["a"].key, "polling", "=1+1")
    set_label(store, OTHER, "unsure")
    with store.lease() as con:
        text = labels_to_csv(con)
        whole = labels_to_csv(con, unlabelled=True)
        some = labels_to_csv(con, Filters(run_ids=("b",)), unlabelled=True)
    assert text.startswith(",".join(CSV_COLUMNS) + "\r\n")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows[0] == {
        "key": incidents["a"].key,
        "verdict": "polling",
        "note": "'=1+1",
        "run": "a",
        "agent": "'=evil()",
        "tool": "poll",
        "kind": "loop",
        "calls": "3",
        "when": "2025-10-09 08:53:24.000 UTC",
        "ending": "run_ended",
        "arguments": '{"job": 7}',
    }
    assert [row["key"].lstrip("'") for row in rows[1:]] == [OTHER]
    assert [row["verdict"] for row in csv.DictReader(io.StringIO(whole))] == ["", "polling", "unsure"]
    assert [row["run"] for row in csv.DictReader(io.StringIO(some))] == ["b"]


notes = st.none() | st.text(
    st.sampled_from("=+-@|%'\"\t\n, ;ab\u00e9\u3000\uff1d\u202e"), min_size=1, max_size=6
).map(str.strip).filter(bool)


@pytest.fixture(scope="module")
def two_stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Store]:
    folder = tmp_path_factory.mktemp("csv")
    return Store(folder / "a.duckdb"), Store(folder / "b.duckdb")


@settings(max_examples=12, deadline=None)
@given(
    labels=st.dictionaries(
        st.sampled_from([KEY, OTHER, "1" * 16, "12e4567890123456", "a" * 16]),
        st.tuples(st.sampled_from(list(LabelVerdict)), notes),
        min_size=1,
        max_size=4,
    )
)
def test_what_goes_out_comes_back_equal(two_stores: tuple[Store, Store], labels: dict) -> None:
    one, other = two_stores
    for store in two_stores:
        with store.write() as con:
            con.execute("DELETE FROM labels")
    set_labels(one, labels)
    with one.lease() as con:
        text = labels_to_csv(con)
    done = labels_from_csv(other, "\ufeff" + text)
    assert (done.added, done.changed, done.unchanged) == (len(labels), 0, 0)
    assert done.unknown == tuple(sorted(labels))
    assert said(other) == said(one)
    with other.lease() as con:
        assert labels_to_csv(con) == text


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_spreadsheets_make_of_a_file_is_read(store: Store, mark: str, end: str) -> None:
    set_label(store, OTHER, "unsure", "kept")
    lines = [
        ["Colour", "Verdict", " KEY ", "note", ""],
        ["red", "True loop", f"'{KEY.upper()}", " '=1 ", "x"],
        ["", "", "", "", ""],
        ["", "polling", OTHER, "", ""],
        ["", "", "a" * 16, "no verdict yet", ""],
        ["blue", "unsure", "b" * 16],
    ]
    done = labels_from_csv(store, "\ufeff" + end + end.join(mark.join(line) for line in lines))
    assert (done.added, done.changed, done.unchanged, done.skipped) == (2, 1, 0, 1)
    assert said(store) == {
        KEY: ("true_loop", "=1"),
        OTHER: ("polling", "kept"),
        "b" * 16: ("unsure", None),
    }


def test_the_first_note_column_is_read_and_a_file_without_one_leaves_notes(store: Store) -> None:
    labels_from_csv(store, f"key,verdict,note,note\n{KEY},polling,first,second\n")
    assert said(store) == {KEY: ("polling", "first")}
    labels_from_csv(store, f"verdict,key\nunsure,{KEY}\n")
    assert said(store) == {KEY: ("unsure", "first")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("a,b\n1,2\n", "first line must name the columns"),
        (f"key,verdict\n{KEY},polling\n{OTHER},pollin\n", "line 3: .*did you mean polling"),
        (f"key,verdict\n{KEY},polling\n1.23E+15,polling\n", "line 3: '1.23e\\+15' is no incident's key"),
        (f"key,verdict\n{KEY},polling\n\n{KEY},unsure\n", "line 4: line 2 says something else"),
        (f"key,verdict,note\n{KEY},polling,{'x' * 4_001}\n", "line 2: a note holds at most"),
        (f"key,verdict\n{KEY},polling\n" + "x,polling\n" * 9, "line 7: .*and 4 more lines"),
        (f"key,verdict,note\n{KEY},polling,{'x' * 200_000}\n", "line 2: not CSV"),
        (f'key,verdict,note\n{KEY},polling,"open\n{OTHER},unsure,\n', "line 3: not CSV"),
    ],
)
def test_a_file_with_a_wrong_line_changes_nothing(store: Store, text: str, message: str) -> None:
    with pytest.raises(ImportFileError, match=message):
        labels_from_csv(store, text)
    assert said(store) == {}
