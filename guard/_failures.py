"""Rules 2 to 5 of `classify_outcome`: what a call that has failed came to.

Apart from `_outcome`, because a live guard that is told its outcomes never needs the tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ._envelope import jsonrpc_code_of, text_of, text_of_result
from ._error_kinds import (
    JSONRPC_SCHEMA_CODES,
    failure_status,
    is_retry_type,
    is_validation_type,
    kind_of_jsonrpc,
    kind_of_status,
    kind_of_text,
    kind_of_type,
    number_of_type,
)
from ._outcome import Classification, ErrorKind, Outcome, OutcomeFacts

__all__ = ["classify_failure"]

# Words a tool or framework puts in front of the error's own text.
_LEAD_INS = re.compile(
    r"<tool_use_error>"
    r"|(?P<body>Error (?:calling|executing|running) tool '?[^'\n:]{1,200}'?: )"
    r"|Tool (?:(?:execution|call) failed[:.]|returned an error:) "
    r"|An error occurred while running the tool\. Please try again\. "
    r"|\{'message': '[^'\n]{0,200}', 'data': \{(?:'tool_name': '[^'\n]{0,200}', )?'error': ['\"]"
    r"|[Ee]rror: "
    r"|(?P<type>[A-Za-z_][\w.]{0,200}(?:Error|Exception|Failure|Timeout|Interrupt|ModelRetry))"
    r"(?::\s*| - |\((?:['\"]|\)))"
)
_MAX_LEAD_INS = 6
_MAX_CHARS = 4_000

_PYDANTIC_TEXT = re.compile(r"\d+ validation errors?\b(?: for (?P<model>[^\n]{1,200}))?")
# How the text begins by which frameworks refuse arguments.
_VALIDATION_LEADS = re.compile(
    r"(?:Input validation error:"  # MCP servers
    r"|Invalid arguments for tool\b"  # MCP TypeScript SDK
    r"|Invalid JSON input for tool\b"  # OpenAI Agents SDK
    r"|Error invoking tool '[^'\n]{1,200}' with kwargs\b"  # LangGraph
    r"|Validation failed for input parameters\b"  # Strands
    r"|Arguments validation failed:"  # CrewAI
    r"|Tool input validation failed\b"  # Mastra
    r"|Invalid input for tool\b"  # Vercel AI SDK
    r"|failed to parse function arguments\b)"  # Codex
)

_HTTP_LEAD = re.compile(
    r"HTTP(?:/\d(?:\.\d)?)?(?: error| status(?: code)?)?:?\s+(?P<status>[1-5]\d\d)\b", re.IGNORECASE
)
_MCP_LEAD = re.compile(r"MCP error (?P<code>-32\d{3})\b")


@dataclass(frozen=True, slots=True)
class FailureText:
    """The text of a failure, with what stood in front of the message taken apart."""

    text: str
    types: tuple[str, ...] = field(default=())  # class names that led the text
    from_body: bool = False  # the wrapper says that the tool itself raised it

    @classmethod
    def read(cls, text: str | None) -> FailureText | None:
        """Take the lead-ins off; None where there is no text."""
        if text is None or not text.strip():
            return None
        rest = text[:_MAX_CHARS].strip()
        types: list[str] = []
        from_body = False
        for _ in range(_MAX_LEAD_INS):
            lead = _LEAD_INS.match(rest)
            if lead is None:
                break
            if lead["type"]:
                types.append(lead["type"])
            if lead.end() == len(rest):
                break
            from_body = from_body or lead["body"] is not None
            rest = rest[lead.end() :].lstrip()
        return cls(rest, tuple(types), from_body)

    def jsonrpc_code(self) -> int | None:
        """The code of a text that begins `MCP error -32…`."""
        match = _MCP_LEAD.match(self.text)
        return int(match["code"]) if match else None

    def http_status(self) -> int | None:
        """The status of a text that begins `HTTP nnn`."""
        match = _HTTP_LEAD.match(self.text)
        return failure_status(int(match["status"])) if match else None

    def refuses_arguments(self) -> bool:
        """Is it the text by which an argument binder refuses arguments?"""
        if _VALIDATION_LEADS.match(self.text):
            return True
        match = _PYDANTIC_TEXT.match(self.text)
        if match is None:
            return False
        # Pydantic fails inside of tools too, on what a server answered. Where the wrapper says
        # that the tool raised it, only the models that frameworks make for arguments count.
        model = match["model"] or ""
        return not self.from_body or model.startswith("call[") or model.endswith("Arguments")


def classify_failure(facts: OutcomeFacts, envelope: object | None) -> Classification:
    """Say what a failed call came to; `envelope` is the failing object inside of its result."""
    texts = _failure_texts(facts, envelope)
    type_code, type_status = number_of_type(facts.error_type)

    code = _first(
        facts.jsonrpc_code, type_code, *(text.jsonrpc_code() for text in texts), jsonrpc_code_of(facts.result)
    )
    if code is not None:
        if code in JSONRPC_SCHEMA_CODES:
            return Classification(Outcome.SCHEMA_ERROR, ErrorKind.VALIDATION, facts.http_status)
        kind, status = _kind(facts, texts)
        if kind in (ErrorKind.TOOL_FAILURE, ErrorKind.UNKNOWN):
            kind = kind_of_jsonrpc(code) or ErrorKind.TOOL_FAILURE
        return Classification(Outcome.GENERAL_TOOL_ERROR, kind, facts.http_status or status)

    attribute = facts.http_status if facts.http_status is not None and facts.http_status >= 400 else None
    status = _first(attribute, type_status, *(text.http_status() for text in texts))
    if status is not None:
        outcome = Outcome.SCHEMA_ERROR if status in (400, 422) else Outcome.GENERAL_TOOL_ERROR
        return Classification(outcome, kind_of_status(status), status)

    if _refused(facts.error_type, texts):
        return Classification(Outcome.SCHEMA_ERROR, ErrorKind.VALIDATION, None)
    kind, status = _kind(facts, texts)
    return Classification(Outcome.GENERAL_TOOL_ERROR, kind, status)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _failure_texts(facts: OutcomeFacts, envelope: object | None) -> list[FailureText]:
    said = text_of(envelope) if envelope is not None else text_of_result(facts.result)
    read = (FailureText.read(text) for text in (facts.error_text, said))
    return [text for text in read if text is not None]


def _refused(error_type: str | None, texts: list[FailureText]) -> bool:
    if any(text.refuses_arguments() for text in texts):
        return True
    if any(is_retry_type(name) for name in (error_type, *_types(texts))):
        # Arguments were refused only if the text says so, or if there is no text to say otherwise.
        return not texts
    if is_validation_type(error_type):
        return True
    return any(is_validation_type(name) for text in texts if not text.from_body for name in text.types)


def _types(texts: list[FailureText]) -> list[str]:
    return [name for text in texts for name in text.types]


def _kind(facts: OutcomeFacts, texts: list[FailureText]) -> tuple[ErrorKind, int | None]:
    """The kind of a general error: by type, then by text; and a status that the text names."""
    by_text, status = next(
        ((kind, status) for kind, status in (kind_of_text(text.text) for text in texts) if kind), (None, None)
    )
    by_type = [kind for kind in map(kind_of_type, (facts.error_type, *_types(texts))) if kind is not None]
    for kind in by_type:
        if kind is not ErrorKind.TOOL_FAILURE:
            return kind, status
    if by_text is not None:
        return by_text, status
    return (ErrorKind.TOOL_FAILURE if by_type or texts else ErrorKind.UNKNOWN), status
