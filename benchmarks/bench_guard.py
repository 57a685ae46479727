"""What the guard costs per call, each as a ratio against a baseline of the same run.

    python benchmarks/bench_guard.py

Baseline for fingerprints: what one would write without thinking, `json.dumps(sort_keys=True)`
(after `json.loads` where the arguments are text) and blake2b. It is no replacement: it calls
`1` and `"1"` as keys equal, reads one text in two ways and knows no metadata keys.
"""

from __future__ import annotations

import contextlib
import json
import timeit
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from loopscope.guard import (
    DuplicateCallGuard,
    GuardPolicy,
    Outcome,
    OutcomeFacts,
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
    count = max(1, int(0.02 / max(timer.timeit(20) / 20, 1e-8)))
    return min(timer.repeat(repeat=7, number=count)) / count * 1e6


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


if __name__ == "__main__":
    main()
