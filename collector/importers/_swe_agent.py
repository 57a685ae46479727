"""SWE-agent's `.traj` files, and those of mini-swe-agent.

With function calling, `history` holds OpenAI messages; a tool message names its calls in `tool_call_ids`.
Otherwise the model writes a command into its text: `trajectory` holds one step for each, which is read as a
call of `bash`. No version has a flag for a failed command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .._attributes import as_list
from ._conversations import call, conversation_parts, fact, text_of_parts
from ._json_stream import JsonValue
from ._otlp import Part
from ._report import FormatError, SkipList
from ._spans import json_object
from ._transcript import Conversation

__all__ = ["matches_mini_swe_agent", "matches_swe_agent", "mini_swe_agent_parts", "swe_agent_parts"]

_SHELL = "bash"


def matches_swe_agent(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    steps, history = value.get("trajectory"), value.get("history")
    if isinstance(steps, list) and steps:
        return isinstance(steps[0], dict) and "action" in steps[0] and "observation" in steps[0]
    first = history[0] if isinstance(history, list) and history else None
    return isinstance(first, dict) and "role" in first and ("agent" in first or "message_type" in first)


def matches_mini_swe_agent(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("messages"), list)
        and str(value.get("trajectory_format")).startswith("mini-swe-agent")
    )


def swe_agent_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of `.traj` files. Raises FormatError with the place of what is none."""
    return conversation_parts(_each(values, "swe-agent", matches_swe_agent, _swe_agent, skipped), skipped)


def mini_swe_agent_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of mini-swe-agent's trajectories. Raises FormatError with the place of what is none."""
    return conversation_parts(
        _each(values, "mini-swe-agent", matches_mini_swe_agent, _mini_swe_agent, skipped), skipped
    )


def _each(
    values: Iterable[JsonValue], dialect: str, matches: Any, read: Any, skipped: SkipList
) -> Iterator[Conversation]:
    for item in values:
        if not matches(item.value):
            raise FormatError(f"not a trajectory of {dialect}", where=item.where)
        conversation = Conversation([], item.where, dialect, service=dialect)
        read(item.value, conversation, skipped)
        _facts(item.value, conversation)
        if conversation.messages:
            yield conversation
        else:
            skipped.add(item.where, "the trajectory is empty")


def _swe_agent(value: dict[str, Any], conversation: Conversation, skipped: SkipList) -> None:
    history = [entry for entry in as_list(value.get("history")) if isinstance(entry, dict)]
    shown = [entry for entry in history if not entry.get("is_demo")]
    if len(shown) < len(history):
        skipped.add(conversation.where, f"{len(history) - len(shown)} messages of demonstrations")
    steps = [step for step in as_list(value.get("trajectory")) if isinstance(step, dict)]
    if steps and not any(entry.get("tool_calls") for entry in shown):
        before = next((i for i, entry in enumerate(shown) if entry.get("role") == "assistant"), len(shown))
        conversation.messages = [_message(entry) for entry in shown[:before]] + _steps(steps)
        return
    for index, entry in enumerate(shown):
        if entry.get("role") == "tool" and isinstance(entry.get("tool_call_ids"), list):
            for call_id in entry["tool_call_ids"]:
                conversation.messages.append(_message(entry) | {"tool_call_id": call_id})
        elif entry.get("role") == "assistant" and entry.get("action") and not entry.get("tool_calls"):
            conversation.messages.append(_message(entry) | {"tool_calls": [_command(entry["action"])]})
        elif _answers_command(shown, index):
            conversation.messages.append(_observation(entry.get("content")))
        else:
            conversation.messages.append(_message(entry))


def _steps(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages of steps: what the model said, with its command, and what came back."""
    messages: list[dict[str, Any]] = []
    for step in steps:
        said: dict[str, Any] = {"role": "assistant", "content": step.get("response") or step.get("thought")}
        action = step.get("action")
        if isinstance(action, str) and action.strip():
            said["tool_calls"] = [_command(action)]
        messages.append(said)
        if step.get("observation") is None:
            continue
        back = _observation(step["observation"])
        messages.append(back if "tool_calls" in said else {"role": "user", "content": back["content"]})
    return messages


def _message(entry: dict[str, Any]) -> dict[str, Any]:
    kept = ("role", "content", "tool_calls", "timestamp")
    return {key: entry[key] for key in kept if entry.get(key) is not None}


def _command(action: Any) -> dict[str, Any]:
    return call(None, _SHELL, {"command": action})


def _observation(content: Any) -> dict[str, Any]:
    # Commands have no ids: as of a legacy function message, the result is that of the nearest open one.
    return {"role": "function", "name": _SHELL, "content": content}


def _answers_command(history: list[dict[str, Any]], index: int) -> bool:
    before = history[index - 1] if index else {}
    asked = before.get("role") == "assistant" and before.get("action") and not before.get("tool_calls")
    return bool(asked) and history[index].get("role") == "user"


def _mini_swe_agent(value: dict[str, Any], conversation: Conversation, skipped: SkipList) -> None:
    """Messages as OpenAI's; what was run stands in `extra.actions`, with ids only where tools were called."""
    waiting: list[Any] = []
    for entry in value["messages"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("role"), str):
            raise FormatError("a message without a role", where=conversation.where)
        extra = json_object(entry.get("extra"))
        message = _message(entry) | {"timestamp": extra.get("timestamp")}
        if isinstance(entry.get("tool_call_id"), str):
            message["tool_call_id"] = entry["tool_call_id"]
        actions = [action for action in as_list(extra.get("actions")) if action]
        if entry["role"] == "assistant":
            waiting = [] if entry.get("tool_calls") else actions
            if waiting:
                message["tool_calls"] = [_command(_command_text(action)) for action in waiting]
            usage = json_object(json_object(extra.get("response")).get("usage"))
            conversation.messages.append(message | ({"usage": usage} if usage else {}))
        elif entry["role"] == "user" and waiting:
            conversation.messages.append(_observation(text_of_parts(entry.get("content"))))
            waiting = []
        else:
            conversation.messages.append(message)


def _command_text(action: Any) -> Any:
    return action.get("command", action) if isinstance(action, dict) else action


def _facts(value: dict[str, Any], conversation: Conversation) -> None:
    info, config = json_object(value.get("info")), json_object(value.get("replay_config"))
    fact(conversation, "environment", value.get("environment"))
    instance = value.get("instance_id") or json_object(config.get("problem_statement")).get("id")
    fact(conversation, "instance_id", instance)
    if isinstance(instance, str):
        conversation.session_id = instance[:200]
    settings = json_object(json_object(config.get("agent")).get("model")) or json_object(
        json_object(info.get("config")).get("model")
    )
    model = settings.get("name") or settings.get("model_name")
    if isinstance(model, str) and model:
        conversation.models["assistant"] = model
    end = info.get("exit_status")
    fact(conversation, "exit_status", end)
    if isinstance(end, str) and end and not end.lower().startswith("submitted"):
        conversation.failure = f"the run ended with {end[:200]}"
