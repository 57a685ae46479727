"""Regular expressions for what is to be left out of results, with a bound on what they may cost.

A pattern meets text that a stranger may have written, and a backtracking matcher can be made
to work for hours by a pattern that looks harmless and a text that fits it badly. Nothing can
stop a match once it runs, so the bound is on the pattern. Three things hold the time down:

* The number of ways in which a pattern can match at one place is counted when the policy is
  made, and may be at most `MAX_WAYS`. It is what a matcher tries at worst before it gives up.
  Repeats inside of repeats, the cause of exponential time, are far beyond.
* `*`, `+` and `{n,}` reach over at most `MAX_REPEAT` repeats: they are compiled as `{0,100}`,
  `{1,100}` and `{n,100}`. So the work at one place does not grow with the text.
* Of a result of more than `MAX_TEXT` characters only the first and last halves of that are
  looked at.

Measured on `MAX_TEXT` characters that fit them worst: `\\d+:\\d+:\\d+` 5 ms, `.*a.*x` 0.1 s, a pattern
made to be as slow as is allowed, `(a?){14}y`, some seconds. On ordinary results all take well
under a millisecond.
"""

from __future__ import annotations

import re

from ._exceptions import PolicyError
from ._policy_checks import check_texts, show

__all__ = [
    "MAX_PATTERNS",
    "MAX_REPEAT",
    "MAX_TEXT",
    "MAX_WAYS",
    "check_patterns",
    "compile_pattern",
    "leave_out",
]

MAX_PATTERNS = 16
MAX_PATTERN_CHARS = 200
MAX_REPEAT = 100
MAX_WAYS = 25_000
MAX_TEXT = 16_384

_OPENING = re.compile(r"\((?:\?(?::|=|!|>|<=|<!|P<\w+>|[aims]+:))?")
_FLAGS = re.compile(r"\(\?[aims]+\)")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:N\{[^}]*\}|x\w{2}|u\w{4}|U\w{8}|0[0-7]{0,2}|.)", re.DOTALL)
_LITERAL = re.compile(r"[^\W_]|[ _!\"#%&',/:;<=>@`~-]|\\[^\w\s]", re.ASCII)
_REPEAT = re.compile(r"(?:(?P<sign>[*+?])|\{(?!\})(?P<least>\d*)(?P<comma>,(?P<most>\d*))?\})(?P<mode>[?+]?)")


def check_patterns(key: str, value: object) -> tuple[str, ...]:
    """A list of patterns that may be used. Raises PolicyError with the pattern and what is wrong."""
    patterns = check_texts(key, value, "regular expressions")
    if len(patterns) > MAX_PATTERNS:
        raise PolicyError(
            f"{key} has {len(patterns)} regular expressions; at most {MAX_PATTERNS} are allowed"
        )
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
        bounded, ways = _Reader(pattern).read()
        if ways > MAX_WAYS:
            raise PolicyError(
                "could take too long: there are too many ways to match it; take repeats out of repeats, "
                r"and write \d{1,4} for \d+ or [^,]* for .*, so that fewer of them are open"
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


class _Reader:
    """Reads a pattern that compiles: writes it again with bounded repeats and counts its ways."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def read(self) -> tuple[str, int]:
        """The pattern with bounded repeats, and in how many ways it can match at one place."""
        return self._alternatives()

    def _alternatives(self) -> tuple[str, int]:
        text, ways = self._sequence()
        while self._peek() == "|":
            self.at += 1
            more, more_ways = self._sequence()
            text, ways = f"{text}|{more}", ways + more_ways
        return text, ways

    def _sequence(self) -> tuple[str, int]:
        parts: list[str] = []
        ways = 1
        while self._peek() not in ("", "|", ")"):
            part, part_ways = self._atom()
            repeat = _REPEAT.match(self.pattern, self.at)
            if repeat is not None:
                self.at = repeat.end()
                suffix, part_ways = _bounded(repeat, part_ways)
                if not part.startswith("(") and self._ends(part):
                    part_ways = 1
                part += suffix
            parts.append(part)
            ways = min(ways * part_ways, MAX_WAYS + 1)
        return "".join(parts), ways

    def _atom(self) -> tuple[str, int]:
        start = self._peek()
        if start == "(" and (flags := _FLAGS.match(self.pattern, self.at)):
            return self._take(flags), 1
        if start == "(":
            opening = _OPENING.match(self.pattern, self.at)
            if opening is None or self.pattern.startswith("?", opening.end()):
                raise PolicyError(
                    "uses a kind of group that is not supported here: comment, reference or flag x"
                )
            head = self._take(opening)
            inner, ways = self._alternatives()
            self.at += 1  # the closing bracket; the pattern compiles, so it is there
            return f"{head}{inner})", ways
        if start == "[" and (members := _CLASS.match(self.pattern, self.at)):
            return self._take(members), 1
        if start == "\\" and (escape := _ESCAPE.match(self.pattern, self.at)):
            if escape[0][1] in "123456789":
                raise PolicyError("a reference to a group is not supported here")
            return self._take(escape), 1
        self.at += 1
        return start, 1

    def _ends(self, character: str) -> bool:
        """Is what follows a repeated `character` a literal that it cannot be, as in `\\d+:`?

        Then the repeat can end at one place only, and a matcher tries nothing beyond the others.
        """
        literal = _LITERAL.match(self.pattern, self.at)
        if literal is None or _REPEAT.match(self.pattern, literal.end()):
            return False
        return re.match(character, literal[0][-1], re.IGNORECASE | re.DOTALL) is None

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self, match: re.Match[str]) -> str:
        self.at = match.end()
        return match[0]


def _bounded(repeat: re.Match[str], ways: int) -> tuple[str, int]:
    """A repeat that ends, and the ways of what it repeats."""
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
    total = 0
    for times in range(least, most + 1):
        total += ways**times
        if total > MAX_WAYS:
            break
    return text, total
