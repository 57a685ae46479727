"""What is particular to the result files of tau-bench and tau2-bench."""

from __future__ import annotations

from typing import Any

from ._transcript import Conversation

__all__ = ["tau2_facts", "tau2_failed", "tau_facts", "tau_failed"]

# tau2-bench: the simulation was stopped, nobody finished it.
_BAD_ENDS = frozenset({"max_steps", "too_many_errors", "agent_error", "user_error", "infrastructure_error"})


def tau_failed(message: dict[str, Any]) -> bool | None:
    """tau-bench's convention: a tool that fails answers with text that begins with `Error`."""
    content = message.get("content")
    return content.startswith("Error") if isinstance(content, str) else None


def tau_facts(conversation: Conversation, entry: dict[str, Any]) -> None:
    info = entry.get("info")
    if isinstance(info, dict) and isinstance(info.get("error"), str):
        conversation.failure = info["error"][:1000]


def tau2_failed(message: dict[str, Any]) -> bool | None:
    """tau2-bench flags a failed result with `error`."""
    error = message.get("error")
    return error if isinstance(error, bool) else None


def tau2_facts(conversation: Conversation, entry: dict[str, Any], info: dict[str, Any]) -> None:
    """`info` stands beside the simulations and holds for all of them."""
    for party, key in (("assistant", "agent_info"), ("user", "user_info")):
        about = info.get(key)
        if isinstance(about, dict) and isinstance(about.get("llm"), str):
            conversation.models[party] = about["llm"]
    environment = info.get("environment_info")
    if isinstance(environment, dict) and isinstance(environment.get("domain_name"), str):
        conversation.service = f"tau2-bench/{environment['domain_name'][:80]}"
    reward = entry.get("reward_info")
    if isinstance(reward, dict) and isinstance(reward.get("reward"), int | float):
        conversation.source["loopscope.source.reward"] = float(reward["reward"])
    end = entry.get("termination_reason")
    if isinstance(end, str):
        conversation.source["loopscope.source.termination_reason"] = end[:80]
        if end in _BAD_ENDS:
            conversation.failure = f"the simulation ended with {end}"
