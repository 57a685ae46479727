"""Who folds, and many processes on one database."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from store_tools import count, derive, span_id, spans_payload

from loopscope.collector import Folder, Spool, Store, _folder
from loopscope.collector._folder import folder_of
from loopscope.guard import StoreBusyError, StoreError

TESTS = str(Path(__file__).parent)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "t.duckdb")


def write(store, span=1, trace=1):
    payload = spans_payload({"trace": trace, "span": span, "end": 2_000, "attributes": {"tool": "t"}})
    return Spool(store.path).write([("traces", payload)])


def run_python(code, **options):
    code = f"import sys; sys.path.insert(0, {TESTS!r})\n" + textwrap.dedent(code)
    return subprocess.Popen([sys.executable, "-c", code], **options)


class Server:
    """A process that holds `<db>.lock` and does nothing."""

    def __init__(self, store):
        code = f"""
            import sys
            from loopscope.collector import Folder, Store
            folder = Folder(Store({str(store.path)!r}), role="server")
            assert folder.elect()
            print("elected", flush=True)
            sys.stdin.readline()
        """
        self.process = run_python(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "elected\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.communicate("\n")
        self.process.stdin.close()
        self.process.stdout.close()


def test_a_free_lock_is_taken_for_one_fold(store):
    write(store)
    folder = Folder(store, derive=derive)
    assert folder.try_fold().spans == 1
    assert folder_of(store.path) is None
    assert stat.S_IMODE(Path(f"{store.path}.lock").stat().st_mode) == 0o600


def test_a_folder_that_is_dropped_lets_go(store):
    assert Folder(store).elect()
    assert folder_of(store.path) is None


def test_nobody_folds_while_a_server_does(store):
    write(store)
    with Server(store) as server:
        note = folder_of(store.path)
        assert (note["pid"], note["role"]) == (server.process.pid, "server")
        assert Folder(store, derive=derive).try_fold() is None
        assert len(Spool(store.path).pending()) == 1
    assert Folder(store, derive=derive).try_fold().spans == 1


def test_a_server_that_is_killed_leaves_the_lock_free(store):
    write(store)
    with Server(store) as server:
        server.process.kill()
        server.process.wait()
        assert folder_of(store.path) is None
        assert Folder(store, derive=derive).try_fold().spans == 1


def test_an_elected_folder_keeps_the_lock_between_folds(store):
    folder = Folder(store, role="server", derive=derive)
    assert folder.elect()
    for span in (1, 2):
        write(store, span)
        assert folder.try_fold().spans == 1
        assert folder_of(store.path)["pid"] == os.getpid()
    assert Folder(store).elect() is False
    folder.retire()
    assert folder_of(store.path) is None


def test_a_child_of_an_elected_folder_that_dies_does_not_keep_the_lock(store):
    code = f"""
        import os, signal, sys
        from loopscope.collector import Folder, Store
        folder = Folder(Store({str(store.path)!r}), role="server")
        assert folder.elect()
        if os.fork() == 0:
            print("child", flush=True)
            sys.stdin.readline()
            os._exit(0)
        signal.pause()
    """
    parent = run_python(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "child\n"
    assert folder_of(store.path)["pid"] == parent.pid
    parent.kill()
    parent.wait()
    assert folder_of(store.path) is None
    parent.communicate("\n")


def test_a_reader_folds_first_what_waits(store):
    write(store)
    assert Folder(store, role="cli", derive=derive).catch_up().spans == 1
    assert Folder(store, role="cli", derive=derive).catch_up() is None


def test_a_reader_waits_for_the_one_who_folds(store):
    write(store)
    with Server(store):
        worker = threading.Timer(0.2, lambda: [path.unlink() for path in Spool(store.path).pending()])
        worker.start()
        assert Folder(store, role="cli").catch_up(timeout=60) is None
        assert Spool(store.path).pending() == []
        worker.join()


def test_a_reader_does_not_wait_for_ever(store):
    write(store)
    with Server(store):
        assert Folder(store, role="cli").catch_up(timeout=0.05) is None
    assert len(Spool(store.path).pending()) == 1


def test_a_lock_file_that_cannot_be_made_is_one_clear_line(tmp_path):
    with pytest.raises(StoreError, match="cannot open the lock file"):
        Folder(Store(tmp_path / "no" / "t.duckdb")).try_fold()


def test_a_note_full_of_nonsense_is_survived(store):
    Path(f"{store.path}.lock").write_bytes(b"\xff[1,2")
    folder = Folder(store)
    assert folder.elect()
    Path(f"{store.path}.lock").write_bytes(b"[1, 2]")
    assert folder_of(store.path) == {}


def test_the_loop_folds_until_told_to_stop_and_once_more(store):
    stop, seen = threading.Event(), threading.Event()
    folder = Folder(store, role="server", derive=derive)
    worker = threading.Thread(
        target=folder.run, args=(stop,), kwargs={"interval": 0.01, "folded": lambda _: seen.set()}
    )
    worker.start()
    write(store, 1)
    assert seen.wait(30)
    stop.set()
    write(store, 2)
    worker.join(30)
    Folder(store, derive=derive).try_fold()  # the last write may have come after the last fold
    assert count(store, "span_rows") == 2
    assert folder_of(store.path) is None


@pytest.mark.parametrize(
    "error", [StoreBusyError("held by PID 1"), StoreError("disk full: 0 bytes"), OSError(5, "I/O")]
)
def test_the_loop_survives_trouble_and_says_so_once(store, monkeypatch, caplog, error):
    calls = []
    monkeypatch.setattr(_folder, "_TROUBLE_PAUSE", 0.001)

    def fail(*args, **options):
        calls.append(None)
        if len(calls) == 3:
            stop.set()
        raise error

    stop = threading.Event()
    monkeypatch.setattr(_folder, "fold", fail)
    write(store)
    Folder(store, role="server").run(stop, interval=0.001)
    assert len(calls) >= 3
    assert len(caplog.records) == 1


# -- many processes ------------------------------------------------------------------------------------


def test_nothing_acknowledged_is_lost_or_doubled_when_everybody_is_killed(store):
    """Writers and folders are killed at random moments, again and again."""
    writer = f"""
        import itertools
        from loopscope.collector import Spool
        from store_tools import spans_payload
        spool = Spool({str(store.path)!r})
        for n in itertools.count(FIRST):
            call = {{"trace": n % 7 + 1, "span": n, "start": n, "end": n + 5}}
            spool.write([("traces", spans_payload(call | {{"attributes": {{"tool": "t"}}}}))])
            print(n, flush=True)
    """
    folder = f"""
        from loopscope.collector import Folder, Store
        from store_tools import derive
        folder = Folder(Store({str(store.path)!r}), derive=derive, max_bytes=2000)
        while True:
            folder.try_fold()
            print("round", flush=True)
    """
    chance = random.Random(7)
    acknowledged: list[int] = []
    for generation in range(4):
        # They are killed once they got so far: in the middle of whatever they do then.
        lives = [(writer.replace("FIRST", str(generation * 100_000 + 1)), chance.randint(10, 60))]
        lives.append((writer.replace("FIRST", str(generation * 100_000 + 50_001)), chance.randint(10, 60)))
        lives += [(folder, chance.randint(1, 4)) for _ in range(2)]
        running = [(run_python(code, stdout=subprocess.PIPE, text=True), lines) for code, lines in lives]
        for process, lines in running:
            said = [process.stdout.readline() for _ in range(lines)]
            process.send_signal(signal.SIGKILL)
            said += process.communicate()[0].splitlines(keepends=True)
            assert process.returncode == -signal.SIGKILL
            # A line that was cut by the death of its writer acknowledges nothing.
            acknowledged += [int(line) for line in said if line.endswith("\n") and line[0].isdigit()]
    Folder(store, derive=derive).try_fold()
    with store.lease() as con:
        stored = [row[0] for row in con.execute("SELECT span_id FROM span_rows ORDER BY 1").fetchall()]
        calls = [row[0] for row in con.execute("SELECT span_id FROM tool_call_rows ORDER BY 1").fetchall()]
    assert len(acknowledged) >= 80
    assert len(stored) == len(set(stored))
    assert {span_id(n) for n in acknowledged} <= set(stored)
    assert calls == stored
    assert Spool(store.path).quarantined() == []


def test_writers_a_folder_and_readers_at_once(store):
    with store.lease():
        pass
    path = str(store.path)
    writer = f"""
        from loopscope.collector import Spool
        from store_tools import spans_payload
        spool = Spool({path!r})
        for n in range(40):
            attributes = {{"tool": "t", "result": "x" * 2000}}
            span = {{"trace": BASE, "span": n + 1, "end": 9_000, "attributes": attributes}}
            spool.write([("traces", spans_payload(span))])
    """
    server = f"""
        import sys, threading
        from loopscope.collector import Folder, Store
        from store_tools import derive
        stop = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.readline(), stop.set())).start()
        Folder(Store({path!r}), role="server", derive=derive).run(stop, interval=0.01)
    """
    reader = f"""
        import json
        from loopscope.collector import Store
        store = Store({path!r}, timeout=30)
        seen = []
        while not seen or seen[-1] < 160:
            with store.lease() as con:
                counts = con.execute(
                    "SELECT count(*), count(DISTINCT span_id || trace_id), count(result) FROM tool_calls"
                ).fetchall()[0]
            assert len(set(counts)) == 1, counts
            seen.append(counts[0])
        assert seen == sorted(seen)
        print(json.dumps(len(seen)))
    """
    folder = run_python(server, stdin=subprocess.PIPE, text=True)
    reading = run_python(reader, stdout=subprocess.PIPE, text=True)
    writers = [run_python(writer.replace("BASE", str(n))) for n in range(1, 5)]
    assert [process.wait() for process in writers] == [0] * 4
    out, _ = reading.communicate()
    folder.communicate("\n")
    assert reading.returncode == 0
    assert folder.returncode == 0
    assert json.loads(out) > 0
    assert count(store, "tool_call_rows") == 160
