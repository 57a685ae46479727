"""The database file: taking turns on it, making it, refusing what is not ours, migrating."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest
from store_tools import TABLES, count

from loopscope.collector import Store
from loopscope.collector._schema import SCHEMA_VERSION, schema_version, upgrade_schema
from loopscope.guard import StoreBusyError, StoreError, StoreVersionError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.duckdb"


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def label(store, key):
    with store.write() as con:
        con.execute("INSERT INTO labels VALUES (?, 'polling', NULL, TIMESTAMP '2026-01-01')", [key])


class Holder:
    """Another process that holds a database until told to let go."""

    def __init__(self, path, *, read_only=False):
        code = f"""
            import duckdb, sys
            con = duckdb.connect({str(path)!r}, read_only={read_only})
            print("held", flush=True)
            sys.stdin.readline()
            con.close()
        """
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "held\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.let_go()

    def let_go(self):
        if not self.process.stdin.closed:
            self.process.communicate("\n")


# -- making and opening --------------------------------------------------------------------------------


def test_making_a_store_opens_nothing(path):
    Store(path)
    assert list(path.parent.iterdir()) == []


def test_the_first_lease_makes_the_file_with_every_documented_table(path):
    store = Store(path)
    with store.lease() as con:
        for name in TABLES:
            assert con.execute(f"SELECT * FROM {name}").fetchall() == []
        assert schema_version(con, str(path)) == SCHEMA_VERSION
    assert [item.name for item in path.parent.iterdir()] == ["t.duckdb"], "no log or draft is left beside it"


def test_the_file_is_let_go_after_the_lease(path):
    store = Store(path)
    label(store, "a")
    with Holder(path):
        pass
    with store.lease() as con:
        assert con.execute("SELECT key FROM labels").fetchall() == [("a",)]


def test_plain_duckdb_reads_what_was_written(path):
    label(Store(path), "a")
    with duckdb.connect(str(path), read_only=True) as con:
        assert con.execute("SELECT key FROM labels").fetchall() == [("a",)]


def test_without_create_an_absent_file_is_an_error_that_says_what_to_do(path):
    with pytest.raises(StoreError, match=r"no database at .*loopscope import"):
        Store(path, create=False)


def test_a_database_deleted_between_leases(path):
    store = Store(path)
    label(store, "a")
    reader = Store(path, create=False)
    path.unlink()
    with pytest.raises(StoreError, match="is gone"), reader.lease():
        pass
    assert count(store, "labels") == 0


@pytest.mark.parametrize("bad", [":memory:", "."])
def test_a_path_that_cannot_be_a_database_is_refused(bad):
    with pytest.raises(StoreError):
        Store(bad)


def test_a_missing_folder_is_one_clear_line(tmp_path):
    with pytest.raises(StoreError) as caught, Store(tmp_path / "no" / "t.duckdb").lease():
        pass
    assert "\n" not in str(caught.value)


def test_processes_that_make_the_file_at_once_get_one(path):
    code = f"""
        from loopscope.collector import Store
        with Store({str(path)!r}).write() as con:
            con.execute("INSERT INTO labels VALUES (gen_random_uuid()::VARCHAR, 'v', NULL, now()::TIMESTAMP)")
    """
    processes = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert count(Store(path), "labels") == 4
    assert [item.name for item in path.parent.iterdir()] == ["t.duckdb"]


# -- not ours ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "match"),
    [(b"", "is an empty file"), (b"hello\n", "is not a DuckDB"), (bytes(range(256)) * 80, "is not a DuckDB")],
    ids=["empty", "text", "bytes"],
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path, content, match):
    path.write_bytes(content)
    with pytest.raises(StoreVersionError, match=match) as caught, Store(path).lease():
        pass
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_a_foreign_database_is_refused_and_left_alone(path):
    # Killed, so that it has a write-ahead log which merely opening it to write would merge.
    code = f"""
        import duckdb, os, signal
        con = duckdb.connect({str(path)!r})
        con.execute("CREATE TABLE meta (i INTEGER)")
        con.execute("INSERT INTO meta VALUES (1)")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    wal = path.with_name(path.name + ".wal")
    before = digest(path), digest(wal)
    with pytest.raises(StoreVersionError, match="not one of Loopscope's") as caught, Store(path).lease():
        pass
    assert caught.value.found is None
    assert (digest(path), digest(wal)) == before


def test_an_empty_duckdb_file_becomes_a_store(path):
    duckdb.connect(str(path)).close()
    assert count(Store(path), "span_rows") == 0


