"""OpenHands: streams of actions and observations, of both generations.

The older one has events with `action` or `observation`, the call's name and id in `tool_call_metadata`, and
observations that point back with `cause`. The newer one (`kind`: `ActionEvent`, `ObservationEvent`, …) names
tool and call id on both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .._attributes import as_list
from . import _json_stream
from ._conversations import call, conversation_parts, fact, text_of_parts
from ._json_stream import JsonValue
from ._otlp import Part
from ._report import FormatError, SkipList
from ._spans import json_object
from ._transcript import Conversation

__all__ = ["matches_openhands", "openhands_parts"]

_WRAPPERS = ("history", "trajectory", "events")
# What an action's arguments hold beside what the model asked for; only where the model's own are not kept.
_OWN_ARGUMENTS = frozenset(
    ("thought", "confirmation_state", "security_risk", "hidden", "blocking", "is_static", "cwd")
)


def matches_openhands(value: Any) -> bool:
    return _is_event(value) or _wrapped(value) is not None


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("source"), str):
        return False
    if isinstance(value.get("kind"), str):
        return "timestamp" in value and value["kind"].endswith(("Event", "Observation", "Condensation"))
    return isinstance(value.get("action", value.get("observation")), str) and (
        "args" in value or "extras" in value or "message" in value
    )


def _wrapped(value: Any) -> list[Any] | None:
    for key in _WRAPPERS:
        events = value.get(key) if isinstance(value, dict) else None
        if isinstance(events, list) and events and _is_event(events[0]):
            return events
    return None


def openhands_parts(values: Iterable[JsonValue], skipped: SkipList) -> Iterator[Part]:
    """Requests of event streams: a file of events is one run, an object around events another.

    Raises FormatError with the place of what is none.
    """
    return conversation_parts(_conversations(values), skipped)


def _conversations(values: Iterable[JsonValue]) -> Iterator[Conversation]:
    run: list[JsonValue] = []
    size = 0
    for item in values:
        if _is_event(item.value):
            if run and run[-1].array != item.array:
                yield _single(run)
                run, size = [], 0
            run.append(item)
            size += item.size
            if size > _json_stream.MAX_VALUE:
                raise FormatError(
                    f"one run of more than {_json_stream.MAX_VALUE >> 20} million characters",
                    where=item.where,
                )
            continue
        if run:
            yield _single(run)
            run, size = [], 0
        events = _wrapped(item.value)
        if events is None:
            raise FormatError("not an event of OpenHands", where=item.where)
        yield _conversation(events, item.value, item.where)
    if run:
        yield _single(run)


def _single(run: list[JsonValue]) -> Conversation:
    where = f"the list on line {run[0].line}" if run[0].array else f"lines {run[0].line}-{run[-1].line}"
    return _conversation([item.value for item in run], {}, where)


def _conversation(events: list[Any], entry: dict[str, Any], where: str) -> Conversation:
    conversation = Conversation([], where, "openhands", service="openhands", failed=_failed)
    instance = entry.get("instance_id")
    fact(conversation, "instance_id", instance)
    if isinstance(instance, str) and instance:
        conversation.session_id = instance[:200]
    if isinstance(entry.get("error"), str) and entry["error"]:
        conversation.failure = entry["error"][:1000]
    reader = _Reader(conversation)
    for number, event in enumerate(events, 1):
        if not isinstance(event, dict):
            raise FormatError("an event that is no object", where=f"{where}, event {number}")
        if isinstance(event.get("kind"), str):
            reader.new(event)
        else:
            reader.old(event)
    return conversation


class _Reader:
    """Turns events into messages. Calls of one answer of the model stand in one message."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._turns: dict[str, dict[str, Any]] = {}  # by the id of the model's answer
        self._ids: dict[str, Any] = {}  # repr of an event's id: call id

    def old(self, event: dict[str, Any]) -> None:
        args = json_object(event.get("args"))
        metadata = json_object(event.get("tool_call_metadata"))
        action, observation = event.get("action"), event.get("observation")
        if isinstance(observation, str):
            call_id = metadata.get("tool_call_id") or self._ids.get(repr(event.get("cause")))
            if call_id is not None and observation != "null":
                self._result(event, call_id, event.get("content"), _old_flag(event))
        elif action in ("message", "system"):
            role = {"user": "user", "agent": "assistant"}.get(str(event.get("source")), "system")
            self._say(event, "system" if action == "system" else role, args.get("content"))
        elif action == "finish":
            # The model calls a tool to finish, but nothing is executed, and OpenHands itself goes on with
            # the text alone.
            text = args.get("final_thought") or args.get("thought") or event.get("message")
            self._turn(event, metadata.get("model_response"), None, text)
        elif isinstance(metadata.get("function_name"), str):
            call_id = metadata.get("tool_call_id")
            self._ids[repr(event.get("id"))] = call_id
            response = json_object(metadata.get("model_response"))
            asked = _arguments(response, call_id)
            if asked is None:
                asked = {key: value for key, value in args.items() if key not in _OWN_ARGUMENTS}
            self._turn(event, response, call(call_id, metadata["function_name"], asked), args.get("thought"))

    def new(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "SystemPromptEvent":
            self._say(event, "system", text_of_parts(event.get("system_prompt")))
        elif kind == "MessageEvent":
            message = json_object(event.get("llm_message"))
            role = "assistant" if event.get("source") == "agent" else str(message.get("role") or "user")
            self._say(event, role, text_of_parts(message.get("content")))
        elif kind == "ActionEvent":
            asked = json_object(event.get("tool_call"))
            arguments = asked.get("arguments", json_object(asked.get("function")).get("arguments"))
            self._turn(
                event,
                {"id": event.get("llm_response_id")},
                call(event.get("tool_call_id"), event.get("tool_name"), arguments),
                text_of_parts(event.get("thought")),
            )
        elif kind == "ObservationEvent":
            seen = json_object(event.get("observation"))
            content = text_of_parts(seen.get("content"))
            self._result(
                event, event.get("tool_call_id"), seen if content is None else content, _new_flag(seen)
            )
        elif kind in ("AgentErrorEvent", "UserRejectObservation"):
            text = event.get("error") or event.get("rejection_reason")
            self._result(event, event.get("tool_call_id"), text, True)
        elif kind == "ConversationErrorEvent":
            self._conversation.failure = str(event.get("detail") or event.get("code") or kind)[:1000]

    def _say(self, event: dict[str, Any], role: str, content: Any) -> None:
        self._add({"role": role, "content": content, "timestamp": event.get("timestamp")})

    def _turn(self, event: dict[str, Any], response: Any, asked: dict[str, Any] | None, text: Any) -> None:
        response = json_object(response)
        turn_id = response.get("id")
        message = self._turns.get(turn_id) if isinstance(turn_id, str) else None
        if message is None:
            message = {"role": "assistant", "content": text or None, "timestamp": event.get("timestamp")}
            if isinstance(response.get("model"), str):
                message["model"] = response["model"]
            if usage := json_object(response.get("usage")):
                message["usage"] = usage
            if isinstance(turn_id, str):
                self._turns[turn_id] = message
            self._add(message)
        if asked is not None:
            message.setdefault("tool_calls", []).append(asked)

    def _result(self, event: dict[str, Any], call_id: Any, content: Any, failed: bool | None) -> None:
        self._add(
            {
                "role": "tool",
                "tool_call_id": call_id,
                "content": content,
                "is_error": failed,
                "timestamp": event.get("timestamp"),
            }
        )

    def _add(self, message: dict[str, Any]) -> None:
        self._conversation.messages.append(message)


def _arguments(response: dict[str, Any], call_id: Any) -> Any:
    """The arguments as the model wrote them, out of its recorded answer."""
    for choice in as_list(response.get("choices")):
        message = json_object(choice.get("message")) if isinstance(choice, dict) else {}
        for asked in as_list(message.get("tool_calls")):
            if isinstance(asked, dict) and asked.get("id") == call_id:
                return json_object(asked.get("function")).get("arguments")
    return None


def _old_flag(event: dict[str, Any]) -> bool | None:
    """An error instead of an observation, or `success`; a command that still runs has not failed."""
    if event.get("observation") == "error":
        return True
    success = event.get("success")
    if not isinstance(success, bool):
        return None
    extras = json_object(event.get("extras"))
    code = json_object(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    return None if not success and code == -1 else not success


def _new_flag(seen: dict[str, Any]) -> bool | None:
    for key in ("is_error", "error"):
        if isinstance(seen.get(key), bool):
            return seen[key]
    return True if isinstance(seen.get("error"), str) and seen["error"] else None


def _failed(message: dict[str, Any]) -> bool | None:
    return message.get("is_error")
