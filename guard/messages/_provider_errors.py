"""What a provider's refusal says: is it about calls and results, and about which?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ._words import ErrorClass

if TYPE_CHECKING:
    from ._error_texts import ErrorText

__all__ = ["ErrorPosition", "ProviderError", "classify_provider_error"]


class ErrorPosition(NamedTuple):
    """A place in the history, as the refusal names it, counted from 0."""

    message: int  # index of the message, or of the item of openai-responses
    block: int | None = None  # index of its content block, part or tool call


class ProviderError(NamedTuple):
    """A refusal of a provider, read."""

    error_class: ErrorClass
    provider: str | None  # who words it so, or whom the envelope names; None: not known
    call_ids: tuple[str, ...]  # the ids of calls that it names
    positions: tuple[ErrorPosition, ...]
    message: str  # the provider's own words, out of the envelopes; '' where there are none
    text_id: str | None  # the row of the catalogue that it matches (docs/refusals.md); None: none


_MAX_MESSAGE = 2_000
_MAX_IDS = 200
_MAX_POSITIONS = 50
# Not refusals of what was sent: authorization, quotas, sizes, other resources.
_OTHER_STATUS = frozenset({401, 402, 403, 404, 405, 407, 408, 410, 413, 414, 415, 429})
_GENERIC = frozenset(
    {"error", "bad request", "provider returned error", "invalid_request_error", "badrequesterror"}
)

_ID = re.compile(r"[\s\[(]*([^\s,\[\](){}<>]{1,256})[\])]*\s*(,)?(?: ?and )?")
# Ids of things that are not calls: reasoning, messages, the words around a missing id.
_NO_CALL_ID = re.compile(
    r"(?:rs|msg|resp|req|item)_|(?:undefined|null|none|in|of|is|message|messages|each)$", re.IGNORECASE
)

_POSITIONS: list[re.Pattern[str]] = []
_POSITION_TEXTS = (
    # messages[7], messages.[3].role, message[532].role, input[3].call_id, contents[2].parts[1]
    r"\b(?:messages?|input|contents)\.?\[(\d{1,7})\]"
    r"(?:\.(?:tool_calls|content|parts)\.?\[(\d{1,5})\])?(?:\.(?:tool_calls|content|parts)\.(\d{1,5}))?",
    # messages.43.content.2, contents.3.parts.0
    r"\b(?:messages|input|contents)\.(\d{1,7})\b(?!\.member)(?:\.(?:content|parts|tool_calls)\.(\d{1,5}))?",
    r"\bmessage (?:at )?index (\d{1,7})\b|\bmessage at index (\d{1,7})\b",
    r"\bmessage at position (\d{1,7})\b",
    r", position (\d{1,7})\b",
)
# AWS counts members from 1.
_MEMBER = r"\bmessages\.(\d{1,7})\.member(?:\.content\.(\d{1,5})\.member)?"

# Names in envelopes (litellm's exceptions, OpenRouter's providers) as this package writes them.
_PROVIDER_NAMES = {
    "alibaba": "dashscope",
    "amazonbedrock": "bedrock",
    "anthropic": "anthropic",
    "aws": "bedrock",
    "azure": "azure-openai",
    "azureopenai": "azure-openai",
    "bedrock": "bedrock",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "dashscope": "dashscope",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "fireworksai": "fireworks",
    "gemini": "gemini",
    "google": "gemini",
    "googleaistudio": "gemini",
    "googlevertex": "gemini",
    "groq": "groq",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshot": "moonshot",
    "moonshotai": "moonshot",
    "openai": "openai",
    "qwen": "dashscope",
    "siliconflow": "siliconflow",
    "together": "together",
    "togetherai": "together",
    "vertexai": "gemini",
    "volcengine": "volcengine",
    "xai": "xai",
    "xiaomi": "xiaomi",
    "zai": "zhipu",
    "zhipu": "zhipu",
    "zhipuai": "zhipu",
}
# litellm calls every server that speaks OpenAI's protocol this.
_VAGUE_PROVIDERS = frozenset({"openai"})


def classify_provider_error(
    status: int | None, body: str | bytes | Mapping[str, object] | None
) -> ProviderError:
    """Read a provider's refusal.

    `status` is the HTTP status (None where it was not recorded), `body` the error as JSON, as text or
    as an object, with whatever SDKs, gateways and frameworks put around it. Never raises.

    The class says what does not fit in the history's calls and results; `ErrorClass.OTHER` is every
    other refusal: of sizes, models, schemas, content, and texts that say nothing.
    """
    from ._error_bodies import plain, read_body

    found = read_body(body)
    said = status if status is not None else found.status
    provider = _provider(found.provider_words)
    other = ProviderError(ErrorClass.OTHER, provider, (), (), _own_words(found.messages), None)
    if said in _OTHER_STATUS:
        return other
    for message in found.messages:
        text, low = plain(message)
        hit = _match(text, low)
        if hit is None:
            continue
        row, ids = hit
        read = ProviderError(
            row.error_class,
            provider if row.shared and provider else row.provider,
            ids,
            _positions([low, *found.places]),
            message[:_MAX_MESSAGE].strip(),
            row.id,
        )
        if row.error_class is not ErrorClass.OTHER:
            return read
        if other.text_id is None and read.message == other.message:
            other = read._replace(provider=provider or row.provider)  # says nothing; another text may
    return other


def _match(text: str, low: str) -> tuple[ErrorText, tuple[str, ...]] | None:
    """The row that fits, and the ids that the text names."""
    from ._error_texts import compiled, error_texts

    for row in error_texts():
        if not all(needle in low for needle in row.needles) or (
            row.exact is not None and row.exact not in text
        ):
            continue
        pattern = compiled(row)
        match = pattern.fullmatch(low.strip()) if row.whole else pattern.search(low)
        if match is None:
            continue
        ids: tuple[str, ...] = ()
        if "ids" in pattern.groupindex and match.start("ids") >= 0:
            ids = _ids(text, match.start("ids"))
        return row, ids
    return None


def _ids(text: str, start: int) -> tuple[str, ...]:
    """The list of ids that begins at a place in a text: separated by commas, in or out of brackets."""
    ids: list[str] = []
    while len(ids) < _MAX_IDS:
        match = _ID.match(text, start)
        if match is None:
            break
        found = match[1].rstrip(".;:")
        if not found or _NO_CALL_ID.match(found):
            break
        ids.append(found)
        if not match[2]:
            break
        start = match.end()
    return tuple(dict.fromkeys(ids))


def _positions(texts: list[str]) -> tuple[ErrorPosition, ...]:
    if not _POSITIONS:
        _POSITIONS.extend(re.compile(text) for text in (*_POSITION_TEXTS, _MEMBER))
    found: dict[ErrorPosition, None] = {}
    for text in (text[:8_000].lower() for text in texts):
        for pattern in _POSITIONS:
            one = 1 if pattern is _POSITIONS[-1] else 0
            for match in pattern.finditer(text):
                numbers = [int(group) - one for group in match.groups() if group is not None]
                if numbers and numbers[0] >= 0:
                    found[ErrorPosition(*numbers[:2])] = None
                if len(found) >= _MAX_POSITIONS:
                    return tuple(found)
    return tuple(found)


def _provider(words: list[str]) -> str | None:
    vague = None
    for word in words:
        name = _PROVIDER_NAMES.get(re.sub(r"[^a-z0-9]", "", word.lower()))
        if name is None:
            continue
        if name not in _VAGUE_PROVIDERS:
            return name
        vague = name
    return vague


def _own_words(messages: list[str]) -> str:
    """The innermost text that is a sentence."""
    telling = [text for text in messages if " " in text and text.strip().rstrip(".").lower() not in _GENERIC]
    return (telling or messages or [""])[0][:_MAX_MESSAGE].strip()