def test_a_newer_schema_is_refused_with_both_versions(path):
    store = Store(path)
    with store.write() as con:
        con.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    before = digest(path)
    with (
        pytest.raises(StoreVersionError, match=r"newer Loopscope .*99.*pip install") as caught,
        store.lease(),
    ):
        pass
    assert (caught.value.found, caught.value.supported) == (99, SCHEMA_VERSION)
    assert digest(path) == before


def test_an_older_schema_is_migrated_step_by_step(path):
    store = Store(path)
    with store.lease() as con:
        upgrade_schema(
            con,
            str(path),
            SCHEMA_VERSION,
            target=SCHEMA_VERSION + 2,
            migrations={
                SCHEMA_VERSION: "ALTER TABLE labels ADD COLUMN author VARCHAR",
                SCHEMA_VERSION
                + 1: "UPDATE labels SET author = 'nobody'; ALTER TABLE labels ADD COLUMN n INTEGER",
            },
        )
        assert schema_version(con, str(path)) == SCHEMA_VERSION + 2
        names = [row[0] for row in con.execute("DESCRIBE labels").fetchall()]
        assert names[-2:] == ["author", "n"]


def test_a_migration_that_fails_changes_nothing(path):
    store = Store(path)
    with store.lease() as con:
        with pytest.raises(duckdb.Error):
            upgrade_schema(
                con,
                str(path),
                SCHEMA_VERSION,
                target=SCHEMA_VERSION + 2,
                migrations={
                    SCHEMA_VERSION: "ALTER TABLE labels ADD COLUMN author VARCHAR",
                    SCHEMA_VERSION + 1: "UPDATE no_such_table SET x = 1",
                },
            )
        assert schema_version(con, str(path)) == SCHEMA_VERSION
        assert "author" not in [row[0] for row in con.execute("DESCRIBE labels").fetchall()]


def test_a_schema_without_a_way_up_is_refused(path):
    with Store(path).lease() as con, pytest.raises(StoreVersionError, match="no migration from 1"):
        upgrade_schema(con, str(path), 1, target=3, migrations={2: "SELECT 1"})


# -- taking turns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
def test_a_busy_file_names_its_holder(path, read_only):
    store = Store(path, timeout=0.2)
    label(store, "a")
    with Holder(path, read_only=read_only) as holder:
        with pytest.raises(StoreBusyError) as caught, store.lease():
            pass
        assert f"PID {holder.process.pid} (" in str(caught.value)
        assert "python" in caught.value.holder
        assert caught.value.path == str(path)
        assert "\n" not in str(caught.value)
    assert count(store, "labels") == 1


def test_a_lease_waits_for_the_holder(path):
    store = Store(path, timeout=30)
    label(store, "a")
    with Holder(path) as holder:
        threading.Timer(0.2, holder.let_go).start()
        assert count(store, "labels") == 1


def test_leases_nest_and_share_the_file(path):
    store, other = Store(path), Store(path.parent / "." / path.name)
    with store.lease() as outer, other.lease() as inner:
        outer.execute("BEGIN")
        outer.execute("INSERT INTO labels VALUES ('a', 'v', NULL, TIMESTAMP '2026-01-01')")
        assert inner.execute("SELECT count(*) FROM labels").fetchall() == [(0,)]
        outer.execute("COMMIT")
        assert inner.execute("SELECT count(*) FROM labels").fetchall() == [(1,)]
    with Holder(path):
        pass


def test_threads_read_and_write_side_by_side(path):
    store = Store(path)
    made = store.version()

    def work(number):
        label(store, f"k{number}")
        return count(store, "labels")

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(work, range(40)))
    assert max(counts) == 40
    assert count(store, "labels") == 40
    assert store.version() == made + 40


def test_a_connection_of_the_users_own_is_shared(path):
    store = Store(path, timeout=0.1)
    label(store, "a")
    with duckdb.connect(str(path)) as mine:
        assert count(Store(path), "labels") == 1
        label(store, "b")
        assert mine.execute("SELECT count(*) FROM labels").fetchall() == [(2,)]


def test_a_connection_in_another_configuration_is_named(path):
    store = Store(path, timeout=0.1)
    label(store, "a")
    with (
        duckdb.connect(str(path), read_only=True),
        pytest.raises(StoreBusyError, match="this process itself"),
        store.lease(),
    ):
        pass


