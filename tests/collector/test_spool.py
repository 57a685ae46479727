"""The spool folder and the format of its segments."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopscope.collector import Spool, read_segment
from loopscope.collector._segment import encode_segment
from loopscope.collector._spool import network_file_system
from loopscope.guard import SpoolError


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "t.duckdb")


def test_nothing_is_touched_before_the_first_write(spool, tmp_path):
    assert spool.pending() == []
    assert spool.quarantined() == []
    assert list(tmp_path.iterdir()) == []


def test_a_segment_comes_back_as_written(spool):
    path = spool.write(
        [("traces", b"abc"), ("logs", b""), ("traces", b"\0" * 1000)], meta={"dropped_spans": 3}
    )
    segment = spool.read(path)
    assert segment.payloads == [("traces", b"abc"), ("logs", b""), ("traces", b"\0" * 1000)]
    assert segment.meta == {"dropped_spans": 3}
    assert str(segment.received_ns).zfill(20) == path.name.split("-")[0]


def test_segments_are_listed_in_the_order_of_writing(spool):
    written = [spool.write([("traces", bytes([n]))]) for n in range(5)]
    assert spool.pending() == written
    assert [spool.read(path).payloads[0][1] for path in spool.pending()] == [bytes([n]) for n in range(5)]


def test_the_folder_and_its_files_are_private(spool):
    path = spool.write([("traces", b"x")])
    spool.quarantine(spool.write([("traces", b"y")]), "why")
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((spool.path / "quarantine").stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_open_folder_is_closed_to_others(spool):
    spool.path.mkdir(mode=0o755)
    spool.write([("traces", b"x")])
    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o700


def test_no_temporary_file_is_left_or_listed(spool):
    spool.write([("traces", b"x")])
    (spool.path / ".tmp-half.seg").write_bytes(b"half a segm")
    assert len(spool.pending()) == 1
    spool.sweep()
    assert (spool.path / ".tmp-half.seg").exists(), "its writer may still be at it"
    os.utime(spool.path / ".tmp-half.seg", (0, 0))
    spool.sweep()
    assert not (spool.path / ".tmp-half.seg").exists()


def test_a_write_is_synced_before_its_name_appears_and_the_folder_after(spool, monkeypatch):
    steps = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real_fsync(descriptor)

    def rename(source, target):
        steps.append("rename")
        real_rename(source, target)

    spool.prepare()
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    spool.write([("traces", b"x")])
    assert steps == ["file", "rename", "folder"]


def test_threads_write_without_losing_any(spool):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: spool.write([("traces", n.to_bytes(2, "big"))]), range(200)))
    seen = {int.from_bytes(spool.read(path).payloads[0][1], "big") for path in spool.pending()}
    assert seen == set(range(200))


def test_a_folder_removed_under_a_writer_is_made_again(spool):
    spool.quarantine(spool.write([("traces", b"x")]), "gone")
    for path in (spool.path / "quarantine").iterdir():
        path.unlink()
    (spool.path / "quarantine").rmdir()
    spool.path.rmdir()
    spool.write([("traces", b"y")])
    assert len(spool.pending()) == 1


@given(
    payloads=st.lists(st.tuples(st.sampled_from(["traces", "logs"]), st.binary(max_size=200)), max_size=5),
    damage=st.data(),
)
def test_any_damage_is_noticed(tmp_path_factory, payloads, damage):
    whole = encode_segment(payloads, received_ns=5)
    path = tmp_path_factory.mktemp("seg") / "s.seg"
    at = damage.draw(st.integers(0, len(whole) - 1))
    kind = damage.draw(st.sampled_from(["cut", "flip", "append"]))
    if kind == "cut":
        data = whole[:at]
    elif kind == "flip":
        data = whole[:at] + bytes([whole[at] ^ damage.draw(st.integers(1, 255))]) + whole[at + 1 :]
    else:
        data = whole + b"x" * (at + 1)
    path.write_bytes(data)
    with pytest.raises(SpoolError, match=r"s\.seg"):
        read_segment(path)
    path.write_bytes(whole)
    assert read_segment(path).payloads == payloads


@pytest.mark.parametrize("content", [b"", b"hello", b"LOOPSEG1", bytes(range(100, 200))])
def test_a_file_that_is_no_segment_says_so_in_one_line(tmp_path, content):
    path = tmp_path / "s.seg"
    path.write_bytes(content)
    with pytest.raises(SpoolError) as caught:
        read_segment(path)
    assert "\n" not in str(caught.value)


def test_quarantine_keeps_the_file_and_the_reason(spool):
    path = spool.write([("traces", b"x")])
    spool.quarantine(path, "cut short")
    spool.quarantine(path, "again, though it is gone")
    assert spool.pending() == []
    assert spool.quarantined() == [(path.name, "again, though it is gone")]
    assert (spool.path / "quarantine" / path.name).read_bytes().startswith(b"LOOPSEG1")


def test_quarantine_of_a_segment_that_is_gone_leaves_nothing(spool):
    path = spool.write([("traces", b"x")])
    spool.remove(path)
    spool.remove(path)
    spool.quarantine(path, "gone")
    assert spool.quarantined() == []
    assert list((spool.path / "quarantine").iterdir()) == []


def test_a_missing_parent_folder_is_one_clear_line(tmp_path):
    with pytest.raises(SpoolError, match="there is no folder"):
        Spool(tmp_path / "nowhere" / "t.duckdb").write([("traces", b"x")])


def test_a_link_or_a_file_in_the_way_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "a.duckdb.spool").symlink_to(elsewhere)
    (tmp_path / "b.duckdb.spool").write_text("a file")
    for name in ("a.duckdb", "b.duckdb"):
        with pytest.raises(SpoolError, match="in the way"):
            Spool(tmp_path / name).write([("traces", b"x")])
    assert list(elsewhere.iterdir()) == []


def test_a_full_disk_is_a_spool_error_and_leaves_nothing(spool, monkeypatch):
    spool.prepare()

    def no_space(descriptor, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    with pytest.raises(SpoolError, match="No space left on device"):
        spool.write([("traces", b"x")])
    monkeypatch.undo()
    assert list(spool.path.iterdir()) == []


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/me/scratch tmpfs rw 0 0
//nas/share /mnt/with\\040space cifs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
overlay /mnt/overlay overlay rw 0 0
something /mnt/odd neverheardof rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/data", None),
        ("/home/me", "nfs4"),
        ("/homework", None),
        ("/home/me/scratch/x", None),
        ("/mnt/with space/db", "cifs"),
        ("/mnt/ssh", "fuse.sshfs"),
        ("/mnt/overlay", None),
        ("/mnt/odd", None),
    ],
)
def test_network_file_systems_are_told_by_their_mount(path, kind):
    assert network_file_system(path, MOUNTS) == kind


def test_a_network_file_system_is_refused_with_the_way_out(spool, monkeypatch):
    monkeypatch.setattr("loopscope.collector._spool.network_file_system", lambda path: "nfs4")
    with pytest.raises(SpoolError, match=r"network file system \(nfs4\).*local disk"):
        spool.write([("traces", b"x")])
    assert not spool.path.exists()


def test_importing_the_spool_loads_nothing_heavy():
    code = (
        "import sys; from loopscope.collector import Spool;"
        " print([m for m in ('duckdb', 'pyarrow', 'starlette') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
