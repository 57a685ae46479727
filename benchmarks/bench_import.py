"""How much memory an import takes, by the size of what is imported.

    python benchmarks/bench_import.py [--megabytes 64] [--only otlp|claude|session|chats|inspect|eval]
    python benchmarks/bench_import.py --megabytes 2048      # the figures of docs/importing.md; an hour

For each format a small load and one of four times its size, each imported by a `loopscope import` of its
own, which has to find every call: the most memory that its processes held together, CPU seconds, bytes in the
database, and how memory grew from one load to the other. Texts are all different, so that nothing is saved by
storing equal ones once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from _memory import Meter

START = 1_790_000_000


class Prose:
    """Texts of any length, quickly: no two are alike."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        syllables = ["ta", "ru", "mi", "ko", "sen", "lo", "va", "pe", "dan", "ish"]
        words = ["".join(self.chance.choices(syllables, k=self.chance.randint(1, 4))) for _ in range(3_000)]
        self._pieces = [" ".join(self.chance.choices(words, k=8)) for _ in range(4_000)]
        self._size = sum(map(len, self._pieces)) / len(self._pieces) + 1

    def text(self, size: int) -> str:
        """About `size` characters."""
        return " ".join(self.chance.choices(self._pieces, k=max(1, round(size / self._size))))

    def key(self, size: int = 8) -> str:
        """A random id of so many bytes."""
        return self.chance.randbytes(size).hex()


def at(seconds: float) -> str:
    whole, part = divmod(START + seconds, 1)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int(part * 1000):03d}Z"


def line(value: object) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


# -- loads: each fills a folder with about so many bytes, and says how many calls are in it -----------------


def otlp(folder: Path, size: int) -> int:
    """Lines of the collector's `file` exporter, a trace of 41 spans each."""
    prose, done, traces = Prose(1), 0, 0
    with (folder / "traces.jsonl").open("w") as file:
        while done < size:
            done += file.write(line(_otlp_trace(prose, done // 1000)))
            traces += 1
    return 20 * traces


def _otlp_trace(prose: Prose, second: int) -> dict[str, object]:
    trace, root = prose.key(16), prose.key()
    spans: list[dict[str, object]] = []

    def span(span_id: str, name: str, parent: str, after: int, **attributes: str) -> None:
        begun = (START + second) * 10**9 + after * 10**6
        spans.append(
            {
                "traceId": trace, "spanId": span_id, "parentSpanId": parent, "name": name, "kind": 1,
                "startTimeUnixNano": str(begun), "endTimeUnixNano": str(begun + 10**6), "status": {"code": 1},
                "attributes": [
                    {"key": f"gen_ai.{key.replace('__', '.')}", "value": {"stringValue": value}}
                    for key, value in attributes.items()
                ],
            }
        )  # fmt: skip

    span(root, "invoke_agent a", "", 0, operation__name="invoke_agent", agent__name="a")
    for turn in range(20):
        said = [{"role": "user", "parts": [{"type": "text", "content": prose.text(1500)}]}]
        answer = [{"role": "assistant", "parts": [{"type": "text", "content": prose.text(1500)}]}]
        messages = {"input__messages": json.dumps(said), "output__messages": json.dumps(answer)}
        span(prose.key(), "chat m", root, turn * 20, operation__name="chat", request__model="m", **messages)
        arguments = json.dumps({"path": prose.text(100)})
        span(
            prose.key(), "execute_tool read", root, turn * 20 + 10, operation__name="execute_tool",
            tool__name="read", tool__call__id=prose.key(), tool__call__arguments=arguments,
            tool__call__result=prose.text(1200),
        )  # fmt: skip
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "bench"}}]}
    return {
        "resourceSpans": [{"resource": service, "scopeSpans": [{"scope": {"name": "b"}, "spans": spans}]}]
    }


