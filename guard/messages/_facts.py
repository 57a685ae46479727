"""What can be told of one id, one call's arguments or one block by itself."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ._model import Block, Message, Other
from ._rules import Rule
from ._words import MessageFormat

__all__ = ["BLANK_ID", "arguments_faults", "id_faults", "is_blank_block"]

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_WORD = _LETTERS | frozenset("_-")
_BEDROCK = _WORD | frozenset(".:")
BLANK_ID = (Rule.ID_PRESENT, Rule.ID_WORD, Rule.ID_BEDROCK, Rule.ID_MISTRAL)
_OBJECT_FORMATS = frozenset({"anthropic", "gemini", "bedrock-converse"})


def id_faults(text: str | None) -> tuple[Rule, ...]:
    """The id rules that this id, as it stands on the wire, breaks."""
    if text is None or not text.strip():
        return BLANK_ID
    broken = []
    letters = frozenset(text)
    size = len(text)
    if size > 40:
        broken.append(Rule.ID_MAX_40)
    if size > 64:
        broken.append(Rule.ID_MAX_64)
    if not letters <= _WORD:
        broken.append(Rule.ID_WORD)
    if size > 64 or not letters <= _BEDROCK:
        broken.append(Rule.ID_BEDROCK)
    if size != 9 or not letters <= _LETTERS:
        broken.append(Rule.ID_MISTRAL)
    return tuple(broken)


def arguments_faults(arguments: Any, format_name: MessageFormat) -> tuple[Rule, ...]:
    """The rules about arguments that these break."""
    if format_name in _OBJECT_FORMATS:
        if arguments is None:
            return () if format_name == "gemini" else (Rule.ARGUMENTS_OBJECT,)
        if isinstance(arguments, (str, bytes, int, float, list, tuple)):
            return (Rule.ARGUMENTS_OBJECT,)
        return ()
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return (Rule.ARGUMENTS_BLANK,)
    if not isinstance(arguments, str):
        return ()
    try:
        # Numbers stay text, as one of more digits than Python reads is JSON too.
        value = json.loads(arguments, parse_constant=_no_json, parse_int=str)
    except (ValueError, RecursionError):
        return (Rule.ARGUMENTS_JSON, Rule.ARGUMENTS_OBJECT)
    return () if isinstance(value, dict) else (Rule.ARGUMENTS_OBJECT,)


def _no_json(word: str) -> NoReturn:
    """`NaN` and `Infinity`, which Python writes and reads."""
    raise ValueError(f"{word} is not JSON")


def is_blank_block(block: Block, message: Message) -> bool:
    """A text block of white space only; not a content that is plain text, which may be empty at the end."""
    if type(block) is not Other or block.kind != "text" or not block.empty:
        return False
    return type(block.raw) is not str or len(message.blocks) > 1
