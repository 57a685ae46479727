"""Regular expressions for what is to be left out of results, with a bound on what they may cost.

A pattern meets text that a stranger may have written, and a backtracking matcher can be made
to work for hours by a pattern that looks harmless and a text that fits it badly. Nothing can
stop a match once it runs, so the bound is on the pattern. Three things hold the time down:

* The steps that a matcher takes at worst to try a pattern at one place are counted when the
  policy is made, and may be at most `MAX_STEPS`. Repeats inside of repeats, the cause of
  exponential time, are far beyond; so are three open repeats that may share one text.
* `*`, `+` and `{n,}` reach over at most `MAX_REPEAT` repeats: they are compiled as `{0,100}`,
  `{1,100}` and `{n,100}`. So the work at one place does not grow with the text.
* Of a result of more than `MAX_TEXT` characters only the first and last halves of that are
  looked at.

Measured on `MAX_TEXT` characters that fit them worst: `\\d+:\\d+:\\d+` 5 ms, `.*a.*x` 0.1 s, the
worst that a random search among allowed patterns found, 3 s. On ordinary results all take well
under a millisecond.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ._exceptions import PolicyError
from ._policy_checks import check_texts, show

__all__ = [
    "MAX_PATTERNS",
    "MAX_REPEAT",
    "MAX_STEPS",
    "MAX_TEXT",
    "check_patterns",
    "compile_pattern",
    "leave_out",
]

MAX_PATTERNS = 16
MAX_PATTERN_CHARS = 200
MAX_REPEAT = 100
MAX_STEPS = 50_000
MAX_TEXT = 16_384

_OPENING = re.compile(r"\((?:\?(?P<kind>:|=|!|>|<=|<!|P<\w+>|[aims]+:))?")
_FLAGS = re.compile(r"\(\?[aims]+\)")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:N\{[^}]*\}|x\w{2}|u\w{4}|U\w{8}|0[0-7]{0,2}|.)", re.DOTALL)
_LITERAL = re.compile(r"[^.\\[]|\\[^\w\s]", re.ASCII)  # no more than the ASCII character it shows
_REPEAT = re.compile(r"(?:(?P<sign>[*+?])|\{(?!\})(?P<least>\d*)(?P<comma>,(?P<most>\d*))?\})(?P<mode>[?+]?)")


def check_patterns(key: str, value: object) -> tuple[str, ...]:
    """A list of patterns that may be used. Raises PolicyError with the pattern and what is wrong."""
    patterns = check_texts(key, value, "regular expressions")
    if len(patterns) > MAX_PATTERNS:
        raise PolicyError(f"{key}: {len(patterns)} regular expressions; at most {MAX_PATTERNS} are allowed")
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except PolicyError as error:
            raise PolicyError(f"{key}: {show(pattern)}: {error}") from None
    return patterns


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern with its repeats bounded; `^` and `$` are the ends of lines.

    Raises:
        PolicyError: no regular expression, too long, or of more ways to match than are allowed.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PolicyError(f"has {len(pattern)} characters; at most {MAX_PATTERN_CHARS} are allowed")
    try:
        re.compile(pattern, re.MULTILINE)
        bounded, steps = _Reader(pattern).read()
        if steps > MAX_STEPS:
            raise PolicyError(
                "could take too long: there are too many ways to match it; take repeats out of repeats, "
                r"and write \d{1,4} for \d+ or [^,]* for .* where another repeat follows"
            )
        return re.compile(bounded, re.MULTILINE)
    except (re.error, OverflowError, RecursionError, FutureWarning, DeprecationWarning) as error:
        raise PolicyError(f"not a regular expression: {error}") from None


def leave_out(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    """The text without what the patterns match, one pattern after the other."""
    if len(text) <= MAX_TEXT:
        return _leave_out(text, patterns)
    half = MAX_TEXT // 2
    return _leave_out(text[:half], patterns) + text[half:-half] + _leave_out(text[-half:], patterns)


def _leave_out(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    for pattern in patterns:
        text = pattern.sub("", text)
    return text


class _Piece(NamedTuple):
    """A part of a pattern."""

    text: str
    steps: int  # to try all there is to try of it at one place
    ends: int  # at how many places it may end, or in how many ways
    first: frozenset[str]  # what it can begin with: ASCII characters, and "" for any other
    optional: bool  # may it match nothing
    single: bool = False  # is it one character, or a repeat of one


_ASCII = tuple(map(chr, range(128)))
_ANY = frozenset({"", *_ASCII})


class _Reader:
    """Reads a pattern that compiles: writes it again with bounded repeats and counts its steps."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        # Where case is ignored, an ASCII letter stands for one or two others.
        self.folded = re.search(r"\(\?[ams]*i", pattern) is not None

    def read(self) -> tuple[str, int]:
        """The pattern with bounded repeats, and its steps at one place."""
        whole = self._alternatives()
        return whole.text, whole.steps

    def _alternatives(self) -> _Piece:
        whole = self._sequence()
        while self._peek() == "|":
            self.at += 1
            other = self._sequence()
            whole = _Piece(
                f"{whole.text}|{other.text}",
                whole.steps + other.steps,
                whole.ends + other.ends,
                whole.first | other.first,
                whole.optional or other.optional,
            )
        return whole

    def _sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        while self._peek() not in ("", "|", ")"):
            piece = self._atom()
            repeat = _REPEAT.match(self.pattern, self.at)
            if repeat is not None:
                self.at = repeat.end()
                piece = _repeated(piece, repeat)
            pieces.append(piece)
        # From the end: all that follows a piece is tried again at each of its ends.
        rest = _Piece("", 1, 1, frozenset(), True)
        for piece in reversed(pieces):
            # But a repeated character can end at one place only if nothing that may follow is like
            # it, as in `\d+:`; at any other, what follows fails at once.
            one_end = piece.single and not rest.optional and not piece.first & rest.first
            ends = 1 if one_end else piece.ends
            rest = _Piece(
                piece.text + rest.text,
                _capped(piece.steps + ends * rest.steps),
                _capped(ends * rest.ends),
                piece.first | rest.first if piece.optional else piece.first,
                piece.optional and rest.optional,
            )
        return rest

    def _atom(self) -> _Piece:
        start = self._peek()
        if start == "(" and (flags := _FLAGS.match(self.pattern, self.at)):
            return _Piece(self._take(flags), 1, 1, frozenset(), True)
        if start == "(":
            return self._group()
        if start in ("^", "$"):
            self.at += 1
            return _Piece(start, 1, 1, frozenset(), True)
        if start == "[" and (members := _CLASS.match(self.pattern, self.at)):
            return self._character(self._take(members))
        if start == "\\" and (escape := _ESCAPE.match(self.pattern, self.at)):
            if escape[0][1] in "123456789":
                raise PolicyError("a reference to a group is not supported here")
            text = self._take(escape)
            return _Piece(text, 1, 1, frozenset(), True) if text[1] in "AZbB" else self._character(text)
        self.at += 1
        return self._character(start)

    def _group(self) -> _Piece:
        opening = _OPENING.match(self.pattern, self.at)
        if opening is None or self.pattern.startswith("?", opening.end()):
            raise PolicyError("a comment, a reference to a group or the flag x is not supported here")
        head = self._take(opening)
        inner = self._alternatives()
        self.at += 1  # the closing bracket; the pattern compiles, so it is there
        text = f"{head}{inner.text})"
        if opening["kind"] in ("=", "!", "<=", "<!"):  # looks around, wherever a repeat before it ends
            return _Piece(text, inner.steps, 1, _ANY, True)
        return _Piece(text, inner.steps, inner.ends, inner.first, inner.optional)

    def _character(self, text: str) -> _Piece:
        matches = re.compile(text, re.IGNORECASE | re.DOTALL).match
        first = {character for character in _ASCII if matches(character)}
        if not _LITERAL.fullmatch(text) or (self.folded and text.isalpha()):
            first.add("")
        return _Piece(text, 1, 1, frozenset(first), False, single=True)

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self, match: re.Match[str]) -> str:
        self.at = match.end()
        return match[0]


def _repeated(piece: _Piece, repeat: re.Match[str]) -> _Piece:
    """A piece with a repeat that ends."""
    sign = repeat["sign"]
    if sign:
        least, most = (1 if sign == "+" else 0), (1 if sign == "?" else None)
    else:
        least = int(repeat["least"] or 0)
        most = least if repeat["comma"] is None else int(repeat["most"]) if repeat["most"] else None
    if least > MAX_REPEAT or (most or 0) > MAX_REPEAT:
        raise PolicyError(f"repeats more than {MAX_REPEAT} times")
    text = repeat[0]
    if most is None:
        most = MAX_REPEAT
        text = f"{{{least},{most}}}{repeat['mode']}"
    steps, ends, tries = 0, 0, 1
    for times in range(most + 1):
        ends += tries if times >= least else 0
        steps = _capped(steps + tries * piece.steps)
        tries = _capped(tries * piece.ends)
    return _Piece(
        piece.text + text,
        steps,
        _capped(ends),
        piece.first,
        piece.optional or least == 0,
        piece.single,
    )


def _capped(steps: int) -> int:
    return min(steps, MAX_STEPS + 1)
