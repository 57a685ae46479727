"""The one door through which trace text reaches a page.

Names of tools, agents, services and models come out of traces as much as arguments and results
do, so none of them is trusted. Streamlit reads Markdown in labels and sentences, Plotly reads
pseudo-HTML in labels, hovers and legends; dataframe cells, `st.text` and `st.code` read nothing.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["cell", "count", "cut", "lit", "plain", "plot", "sized"]

_BIDI = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C, 0xFEFF))
_BACKTICKS = re.compile("`+")


def plain(text: object, limit: int = 200) -> str:
    """One bounded line: control characters become visible marks, direction overrides go.

    For dataframe cells, option lists and `st.text`.
    """
    flat = str(text)[: limit * 4 + 16].translate(_BIDI)
    flat = "".join(_visible(character) for character in flat)
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _visible(character: str) -> str:
    if character in "\n\r\t":
        return " "
    category = unicodedata.category(character)
    if category == "Cc":
        return "\N{SYMBOL FOR ESCAPE}" if character == "\x1b" else "\N{REPLACEMENT CHARACTER}"
    return "\N{REPLACEMENT CHARACTER}" if category == "Cs" else character


def lit(text: object, limit: int = 60) -> str:
    """Trace text inside Markdown (sentences, labels): a code span that nothing in it can close."""
    # Streamlit looks for its icons before it looks for code: a word joiner, which nobody sees, hides them.
    flat = plain(text, limit).replace(":material/", ":\u2060material/")
    if not flat:
        return "``empty``" if text == "" else "` `"
    longest = max((len(run) for run in _BACKTICKS.findall(flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def plot(text: object, limit: int = 60) -> str:
    """Trace text inside a Plotly figure: tick labels, hovers, legends, annotations."""
    flat = plain(text, limit)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


def cut(text: str, limit: int = 4000) -> tuple[str, int]:
    """The text for `st.code`, and how many characters were left out."""
    shown = text if len(text) <= limit else text[:limit]
    clean = "".join(
        character if character in "\n\t" else _visible(character)
        for character in shown.translate(_BIDI).replace("\r\n", "\n")
    )
    return clean, len(text) - len(shown)


def cell(text: str | None) -> str:
    """A call's text in a table's cell; what was not recorded is told from what is empty."""
    if text is None:
        return "not recorded"
    return plain(text, 160) if text else "(empty)"


def sized(label: str, length: int | None, text: str | None = None) -> str:
    """A label with the length of the text below it, and how much of it `text` holds."""
    if not length:
        return label
    kept = f", {len(text):,} of them kept here" if text is not None and len(text) < length else ""
    return f"{label} ({count(length, 'character')}{kept})"


def count(number: int | float, one: str, many: str | None = None) -> str:
    """A number with its unit: "1 run", "1,204 runs"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
