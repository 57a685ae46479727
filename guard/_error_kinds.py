"""What a failed call failed of: tables from types, codes and texts to an ErrorKind.

Everything here is asked only about calls that are known to have failed.
"""

from __future__ import annotations

import re

from ._outcome import ErrorKind

__all__ = [
    "JSONRPC_SCHEMA_CODES",
    "failure_status",
    "is_retry_type",
    "is_validation_type",
    "kind_of_jsonrpc",
    "kind_of_status",
    "kind_of_text",
    "kind_of_type",
    "number_of_type",
]


_K = ErrorKind

_STATUS = {
    400: _K.VALIDATION,
    401: _K.AUTH,
    403: _K.DENIED,
    404: _K.NOT_FOUND,
    407: _K.AUTH,
    408: _K.TIMEOUT,
    410: _K.NOT_FOUND,
    422: _K.VALIDATION,
    429: _K.RATE_LIMIT,
    499: _K.CANCELLED,
    502: _K.UNAVAILABLE,
    503: _K.UNAVAILABLE,
    504: _K.TIMEOUT,
    520: _K.UNAVAILABLE,
    521: _K.UNAVAILABLE,
    522: _K.TIMEOUT,
    524: _K.TIMEOUT,
    529: _K.UNAVAILABLE,  # Anthropic: overloaded
}


def kind_of_status(status: int) -> ErrorKind:
    """The kind an HTTP status (400-599) names."""
    return _STATUS.get(status, _K.TOOL_FAILURE)


_JSONRPC = {
    -32700: _K.VALIDATION,
    -32600: _K.VALIDATION,
    -32602: _K.VALIDATION,
    -32601: _K.NOT_FOUND,  # no such method
    -32001: _K.TIMEOUT,  # MCP: request timed out
    -32002: _K.NOT_FOUND,  # MCP: no such resource
    -32800: _K.CANCELLED,
}
JSONRPC_SCHEMA_CODES = frozenset({-32700, -32600, -32602})


def kind_of_jsonrpc(code: int) -> ErrorKind | None:
    """The kind a JSON-RPC error code names; None where the code says no more than "error"."""
    return _JSONRPC.get(code)


# Exceptions by which a framework refuses the arguments of a call, before the tool runs.
VALIDATION_TYPES = frozenset(
    {
        "ValidationError",  # pydantic (and so LangChain, LlamaIndex, AutoGen), FastMCP, jsonschema
        "ToolInputParsingError",
        "ToolInputParsingException",  # LangChain.js
        "InvalidToolArguments",
        "InvalidToolArgumentsError",  # Vercel AI SDK 4
        "InvalidToolInputError",  # Vercel AI SDK 5
        "InvalidToolArgumentsException",  # AutoGen
        "AgentToolCallError",  # smolagents
        "InputValidationError",  # Claude Code
        "ToolInputValidationError",
        "ToolValidationError",
        "ToolArgumentError",
        "ToolParsingError",  # Inspect
        "ZodError",  # MCP servers in TypeScript
        "invalid_tool_params",  # Gemini CLI
        "InvalidToolParams",
    }
)
# The same in LangGraph; Haystack has a class of this name for tools that failed.
_LANGGRAPH_TYPE = re.compile(r"langgraph\b.*\bToolInvocationError$")
# Pydantic AI wraps both refused arguments and a tool's own wish to be asked again in this.
RETRY_TYPE = "ToolRetryError"


def is_validation_type(name: str | None) -> bool:
    """Is it an exception by which an argument binder refuses arguments?"""
    if not name:
        return False
    name = _clean_type(name)
    last = name.rsplit(".", 1)[-1]
    return last.removeprefix("AI_") in VALIDATION_TYPES or _LANGGRAPH_TYPE.search(name) is not None


def is_retry_type(name: str | None) -> bool:
    """Is it Pydantic AI's exception for "ask the model again"?"""
    return bool(name) and _clean_type(name or "").rsplit(".", 1)[-1] == RETRY_TYPE


def number_of_type(name: str | None) -> tuple[int | None, int | None]:
    """(JSON-RPC code, HTTP status) where an error type is no name but a number."""
    if not name or len(name) > 6 or not re.fullmatch(r"-?\d+", name):
        return None, None
    number = int(name)
    return (number, None) if -32800 <= number <= -32000 else (None, failure_status(number))


def failure_status(number: int) -> int | None:
    return number if 400 <= number <= 599 else None


def _clean_type(name: str) -> str:
    return name.strip()[:300].removeprefix("<class '").removesuffix("'>")


