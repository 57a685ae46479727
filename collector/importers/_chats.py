"""Conversations out of the JSON values of a file: lists of messages, wrappers, result files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from . import _json_stream
from ._clock import parse_time
from ._detect import WRAPPERS, is_message, not_a_trace
from ._json_stream import JsonValue
from ._report import FormatError, SkipList
from ._tau_bench import tau2_facts, tau2_failed, tau_facts, tau_failed
from ._transcript import Conversation

__all__ = ["conversations"]

_SESSION_KEYS = ("conversation_id", "session_id", "thread_id", "id")
_SOURCE_KEYS = ("task_id", "trial", "instance_id", "trajectory_id", "run_id", "reward", "seed")
_BEGUN_KEYS = ("start_time", "started_at", "created_at", "created", "timestamp")


def conversations(values: Iterable[JsonValue], dialect: str, skipped: SkipList) -> Iterator[Conversation]:
    """Each conversation of the file. `dialect`: openai-chat, tau-bench or tau2-bench.

    Empty ones are skipped. Raises FormatError, with the place, for a value that is no conversation.
    """
    run: list[JsonValue] = []  # messages that stand singly and make up one conversation
    for item in values:
        if is_message(item.value):
            if run and run[-1].array != item.array:
                yield from _one_message_each(run, dialect)
                run = []
            run.append(item)
            _check_size(run)
            continue
        if run:
            yield from _one_message_each(run, dialect)
            run = []
        yield from _of_value(item.value, item.where, dialect, skipped)
    if run:
        yield from _one_message_each(run, dialect)


def _one_message_each(run: list[JsonValue], dialect: str) -> Iterator[Conversation]:
    where = f"the list on line {run[0].line}" if run[0].array else f"lines {run[0].line}-{run[-1].line}"
    yield _conversation([item.value for item in run], {}, where, dialect, {})


def _check_size(run: list[JsonValue]) -> None:
    if len(run) % 1024 == 0 and sum(item.size for item in run) > _json_stream.MAX_VALUE:
        raise FormatError(
            f"one conversation of more than {_json_stream.MAX_VALUE >> 20} million characters",
            where=f"line {run[0].line}",
        )


def _of_value(value: Any, where: str, dialect: str, skipped: SkipList) -> Iterator[Conversation]:
    if isinstance(value, dict) and isinstance(value.get("simulations"), list):
        for index, entry in enumerate(value["simulations"], 1):
            yield from _of_wrapper(entry, f"simulation {index}", dialect, skipped, value.get("info"))
    elif isinstance(value, list):
        yield from _of_wrapper({"messages": value}, where, dialect, skipped, None)
    else:
        yield from _of_wrapper(value, where, dialect, skipped, None)


def _of_wrapper(entry: Any, where: str, dialect: str, skipped: SkipList, info: Any) -> Iterator[Conversation]:
    key = next((key for key in WRAPPERS if key in entry), None) if isinstance(entry, dict) else None
    if key is None:
        raise FormatError(f"no conversation: {not_a_trace(entry)}", where=where)
    messages = entry[key] if entry[key] is not None else []
    if not isinstance(messages, list):
        raise FormatError(f"{key!r} must be a list of messages", where=where)
    messages = _flat(messages)
    for index, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise FormatError(
                f"message {index} of {key!r} is not a chat message (an object with a 'role')", where=where
            )
    if not messages:
        skipped.add(where, "the conversation is empty")
        return
    yield _conversation(messages, entry, where, dialect, info if isinstance(info, dict) else {})


def _flat(messages: list[Any]) -> list[Any]:
    """tau2-bench can hold the results of one turn in a message of their own."""
    if not any(isinstance(message, dict) and "tool_messages" in message for message in messages):
        return messages
    out: list[Any] = []
    for message in messages:
        inner = message.get("tool_messages") if isinstance(message, dict) else None
        out.extend(inner if isinstance(inner, list) else [message])
    return out


def _conversation(
    messages: list[dict[str, Any]], entry: dict[str, Any], where: str, dialect: str, info: dict[str, Any]
) -> Conversation:
    conversation = Conversation(messages, where, dialect, service=dialect, failed=_flagged)
    for key in _SOURCE_KEYS:
        value = entry.get(key)
        if isinstance(value, str | bool | float) or (isinstance(value, int) and abs(value) < 1 << 62):
            conversation.source[f"loopscope.source.{key}"] = value
    conversation.session_id = next(
        (str(entry[key])[:200] for key in _SESSION_KEYS if isinstance(entry.get(key), str) and entry[key]),
        None,
    )
    conversation.begun = next(
        (time for key in _BEGUN_KEYS if (time := parse_time(entry.get(key))) is not None), None
    )
    if isinstance(entry.get("model"), str):
        conversation.models["assistant"] = entry["model"]
    if dialect == "tau-bench":
        conversation.failed = tau_failed
        tau_facts(conversation, entry)
    elif dialect == "tau2-bench":
        conversation.failed = tau2_failed
        tau2_facts(conversation, entry, info)
    return conversation


def _flagged(message: dict[str, Any]) -> bool | None:
    """Some logs flag a failed result on its message, although OpenAI's format has no place for it."""
    value = message.get("is_error", message.get("isError"))
    return value if isinstance(value, bool) else None
