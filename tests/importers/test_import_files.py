"""Finding files, reading them, telling what they are."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest

from loopscope.collector.importers import _files
from loopscope.collector.importers._detect import classify, container_of
from loopscope.collector.importers._files import ByteSource, find_files
from loopscope.collector.importers._report import FormatError, NotATraceError


def names(top: Path) -> list[str]:
    return [str(file.path.relative_to(top)) for file in find_files(top)]


def read_all(path: Path) -> bytes:
    with ByteSource(path) as source:
        return b"".join(iter(lambda: source.read(1000), b""))


def test_a_folder_gives_what_could_be_a_trace(tmp_path: Path):
    for name in ("b.jsonl", "a.json.gz", "sub/c.pb", "README.md", "x.py", ".hidden.json", ".git/d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "t.duckdb.spool").mkdir()
    (tmp_path / "t.duckdb.spool" / "e.json").write_text("{}")
    found = [
        str(file.path.relative_to(tmp_path))
        for file in find_files(tmp_path, leave_out=lambda folder: folder.suffix == ".spool")
    ]
    assert found == ["a.json.gz", "b.jsonl", "sub/c.pb"]


def test_links_that_form_a_loop_are_not_followed(tmp_path: Path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self.json").symlink_to(tmp_path / "self.json")
    (tmp_path / "again.json").symlink_to(tmp_path / "a.json")
    assert names(tmp_path) == ["a.json"]
    with pytest.raises(FormatError, match="cannot be read"):
        list(find_files(tmp_path / "self.json"))


def test_what_is_no_file_is_refused(tmp_path: Path):
    with pytest.raises(FormatError, match="no such file"):
        list(find_files(tmp_path / "absent"))
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(FormatError, match="neither a file nor a folder"):
        list(find_files(tmp_path / "pipe.json"))
    assert names(tmp_path) == []


def test_gzip_is_told_by_content(tmp_path: Path):
    plain, packed = tmp_path / "plain.gz", tmp_path / "packed.json"
    plain.write_bytes(b"{}")
    packed.write_bytes(gzip.compress(b'{"a":') + gzip.compress(b" 1}"))
    assert read_all(plain) == b"{}"
    assert read_all(packed) == b'{"a": 1}'


def test_peek_takes_nothing_away(tmp_path: Path):
    path = tmp_path / "a.json"
    path.write_bytes(b"0123456789" * 100)
    with ByteSource(path) as source:
        assert source.peek(5) == b"01234"
        assert source.peek(2000) == b"0123456789" * 100
        assert b"".join(iter(lambda: source.read(7), b"")) == b"0123456789" * 100


@pytest.mark.parametrize("kept", [3, 12, 40])
def test_a_cut_gzip_says_so(tmp_path: Path, kept: int):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(os.urandom(1000))[:kept])
    with pytest.raises(FormatError, match="cut off"):
        read_all(path)


def test_a_damaged_gzip_says_so(tmp_path: Path):
    data = bytearray(gzip.compress(os.urandom(1000)))
    data[20] ^= 0xFF
    data[-6] ^= 0xFF
    path = tmp_path / "a.gz"
    path.write_bytes(data)
    with pytest.raises(FormatError, match="damaged"):
        read_all(path)
    path.write_bytes(gzip.compress(b"{}") + b"garbage")
    with pytest.raises(FormatError, match="damaged"):
        read_all(path)


def test_zstandard_is_told_by_content(tmp_path: Path):
    content = b'{"a": 1}\n' * 5000
    packed = pa.Codec("zstd").compress(content, asbytes=True)
    path = tmp_path / "packed.json"
    path.write_bytes(packed + pa.Codec("zstd").compress(b"[]", asbytes=True))
    assert read_all(path) == content + b"[]"
    for bad in (packed[:-5], packed[:20], packed + b"garbage garbage"):
        path.write_bytes(bad)
        with pytest.raises(FormatError, match="zstandard data is cut off or damaged"):
            read_all(path)


def test_a_zstandard_bomb_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_files, "_BOMB_FROM", 1 << 16)
    path = tmp_path / "bomb.zst"
    path.write_bytes(pa.Codec("zstd").compress(b" " * (4 << 20), asbytes=True))
    given: list[bytes] = []
    with ByteSource(path) as source, pytest.raises(FormatError, match="unpacks to more than"):
        given.extend(iter(lambda: source.read(1 << 12), b""))
    assert sum(map(len, given)) <= (1 << 16) + 300 * path.stat().st_size


def test_a_bomb_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_files, "_BOMB_FROM", 1 << 16)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b" " * (4 << 20)))
    given: list[bytes] = []
    with ByteSource(path) as source, pytest.raises(FormatError, match="unpacks to more than"):
        given.extend(iter(lambda: source.read(1 << 12), b""))
    assert sum(map(len, given)) <= (1 << 16) + 300 * path.stat().st_size


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\x28\xb5\x2f\xfdxx", "zstandard inside"),
        (b"BZh9", "bzip2"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"\x00" * 8 + b"DUCK" + b"\x40", "DuckDB"),
        (b"\x1f\x8bxx", "gzip inside gzip"),
        (b" \n", "no data"),
    ],
)
def test_well_known_other_files_are_named(head: bytes, name: str):
    with pytest.raises(NotATraceError, match=name):
        container_of(head)


def test_json_and_protobuf_are_told_apart():
    assert container_of(b'{"resourceSpans": []}') == "json"
    assert container_of(b"\xef\xbb\xbf[\n  {") == "json"
    assert container_of(b"\n\n{\n") == "json"
    assert container_of(b'[["a"]]') == "json"
    # A bare request of 123 bytes whose resource has 34: it begins like JSON after an empty line.
    assert container_of(b'\n{\n"\n \n\x0cservice.name') == "binary"
    assert container_of(b"\x00\x00\x01\x02\n") == "binary"
    assert container_of(b"hello") == "binary"
    assert container_of(b"PK\x03\x04xx") == "zip"
    assert container_of(b"PAR1xx") == "parquet"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"resourceSpans": []}, "otlp-json"),
        ({"resource_logs": []}, "otlp-json"),
        ({"resourceMetrics": []}, "otlp-json"),
        ({"role": "user", "content": "hi"}, "openai-chat"),
        ([{"role": "user", "content": "hi"}], "openai-chat"),
        ({"messages": [{"role": "user"}]}, "openai-chat"),
        ({"messages": []}, "openai-chat"),
        ({"traj": [{"role": "user"}]}, "openai-chat"),
        ({"conversation": [{"role": "user"}]}, "openai-chat"),
        ({"trajectory": [{"role": "user"}]}, "openai-chat"),
        ({"task_id": 1, "traj": []}, "tau-bench"),
        ({"info": {}, "simulations": []}, "tau2-bench"),
        ({"trajectory": [{"action": "ls", "observation": "a"}]}, None),
        ({"conversations": [{"from": "human", "value": "hi"}]}, None),
        ({"data": [{"traceID": "x", "spans": []}]}, None),
        ([1, 2], None),
        ("text", None),
        (None, None),
    ],
)
def test_formats_are_told_by_the_first_value(value: object, kind: str | None):
    assert classify(value) == kind