# Pieces of class names and error codes, lower case without separators; the first hit wins.
_TYPE_PIECES: tuple[tuple[str, ErrorKind], ...] = (
    ("modulenotfound", _K.TOOL_FAILURE),
    ("timeout", _K.TIMEOUT),
    ("timedout", _K.TIMEOUT),
    ("deadlineexceeded", _K.TIMEOUT),
    ("ratelimit", _K.RATE_LIMIT),
    ("toomanyrequests", _K.RATE_LIMIT),
    ("throttl", _K.RATE_LIMIT),
    ("quota", _K.RATE_LIMIT),
    ("resourceexhausted", _K.RATE_LIMIT),
    ("unavailable", _K.UNAVAILABLE),
    ("overloaded", _K.UNAVAILABLE),
    ("badgateway", _K.UNAVAILABLE),
    ("brokenpipe", _K.NETWORK),
    ("connect", _K.NETWORK),
    ("network", _K.NETWORK),
    ("gaierror", _K.NETWORK),
    ("sslerror", _K.NETWORK),
    ("dnserror", _K.NETWORK),
    ("nameresolution", _K.NETWORK),
    ("protocolerror", _K.NETWORK),
    ("transporterror", _K.NETWORK),
    ("closedresource", _K.NETWORK),
    ("unauthorized", _K.AUTH),
    ("unauthenticated", _K.AUTH),
    ("authentication", _K.AUTH),
    ("credential", _K.AUTH),
    ("autherror", _K.AUTH),
    ("permission", _K.DENIED),
    ("forbidden", _K.DENIED),
    ("accessdenied", _K.DENIED),
    ("denied", _K.DENIED),
    ("notfound", _K.NOT_FOUND),
    ("nosuch", _K.NOT_FOUND),
    ("doesnotexist", _K.NOT_FOUND),
    ("notregistered", _K.NOT_FOUND),
    ("unknowntool", _K.NOT_FOUND),
    ("cancel", _K.CANCELLED),
    ("abort", _K.CANCELLED),
    ("interrupt", _K.CANCELLED),
)
# Whole names that would be found inside of others.
_TYPE_NAMES = {
    "eacces": _K.DENIED,
    "eperm": _K.DENIED,
    "enoent": _K.NOT_FOUND,
    "enotfound": _K.NETWORK,  # Node: the host name
    "econnrefused": _K.NETWORK,
    "econnreset": _K.NETWORK,
    "econnaborted": _K.NETWORK,
    "ehostunreach": _K.NETWORK,
    "enetunreach": _K.NETWORK,
    "eaiagain": _K.NETWORK,
    "epipe": _K.NETWORK,
    "readerror": _K.NETWORK,  # httpx
    "writeerror": _K.NETWORK,
}
_SEPARATORS = re.compile(r"[^a-z0-9]+")
# Types that say no more than "it failed".
_EMPTY_TYPES = frozenset(
    {
        "error",
        "exception",
        "executionfailed",
        "failed",
        "failure",
        "mcptoolerror",
        "none",
        "null",
        "other",
        "toolerror",
        "toolexception",
        "toolexecutionerror",
        "toolexecutionexception",
        "unhandledexception",
        "unknown",
        "unknownerror",
    }
)


def kind_of_type(name: str | None) -> ErrorKind | None:
    """The kind an exception's name or an error code (`ENOENT`) names; None if it names none.

    A type that is a name of its own but of no kind (`RuntimeError`) is TOOL_FAILURE.
    """
    if not name:
        return None
    name = _clean_type(name)
    # The class, not its package: `requests.exceptions.ConnectionError`, `Error:ENOENT`.
    last = re.split(r"[.:/\s]", name)[-1] or name
    flat = _SEPARATORS.sub("", last.lower())
    if flat in _TYPE_NAMES:
        return _TYPE_NAMES[flat]
    for piece, kind in _TYPE_PIECES:
        if piece in flat:
            return kind
    return None if not flat or flat.removeprefix("ai") in _EMPTY_TYPES or flat.isdigit() else _K.TOOL_FAILURE


# How HTTP clients begin the text of a failed request. They name a kind, and never an outcome.
_CLIENT_STATUS = re.compile(
    r"(?:(?:client|server) error '?"  # httpx
    r"|error code:? "  # OpenAI, Anthropic clients
    r"|status[_ ]?code:? "
    r"|request failed with status(?: code)? "  # axios
    r")?(?P<status>[45]\d\d)\b"
    r"(?P<phrase>,? ?:? ?(?:client error|server error|message=|bad|unauthorized|forbidden|not found|method|"
    r"request|conflict|gone|payload|unprocessable|too many|internal|not implemented|service|gateway|"
    r"overloaded))?",
    re.IGNORECASE,
)
_PHRASES: tuple[tuple[re.Pattern[str], ErrorKind], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"rate[ -]?limit|too many requests|quota exceeded|throttl", _K.RATE_LIMIT),
        (r"\btimed?[ -]?out\b|deadline exceeded|\bETIMEDOUT\b", _K.TIMEOUT),
        (r"service unavailable|temporarily unavailable|bad gateway|\boverloaded\b", _K.UNAVAILABLE),
        (
            r"connection (?:refused|reset|closed|aborted|error)|could(?: not|n't) connect|failed to connect|"
            r"name resolution|name or service not known|getaddrinfo|network is unreachable|no route to host|"
            r"could not resolve host|\bECONN[A-Z]+\b|\bENOTFOUND\b|fetch failed",
            _K.NETWORK,
        ),
        (
            r"unauthori[sz]ed|unauthenticated|authentication (?:failed|required)|"
            r"invalid (?:api[ _-]?key|token|credentials)|not logged in",
            _K.AUTH,
        ),
        (
            r"permission denied|access (?:is )?denied|forbidden|\bEACCES\b|\bEPERM\b|operation not permitted|"
            r"(?:rejected|denied|declined) by (?:the )?user|user (?:rejected|denied|declined)",
            _K.DENIED,
        ),
        (
            r"\bnot found\b|no such (?:file|directory|tool|table|column|host)|does not exist|doesn't exist|"
            r"unknown tool|\bENOENT\b",
            _K.NOT_FOUND,
        ),
        (r"\bcancell?ed\b|\baborted\b|interrupted by (?:the )?user", _K.CANCELLED),
    )
)


def kind_of_text(text: str) -> tuple[ErrorKind | None, int | None]:
    """(kind, HTTP status) that the text of a failure names, each None if it names none."""
    match = _CLIENT_STATUS.match(text)
    if match and (match["phrase"] or match.start("status") > 0):
        status = int(match["status"])
        kind = kind_of_status(status)
        # Whether *these* arguments were refused, such a text does not say.
        return (_K.TOOL_FAILURE if kind is _K.VALIDATION else kind), status
    for pattern, kind in _PHRASES:
        if pattern.search(text):
            return kind, None
    return None, None