def claude(folder: Path, size: int) -> int:
    """A folder of Claude Code's: sessions of 5 MB, and one of a sixth of it all."""
    prose = Prose(2)
    project = folder / "projects" / "-home-me"
    project.mkdir(parents=True)
    calls = _claude_session(project, prose, size // 6)
    for _ in range(max(1, size * 5 // 6 // 5_000_000)):
        calls += _claude_session(project, prose, min(5_000_000, size * 5 // 6))
    return calls


def session(folder: Path, size: int) -> int:
    """One session of Claude Code that was never compacted."""
    return _claude_session(folder, Prose(3), size)


def _claude_session(folder: Path, prose: Prose, size: int) -> int:
    session_id, parent, done, turn = prose.key(16), None, 0, 0

    def entry(kind: str, content: object, **more: object) -> str:
        nonlocal parent
        uuid = prose.key(16)
        about = {"parentUuid": parent, "isSidechain": False, "sessionId": session_id, "version": "2.1.0"}
        message: dict[str, object] = {"role": kind, "content": content, **more}
        about |= {"cwd": "/home/me", "type": kind, "message": message, "uuid": uuid, "timestamp": at(turn)}
        parent = uuid
        return line(about)

    with (folder / f"{session_id}.jsonl").open("w") as file:
        done += file.write(entry("user", prose.text(500)))
        while done < size:
            turn += 1
            call = "toolu_" + prose.key(12)
            arguments = {"file_path": f"/src/{turn % 50}.py", "note": prose.text(100)}
            answer = [
                {"type": "text", "text": prose.text(300)},
                {"type": "tool_use", "id": call, "name": "Read", "input": arguments},
            ]
            usage = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 1000}
            done += file.write(
                entry("assistant", answer, id="msg_" + prose.key(12), model="claude-x", usage=usage)
            )
            result = [{"type": "tool_result", "tool_use_id": call, "content": prose.text(5_500)}]
            done += file.write(entry("user", result))
    return turn


def chats(folder: Path, size: int) -> int:
    """A conversation of 100 kB a line, as OpenAI's chat has them."""
    prose, done, number = Prose(4), 0, 0
    with (folder / "chats.jsonl").open("w") as file:
        while done < size:
            number += 1
            messages: list[dict[str, object]] = [{"role": "user", "content": prose.text(1000)}]
            for turn in range(25):
                call = f"call_{prose.key(6)}"
                asked = {"name": "read", "arguments": json.dumps({"path": prose.text(100)})}
                calls = [{"id": call, "type": "function", "function": asked}]
                messages.append({"role": "assistant", "content": prose.text(200), "tool_calls": calls})
                messages.append({"role": "tool", "tool_call_id": call, "content": prose.text(3500)})
                messages[-1]["created_at"] = START + number * 100 + turn
            done += file.write(line({"id": f"c{number}", "model": "m", "messages": messages}))
    return 25 * number


def inspect(folder: Path, size: int) -> int:
    """An evaluation log of Inspect's, as JSON."""
    done = samples = 0
    with (folder / "log.json").open("w") as file:
        about = {"eval_id": "e", "task": "bench", "model": "openai/m", "created": at(0)}
        file.write(f'{{"version": 2, "status": "success", "eval": {json.dumps(about)}, "samples": [')
        for number, text in enumerate(_samples()):
            done += file.write(("," if number else "") + text)
            samples += 1
            if done >= size:
                break
        file.write("]}")
    return 10 * samples


def eval_archive(folder: Path, size: int) -> int:
    """The same as an archive, which is smaller than what is in it: `size` is that of the samples."""
    done = samples = 0
    with zipfile.ZipFile(folder / "log.eval", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        about = {"eval_id": "e", "task": "bench", "model": "openai/m", "created": at(0)}
        archive.writestr("header.json", json.dumps({"version": 2, "status": "success", "eval": about}))
        for number, text in enumerate(_samples()):
            archive.writestr(f"samples/s{number}_epoch_1.json", text)
            done += len(text)
            samples += 1
            if done >= size:
                break
    return 10 * samples


def _samples() -> Iterator[str]:
    """Samples of ten requests, which repeat their history each."""
    prose, number = Prose(5), 0
    while True:
        number += 1
        messages: list[dict[str, object]] = [
            {"role": "user", "content": f"{number} {prose.text(500)}", "id": f"u{number}"}
        ]
        events: list[dict[str, object]] = []
        for turn in range(10):
            key, now = f"{number}-{turn}", number * 200 + turn * 10
            asked = {"function": "read", "arguments": {"path": prose.text(80)}, "type": "function"}
            asked["id"] = f"c{key}"
            answer = {"role": "assistant", "content": prose.text(200), "id": f"a{key}", "tool_calls": [asked]}
            output = {"model": "openai/m", "choices": [{"message": answer, "stop_reason": "tool_calls"}]}
            model = {"event": "model", "uuid": f"m{key}", "model": "openai/m", "input": list(messages)}
            events.append({**model, "output": output, "timestamp": at(now), "completed": at(now + 3)})
            messages.append(answer)
            text = prose.text(4000)
            tool = {"event": "tool", "uuid": f"t{key}", "timestamp": at(now + 4), "completed": at(now + 6)}
            events.append({**asked, **tool, "result": text})
            messages.append({"role": "tool", "content": text, "id": f"r{key}", "tool_call_id": f"c{key}"})
        about = {"id": f"s{number}", "epoch": 1, "uuid": f"x{number}"}
        yield json.dumps({**about, "messages": messages, "events": events})


LOADS: dict[str, Callable[[Path, int], int]] = {
    "otlp": otlp, "claude": claude, "session": session, "chats": chats, "inspect": inspect,
    "eval": eval_archive,
}  # fmt: skip
# A session is a file of its own, and there are none of the size that others have.
_SHARES = {"session": 0.2}


# -- measuring ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    size: int  # bytes of files
    peak: int  # bytes of memory, all processes together
    cpu: float
    seconds: float
    stored: int
    spans: int
    calls: int


def measure(name: str, size: int, top: Path) -> Measure:
    """Make a load, import it, remove it."""
    folder = Path(tempfile.mkdtemp(dir=top))
    try:
        files = folder / "files"
        files.mkdir()
        calls = LOADS[name](files, size)
        found = _import(files, folder / "traces.duckdb")
        if found.calls != calls:
            raise SystemExit(f"{name}: {calls:,} calls were written and {found.calls:,} are in the database")
        return found
    finally:
        shutil.rmtree(folder)


def _import(files: Path, db: Path) -> Measure:
    size = sum(path.stat().st_size for path in files.rglob("*") if path.is_file())
    command = [sys.executable, "-m", "loopscope.cli", "import", str(files), "--db", str(db)]
    started, cpu = time.perf_counter(), sum(os.times()[2:4])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    meter = Meter(process.pid)
    output, errors = process.communicate()
    peak = meter.stop()
    seconds, cpu = time.perf_counter() - started, sum(os.times()[2:4]) - cpu
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{output}{errors}")
    held = [path.stat().st_size for path in db.parent.glob(f"{db.name}*") if path.is_file()]
    spans, calls = _stored(db)
    return Measure(size, peak, cpu, seconds, sum(held), spans, calls)


def _stored(db: Path) -> tuple[int, int]:
    from loopscope.collector import Store

    with Store(db).lease() as con:
        (spans,), (calls,) = (
            con.execute(f"SELECT count(*) FROM {table}").fetchall()[0]
            for table in ("span_rows", "tool_call_rows")
        )
    return spans, calls


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=64, help="size of the larger load")
    parser.add_argument("--only", choices=LOADS)
    parser.add_argument("--once", action="store_true", help="the larger load alone")
    parser.add_argument("--folder", type=Path, help="where to work: four times the size must fit")
    options = parser.parse_args()
    top = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        for name in [options.only] if options.only else LOADS:
            largest = int(options.megabytes * 1e6 * _SHARES.get(name, 1))
            sizes = [largest] if options.once else [largest // 4, largest]
            peaks = []
            for size in sizes:
                found = measure(name, size, top)
                peaks.append(found.peak)
                print(
                    f"{name}: {found.size / 1e6:,.0f} MB, {found.spans:,} spans, {found.calls:,} calls: peak"
                    f" memory {found.peak / 1e6:,.0f} MB; {found.cpu:.1f} s CPU"
                    f" ({found.size / 1e6 / found.cpu:.1f} MB a CPU second), {found.seconds:.0f} s; database"
                    f" {found.stored / 1e6:,.0f} MB",
                    flush=True,
                )
            if len(peaks) > 1:
                print(f"  memory for four times the load: x {peaks[1] / peaks[0]:.2f}", flush=True)
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    main()
