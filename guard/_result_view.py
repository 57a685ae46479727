"""Results as a policy compares them: without keys and passages that change from call to call."""

from __future__ import annotations

from ._canonical import hash_of_form, hash_of_text, result_form
from ._patterns import compile_pattern, leave_out

__all__ = ["ResultView"]


class ResultView:
    """Leaves the ignored keys out of JSON results, then what the patterns match out of the text.

    With keys, JSON results compare by canonical form: spacing and key order do not matter.
    Patterns meet that form where there is one, else the text as it is.
    """

    __slots__ = ("_keys", "_patterns")

    def __init__(self, keys: frozenset[str], patterns: tuple[str, ...]) -> None:
        self._keys = keys
        self._patterns = tuple(compile_pattern(pattern) for pattern in patterns)

    def hash(self, output: object) -> int | None:
        """As `result_hash`, of what is left of the output."""
        if output is None:
            return None
        is_text = issubclass(type(output), str)
        form = result_form(output, self._keys) if self._keys or not is_text else None
        left = leave_out(str(output) if form is None else form, self._patterns)
        return hash_of_text(left) if form is None else hash_of_form(left)
