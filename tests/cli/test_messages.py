"""`loopscope sanitize` and `loopscope lint` over files, bodies, JSON Lines and standard input."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from loopscope.cli import _messages

CALL = {"id": "k", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED = [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": "so", "tool_calls": [CALL]},
]
RESULT = {"role": "tool", "tool_call_id": "k", "content": "one"}
GOOD = [*ASKED, RESULT]
DOUBLED = [*ASKED, RESULT, RESULT]


@pytest.fixture
def file(tmp_path):
    def write(value, name="history.json"):
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write


def test_a_clean_history_goes_through(run, file):
    done = run("sanitize", file(GOOD))
    assert done.code == 0
    assert json.loads(done.out) == GOOD
    assert done.err == "nothing to repair\n"


def test_the_repaired_history_and_what_was_done(run, file):
    done = run("sanitize", file(DOUBLED))
    assert json.loads(done.out) == GOOD
    assert "message 3: dropped_duplicate_result" in done.err


@pytest.mark.parametrize(
    "around",
    [
        lambda history: {"model": "gpt", "messages": history, "temperature": 0},
        lambda history: {"url": "u", "request": {"messages": history}},
    ],
)
def test_a_request_keeps_its_shape(run, file, around):
    done = run("sanitize", file(around(DOUBLED)))
    assert json.loads(done.out) == around(GOOD)


def test_json_lines_give_json_lines(run, file):
    text = "\n".join(json.dumps({"messages": one}) for one in (GOOD, DOUBLED)) + "\n"
    done = run("sanitize", file(text, "wire.jsonl"), "--report", "--format", "json")
    (repair,) = json.loads(done.out)["repairs"]
    assert (repair["line"], repair["message"], repair["repair"]) == (2, 3, "dropped_duplicate_result")
    done = run("sanitize", file(text, "wire.jsonl"))
    assert [json.loads(line)["messages"] for line in done.out.splitlines()] == [GOOD, GOOD]


def test_standard_input_and_an_output_file(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(DOUBLED).encode())))
    done = run("sanitize", "-", "-o", tmp_path / "out.json")
    assert done.out == ""
    assert json.loads((tmp_path / "out.json").read_text()) == GOOD


def test_check_says_by_exit_code_whether_a_repair_is_needed(run, file):
    assert run("sanitize", file(GOOD), "--check").code == 0
    done = run("sanitize", file(DOUBLED), "--check")
    assert (done.code, done.out) == (1, "")
    assert "message 3: dropped_duplicate_result" in done.err


def test_check_still_writes_the_file_that_was_asked_for(run, file, tmp_path):
    assert run("sanitize", file(DOUBLED), "--check", "-o", tmp_path / "out.json").code == 1
    assert json.loads((tmp_path / "out.json").read_text()) == GOOD


def test_a_pending_call_gets_no_stub(run, file):
    assert len(json.loads(run("sanitize", file(ASKED)).out)) == 3
    assert json.loads(run("sanitize", file(ASKED), "--pending", "k").out) == ASKED


def test_reload_prunes_what_nothing_answered(run, file):
    history = [*ASKED, {"role": "user", "content": "more"}]
    done = run("sanitize", file(history), "--reload")
    assert json.loads(done.out) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "so"},
        {"role": "user", "content": "more"},
    ]
    assert "dropped_unpaired_call" in done.err


def test_reload_for_a_provider_does_both_and_counts_in_the_input(run, file):
    """The repair merges and drops messages; ids of what is left are for the provider to refuse."""
    history = [
        {"role": "user", "content": "q"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "so", "tool_calls": [{**CALL, "id": "gone"}]},
        {"role": "user", "content": "again"},
        *GOOD[1:],
        {"role": "assistant", "content": "done"},
    ]
    args = (file(history), "--reload", "--provider", "mistral")
    repairs = json.loads(run("sanitize", *args, "--report", "--format", "json").out)["repairs"]
    assert [(row["message"], row["repair"]) for row in repairs] == [
        (1, "merged_messages"),
        (2, "dropped_unpaired_call"),
        (4, "rewrote_id"),
    ]
    done = run("sanitize", *args)
    sent = json.loads(done.out)
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert sent[3]["tool_calls"][0]["id"] == sent[4]["tool_call_id"] != "k"
    assert "would still refuse" not in done.err
    assert run("lint", file(sent, "sent.json"), "--provider", "mistral").code == 0


def test_rules_go_by_the_model(run, file):
    history = [*GOOD, {"role": "assistant", "content": "done"}]
    by_name = run("lint", file(history), "--provider", "mistral", "--format", "json")
    for names in (
        ("--model", "mistral-large-latest"),
        ("--provider", "openrouter", "--model", "mistralai/m"),
    ):
        done = run("lint", file(history), *names, "--format", "json")
        assert done.code == by_name.code == 1
        (row,) = json.loads(done.out)["violations"]
        assert row["class"] == "id_format"
        done = run("sanitize", file(history), *names, "--report", "--format", "json")
        assert [one["repair"] for one in json.loads(done.out)["repairs"]] == ["rewrote_id"]
    assert run("lint", file(history), "--model", "gpt-4o").code == 0


def test_a_rule_that_only_some_models_of_a_provider_have(run, file):
    """Whether roles must alternate is a matter of the chat template."""
    history = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    args = ("--provider", "llama.cpp", "--format", "json")
    refused = run("lint", file(history), *args, "--model", "mistralai/Mistral-7B-Instruct-v0.2")
    assert [row["class"] for row in json.loads(refused.out)["violations"]] == ["role_order"]
    assert run("lint", file(history), *args, "--model", "Qwen/Qwen3-8B").code == 0


def test_a_provider_of_its_own_rules(run, file):
    history = [*GOOD, {"role": "assistant", "content": "done"}]
    done = run("sanitize", file(history), "--provider", "mistral", "--report", "--format", "json")
    assert {row["repair"] for row in json.loads(done.out)["repairs"]} == {"rewrote_id"}
    assert json.loads(run("sanitize", file(history)).out) == history


def test_lint_of_one_provider(run, file):
    assert run("lint", file(GOOD), "--provider", "openai").code == 0
    done = run("lint", file(DOUBLED), "--provider", "openai", "--format", "json")
    assert done.code == 1
    found = json.loads(done.out)["violations"]
    assert [(row["message"], row["class"], row["provider"]) for row in found] == [
        (3, "duplicate_result", "openai")
    ]


def test_lint_of_every_provider_names_those_that_refuse(run, file):
    done = run("lint", file([*GOOD, {"role": "assistant", "content": "done"}]), "--format", "json")
    assert done.code == 1
    (row,) = json.loads(done.out)["violations"]
    assert (row["class"], row["provider"]) == ("id_format", "mistral")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("lint", "nowhere.json"), "nowhere.json: cannot be read: No such file"),
        (("sanitize", "."), "a folder; give one file"),
        (("lint", "{bad}"), "bad.json: not JSON"),
        (("lint", "{odd}"), "odd.json: no message history"),
        (("lint", "{torn}"), "torn.jsonl, line 2: not JSON"),
        (
            ("lint", "{good}", "--provider", "nobody"),
            "--provider 'nobody': no rules are known; choose one of",
        ),
        (("sanitize", "{good}", "--message-format", "xml"), "choose one of openai-chat"),
        (("sanitize", "{good}", "--model", "what"), "--model 'what': its provider is not known"),
        (("lint", "{good}", "--provider", "openrouter"), "behind a gateway give --model, too"),
    ],
)
def test_bad_input_is_one_line(run, file, args, says):
    files = {
        "{bad}": file("nonsense", "bad.json"),
        "{odd}": file({"a": 1}, "odd.json"),
        "{torn}": file(json.dumps(GOOD) + "\n[{", "torn.jsonl"),
        "{good}": file(GOOD, "good.json"),
    }
    done = run(*(files.get(arg, arg) for arg in args))
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1


def test_content_is_shown_and_not_obeyed(run, file):
    history = [*ASKED, {**RESULT, "tool_call_id": "\x1b[31mzz"}]
    done = run("sanitize", file(history), "--report")
    assert "\x1b" not in done.out
    assert "\x1b" not in done.err


def test_a_message_a_line_is_one_history(run, file):
    text = "".join(json.dumps(one) + "\n" for one in DOUBLED)
    done = run("sanitize", file(text, "session.jsonl"))
    assert done.out == "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in GOOD)
    assert "message 3: dropped_duplicate_result" in done.err
    done = run("lint", file(text, "session.jsonl"), "--provider", "openai", "--format", "json")
    (row,) = json.loads(done.out)["violations"]
    assert (row["message"], row["class"], "line" in row) == (3, "duplicate_result", False)


def _reused_id():
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "one"}
    turns = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return [{"role": "user", "content": "q"}, *turns, *turns]


def test_sanitize_says_what_the_maker_of_the_format_still_refuses(run, file):
    done = run("sanitize", file(_reused_id()))
    assert done.err.splitlines()[-1] == "anthropic would still refuse this: give --provider anthropic"
    done = run("sanitize", file(_reused_id()), "--reload")
    assert done.err.splitlines()[-1] == "anthropic would still refuse this: give --provider anthropic"
    assert "still" not in run("sanitize", file(_reused_id()), "--provider", "anthropic").err


def test_the_reason_is_whole_on_a_narrow_terminal(run, file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = run("lint", file(DOUBLED), "--provider", "openai")
    # The last column goes on in more lines: its words are all there.
    assert "…" not in done.out
    assert {"call", "has", "one", "result"} <= set(done.out.split("rule:")[1].split())


def test_half_of_an_emoji_goes_out_as_it_came(shell, file, tmp_path):
    cut = [{"role": "user", "content": "\ud83d"}, {"role": "tool", "tool_call_id": "\ud83d", "content": "x"}]
    source = file(cut)
    for args in (("--report", "--format", "csv"), ("-o", "out.json")):
        done = shell("sanitize", source, *args)
        assert (done.code, "bug" in done.err) == (0, False)
    assert json.loads((tmp_path / "out.json").read_text()) == cut[:1]
    assert json.loads(shell("sanitize", source).out) == cut[:1]
    (violation, *_) = json.loads(shell("lint", source, "--format", "json").out)["violations"]
    assert violation["call_id"] == "\ud83d"


def test_the_file_that_is_read_can_be_the_one_that_is_written(run, file):
    source = file(DOUBLED)
    source.chmod(0o640)
    assert run("sanitize", source, "-o", source).code == 0
    assert json.loads(source.read_text()) == GOOD
    assert source.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in source.parent.iterdir()] == [source.name]


def test_a_file_that_cannot_be_written_whole_is_left_alone(run, file, monkeypatch):
    source = file(DOUBLED)

    def full(self, data):
        with self.open("wb") as half:
            half.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(source), "write_bytes", full)
    done = run("sanitize", source, "-o", source)
    assert (done.code, "cannot be written: No space left" in done.err) == (2, True)
    assert json.loads(source.read_text()) == DOUBLED
    assert [one.name for one in source.parent.iterdir()] == [source.name]


@pytest.mark.parametrize("format", ["table", "json"])
def test_a_reader_that_goes_away_is_no_failure(file, format):
    source = file([{"role": "tool", "tool_call_id": str(number), "content": "x"} for number in range(3_000)])
    command = [sys.executable, "-m", "loopscope.cli", "sanitize", str(source), "--report", "--format", format]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 0)


def test_one_line_of_json_stays_one_line(run, file):
    done = run("sanitize", file(json.dumps(DOUBLED) + "\n", "wire.jsonl"))
    assert done.out.count("\n") == 1
    assert json.loads(done.out) == GOOD
    assert run("sanitize", file(json.dumps(DOUBLED, indent=2))).out.count("\n") > 1


def test_many_providers_leave_room_for_the_reason(run, file):
    told = json.loads(run("lint", file(DOUBLED), "--format", "json").out)["violations"]
    names = next(row["provider"] for row in told if row["class"] == "duplicate_result").split(", ")
    assert len(names) > 2
    assert "openai" in names
    line = next(one for one in run("lint", file(DOUBLED)).out.splitlines() if "duplicate_result" in one)
    assert f" +{len(names) - 2} " in line
    assert " openai, " in line
    assert [row["message"] for row in told] == sorted(row["message"] for row in told)


@pytest.mark.parametrize("command", [["sanitize"], ["sanitize", "--report"], ["lint"]])
@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_line(file, command, size):
    """With a small output the failure comes when it is flushed, with a large one when it is written."""
    source = file([{"role": "user", "content": "q" * size}])
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "loopscope.cli", *command, source],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, last.startswith("loopscope: the output cannot be written: ")) == (2, True)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.skipif(sys.platform == "win32", reason="no shell that closes a descriptor")
def test_a_closed_output_is_one_line_and_no_hindrance_where_nothing_is_printed(file):
    def run_closed(*args: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "loopscope.cli", *map(str, args)]
        shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
        return subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)

    source = file(GOOD)
    done = run_closed("sanitize", source)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == [
        "loopscope: the output cannot be written: standard output is closed; write it to another place"
    ]
    made = source.with_name("out.json")
    assert run_closed("sanitize", source, "-o", made).returncode == 0
    assert json.loads(made.read_text()) == GOOD


def test_a_failure_that_is_not_of_the_output_is_still_a_bug(run, file, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "some/file")

    monkeypatch.setattr(_messages, "read_histories", fails)
    done = run("sanitize", file(GOOD))
    assert (done.code, "this is a bug" in done.err) == (70, True)


@pytest.mark.parametrize("command", ["sanitize", "lint"])
@pytest.mark.parametrize("lines", [False, True])
def test_what_json_cannot_give_back_is_refused(run, file, command, lines):
    first = json.dumps({"role": "user", "content": "q"})
    for bad, said in (
        ('{"role": "user", "content": "a", "content": "b"}', 'an object has the key "content" twice'),
        ('{"role": "user", "content": -' + "1" * 4_301 + "}", "a whole number of 4,301 digits"),
    ):
        source = file(f"{first}\n{bad}\n" if lines else f"[{first}, {bad}]")
        done = run(command, source)
        where = f"{source}, line 2" if lines else str(source)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"loopscope: {where}: {said}")
        assert done.err.count("\n") == 1


def test_a_long_number_that_python_reads_goes_through(run, file):
    text = '[{"role": "user", "content": "q", "seed": ' + "7" * 4_300 + "}]"
    assert run("sanitize", file(text)).out.strip() == text
