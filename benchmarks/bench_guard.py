"""What the guard costs per call, each as a ratio against a baseline of the same run.

    python benchmarks/bench_guard.py

Baseline for fingerprints: what one would write without thinking, `json.dumps(sort_keys=True)`
(after `json.loads` where the arguments are text) and blake2b. It is no replacement: it calls
`1` and `"1"` as keys equal, reads one text in two ways and knows no metadata keys.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from loopscope.guard import (
    DuplicateCallGuard,
    GuardPolicy,
    Outcome,
    OutcomeFacts,
    ReasonedOverrideGuard,
    ToolPolicy,
    classify_outcome,
    fingerprint,
    result_hash,
)

SMALL = {"path": "~/ws/memory/history.jsonl", "limit": 50, "offset": 1}
NESTED = {
    "filter": [{"field": f"f{i}", "value": "x" * 20, "range": [i, i + 1.5]} for i in range(10)],
    "page": 1,
}
LONG = {"path": "src/app.py", "content": "def f(x):\n    return x + 1\n" * 400}
RESULT = "one line of a result of ordinary length\n" * 40
KILOBYTE = {
    "path": "src/app.py",
    "edits": [{"line": i, "name": f"n{i}", "keep": True} for i in range(12)],
    "content": "def f(x):\n    return x + 1\n" * 20,
}
OUTPUT = "one line of a result of ordinary length\n" * 100
ARGUMENTS: list[tuple[str, Any]] = [
    ("small object", SMALL),
    ("small JSON text", json.dumps(SMALL)),
    ("small object with metadata", {**SMALL, "_nonce": 7}),
    ("nested object, 70 values", NESTED),
    ("nested JSON text, 70 values", json.dumps(NESTED)),
    ("10 kB of file in JSON text", json.dumps(LONG)),
    ("plain text", "select * from orders where id = 7"),
]


def baseline(arguments: Any) -> int:
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):
            arguments = json.loads(arguments)
    data = json.dumps(arguments, sort_keys=True).encode()
    return int.from_bytes(blake2b(b"tool" + data).digest()[:8], "big", signed=True)


def microseconds(work: Callable[[], object]) -> float:
    timer = timeit.Timer(work)
    count = max(1, int(0.002 / max(timer.timeit(20) / 20, 1e-8)))
    # Many short rounds: the best of them met the machine at rest.
    return min(timer.repeat(repeat=60, number=count)) / count * 1e6


def line(what: str, ours: float, theirs: float, name: str) -> None:
    print(f"{what:34} {ours:8.2f} µs   {name} {theirs:8.2f} µs   ratio {ours / theirs:5.2f}")


def main() -> None:
    print("fingerprint(tool, arguments)")
    for what, arguments in ARGUMENTS:
        ours = microseconds(lambda arguments=arguments: fingerprint("tool", arguments))
        line(
            f"  {what}", ours, microseconds(lambda arguments=arguments: baseline(arguments)), "dumps+blake2b"
        )

    print("other steps")
    hashing = microseconds(lambda: blake2b(RESULT.encode()).digest())
    line("  result_hash, 1.6 kB of text", microseconds(lambda: result_hash(RESULT)), hashing, "blake2b")
    searching = microseconds(lambda: "isError" in RESULT)
    success = OutcomeFacts(failed=False, result=RESULT)
    line(
        "  classify a success, 1.6 kB",
        microseconds(lambda: classify_outcome(success)),
        searching,
        "one search",
    )

    guard = DuplicateCallGuard(GuardPolicy(nudge_threshold=None, block_threshold=None))
    counts: dict[int, tuple[int, int]] = {}

    def plain_count() -> None:
        last, count = counts.get(5, (0, 0))
        counts[5] = (7, count + 1 if last == 7 else 1)

    fold = microseconds(lambda: guard.observe_hashed("tool", 5, 7, Outcome.SUCCESS))
    line("  observe_hashed", fold, microseconds(plain_count), "dict only")
    whole = microseconds(
        lambda: guard.observe(tool_name="tool", arguments=SMALL, output=RESULT, outcome=Outcome.SUCCESS)
    )
    line(
        "  observe, small object, 1.6 kB", whole, microseconds(lambda: baseline(SMALL)) + hashing, "baseline"
    )

    print("a whole call: 1 kB of arguments, 4 kB of output (target: at most 2.00)")
    text = json.dumps(KILOBYTE)
    for what, arguments in (("object", KILOBYTE), ("JSON text", text)):
        call = {"tool_name": "tool", "arguments": arguments, "output": OUTPUT, "outcome": Outcome.SUCCESS}
        line(
            f"  observe, {what}",
            microseconds(lambda call=call: guard.observe(**call)),
            microseconds(lambda arguments=arguments: whole_baseline(arguments)),
            "dumps+blake2b",
        )

    print("knobs, on that call (baseline: the policy without them)")
    plain = microseconds(lambda: observe(guard))
    for what, knobs in KNOBS:
        policy = GuardPolicy(nudge_threshold=None, block_threshold=None, **knobs)
        other = DuplicateCallGuard(policy)
        line(f"  {what}", microseconds(lambda other=other: observe(other)), plain, "none")
    override = ReasonedOverrideGuard()
    line(
        "  reasoned override, a repeat",
        microseconds(lambda: override.before("tool", KILOBYTE)),
        microseconds(lambda: baseline(KILOBYTE)),
        "dumps+blake2b",
    )

    print("import in a new interpreter (target: at most 30 ms)")
    whole, ours = start_up("import loopscope.guard")
    base, parts = start_up("import json, hashlib")
    print(f"  loopscope.guard {ours:6.1f} ms   json, hashlib {parts:6.1f} ms   ratio {ours / parts:5.2f}")
    print(f"  with start-up   {whole:6.1f} ms   json, hashlib {base:6.1f} ms   ratio {whole / base:5.2f}")


KNOBS: list[tuple[str, dict[str, Any]]] = [
    (
        "error thresholds, a resetting tool",
        {"error_nudge_threshold": 3, "tools": {"e": ToolPolicy(resets=True)}},
    ),
    ("an ignored argument key", {"metadata_keys": ["edits"]}),
    ("an ignored result key", {"ignored_result_keys": ["at"]}),
    ("an ignored result pattern", {"ignored_result_patterns": [r"\d+ ?ms"]}),
]


def observe(guard: DuplicateCallGuard) -> None:
    guard.observe(tool_name="tool", arguments=KILOBYTE, output=OUTPUT, outcome=Outcome.SUCCESS)


def whole_baseline(arguments: Any) -> bytes:
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return blake2b(json.dumps(arguments, sort_keys=True).encode() + OUTPUT.encode()).digest()


def start_up(statement: str) -> tuple[float, float]:
    """Milliseconds of an interpreter that runs one import, and of the import itself: the best of several."""
    timed = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    whole, alone = [], []
    for _ in range(15):
        started = time.perf_counter()
        run = subprocess.run([sys.executable, "-I", "-c", timed], check=True, capture_output=True)
        whole.append(time.perf_counter() - started)
        alone.append(float(run.stdout))
    return min(whole) * 1000, min(alone) * 1000


if __name__ == "__main__":
    main()
