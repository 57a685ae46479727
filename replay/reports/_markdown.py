"""A document as Markdown that GitHub, and every CommonMark reader, shows as meant.

Text of a trace stands in code spans and fences only: nothing in there is a link, an image, a mention or
markup, if the fence is longer than any run of backticks inside.
"""

from __future__ import annotations

import re

from .._text import visible
from ._document import (
    SYMBOLS,
    WORDS,
    Block,
    Code,
    Document,
    Fields,
    Heading,
    Inline,
    Marks,
    Paragraph,
    Quoted,
    Table,
    Verdict,
    inline,
)

__all__ = ["to_markdown"]


def to_markdown(document: Document) -> str:
    """The document as Markdown text."""
    parts = [f"# {_line(inline(document.title))}"]
    parts.extend(_block(block) for block in document.blocks)
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {_line(block.text)}"
        case Paragraph():
            return _line(block.text)
        case Fields():
            return "\n".join(f"- {name}: {_line(value)}" for name, value in block.rows)
        case Marks():
            shown = " ".join(SYMBOLS[action] for action in block.actions)
            kinds = dict.fromkeys(block.actions)
            return f"`{shown}`\n\n" + ", ".join(f"`{SYMBOLS[kind]}` {WORDS[kind]}" for kind in kinds)
        case Table():
            return _table(block)
        case Code():
            text = visible(block.text, keep="\n\t")
            fence = "`" * max(3, _longest_run(text) + 1)
            note = f"\n\n({block.note})" if block.note else ""
            return f"{fence}text\n{text}\n{fence}{note}"


def _table(table: Table) -> str:
    rule = ["---:" if number in table.numbers else "---" for number in range(len(table.header))]
    lines = [table.header, rule, *([_line(cell, in_table=True) for cell in row] for row in table.rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _line(value: Inline, *, in_table: bool = False) -> str:
    if isinstance(value, tuple):
        return "".join(_line(part, in_table=in_table) for part in value)
    if isinstance(value, Verdict):
        return f"{SYMBOLS[value.action]} {WORDS[value.action]}"
    if isinstance(value, Quoted):
        return _code_span(value.shown, in_table=in_table)
    return value


def _code_span(text: str, *, in_table: bool) -> str:
    if not text:
        return "(empty)"
    if in_table:
        if "\\|" in text:
            # No way to write a backslash before a pipe in a code span of a table; entities are text.
            return f"<code>{re.sub(r'[^A-Za-z0-9 ]', lambda match: f'&#{ord(match[0])};', text)}</code>"
        text = text.replace("|", "\\|")
    fence = "`" * (_longest_run(text) + 1)
    # One space on each side is taken off by readers; it keeps backticks and spaces at the ends apart.
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
