"""How providers word it that the calls and results of a history do not fit together.

One row per wording, the more special before the more general: the first that fits wins. A row is
looked up in text that `_error_bodies.plain` has made plain: no quotes of any kind, single spaces,
lower case. `needles` must all be in it before the pattern is tried; patterns repeat only over
bounded classes, so that a hostile text costs no more than its length.

A group `ids` marks where a list of call ids begins. Rows of class `other` are texts that say
nothing: they are known, and still prove nothing about calls and results.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ._words import ErrorClass

__all__ = ["OPENAI_TEXTS", "ErrorText", "compiled", "error_texts"]

_C = ErrorClass


class ErrorText(NamedTuple):
    """One wording."""

    id: str
    provider: str  # whose words they are
    error_class: ErrorClass
    needles: tuple[str, ...]
    pattern: str
    source: str  # public threads that show it, on github.com
    shared: bool = False  # others word it alike: what the envelope says of the provider comes first
    exact: str | None = None  # must be in the text in this very case
    whole: bool = False  # the message must be this and no more


_PATTERNS: dict[str, re.Pattern[str]] = {}


def compiled(row: ErrorText) -> re.Pattern[str]:
    """The row's pattern, compiled on first use."""
    pattern = _PATTERNS.get(row.pattern)
    if pattern is None:
        pattern = _PATTERNS[row.pattern] = re.compile(row.pattern)
    return pattern


def error_texts() -> tuple[ErrorText, ...]:
    """All rows, in the order in which they are tried."""
    from ._error_texts_native import NATIVE_TEXTS

    return OPENAI_TEXTS + NATIVE_TEXTS


_FOLLOWED = (
    r"assistant message with tool_calls must be followed by tool messages responding to each tool_call_id"
    r"(?:[^:]{0,200}did not have response messages: ?(?P<ids>))?"
)
_PRECEDED = r"role tool must be a response to a preceding message with tool_calls"
_DUPLICATE = r"duplicate value for tool_call_id(?: of (?P<ids>(?!in\b|found\b)\S{1,256}))?"

