"""What an agent pays for having the guard around: nothing but the standard library."""

from __future__ import annotations

import subprocess
import sys

import loopscope.guard

PROBE = """
import sys
before = set(sys.modules)
import loopscope.guard as guard
g = guard.DuplicateCallGuard()
for _ in range(5):
    g.observe(tool_name="t", arguments={"a": 1}, output="x", outcome="success")
guard.classify_outcome(guard.OutcomeFacts(failed=True, error_text="boom"))
guard.GuardPolicy.from_toml(guard.GuardPolicy().to_toml())
print(" ".join(sorted(set(sys.modules) - before)))
"""


def modules_after(code: str) -> set[str]:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_nothing_but_the_standard_library_is_imported():
    loaded = modules_after(PROBE)
    foreign = {name for name in loaded if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name.split(".")[0] for name in foreign} == {"loopscope"}
    assert {name for name in foreign if not name.startswith("loopscope.guard")} <= {"loopscope"}


def test_heavy_modules_wait_until_they_are_needed():
    loaded = modules_after("import sys, loopscope.guard; print(*sys.modules)")
    assert not loaded & {
        "asyncio",
        "decimal",
        "difflib",
        "logging",
        "tomllib",
        "typing_extensions",
        "urllib.request",
    }
    assert not loaded & {"loopscope.guard._error_kinds", "loopscope.guard._policy_file"}


def test_every_public_name_is_there_and_documented():
    for name in loopscope.guard.__all__:
        member = getattr(loopscope.guard, name)
        if callable(member):
            assert member.__doc__, name
    assert len(set(loopscope.guard.__all__)) == len(loopscope.guard.__all__)
