"""An on-call agent that runs offline: a scripted model that goes round in circles, under a saved policy.

python oncall_agent.py --db demo.duckdb                               # records a run; no guard ends it
python oncall_agent.py --db demo.duckdb --policy demo.policy.toml     # the policy that was tuned stops it

The script first polls a deployment until it is done, which is no loop, and then asks for the state of one pod
again and again. It takes no hint, as the worst of models do not: only a block ends its run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import count, repeat

from opentelemetry import trace

from loopscope.collector import instrument
from loopscope.guard import GuardPolicy
from loopscope.guard.adapters import LOOP_BLOCKED, GuardedRun

NO_GUARD = GuardPolicy(nudge_threshold=None, block_threshold=None)
PATIENCE = 12
"""So often the script asks for the pod."""

_progress = iter(["pending, 0 %", "pending, 0 %", "pending, 40 %", "pending, 80 %", "done, 100 %"])


def get_deployment_status(deployment: str) -> str:
    """A job that takes its time: the answers of a healthy poll change."""
    return f"{deployment}: {next(_progress)}"


def get_pod(pod: str) -> str:
    """A pod that does not come up, and whose state says no more than that."""
    return f"{pod}: CrashLoopBackOff, restarts: 5"


TOOLS = {"get_deployment_status": get_deployment_status, "get_pod": get_pod}


def scripted_model() -> Iterator[tuple[str, dict[str, str]]]:
    """What the model asks for, call by call."""
    yield from repeat(("get_deployment_status", {"deployment": "search"}), 5)
    yield from repeat(("get_pod", {"pod": "search-7c9"}), PATIENCE)


def answer(policy: GuardPolicy | str) -> tuple[str | None, int]:
    """One run. Its outcome, None or "loop_blocked", and how many calls it made."""
    tracer, made = trace.get_tracer("oncall_agent"), count(1)
    calls = 0
    with GuardedRun(policy, agent="oncall") as run:
        run.start_span(current=True)
        for name, arguments in scripted_model():
            if run.blocked:
                break
            with tracer.start_as_current_span("chat scripted") as span:
                span.set_attributes(
                    {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.provider.name": "scripted",
                        "gen_ai.request.model": "scripted",
                        "gen_ai.usage.input_tokens": 400 + 60 * calls,
                        "gen_ai.usage.output_tokens": 20,
                    }
                )
                time.sleep(0.02)  # a model would take longer
            result = run.call(
                name, arguments, partial(TOOLS[name], **arguments), call_id=f"call_{next(made)}"
            )
            calls += 1
            sys.stdout.write(f"{calls:2}  {name:22} {str(result.content).splitlines()[0]}\n")
        run.end_span()
    return run.outcome, calls


def main() -> int:
    """Record one run; exit code 3 if the guard ended it."""
    parser = argparse.ArgumentParser(description="A scripted on-call agent that goes round in circles.")
    parser.add_argument("--db", default="demo.duckdb", help="where its spans go")
    parser.add_argument("--policy", help="a policy file, such as the one that the tuning page saves")
    options = parser.parse_args()
    instrument(options.db, service_name="oncall-example")
    outcome, calls = answer(options.policy or NO_GUARD)
    if outcome == LOOP_BLOCKED:
        sys.stdout.write(f"Stopped by the guard after {calls} calls: {outcome}\n")
        return 3
    sys.stdout.write(f"Ended by itself after {calls} calls.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
