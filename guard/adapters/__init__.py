"""The guard around the tools of a running agent.

    from loopscope.guard.adapters import GuardedRun, guarded_tool

    with GuardedRun("policy.toml") as run:
        ...  # the agent's loop
    if run.outcome == LOOP_BLOCKED:
        ...

Frameworks have modules of their own, imported only when asked for: `adapters.langchain`,
`adapters.pydantic_ai`, `adapters.openai_agents`, `adapters.mcp`. This package itself needs
the standard library only.
"""

from ._call import CallResult, GuardedCall
from ._decorator import guarded_tool
from ._run import LOOP_BLOCKED, GuardedRun, LoopBlocked, current_run

__all__ = [
    "LOOP_BLOCKED",
    "CallResult",
    "GuardedCall",
    "GuardedRun",
    "LoopBlocked",
    "current_run",
    "guarded_tool",
]
