"""What happened, in plain sentences.

Names come from traces. `quote` marks them, so that a report can tell them from our own words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ._text import name_of, plural
from ._types import Incident, IncidentKind, RunInfo

if TYPE_CHECKING:
    from ..guard import GuardPolicy

__all__ = [
    "KIND_WORDS",
    "Quote",
    "counterfactual",
    "ended_in_short",
    "ending",
    "incident_summary",
    "incident_title",
    "thresholds_of",
    "what_happened",
]

Quote = Callable[[str], str]


_ERROR = "general_tool_error"

KIND_WORDS = {
    IncidentKind.LOOP: "Loop",
    IncidentKind.CYCLE: "Cycle",
    IncidentKind.RETRY_STORM: "Retry storm",
    IncidentKind.SAME_ERROR: "Same error",
    IncidentKind.TWINS: "Twin calls",
}


def incident_title(incident: Incident, quote: Quote = str) -> str:
    """Kind, agent, tools and calls: "Loop: support-bot / search_docs, 8 calls"."""
    tools = " → ".join(name_of(tool, "?", quote) for tool in incident.tools[:5])
    agent = name_of(incident.agent_name, "unnamed agent", quote)
    return f"{KIND_WORDS[incident.kind]}: {agent} / {tools}, {plural(incident.calls, 'call')}"


def incident_summary(incident: Incident, run: RunInfo | None, policy: GuardPolicy, quote: Quote = str) -> str:
    """What happened, what a guard would have done, how it ended."""
    instead = counterfactual(incident, policy, quote)
    if incident.stopped_at is not None:
        sentences = [
            f"{what_happened(incident, quote)}; a live guard stopped it at call {incident.stopped_at:,}."
        ]
        if incident.block_at != incident.stopped_at:
            sentences.append(f"{instead[0].upper()}{instead[1:]}.")
        return " ".join(sentences)
    sentences = [f"{what_happened(incident, quote)}; {instead}."]
    sentences.append(ending(incident))
    if run is not None and run.guarded:
        sentences.append("The run was recorded while a guard was already at work.")
    return " ".join(sentences)


def what_happened(incident: Incident, quote: Quote = str) -> str:
    """The first half of the summary, without a full stop."""
    agent = name_of(incident.agent_name, "The agent", quote)
    tool = name_of(incident.tool_name, "a tool", quote)
    times = f"{incident.calls:,} times"
    between = " (other calls lay between)" if incident.interleaved else ""
    if incident.kind is IncidentKind.CYCLE:
        tools = " → ".join(name_of(name, "?", quote) for name in incident.tools[:5])
        laps = f"{incident.laps:,} times"
        return (
            f"{agent} went {laps} round the same {plural(incident.different_calls, 'call')} ({tools}) "
            f"and got the same answers every time{between}"
        )
    if incident.kind is IncidentKind.TWINS:
        return f"One model response made {agent} call {tool} {times} with the same arguments"
    if incident.kind is IncidentKind.SAME_ERROR:
        return (
            f"{agent} called {tool} {times} with {incident.different_calls} different arguments "
            f"and got the same error each time{between}"
        )
    got = "the same answer"
    if incident.kind is IncidentKind.RETRY_STORM:
        kind = f" ({incident.error_kind})" if incident.error_kind not in (None, "unknown") else ""
        got = f"the same error{kind}"
    elif incident.outcome == "schema_error":
        got = "the same refusal of its arguments"
    return f"{agent} called {tool} {times} with the same arguments and got {got} each time{between}"


def counterfactual(incident: Incident, policy: GuardPolicy, quote: Quote = str) -> str:
    """What the policy would have done, without a full stop."""
    guard = f"a guard at {thresholds_of(incident, policy)}"
    after = incident.after_block or 0
    if incident.nudge_at is None and incident.block_at is None:
        if after == incident.calls:
            return f"{guard} would have blocked the run before that"
        if after:
            return f"{guard} would have blocked the run in the meantime, for another call"
        exempt = [tool for tool in incident.tools if policy.is_exempt(tool)]
        if len(exempt) == len(incident.tools):
            return "the policy exempts " + ", ".join(name_of(tool, "?", quote) for tool in exempt)
        apart = incident.outcome == _ERROR and policy.rules_for(incident.tool_name).error_thresholds
        if incident.outcome is not None and incident.outcome not in policy.counted_outcomes and not apart:
            return f"{guard} would not have counted them, because it does not count such errors"
        return f"{guard} would have done nothing"
    done = []
    if incident.nudge_at is not None:
        done.append(f"nudged at call {incident.nudge_at:,}")
    if incident.block_at is not None:
        done.append(f"blocked at call {incident.block_at:,}")
    text = f"{guard} would have {' and '.join(done)}"
    if after:
        known = f" ({incident.after_block_avoidable:,} avoidable)" if incident.after_block_avoidable else ""
        return f"{text}; {plural(after, 'call')} came after{known}"
    if incident.block_at is not None:
        return f"{text}; no call of it came after"
    return text


def thresholds_of(incident: Incident, policy: GuardPolicy) -> str:
    """Nudge and block threshold that apply to the incident's first tool, or to its errors: "3/5"."""
    rules = policy.rules_for(incident.tool_name)
    apart = rules.error_thresholds if incident.outcome == _ERROR else None
    nudge, block = apart or rules.thresholds
    return f"{'off' if nudge is None else nudge}/{'off' if block is None else block}"


def ended_in_short(incident: Incident) -> str:
    """ "resolved", "unresolved", or "stopped by the guard at call 5"."""
    if incident.stopped_at is not None:
        return f"stopped by the guard at call {incident.stopped_at:,}"
    return "resolved" if incident.resolved else "unresolved"


def ending(incident: Incident) -> str:
    """How it ended, as a sentence."""
    if incident.ending == "another_result":
        text = "Later the same call succeeded or gave another result."
        if incident.kind is IncidentKind.SAME_ERROR:
            text = "Later a call of that tool succeeded."
        elif incident.kind is IncidentKind.CYCLE:
            text = "Later one of these calls gave another result."
    elif incident.ending == "other_work":
        text = "Then the run went on with other calls."
    elif incident.stopped_at is not None:
        text = f"A live guard stopped it at call {incident.stopped_at:,}."
    else:
        text = "The run's recorded calls end there."
    if incident.soft_failure:
        text += " The agent's span reports no error."
    return text
