"""How long the analysis of recorded requests takes, beside checking every history from scratch.

    python benchmarks/bench_requests.py [--requests 100000] [--turns 40] [--keep FILE] [--naive 500]

Conversations of `--turns` requests whose history grows by an answer with a call or two and their
results (texts of about 600 characters): a third each as openai-chat, as GenAI parts and as Anthropic
blocks. One conversation in 40 is cut down to its last messages half way; one in 20 ends in a refusal, tried
three times: a result that stands twice, an answer whose id came before, or a call without its result.

The baseline takes each history on its own: json.loads of every message, the format's reader, one lint
per provider, the sanitizer. It is run on `--naive` requests taken evenly, and scaled up by the messages.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from _memory import peak_memory

from loopscope.collector._schema import create_schema
from loopscope.guard import GuardPolicy
from loopscope.guard.messages import format_of
from loopscope.guard.messages._lint import lint_parsed
from loopscope.guard.messages._providers import PROVIDERS
from loopscope.guard.messages._sanitize import sanitize_parsed
from loopscope.replay import analyse_requests
from loopscope.replay.requests import _state
from loopscope.replay.requests._recorded import as_chat, common_format, fill_missing, shape_of

START = 1_760_000_000_000_000_000
FILLER = (
    "The warehouse in Lyon answers that the order left on Tuesday and that its number was not found. " * 8
)

Message = dict[str, Any]
DUPLICATE = "Error code: 400 - Invalid parameter: Duplicate value for 'tool_call_id' of '{}' in messages."
MISSING = (
    "Error code: 400 - An assistant message with 'tool_calls' must be followed by tool messages responding "
    "to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}"
)


class Shape:
    """How one instrumentation writes messages down."""

    def __init__(self, dialect: str, provider: str) -> None:
        self.dialect, self.provider = dialect, provider

    def text(self, role: str, text: str) -> Message:
        if self.dialect == "otel_genai":
            return {"role": role, "parts": [{"type": "text", "content": text}]}
        return {"role": role, "content": text}

    def calls(self, calls: list[tuple[str, Message]], text: str) -> Message:
        if self.dialect == "otel_genai":
            parts = [
                {"type": "tool_call", "id": one, "name": "lookup", "arguments": args} for one, args in calls
            ]
            return {"role": "assistant", "parts": [{"type": "text", "content": text}, *parts]}
        if self.provider == "anthropic":
            blocks = [{"type": "tool_use", "id": one, "name": "lookup", "input": args} for one, args in calls]
            return {"role": "assistant", "content": [{"type": "text", "text": text}, *blocks]}
        listed = [
            {"id": one, "type": "function", "function": {"name": "lookup", "arguments": json.dumps(args)}}
            for one, args in calls
        ]
        return {"role": "assistant", "content": text, "tool_calls": listed}

    def results(self, results: list[tuple[str, str]]) -> list[Message]:
        if self.dialect == "otel_genai":
            return [
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": one, "response": text}]}
                for one, text in results
            ]
        if self.provider == "anthropic":
            blocks = [{"type": "tool_result", "tool_use_id": one, "content": text} for one, text in results]
            return [{"role": "user", "content": blocks}]
        return [{"role": "tool", "tool_call_id": one, "content": text} for one, text in results]


SHAPES = (
    Shape("openinference", "openai"),
    Shape("otel_genai", "openai"),
    Shape("anthropic_sdk", "anthropic"),
)


class Maker:
    """Makes contents and requests."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        self.texts: list[str] = []
        self.rows: list[dict[str, Any]] = []

    def add(self, message: Message) -> int:
        self.texts.append(json.dumps(message))
        return len(self.texts)

    def said(self) -> str:
        at = self.random.randrange(len(FILLER) - 600)
        return f"{self.random.random():.12f} {FILLER[at : at + self.random.randrange(200, 600)]}"

    def conversation(self, number: int, turns: int) -> None:
        shape = SHAPES[number % len(SHAPES)]
        keys = [self.add(shape.text("user", self.said()))]
        if shape.provider != "anthropic":
            keys.insert(0, self.add(shape.text("system", self.said())))
        ids: list[str] = []
        refused = turns - 3 if number % 20 == 7 else turns
        for turn in range(refused):
            output = None
            asked = [f"call_{self.random.getrandbits(64):016x}" for _ in range(1 + (turn % 5 == 4))]
            answer = self.add(shape.calls([(one, {"order": self.said()[:60]}) for one in asked], self.said()))
            output = [answer]
            self.request(number, turn, shape, keys, output, None)
            ids += asked
            keys = [*keys, answer, *map(self.add, shape.results([(one, self.said()) for one in asked]))]
            if number % 40 == 3 and turn == turns // 2:
                kept = [self.add(shape.text("user", "Summary of what was said before: " + self.said()))]
                keys = [*kept, *keys[-6:]] if shape.provider != "anthropic" else [*kept, *keys[-2:]]
        if refused < turns:
            keys, error = self.broken(shape, keys, ids, number // 20 % 3)
            for turn in range(refused, turns):
                self.request(number, turn, shape, keys, None, error)

    def broken(self, shape: Shape, keys: list[int], ids: list[str], kind: int) -> tuple[list[int], str]:
        if kind == 0:  # the last result, twice
            return [*keys, keys[-1]], DUPLICATE.format(ids[-1])
        if kind == 1:  # an id that came before
            again = [
                shape.calls([(ids[0], {"order": "again"})], self.said()),
                *shape.results([(ids[0], "none")]),
            ]
            return [*keys, *map(self.add, again)], DUPLICATE.format(ids[0])
        asked = f"call_{self.random.getrandbits(64):016x}"
        cut = [shape.calls([(asked, {"order": "cut"})], ""), shape.text("user", self.said())]
        return [*keys, *map(self.add, cut)], MISSING.format(asked)

    def request(
        self, run: int, turn: int, shape: Shape, keys: list[int], output: list[int] | None, error: str | None
    ) -> None:
        at = START + (run * 1_000 + turn) * 1_000_000_000
        self.rows.append(
            {
                "trace_id": f"{run:032x}",
                "span_id": f"{turn:016x}",
                "run_id": f"{run:032x}/{run:016x}",
                "run_source": "agent_span",
                "service_name": f"service{run % 5}",
                "agent_name": f"agent{run % 7}",
                "turn": None if error else turn + 1,
                "provider": shape.provider,
                "model": "gpt-4o-mini" if shape.provider == "openai" else "claude-sonnet-5",
                "input_parts": keys,
                "output_parts": output,
                "input_tokens": None if error else 150 * len(keys),
                "status": "error" if error else "ok",
                "http_status": 400 if error else None,
                "error_text": error,
                "content_state": "full",
                "start_ns": at,
                "end_ns": at + 900_000_000,
                "dialect": shape.dialect,
            }
        )


def make(path: Path, requests: int, turns: int) -> None:
    """A store with so many requests."""
    con = duckdb.connect(str(path))
    create_schema(con)
    maker = Maker()
    for number in range(requests // turns):
        maker.conversation(number, turns)
        if len(maker.rows) > 20_000:
            write(con, maker)
    write(con, maker)
    texts = pa.table({"hash": pa.array(range(1, len(maker.texts) + 1), pa.int64()), "text": maker.texts})
    con.register("made", texts)
    con.execute("INSERT INTO contents SELECT hash, 0, text FROM made")
    con.close()


def write(con: duckdb.DuckDBPyConnection, maker: Maker) -> None:
    """Put the requests made so far into the store."""
    if not maker.rows:
        return
    strings = ("turn", "input_tokens", "http_status", "start_ns", "end_ns")
    columns = {}
    for name in maker.rows[0]:
        values = [row[name] for row in maker.rows]
        kind = (
            pa.list_(pa.int64())
            if name.endswith("_parts")
            else pa.int64()
            if name in strings
            else pa.string()
        )
        columns[name] = pa.array(values, kind)
    con.register("made", pa.table(columns))
    con.execute(f"INSERT INTO llm_request_rows ({', '.join(columns)}) SELECT * FROM made")
    con.unregister("made")
    maker.rows.clear()


def naive(path: Path, wanted: int) -> tuple[float, int, int]:
    """Seconds for so many requests, their messages, and the messages of all requests."""
    con = duckdb.connect(str(path), read_only=True)
    ((messages, requests),) = con.execute(
        "SELECT sum(len(input_parts)), count(*) FROM llm_request_rows"
    ).fetchall()
    picked = con.execute(
        "SELECT input_parts FROM (SELECT input_parts, row_number() OVER (ORDER BY start_ns) AS n "
        "FROM llm_request_rows) WHERE n % $step = 0",
        {"step": max(1, requests // wanted)},
    ).fetchall()
    texts = dict(con.execute("SELECT hash, text FROM contents").fetchall())
    con.close()
    start, seen = time.perf_counter(), 0
    for (keys,) in picked:
        seen += len(keys)
        values = [json.loads(texts[key]) for key in keys]
        form, native = common_format({shape_of(value) for value in values})
        if native:
            raw = [fill_missing(value, form) for value in values]
        else:
            raw = [message for value in values for message in as_chat(value)[0]]
        read = format_of(form).read
        parsed = [read(one, index) for index, one in enumerate(raw)]
        for rules in PROVIDERS.values():
            lint_parsed(parsed, rules, form)
        sanitize_parsed(parsed, format_of(form))
    return time.perf_counter() - start, seen, messages


def main() -> None:
    """Make the store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--naive", type=int, default=500, help="requests that the baseline takes")
    parser.add_argument("--keep", type=Path, help="make the store here and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "bench.duckdb"
        if not path.exists():
            start = time.perf_counter()
            make(path, options.requests, options.turns)
            print(f"made in {time.perf_counter() - start:.1f} s, {path.stat().st_size / 1e6:,.0f} MB")
        took, seen, messages = naive(path, options.naive)
        whole = took * messages / seen
        print(f"{messages:,} messages in all histories")
        print(f"baseline (each history from scratch, scaled from {seen:,} messages): {whole:.1f} s")
        con = duckdb.connect(str(path), read_only=True)
        policy = GuardPolicy()

        def timed(title: str, question: Callable[[], Any], *, fresh: bool) -> Any:
            if fresh:
                _state.forget()
            start = time.perf_counter()
            answer = question()
            took = time.perf_counter() - start
            print(f"{title}: {took:.2f} s ({whole / took:,.0f} times the baseline's speed)")
            return answer

        cursor = con.cursor()
        timed("failed requests only", lambda: analyse_requests(cursor, policy, passed=False), fresh=True)
        found = timed("everything", lambda: analyse_requests(cursor, policy), fresh=True)
        timed("everything again (nothing new)", lambda: analyse_requests(cursor, policy), fresh=False)
        print(found.totals)
        print(f"peak memory {peak_memory() / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
