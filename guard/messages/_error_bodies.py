"""Takes the messages out of what wraps an error on its way to the reader.

A provider's words arrive as JSON, as the repr of a dict inside of a sentence, as JSON inside of
JSON (OpenRouter's `metadata.raw`), behind the prefixes of gateways, SDKs and frameworks. What is
read here was written by strangers: sizes, depths and counts are bounded, and nothing is evaluated
but literals of bounded size.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ErrorBody", "plain", "read_body"]

MAX_HEAD = 24_000
MAX_TAIL = 8_000  # a traceback has its message at the end
_MAX_DEPTH = 8
_MAX_NODES = 200
_MAX_LEAVES = 40
_MAX_BRACES = 4  # places in a sentence at which a dict may begin
_MAX_LITERAL = 20_000
_MAX_NESTING = 60

# In this order: what is deeper in the chain of gateways is nearer to the provider's words.
_KEYS = (
    "raw",
    "metadata",
    "error",
    "Error",
    "errors",
    "body",
    "data",
    "response",
    "responseBody",
    "response_body",
    "cause",
    "message",
    "Message",
    "detail",
    "msg",
    "error_message",
    "errorMessage",
    "description",
    "reason",
    "error_description",
    "errorCode",
    "type",
    "param",
    "status_message",
    "statusMessage",
)
_STATUS_KEYS = ("status_code", "statusCode", "http_code", "httpCode", "HTTPStatusCode", "status", "code")
_PROVIDER_KEYS = ("provider_name", "llm_provider", "provider")
_LABELS = frozenset({"type", "param", "errorCode"})

_STATUS_WORDS = re.compile(
    r"(?:error code|status[_ ]?code|status|http(?:/[\d.]{1,4})?(?: error)?|statuscode|api error)"
    r"['\"]?\s{0,4}[:=]?\s{0,4}([45]\d\d)\b|^\W{0,8}([45]\d\d)\b|\binvalid_argument: ?([45]\d\d)\b",
    re.IGNORECASE,
)
_LITELLM = re.compile(r"\b([A-Za-z][A-Za-z_]{1,40}?)_?Exception(?: [A-Za-z]{1,40})? - ")
# What stands in front of a message: names of exceptions, statuses, phrases of SDKs.
_LEAD = re.compile(
    r"\s*(?:"
    r"(?:[A-Za-z_][\w.]{0,80}(?:Error|Exception|Rejected))(?::\s+|\s+-\s+|\((?=['\"b]))"
    r"|(?:Azure|OpenAI|Anthropic|Bedrock|[A-Za-z_]{2,30})Exception(?: [A-Za-z]{1,40})? - "
    r"|Error code: \d{3}(?: - )?"
    r"|status_code: \d{3}, model_name: [^,]{1,200}, body: "
    r"|(?:API Error|Error|HTTP|Status):?\s{0,3}[45]\d\d(?: Bad Request)?:?\s{0,3}"
    r"|[45]\d\d(?: Bad Request)?(?::| -)? "
    r"|INVALID_ARGUMENT:\s"
    r"|Error (?:getting response|in agent run|while generating output|calling LLM):\s"
    r"|<class \\?'[\w.]{1,200}\\?'> service failed to complete the prompt[:'\",]{0,4} "
    r"|An error occurred \(\w{1,80}\) when calling the \w{1,80} operation: "
    r"|['\"(]"
    r")"
)
_MAX_LEADS = 8
_TRACEBACK = "Traceback (most recent call last)"
_QUOTES = {ord(character): None for character in "'\"`\u2018\u2019\u201c\u201d\u00b4"}
_ESCAPED_SPACE = re.compile(r"\\+[nrt]")
_SPACES = re.compile(r"\s+")


@dataclass(slots=True)
class ErrorBody:
    """What an error body says: its messages, innermost first, and what the envelopes name."""

    messages: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # `param`: which field of the request is meant
    status: int | None = None
    provider_words: list[str] = field(default_factory=list)


def plain(text: str) -> tuple[str, str]:
    """(text without quotes and runs of space, the same in lower case and of the same length)."""
    text = _ESCAPED_SPACE.sub(" ", text).replace("\\", "").translate(_QUOTES)
    text = _SPACES.sub(" ", text)
    for wrong, right in (
        ("preceeding", "preceding"),
        ("Preceeding", "Preceding"),
        ("PRECEEDING", "PRECEDING"),
    ):
        text = text.replace(wrong, right)
    low = text.lower()
    if len(low) != len(text):  # of all letters only a dotted capital I grows
        text = text.replace("\u0130", "I")
        low = text.lower()
        if len(low) != len(text):
            text = low
    return text, low


def read_body(body: object) -> ErrorBody:
    """Everything of use in an error body. Never raises; what cannot be read is left as it is."""
    found = ErrorBody()
    if isinstance(body, bytes | bytearray | memoryview):
        body = bytes(body[: MAX_HEAD + MAX_TAIL]).decode("utf-8", "replace")
    with contextlib.suppress(Exception):  # a stranger's mapping may do anything when it is asked
        _Reader(found).read(body, 0)
    return found


def _bounded(text: str) -> str:
    if len(text) <= MAX_HEAD + MAX_TAIL:
        return text
    return f"{text[:MAX_HEAD]}\n{text[-MAX_TAIL:]}"


class _Reader:
    def __init__(self, found: ErrorBody) -> None:
        self.found = found
        self.nodes = 0

    def read(self, value: object, depth: int, label: str = "") -> None:
        self.nodes += 1
        if self.nodes > _MAX_NODES or depth > _MAX_DEPTH or len(self.found.messages) >= _MAX_LEAVES:
            return
        if isinstance(value, bytes):
            value = value[:MAX_HEAD].decode("utf-8", "replace")
        if isinstance(value, str):
            self._text(value, depth, label)
        elif isinstance(value, Mapping):
            self._mapping(value, depth)
        elif isinstance(value, list | tuple):
            for item in value[:10]:
                self.read(item, depth + 1)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> None:
        found = self.found
        before = len(found.messages)
        for key in _KEYS:
            inner = value.get(key)
            if inner is not None:
                self.read(inner, depth + 1, key)
        if len(found.messages) == before:  # words of its own; deeper than that may be an echo of the request
            for key in list(value)[:20]:
                if isinstance(inner := value.get(key), str) and key not in _KEYS:
                    self.read(inner, depth + 1)
        for key in _STATUS_KEYS:
            number = _status(value.get(key))
            if number is not None:
                found.status = found.status or number
                break
        for key in _PROVIDER_KEYS:
            name = value.get(key)
            if isinstance(name, str):
                found.provider_words.append(name[:80])

    def _text(self, text: str, depth: int, label: str) -> None:
        text = _bounded(text.strip())
        if not text:
            return
        found = self.found
        if label in _LABELS and " " not in text:
            if label == "param":
                found.places.append(text[:200])
            return
        rest = []
        position = 0
        for inner, start, end in _literals(text):
            self.read(inner, depth + 1)
            rest.append(text[position:start])
            position = end
        rest.append(text[position:])
        text = " ".join(rest).strip()  # what is in the literals has been read
        for match in _LITELLM.finditer(text[:2_000]):
            found.provider_words.append(match[1])
        status = _STATUS_WORDS.search(text[:2_000])
        if status and found.status is None:
            found.status = int(status[1] or status[2] or status[3])
        own = _without_leads(text)
        if own:
            found.messages.append(own)


def _status(value: object) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
        return value
    return None


def _without_leads(text: str) -> str:
    wrapped = False
    for number in range(_MAX_LEADS):
        match = _LEAD.match(text)
        if match is None or match.end() >= len(text):
            break
        mark = match[0].strip()
        if mark in "'\"(" and not wrapped and (mark != "(" or not number):
            break  # the message's own
        wrapped = wrapped or mark[-1] == "("
        text = text[match.end() :]
    head, found, _ = text.partition(_TRACEBACK)
    if found and head.strip():
        text = head
    text = text.strip()
    if wrapped and text.endswith(")"):  # of the repr of an exception
        text = text.rstrip("'\")(,")
    return text


def _literals(text: str) -> Iterator[tuple[object, int, int]]:
    """(value, start, end) of the JSON objects and Python dicts in a text."""
    position = 0
    for _ in range(_MAX_BRACES):
        start = text.find("{", position)
        if start < 0:
            return
        value, end = _literal(text, start)
        if end is None:
            position = start + 1
            continue
        yield value, start, end
        position = end


def _literal(text: str, start: int) -> tuple[object, int | None]:
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
        return value, end
    except (ValueError, RecursionError):
        pass
    end = _closing(text, start)
    if end is None:
        return None, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in a stranger's text
            return ast.literal_eval(text[start:end]), end
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None, None


def _closing(text: str, start: int) -> int | None:
    """Where the bracket that opens at `start` is closed, quotes respected."""
    nesting = 0
    quote = ""
    escaped = False
    for position in range(start, min(len(text), start + _MAX_LITERAL)):
        character = text[position]
        if escaped:
            escaped = False
        elif quote:
            if character == "\\":
                escaped = True
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "{[(":
            nesting += 1
            if nesting > _MAX_NESTING:
                return None
        elif character in "}])":
            nesting -= 1
            if not nesting:
                return position + 1
    return None