def test_an_exception_rolls_back_and_lets_go(path):
    store = Store(path)
    made = store.version()

    def write_and_fail():
        with store.write() as con:
            con.execute("INSERT INTO labels VALUES ('a', 'v', NULL, TIMESTAMP '2026-01-01')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert count(store, "labels") == 0
    assert store.version() == made
    with Holder(path):
        pass


def test_a_child_forked_inside_a_lease_has_no_part_in_the_file(path):
    code = f"""
        import os, sys
        from loopscope.collector import Store
        store = Store({str(path)!r}, timeout=0.2)
        with store.write() as con:
            con.execute("INSERT INTO labels VALUES ('parent', 'v', NULL, TIMESTAMP '2026-01-01')")
            pid = os.fork()
            if pid == 0:
                from loopscope.guard import StoreBusyError
                try:
                    with store.lease():
                        sys.exit(1)  # a second writer
                except StoreBusyError:
                    sys.exit(0)      # runs destructors and exit handlers, as a forked worker does
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0, status
            con.execute("INSERT INTO labels VALUES ('parent too', 'v', NULL, TIMESTAMP '2026-01-01')")
        pid = os.fork()
        if pid == 0:
            with store.write() as con:
                con.execute("INSERT INTO labels VALUES ('child', 'v', NULL, TIMESTAMP '2026-01-01')")
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    with Store(path).lease() as con:
        found = con.execute("SELECT key FROM labels ORDER BY key").fetchall()
    assert found == [("child",), ("parent",), ("parent too",)]


def test_a_fork_waits_for_leases_of_other_threads(path):
    code = f"""
        import os, threading
        from loopscope.collector import Store, _lease
        _lease._FORK_WAIT = 60  # a slow machine may need it
        store = Store({str(path)!r})
        inside, forked = threading.Event(), []

        def work():
            with store.write() as con:
                inside.set()
                con.execute("SELECT count(*) FROM range(3_000_000) a, range(20) b").fetchall()
                con.execute("INSERT INTO labels VALUES ('thread', 'v', NULL, TIMESTAMP '2026-01-01')")

        thread = threading.Thread(target=work)
        thread.start()
        inside.wait()
        if os.fork() == 0:
            with store.write() as con:
                con.execute("INSERT INTO labels VALUES ('child', 'v', NULL, TIMESTAMP '2026-01-01')")
            os._exit(0)
        thread.join()
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        with store.write() as con:
            con.execute("INSERT INTO labels VALUES ('parent', 'v', NULL, TIMESTAMP '2026-01-01')")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    with Store(path).lease() as con:
        found = con.execute("SELECT key FROM labels ORDER BY key").fetchall()
    assert found == [("child",), ("parent",), ("thread",)]


def test_a_writer_that_is_killed_loses_only_what_was_not_committed(path):
    code = f"""
        import os, signal
        from loopscope.collector import Store
        store = Store({str(path)!r})
        with store.lease() as con:
            with store.write() as inner:
                inner.execute("INSERT INTO labels VALUES ('committed', 'v', NULL, TIMESTAMP '2026-01-01')")
            con.execute("BEGIN")
            con.execute("INSERT INTO labels VALUES ('not', 'v', NULL, TIMESTAMP '2026-01-01')")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
    assert killed.returncode == -signal.SIGKILL
    with Store(path).lease() as con:
        assert con.execute("SELECT key FROM labels").fetchall() == [("committed",)]


# -- the version ---------------------------------------------------------------------------------------


def test_the_version_grows_with_writes_and_only_then(path):
    store = Store(path)
    first = store.version()
    with store.lease() as con:
        con.execute("SELECT count(*) FROM spans").fetchall()
    assert store.version() == first
    label(store, "a")
    assert store.version() > first


def test_the_version_of_an_unchanged_file_needs_no_lease(path):
    store = Store(path, timeout=0.1)
    label(store, "a")
    os.utime(path, ns=(0, 1_700_000_000_000_000_000))  # long ago, so that the signature can be trusted
    version = store.version()
    with Holder(path):
        assert store.version() == version


def test_a_write_by_another_process_is_noticed(path):
    store = Store(path)
    label(store, "a")
    os.utime(path, ns=(0, 1_700_000_000_000_000_000))
    version = store.version()
    code = f"""
        from loopscope.collector import Store
        with Store({str(path)!r}).write() as con:
            con.execute("INSERT INTO labels VALUES ('b', 'v', NULL, TIMESTAMP '2026-01-01')")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    assert store.version() > version