OPENAI_TEXTS: tuple[ErrorText, ...] = (
    # -- DashScope: OpenAI's words behind a mark of its own ------------------------------------------
    ErrorText(
        "Q4",
        "dashscope",
        _C.REPEATED_CALLS,
        ("repetitive tool calls detected",),
        r"repetitive tool calls detected",
        "QwenLM/qwen-code/issues/5019, QwenLM/qwen-code/issues/5237, XiaomiMiMo/MiMo-Code/issues/2160",
    ),
    ErrorText(
        "Q5",
        "dashscope",
        _C.ARGUMENTS_JSON,
        ("function.arguments parameter",),
        r"function\.arguments parameter of the (?:code )?model must be in json format",
        "HKUDS/nanobot/issues/1487, explyt/explyt/issues/23",
    ),
    ErrorText(
        "Q1",
        "dashscope",
        _C.ORPHAN_RESULT,
        ("internalerror.algo", "role tool must be a response"),
        _PRECEDED,
        "QwenLM/qwen-code/issues/2360, langchain-ai/langgraph-supervisor-py/issues/122",
    ),
    ErrorText(
        "Q2",
        "dashscope",
        _C.MISSING_RESULT,
        ("must be followed by tool messages", "did not have response messages: message["),
        _FOLLOWED,
        "QwenLM/qwen-code/issues/606, alibaba/spring-ai-alibaba/issues/914",
    ),
    ErrorText(
        "Q2",
        "dashscope",
        _C.MISSING_RESULT,
        ("internalerror.algo", "must be followed by tool messages"),
        _FOLLOWED,
        "QwenLM/qwen-code/issues/656, google-gemini/gemini-cli/issues/5031",
    ),
    ErrorText(
        "Q3",
        "dashscope",
        _C.EMPTY_TOOL_CALLS,
        ("empty tool_calls",),
        r"empty tool_calls is not supported in message",
        "NousResearch/hermes-agent/issues/70126",
    ),
    # -- OpenAI chat, and those who speak like it ------------------------------------------------------
    ErrorText(
        "D3",
        "deepseek",
        _C.MISSING_RESULT,
        ("insufficient tool messages following",),
        r"insufficient tool messages following tool_calls message",
        "ThinkInAIXYZ/deepchat/issues/1078, agno-agi/agno/issues/3105, bytedance/deer-flow/issues/2809",
    ),
    ErrorText(
        "K1",
        "moonshot",
        _C.MISSING_RESULT,
        ("must be followed by tool messages",),
        _FOLLOWED,
        "MoonshotAI/kimi-cli/issues/1977, MoonshotAI/kimi-cli/issues/2405, MoonshotAI/kimi-code/issues/705",
        shared=True,
        exact="an assistant message with tool_calls",
    ),
    ErrorText(
        "O1",
        "openai",
        _C.MISSING_RESULT,
        ("must be followed by tool messages",),
        _FOLLOWED,
        "minoism/freecc/issues/2, aliasrobotics/cai/issues/111",
        shared=True,
    ),
    ErrorText(
        "O2",
        "openai",
        _C.ORPHAN_RESULT,
        ("invalid parameter: messages with role tool must be a response",),
        _PRECEDED,
        "miurla/morphic/issues/136, smarter-sh/smarter/issues/264, run-llama/llama_index/issues/10493",
        shared=True,
    ),
    ErrorText(
        "D2",
        "deepseek",
        _C.ORPHAN_RESULT,
        ("role tool must be a response",),
        _PRECEDED,
        "FoundationAgents/OpenManus/issues/744, qwersyk/Newelle/issues/425",
        shared=True,
    ),
    ErrorText(
        "O3",
        "openai",
        _C.DUPLICATE_CALL_ID,
        ("invalid parameter: duplicate value for tool_call_id",),
        _DUPLICATE,
        "agno-agi/agno/issues/5116, fatwang2/search2ai/issues/30",
        shared=True,
    ),
    ErrorText(
        "D1",
        "deepseek",
        _C.DUPLICATE_CALL_ID,
        ("duplicate value for tool_call_id",),
        _DUPLICATE,
        "craft-ai-agents/craft-agents-oss/issues/621, NousResearch/hermes-agent/issues/58327",
        shared=True,
    ),
    ErrorText(
        "K3",
        "moonshot",
        _C.ORPHAN_RESULT,
        ("tool_call_id", "is not found"),
        r"\btool_call_id (?:(?P<ids>(?!is\b)\S{1,256}) )?is not found",
        "MoonshotAI/kimi-code (its tests quote it from the field)",
    ),
    ErrorText(
        "K3",
        "moonshot",
        _C.DUPLICATE_CALL_ID,
        ("tool_call_id", "is duplicated"),
        r"\btool_call_id (?:(?P<ids>(?!is\b)\S{1,256}) )?is duplicated",
        "no public thread found",
    ),
    ErrorText(
        "O4",
        "openai",
        _C.ID_FORMAT,
        ("invalid messages[",),
        r"invalid messages\[\d+\]\.(?:tool_calls\[\d+\]\.id|tool_call_id): "
        r"(?:string too (?:long|short)|empty string|string does not match)",
        "vercel/ai/issues/5171, camel-ai/camel/issues/2215, anomalyco/opencode/issues/12653,"
        " BerriAI/litellm/issues/17343",
        shared=True,
    ),
    ErrorText(
        "O5",
        "openai",
        _C.DUPLICATE_CALL_ID,
        ("duplicate call_ids submitted",),
        r"duplicate call_ids submitted:? ?(?P<ids>)",
        "alvesvaren/zod-to-openai-tool/issues/263",
    ),
    ErrorText(
        "D4",
        "deepseek",
        _C.EMPTY_TOOL_CALLS,
        ("tool_calls: empty array",),
        r"invalid messages\[\d+\]\.tool_calls: empty array",
        "NousResearch/hermes-agent/issues/84365, NousResearch/hermes-agent/issues/74101",
        shared=True,
    ),
    ErrorText(
        "O13",
        "openai",
        _C.ID_FORMAT,
        ("missing required parameter",),
        r"missing required parameter:? "
        r"(?:input\[\d+\]\.call_id|messages\.?\[\d+\]\.(?:tool_call_id|tool_calls\.?\[\d+\]\.id))\b",
        "craft-ai-agents/craft-agents-oss/issues/613",
        shared=True,
    ),
    ErrorText(
        "O13",
        "openai",
        _C.DUPLICATE_CALL_ID,
        ("duplicate call_id",),
        r"duplicate call_id:? (?P<ids>)",
        "earendil-works/pi/issues/9057",
        shared=True,
    ),
    ErrorText(
        "O15",
        "openai",
        _C.EMPTY_CONTENT,
        ("got null",),
        r"invalid value for content: expected a string, got null"
        r"|invalid type for messages\[\d+\]\.content: expected [^.]{0,120}got null",
        "docker/docker-agent/issues/63, run-llama/llama_index/issues/17555",
        shared=True,
    ),
    ErrorText(
        "O16",
        "openai",
        _C.ARGUMENTS_JSON,
        ("invalid type for ", "arguments"),
        r"invalid type for (?:messages\[\d+\]\.tool_calls\[\d+\]\.function|input\[\d+\])\.arguments: ",
        "quoted in public repositories; no thread found",
        shared=True,
    ),
    ErrorText(
        "O17",
        "openai",
        _C.ID_FORMAT,
        ("invalid messages[", ".function.name"),
        r"invalid messages\[\d+\]\.tool_calls\[\d+\]\.function\.name: "
        r"(?:string too (?:long|short)|empty string|string does not match)",
        "mcp-use/mcp-use/pull/94, continuedev/continue/issues/11645, continuedev/continue/issues/9784",
        shared=True,
    ),
    # -- OpenAI Responses ------------------------------------------------------------------------------
    ErrorText(
        "D7",
        "deepseek",
        _C.ORPHAN_RESULT,
        ("no tool call found for tool output",),
        r"no tool call found for tool output with call_id:? ?(?P<ids>)",
        "deepseek-ai/DeepSeek-V3/issues/1611",
    ),
    ErrorText(
        "O6",
        "openai",
        _C.ORPHAN_RESULT,
        ("no tool call found for",),
        r"no tool call found for (?:[a-z_]{1,30} ){0,4}output with call_id:? ?(?P<ids>)",
        "continuedev/continue/issues/10092, leookun/cursor-byok/issues/307,"
        " agentscope-ai/AgentTeams/issues/299",
        shared=True,
    ),
    ErrorText(
        "O7",
        "openai",
        _C.MISSING_RESULT,
        ("no tool output found for",),
        r"no tool output found for (?:[a-z_]{1,30} ){0,3}?call:? (?P<ids>)",
        "openai/openai-agents-python/issues/673, bytedance/trae-agent/issues/245, lace-ai/gai/pull/49",
        shared=True,
    ),
    ErrorText(
        "O8",
        "openai",
        _C.DUPLICATE_CALL_ID,
        ("duplicate item found with id",),
        r"duplicate item found with id:? (?P<ids>)",
        "vercel/ai/issues/13307, vercel/ai/issues/7883, MacPaw/OpenAI/issues/432",
        shared=True,
    ),
    ErrorText(
        "O9",
        "openai",
        _C.REASONING_PAIRING,
        ("was provided without its required following item",),
        r"of type reasoning was provided without its required following item",
        "continuedev/continue/issues/8933, vercel/ai/issues/7099",
        shared=True,
    ),
    ErrorText(
        "O10",
        "openai",
        _C.REASONING_PAIRING,
        ("was provided without its required reasoning item",),
        r"item (?P<ids>\S{1,256}) of type [a-z_]{1,60} was provided without its required reasoning item",
        "continuedev/continue/issues/10018, continuedev/continue/issues/11994",
        shared=True,
    ),
    ErrorText(
        "O11",
        "openai",
        _C.ID_FORMAT,
        ("expected an id that begins with",),
        r"invalid input\[\d+\]\.(?:id|call_id): (?P<ids>\S{1,256}) expected an id that begins with",
        "nodetool-ai/nodetool/pull/4252",
        shared=True,
    ),
    ErrorText(
        "O12",
        "openai",
        _C.ID_FORMAT,
        ("invalid input[",),
        r"invalid input\[\d+\]\.(?:id|call_id): "
        r"(?:string too (?:long|short)|empty string|string does not match)",
        "experientiallabs/experiential/pull/801",
        shared=True,
    ),
    ErrorText(
        "X7",
        "gpt-oss",
        _C.DUPLICATE_CALL_ID,
        ("duplicate function call id",),
        r"duplicate function call id:? (?P<ids>)",
        "openai/gpt-oss/pull/309",
        shared=True,
    ),
)
