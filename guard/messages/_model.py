"""A message history in a form that all formats share.

A format module reads its own messages into `Message` and writes them back; pairing, lint and
repairs work on `Message` alone. All of these objects are treated as immutable: a repair makes new
ones (`dataclasses.replace`), so a message that was read once may be shared between histories.
`raw` is the caller's own object; it is never modified and is what goes out where nothing changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Block", "Call", "Message", "Other", "Result"]

OtherKind = Literal["text", "media", "reasoning", "reference", "unknown"]


@dataclass(slots=True)
class Call:
    """A tool call that a model asked for."""

    ids: tuple[str, ...]  # every usable spelling of its id, stripped, the one to show first; () for none
    name: str | None
    arguments: Any  # as it stands: JSON text or an object
    raw: Any = None  # the part of the message, None for one that a repair made
    id: str | None = None  # the id as it stands on the wire (unstripped); what a repair rewrites
    server: bool = False  # run by the provider itself (its result is not ours to give)
    kind: str = ""  # where a format has several: custom_tool_call, local_shell_call, …; "" for the usual one


@dataclass(slots=True)
class Result:
    """The result of a tool call."""

    ids: tuple[str, ...]
    name: str | None
    content: Any  # as it stands; None: no content
    failed: bool | None = None  # the format's own error flag
    synthetic: bool = False  # a stub: no tool said this
    raw: Any = None
    id: str | None = None
    server: bool = False
    kind: str = ""  # as of `Call`, the kind of result where it is not the usual one


@dataclass(slots=True)
class Other:
    """Anything else in a message."""

    kind: OtherKind
    empty: bool  # a text of white space only, or nothing
    raw: Any = None
    text: str | None = None  # of a text block
    key: str = ""  # the key of the message it stands under where that is not the content


Block = Call | Result | Other


@dataclass(slots=True)
class Message:
    """One message (openai-responses: one item)."""

    role: str  # system | user | assistant | tool, or the word as it stands where it is none of these
    blocks: tuple[Block, ...]
    raw: Any
    index: int | None  # its place in the input; None for one that a repair made
    wire_role: str = ""  # the role as it stands (developer, function, model, …)
    empty_tool_calls: bool = False  # `tool_calls` is there and is no list with calls in it
    changed: bool = False  # differs from `raw`: the format writes it anew
    protected: bool = False  # must go back as it is (e.g. signed thinking of the latest turn)
    near: int = -1  # of one that a repair made: the message of the input that it was made for

    @property
    def place(self) -> int:
        """Where in the input it is, or what it was made for."""
        return self.near if self.index is None else self.index

    @property
    def calls(self) -> list[Call]:
        return [block for block in self.blocks if isinstance(block, Call)]

    @property
    def is_reasoning(self) -> bool:
        """Does the model only think here? (openai-responses: a reasoning item)"""
        block = self.blocks[0] if len(self.blocks) == 1 else None
        return self.role == "assistant" and isinstance(block, Other) and block.kind == "reasoning"

    @property
    def results(self) -> list[Result]:
        return [block for block in self.blocks if isinstance(block, Result)]
