"""What all session files share: recognition by content, bad lines, bounded memory, hostile values."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
import test_import_codex
import test_import_exchanges
import test_import_gemini
import test_import_pi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_files import Claude, Entry, as_lines, read, write
from test_import_claude_code import small

from loopscope.collector import Store, decode_traces, import_paths
from loopscope.collector.importers import FORMATS
from loopscope.collector.importers._report import FormatError, NotATraceError, SkipList
from loopscope.collector.importers.sessions import SESSION_FORMATS, session_format, tell_lines
from loopscope.collector.importers.sessions import _history as history
from loopscope.collector.importers.sessions import _lines as lines_module

SAMPLES: dict[str, list[Entry]] = {
    "claude-code": small().entries,
    "codex": test_import_codex.small().entries,
    "gemini-cli": test_import_gemini.small(),
    "pi": test_import_pi.small(tree=True).entries,
    "anthropic": test_import_exchanges.exchanges(test_import_exchanges.TALK),
    "openai-responses": test_import_exchanges.responses(linked=True),
}
CALLS = {"claude-code": 6, "codex": 6, "gemini-cli": 6, "pi": 5, "anthropic": 4, "openai-responses": 4}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


def test_every_format_has_a_sample_here():
    assert set(SAMPLES) == {format.name for format in SESSION_FORMATS} <= set(FORMATS)


def test_each_file_is_known_by_its_content(tmp_path: Path, db: Path):
    """Names that tell nothing, or something wrong; packed and not."""
    folder = tmp_path / "files"
    folder.mkdir()
    expected = {}
    for number, (name, entries) in enumerate(SAMPLES.items()):
        data = as_lines(entries)
        path = folder / (f"{number}.json" if number % 2 else f"{number}.jsonl.gz")
        path.write_bytes(data if number % 2 else gzip.compress(data))
        expected[path.name] = (name, CALLS[name])
    report = import_paths(db, [folder])
    assert report.errors == report.skipped == []
    assert {file.path.name: (file.format, file.calls) for file in report.files} == expected
    assert all(file.skipped == [] for file in report.files)
    assert all(file.already_there for file in import_paths(db, [folder]).files)
    with Store(db).lease() as con:
        rows = con.execute("SELECT DISTINCT dialect, service_name FROM tool_calls ORDER BY 1").fetchall()
        (states,) = con.execute("SELECT list(DISTINCT content_state) FROM llm_requests").fetchall()
        sources = con.execute("SELECT DISTINCT run_source FROM tool_calls").fetchall()
    assert rows == [(name, name) for name in sorted(SAMPLES)]
    assert states == (["full"],)
    assert sources == [("transcript",)]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_that_breaks_off_comes_in_up_to_there(name: str):
    entries = SAMPLES[name]
    data = as_lines(entries[:-1]) + as_lines(entries[-1:])[:-20]
    found = read(name, data)
    whole = read(name, as_lines(entries[:-1]))
    assert found.told() == whole.told()
    ((where, why),) = [skip for skip in found.skipped if skip not in whole.skipped]
    assert where == f"line {len(entries)}"
    assert "not valid JSON" in why


BAD = [
    b'{"type": "user", "uuid"',
    b"\xff\xfe\x00garbage",
    b"[" * 100_000,
    b'{"n": ' + b"9" * 5000 + b"}",
    b"17",
    b'"text"',
]


def test_bad_lines_are_left_out_and_counted(tmp_path: Path, db: Path):
    good = as_lines(small().entries).splitlines(keepends=True)
    mixed = b"".join(line + BAD[number % len(BAD)] + b"\n" for number, line in enumerate(good))
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + mixed + b"\n\r\n")
    file = import_paths(db, [path]).files[0]
    assert (file.error, file.format, file.calls) == (None, "claude-code", 6)
    assert len(file.skipped) == len(good)
    assert file.skipped[0].where == "line 2"
    whys = {skip.why.partition(" (")[0] for skip in file.skipped}
    assert whys == {
        "not valid JSON",
        "not UTF-8 text",
        "nested too deeply to be read",
        "holds a number too long to be read",
        "neither an object nor a list",
    }


def test_a_file_whose_beginning_was_cut_off(tmp_path: Path, db: Path):
    data = as_lines(small().entries)
    path = tmp_path / "s.jsonl"
    path.write_bytes(data[30:])
    file = import_paths(db, [path]).files[0]
    assert (file.error, file.format, file.calls) == (None, "claude-code", 6)
    assert [skip.where for skip in file.skipped] == ["line 1"]
    # Where the user says what it is, any number of bad lines may come first.
    path.write_bytes(b"no\n" * 50 + data)
    file = import_paths(db, [path], format="claude-code").files[0]
    assert (file.error, file.calls, len(file.skipped)) == (None, 6, 50)


def test_a_wholly_bad_file_is_one_error(tmp_path: Path, db: Path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"type": "user", "uuid"\n' * 300)
    (error,) = import_paths(db, [path], format="claude-code").errors
    assert str(error).startswith(f"{path}: ")
    assert "\n" not in str(error)
    assert not db.exists()
    format = session_format("claude-code")
    assert format is not None
    with pytest.raises(FormatError, match="none of its 300 lines can be read"):
        list(format.of_lines(io.BytesIO(path.read_bytes()).read, SkipList()))


def test_a_file_of_another_format_is_named(tmp_path: Path, db: Path):
    path = write(tmp_path / "s.jsonl", SAMPLES["codex"])
    (error,) = import_paths(db, [path], format="claude-code").errors
    assert "claude-code" in str(error)
    chat = write(tmp_path / "c.jsonl", [{"role": "user", "content": "hi"}])
    (error,) = import_paths(db, [chat], format="pi").errors
    assert "nothing in it is of the format pi" in str(error)


def test_lines_of_a_value_over_several_are_no_json_lines():
    messages = [json.dumps(message) for message in test_import_exchanges.TALK]
    data = ("[\n" + ",\n".join(messages) + "\n]\n").encode()
    assert tell_lines(lambda size: data[:size]) is None
    alone = ('{"messages": [\n' + messages[2] + "\n]}\n").encode()
    assert tell_lines(lambda size: alone[:size]) is None
    wrapped = ('{"messages": [\n' + ",\n".join(messages) + "\n]}\n").encode()
    assert tell_lines(lambda size: wrapped[:size]) is None


def test_session_lines_inside_of_a_protobuf_are_its_content():
    data = b"\n\x84\x01\n\x02" + as_lines(SAMPLES["claude-code"])
    assert tell_lines(lambda size: data[:size]) is None


def test_no_content_leaves_no_content(tmp_path: Path, db: Path):
    for name, entries in SAMPLES.items():
        write(tmp_path / "x" / f"{name}.jsonl", entries)
    report = import_paths(db, [tmp_path / "x"], capture_content=False)
    assert report.errors == []
    assert report.totals.calls == sum(CALLS.values())
    with Store(db).lease() as con:
        rows = con.execute(
            "SELECT count(arguments), count(result), count(call_id), count(outcome) FROM tool_calls"
        ).fetchall()
        texts = con.execute(
            "SELECT count(input_messages), count(output_messages) FROM llm_requests"
        ).fetchall()
        everything = con.execute("SELECT string_agg(attributes::VARCHAR) FROM spans").fetchall()[0][0]
    assert rows[0][:2] == (0, 0)
    assert rows[0][3] > 0
    assert texts == [(0, 0)]
    for secret in ("2 failed", "make test", "Why do"):
        assert secret not in everything


def test_memory_is_bounded_by_lines_not_by_the_file(monkeypatch: pytest.MonkeyPatch):
    """Spans go out while the file is read; texts, entries and open calls that are kept have a limit."""
    monkeypatch.setattr(history.Contents.__init__, "__defaults__", (4_000,))
    monkeypatch.setattr(history.Nodes.__init__, "__defaults__", (20,))
    log = Claude()
    first = log.user("go")
    for number in range(400):
        log.asks(f"msg_{number}", f"c{number}", "Bash", {"command": "x" * 3_000})
        log.result(f"c{number}", "y" * 3_000)
    log.user("back to the start", parent=first)
    log.says("msg_last", "ok")
    data = as_lines(log.entries)
    stream = io.BytesIO(data)
    format = session_format("claude-code")
    assert format is not None
    behind = []
    for part in format.of_lines(stream.read, SkipList()):
        assert len(part.data) < 300_000
        behind.append(stream.tell())
    assert len(behind) > 8
    assert behind[0] < len(data)  # the first went out before the file was read to its end
    found = read("claude-code", log.entries)
    states = [request.content_state for request in found.requests]
    assert states == ["full"] * 400 + ["truncated"]  # what is forgotten is not made up
    assert len(found.calls) == 400


def test_a_line_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines_module, "MAX_LINE", 2_000)
    log = Claude()
    log.user("go")
    log.says("msg_1", "x" * 5_000)
    log.says("msg_2", "short")
    found = read("claude-code", log.entries)
    assert [where for where, _ in found.skipped] == ["line 2"]
    assert len(found.requests) == 1


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["a", "c1", "user"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _paths(inner, (*path, key))
    return found


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_whatever_stands_where_something_else_was_expected(name: str, data: st.DataObject):
    """Any value anywhere: nothing breaks, and spans come out that can be decoded, each once."""
    entries = json.loads(json.dumps(SAMPLES[name]))
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(_paths(entries)))
        target = entries
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = data.draw(VALUES)
    order = data.draw(st.permutations(range(len(entries))) | st.just(list(range(len(entries)))))
    entries = [entries[number] for number in order]
    try:
        first = read(name, entries)
    except NotATraceError:
        return
    again = read(name, entries)
    assert again.spans == first.spans
    assert {span.span_id for span in first.roots()} >= {
        span.parent_span_id for span in first.spans if span.parent_span_id
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_parts_can_be_stored_one_by_one(name: str):
    format = session_format(name)
    assert format is not None
    for part in format.of_lines(io.BytesIO(as_lines(SAMPLES[name])).read, SkipList()):
        assert {bytes.fromhex(span.trace_id) for span in decode_traces(part.data)} == part.trace_ids
