"""ATIF trajectories (Agent Trajectory Interchange Format), as Harbor and its adapters write them."""

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

__all__ = ["atif_parts", "matches_atif"]

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def matches_atif(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and str(value.get("schema_version")).upper().startswith("ATIF")
        and isinstance(value.get("steps"), list)
    )


def atif_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of ATIF files. Raises FormatError with the place of what is none."""
    return conversation_parts(_conversations(values, skipped), skipped)


def _conversations(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Conversation]:
    for item in values:
        waiting = [item.value]
        while waiting:
            value = waiting.pop()
            if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
                raise FormatError("not an ATIF trajectory (an object with 'steps')", where=item.where)
            conversation = _conversation(value, item.where, skipped)
            if conversation.messages:
                yield conversation
            else:
                skipped.add(item.where, "the trajectory has no steps")
            below = value.get("subagent_trajectories")
            waiting += reversed(below if isinstance(below, list) else [])


def _conversation(value: dict[str, Any], where: str, skipped: SkipList) -> Conversation:
    agent = json_object(value.get("agent"))
    name = agent.get("name") if isinstance(agent.get("name"), str) else None
    conversation = Conversation([], where, "atif", service=name or "atif", failed=_failed)
    for key in ("session_id", "trajectory_id", "schema_version"):
        fact(conversation, key, value.get(key))
    fact(conversation, "agent_version", agent.get("version"))
    session = value.get("session_id") or value.get("trajectory_id")
    if isinstance(session, str) and session:
        conversation.session_id = session[:200]
    if isinstance(agent.get("model_name"), str) and agent["model_name"]:
        conversation.models["assistant"] = agent["model_name"]
    copied = 0
    for number, step in enumerate(value["steps"], 1):
        role = _ROLES.get(str(step.get("source"))) if isinstance(step, dict) else None
        if role is None:
            raise FormatError(
                "a step whose source is not system, user or agent", where=f"{where}, step {number}"
            )
        if step.get("is_copied_context"):
            copied += 1  # another trajectory's, repeated so that this one can be read alone
        elif role == "assistant":
            conversation.messages += _turn(step)
        else:
            conversation.messages.append(_message(step, role))
            conversation.messages += [_plain(entry, step) for entry in _results(step)]
    if copied:
        skipped.add(where, f"{copied} steps copied from another trajectory")
    return conversation


def _turn(step: dict[str, Any]) -> list[dict[str, Any]]:
    message = _message(step, "assistant")
    calls = [entry for entry in as_list(step.get("tool_calls")) if isinstance(entry, dict)]
    if calls:
        message["tool_calls"] = [
            call(entry.get("tool_call_id"), entry.get("function_name"), entry.get("arguments"))
            for entry in calls
        ]
    metrics = json_object(step.get("metrics"))
    used = {key: metrics[key] for key in ("prompt_tokens", "completion_tokens") if key in metrics}
    if used:
        message["usage"] = used
    if isinstance(step.get("reasoning_content"), str):
        message["reasoning_content"] = step["reasoning_content"]
    if isinstance(step.get("model_name"), str):
        message["model"] = step["model_name"]
    messages = [message]
    for result in _results(step):
        call_id = result.get("source_call_id")
        if call_id is None and len(calls) != 1:
            messages.append(_plain(result, step))
            continue
        messages.append(
            {
                "role": "tool",
                "tool_call_id": call_id if call_id is not None else calls[0].get("tool_call_id"),
                "content": _content(result.get("content")),
                "is_error": _flag(result),
                "timestamp": result.get("timestamp") or step.get("timestamp"),
            }
        )
    return messages


def _message(step: dict[str, Any], role: str) -> dict[str, Any]:
    return {"role": role, "content": _content(step.get("message")), "timestamp": step.get("timestamp")}


def _plain(result: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    """What the environment said without being asked by a call."""
    return {"role": "user", "content": _content(result.get("content")), "timestamp": step.get("timestamp")}


def _content(content: Any) -> Any:
    text = text_of_parts(content)
    return text if text is not None else content


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    results = json_object(step.get("observation")).get("results")
    return [entry for entry in as_list(results) if isinstance(entry, dict)]


def _flag(result: dict[str, Any]) -> bool | None:
    """The format has no flag; writers add one to the result or to its `extra`."""
    for holder in (result, json_object(result.get("extra"))):
        for key in ("is_error", "isError"):
            if isinstance(holder.get(key), bool):
                return holder[key]
    return None


def _failed(message: dict[str, Any]) -> bool | None:
    return message.get("is_error")
