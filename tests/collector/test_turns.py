"""A process that takes the file all the time lets others in."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loopscope.collector import Spool, Store, _lease, _store
from loopscope.collector._turns import Waiting, others_wait
from loopscope.guard import StoreBusyError

GREEDY = """
    import sys, threading, time
    from loopscope.collector import Store
    store = Store(sys.argv[1])

    def take(pause):
        time.sleep(pause)
        while True:
            with store.lease(timeout=60):
                time.sleep(0.05)

    for number in range({threads}):
        threading.Thread(target=take, args=(number * 0.03,), daemon=True).start()
    with store.lease(timeout=60):
        print("begun", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path) -> Store:
    made = Store(tmp_path / "t.duckdb")
    with made.lease():
        pass
    Spool(made.path).prepare()
    return made


@contextmanager
def process(code: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "begun\n"
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


@pytest.mark.parametrize("threads", [1, 3])
def test_who_waits_gets_in(store, threads):
    """With three threads the leases overlap: without the courtesy the file would never be let go."""
    with process(GREEDY.format(threads=threads), store.path):
        for _ in range(5):
            with store.lease(timeout=30) as con:
                assert con.execute("SELECT count(*) FROM tool_calls").fetchall() == [(0,)]


def test_threads_of_one_process_still_work_side_by_side_while_another_waits(store):
    """Those inside take further leases without waiting for themselves."""
    code = """
        import sys
        from loopscope.collector import Store
        print("begun", flush=True)
        while True:
            with Store(sys.argv[1]).lease(timeout=60):
                pass
    """
    with process(code, store.path):
        until = time.monotonic() + 1.5
        rounds = [0, 0, 0]

        def work(number: int) -> None:
            while not rounds[number] or time.monotonic() < until:
                with store.lease(timeout=60) as outer, store.lease(timeout=60):
                    outer.execute("SELECT 1").fetchall()
                    rounds[number] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert min(rounds) > 0


def test_a_waiter_shows_itself_as_long_as_it_waits(store):
    path = str(store.path)
    assert not others_wait(path)
    with Waiting(path) as one, Waiting(path) as two:
        assert not others_wait(path)
        one.show()
        one.show()
        assert others_wait(path)
        two.show()
        assert others_wait(path)
    assert not others_wait(path)
    assert Spool(path).pending() == []


def test_a_child_that_is_forked_does_not_wait_on(store):
    path = str(store.path)
    with Waiting(path) as waiting:
        waiting.show()
        child = os.fork()
        if child == 0:
            # Closed: a lock lives as long as any copy of its descriptor.
            os._exit(0 if waiting._descriptor is not None and not _is_open(waiting._descriptor) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert others_wait(path)
    assert not others_wait(path)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_without_a_spool_nothing_is_made(tmp_path):
    with Waiting(str(tmp_path / "x.duckdb")) as waiting:
        waiting.show()
        assert not others_wait(str(tmp_path / "x.duckdb"))
    assert list(tmp_path.iterdir()) == []


def test_the_mark_is_gone_after_a_wait_in_vain(store):
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('begun', flush=True); sys.stdin.read()"
    with process(code, store.path), pytest.raises(StoreBusyError), store.lease(timeout=0.1):
        pass
    assert not others_wait(str(store.path))


def test_who_just_let_go_waits_a_moment_for_the_others_and_no_longer(store, monkeypatch):
    """A mark that nobody takes away (a waiter that is stopped, say) costs a moment each time, not more."""
    monkeypatch.setattr(_lease, "_YIELD", 0.05)
    monkeypatch.setattr(_lease, "others_wait", lambda _: True)
    for _ in range(3):
        with store.lease(timeout=5):
            pass


def test_a_server_that_holds_is_waited_for_longer_than_another_program(store, monkeypatch):
    code = """
        import sys, threading
        import loopscope.collector as c
        store = c.Store(sys.argv[1])
        folder = c.Folder(store, role="server")
        if {elected}:
            assert folder.elect()
        with store.lease():
            print("begun", flush=True)
            sys.stdin.readline()
        sys.stdin.read()
    """
    for elected in (False, True):
        with process(code.format(elected=elected), store.path) as holder:
            begun = time.monotonic()
            with pytest.raises(StoreBusyError), store.lease(timeout=0.2):
                pass
            waited = time.monotonic() - begun
            assert waited >= (0.6 if elected else 0.2)
            assert holder.stdin is not None
            if elected:

                def found_out(path, text, to=holder.stdin, real=_lease._held_by_server):
                    to.write("\n")  # beyond the timeout: now it lets go
                    to.flush()
                    return real(path, text)

                monkeypatch.setattr(_lease, "_held_by_server", found_out)
                monkeypatch.setattr(_lease, "_SERVER_PATIENCE", 3000)
                with store.lease(timeout=0.2):
                    pass


def test_who_had_to_look_first_queues_again_with_the_same_patience(store, monkeypatch):
    """The first opening of a process looks at the file read-only; waiting for that costs no patience."""
    left = []

    def slow(path, deadline, *, read_only=False):
        if read_only:
            time.sleep(0.2)
        left.append(deadline - time.monotonic())
        return _lease.connect(path, deadline, read_only=read_only)

    monkeypatch.setattr(_store, "connect", slow)
    monkeypatch.setattr(_lease, "_turnstiles", {})
    with store.lease(timeout=0.3):
        pass
    looked, opened = left
    assert looked < 0.15
    assert opened > looked + 0.1


def test_a_file_kept_open_between_leases_is_let_go_for_who_waits(store):
    gate = _lease.turnstile(store.path)
    read = (
        "import sys; from loopscope.collector import Store\nwith Store(sys.argv[1]).lease(timeout=60): pass"
    )
    with gate.kept():
        with store.lease():
            pass
        first = gate.connection
        assert first is not None
        with store.lease():
            assert gate.connection is first
        subprocess.run([sys.executable, "-c", read, str(store.path)], check=True)
        assert gate.connection is None
        with store.lease():
            pass
        assert gate.connection is not None
    assert gate.connection is None


def test_a_file_kept_open_is_closed_after_a_while(store, monkeypatch):
    """For programs that do not know of the turns."""
    monkeypatch.setattr(_lease, "_LONGEST_OPEN", 0.0)
    gate = _lease.turnstile(store.path)
    with gate.kept():
        with store.lease():
            pass
        assert gate.connection is None


def test_a_file_kept_open_is_no_obstacle_to_a_fork(store):
    gate = _lease.turnstile(store.path)
    with gate.kept():
        with store.lease():
            pass
        child = os.fork()
        if not child:
            with store.lease(timeout=30) as con:
                found = con.execute("SELECT count(*) FROM tool_calls").fetchall()
            os._exit(0 if found == [(0,)] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with store.lease() as con:
            assert con.execute("SELECT count(*) FROM tool_calls").fetchall() == [(0,)]


def test_a_deleted_file_is_not_kept_open(store):
    gate = _lease.turnstile(store.path)
    with gate.kept():
        with store.lease():
            pass
        store.path.unlink()
        with store.write() as con:
            con.execute("INSERT INTO labels VALUES ('k', 'polling', NULL, now()::TIMESTAMP)")
        assert store.path.exists()
    with store.lease() as con:
        assert con.execute("SELECT key FROM labels").fetchall() == [("k",)]
