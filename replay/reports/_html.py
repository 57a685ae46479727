"""A document as one HTML file: no script, nothing loaded, readable in light and dark, printable."""

from __future__ import annotations

from html import escape
from importlib.resources import files

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

__all__ = ["to_html"]

# Even if a text got through, this would not let it load or run anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src 'none'; base-uri 'none'; form-action 'none'"


def to_html(document: Document) -> str:
    """The document as an HTML page."""
    style = files("loopscope.replay.reports").joinpath("report.css").read_text(encoding="utf-8")
    title = inline(document.title)
    body = "\n".join(_block(block) for block in document.blocks)
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(_plain(title))}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{_line(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{_line(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p{_class('quiet', block.quiet)}>{_line(block.text)}</p>"
        case Fields():
            rows = "".join(f"<dt>{escape(name)}</dt><dd>{_line(value)}</dd>" for name, value in block.rows)
            return f"<dl>{rows}</dl>"
        case Marks():
            return _marks(block)
        case Table():
            return _table(block)
        case Code():
            note = f'<p class="quiet">{escape(block.note)}</p>' if block.note else ""
            text = escape(visible(block.text, keep="\n\t"))
            return f'<pre dir="ltr">\n{text}</pre>{note}'  # a first line break after <pre> is dropped


def _marks(block: Marks) -> str:
    marks = "".join(
        f'<span class="{action}" title="{number}: {WORDS[action]}">{SYMBOLS[action]}</span>'
        for number, action in enumerate(block.actions, 1)
    )
    kinds = dict.fromkeys(block.actions)
    legend = "".join(f'<span class="{kind}">{SYMBOLS[kind]}</span> {WORDS[kind]} &ensp;' for kind in kinds)
    return f'<p class="marks">{marks}</p>\n<p class="quiet">{legend}</p>'


def _table(table: Table) -> str:
    def cells(row: tuple[Inline, ...], tag: str) -> str:
        return "".join(
            f"<{tag}{_class('number', number in table.numbers)}>{_line(cell)}</{tag}>"
            for number, cell in enumerate(row)
        )

    rows = "\n".join(
        f"<tr{_class('faint', number in table.faint)}>{cells(row, 'td')}</tr>"
        for number, row in enumerate(table.rows)
    )
    head = cells(table.header, "th")
    return (
        '<div class="wide"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _class(name: str, given: bool) -> str:
    return f' class="{name}"' if given else ""


def _line(value: Inline) -> str:
    if isinstance(value, tuple):
        return "".join(_line(part) for part in value)
    if isinstance(value, Verdict):
        return f'<span class="{value.action}">{SYMBOLS[value.action]} {WORDS[value.action]}</span>'
    if isinstance(value, Quoted):
        return f'<code dir="auto">{escape(value.shown)}</code>' if value.text else "<em>(empty)</em>"
    return escape(value)


def _plain(value: Inline) -> str:
    if isinstance(value, tuple):
        return "".join(_plain(part) for part in value)
    if isinstance(value, Quoted):
        return value.shown
    return WORDS[value.action] if isinstance(value, Verdict) else value
