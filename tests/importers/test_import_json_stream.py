"""JSON values out of a byte stream: arrangements, line numbers, limits."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopscope.collector.importers import _json_stream
from loopscope.collector.importers._json_stream import json_values
from loopscope.collector.importers._report import FormatError


def read(data: bytes, chunk: int | None = None):
    stream = io.BytesIO(data)
    return list(json_values(lambda size: stream.read(min(size, chunk or size))))


def values(data: bytes) -> list[object]:
    return [item.value for item in read(data)]


def failure(data: bytes) -> FormatError:
    with pytest.raises(FormatError) as caught:
        read(data)
    return caught.value


def test_json_lines_know_their_line():
    found = read(b'{"a": 1}\n\n{"a": 2}\r\n  {"a": 3}')
    assert [(item.value["a"], item.line, item.array) for item in found] == [
        (1, 1, None),
        (2, 3, None),
        (3, 4, None),
    ]


def test_a_printed_object_may_follow_a_line():
    assert values(b'{"a": 1}\n{\n "b": [\n]\n}\n{"c": 2}') == [{"a": 1}, {"b": []}, {"c": 2}]


def test_objects_back_to_back_and_pretty_printed():
    data = json.dumps({"a": [1, 2]}, indent=2) + json.dumps({"b": "x\ny"}, indent=2)
    assert values(data.encode()) == [{"a": [1, 2]}, {"b": "x\ny"}]


def test_a_top_level_array_comes_in_elements():
    found = read(b'[{"a": 1},\n {"a": 2}]\n[3, "x"]')
    assert [(item.value, item.array, item.index, item.line) for item in found] == [
        ({"a": 1}, 1, 1, 1),
        ({"a": 2}, 1, 2, 2),
        (3, 2, 1, 3),
        ("x", 2, 2, 3),
    ]


def test_byte_order_marks_are_read():
    assert values(b'\xef\xbb\xbf{"a": "\xc3\xa4"}') == [{"a": "ä"}]
    assert values('{"a": "ä"}'.encode("utf-16")) == [{"a": "ä"}]


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        (b'{"a": 1}\n{"a": 2\n{"a": 3}\n', "line 2", "the line is cut off or damaged"),
        (b'{"a": 1}\r\n{"a": "cut\n{"a": 3}\n', "line 2", "the line is cut off or damaged"),
        (b'{"a": 1}\n{"a":\n{"a": 3}\n{"a": 4}', "line 2", "the line is cut off or damaged"),
        (b'{"a": 1}\n{\n"a": "cut\n}\n', "line 3", "in the value that begins on line 2"),
        (b'{"a": 1}\n{"a": tru', "at the end of the file", "cut off in the value that begins on line 2"),
        (b'{"a": 1}\n{"a": "cut', "at the end of the file", "cut off in the value that begins on line 2"),
        (b'{"a": 1}\n{"a": "\\u12', "at the end of the file", "cut off in the value that begins on line 2"),
        (b'{"a": 1}\n{"a": "\\u12"}', "line 2", "not valid JSON"),
        (b'{"a": 1} {"a": [1, 2,\n', "at the end of the file", "cut off in the value that begins on line 1"),
        (b'\n[{"a": 1},\n', "at the end of the file", "cut off in a list that begins on line 2"),
        (b'[{"a": 1}\n{"a": 2}]', "line 2", "expected ',' or ']' in a list, found '{'"),
        (b'{"a": 1}\n{"a": "\xff"}', "near byte", "not UTF-8"),
        (b'{"a": 1}\nhello', "line 2", "not valid JSON"),
        (b'{"a": 1}\n' + b"[" * 100_000, "line 2", "nested too deeply"),
        (b'{"a": 1}\n{"n": ' + b"9" * 5000 + b"}", "line 2", "number too long"),
    ],
)
def test_what_is_wrong_and_where(data: bytes, where: str, what: str):
    error = failure(data)
    assert where in error.where
    assert what in error.what


def test_a_value_may_be_longer_than_a_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_json_stream, "_CHUNK", 7)
    rows = [{"text": "x" * 100, "n": n, "deep": [[[n]]]} for n in range(20)]
    assert values("\n".join(map(json.dumps, rows)).encode()) == rows
    assert values(json.dumps(rows, indent=1).encode()) == rows


def test_a_value_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_json_stream, "_CHUNK", 1 << 10)
    monkeypatch.setattr(_json_stream, "MAX_VALUE", 1 << 12)
    read_bytes = 0

    def endless(size: int) -> bytes:
        nonlocal read_bytes
        read_bytes += size
        return b'["' + b"x" * (size - 2) if read_bytes == size else b"x" * size

    with pytest.raises(FormatError, match="one JSON value of more than"):
        list(json_values(endless))
    assert read_bytes <= 1 << 15


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(
    rows=st.lists(json_data, max_size=5),
    indent=st.none() | st.integers(0, 2),
    separator=st.sampled_from(["\n", "\r\n", " ", "\n\n \t"]),
    chunk=st.integers(1, 40),
    ascii_only=st.booleans(),
)
def test_any_values_in_any_layout_come_back(
    rows: list[object], indent: int | None, separator: str, chunk: int, ascii_only: bool
):
    def text(value: object) -> str:
        # Other than json.dumps, UTF-8 has no lone surrogates.
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only or _has_surrogate(value))

    lines = separator.join(text({"value": row}) for row in rows).encode()
    assert [item.value for item in read(lines, chunk)] == [{"value": row} for row in rows]
    array = text(rows).encode()
    assert [item.value for item in read(array, chunk)] == rows


def _has_surrogate(value: object) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in json.dumps(value, ensure_ascii=False))


@pytest.mark.parametrize("chunk", [7, 1 << 10])
def test_a_long_object_comes_once_for_each_entry(monkeypatch: pytest.MonkeyPatch, chunk: int):
    monkeypatch.setattr(_json_stream, "_CHUNK", chunk)
    monkeypatch.setattr(_json_stream, "_SPLIT_FROM", 200)
    entries = [{"id": n, "text": "x" * 50, "data": [1, 2]} for n in range(20)]
    whole = {"info": {"a": [1]}, "samples": entries, "end": {"b": 2}}
    data = json.dumps(whole, indent=1).encode() + b'\n{"next": 1}'
    found = read(data)
    assert [item.value for item in found] == [
        *[{"info": {"a": [1]}, "samples": [entry]} for entry in entries],
        {"next": 1},
    ]
    lines = data.decode().splitlines()
    assert [lines[item.line - 1].strip() for item in found[:-1]] == ["{"] * 20
    assert [item.where.partition(" (")[0] for item in found[:-1]] == [f"samples {n}" for n in range(1, 21)]
    assert found[-1].line == len(lines)


def test_a_long_object_without_entries_comes_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_json_stream, "_CHUNK", 16)
    monkeypatch.setattr(_json_stream, "_SPLIT_FROM", 50)
    rows: list[dict[str, object]] = [
        {"messages": [{"content": "x" * 100}] * 3, "samples": {"a": "b" * 100}},
        {"samples": [], "data": [], "y": "x" * 100},
        {"data": ["x" * 100, 7], "runs": [1]},
    ]
    expected = [rows[0], {"y": "x" * 100}, {"data": ["x" * 100]}, {"data": [7]}, {"runs": [1]}]
    assert values("".join(map(json.dumps, rows)).encode()) == expected


@pytest.mark.parametrize(
    ("end", "where", "what"),
    [
        ('{"a": 1}', "at the end of the file", "cut off in a list that begins on line 1"),
        ('{"a": 1}]', "at the end of the file", "cut off in the value that begins on line 1"),
        ('{"a": 1}], "b"', "line 1", "not valid JSON"),
        ('{"a": 1}], "b": ', "at the end of the file", "cut off in the value that begins on line 1"),
        ('{"a": 1}] "b": 1}', "line 1", "expected ',' or '}', found '\"'"),
        ('{"a": 1}], 7: 1}', "line 1", "not valid JSON"),
        ('{"a": 1} 7]}', "line 1", "expected ',' or ']' in a list, found '7'"),
    ],
)
def test_what_is_wrong_in_a_long_object(monkeypatch: pytest.MonkeyPatch, end: str, where: str, what: str):
    monkeypatch.setattr(_json_stream, "_CHUNK", 16)
    monkeypatch.setattr(_json_stream, "_SPLIT_FROM", 50)
    error = failure(('{"samples": [{"text": "' + "x" * 200 + '"}, ' + end).encode())
    assert where in error.where
    assert what in error.what


def test_memory_for_a_long_object_is_that_of_its_biggest_entry(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_json_stream, "_CHUNK", 1 << 10)
    monkeypatch.setattr(_json_stream, "_SPLIT_FROM", 1 << 12)
    monkeypatch.setattr(_json_stream, "MAX_VALUE", 1 << 13)
    entry = json.dumps({"text": "x" * 3000})
    many = '{"samples": [' + ", ".join([entry] * 100) + "]}"
    assert len(read(many.encode())) == 100
    for bad in (
        '{"samples": [' + json.dumps("x" * (1 << 15)) + "]}",
        '{"a": ' + json.dumps("x" * (1 << 15)) + "}",
    ):
        assert "one JSON value of more than" in failure(bad.encode()).what
    assert "one JSON value" in failure(json.dumps({f"k{n}": "x" * 3000 for n in range(10)}).encode()).what
