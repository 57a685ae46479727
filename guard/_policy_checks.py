"""Is this a value a policy may have? Each check gives the value in its one form or raises PolicyError."""

from __future__ import annotations

from collections.abc import Iterable

from ._exceptions import PolicyError
from ._outcome import Outcome

__all__ = [
    "check_bool",
    "check_choice",
    "check_names",
    "check_outcomes",
    "check_thresholds",
    "show",
    "tool_path",
]


def tool_path(name: object) -> str:
    """`tools.<name>.`, for messages of one line whatever the tool is called."""
    plain = isinstance(name, str) and name.isprintable() and 0 < len(name) <= 80
    return f"tools.{name if plain else show(name)}."


def show(value: object) -> str:
    """A value for a message: its repr, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_bool(key: str, value: object) -> None:
    """True or False and nothing that is merely like it."""
    if not isinstance(value, bool):
        raise PolicyError(f"{key} must be true or false, not {show(value)}")


def check_choice(key: str, value: object, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if value not in choices:
        words = ", ".join(f'"{choice}"' for choice in choices[:-1])
        raise PolicyError(f'{key} must be {words} or "{choices[-1]}", not {show(value)}')


def check_thresholds(prefix: str, nudge: object, block: object) -> None:
    """A nudge threshold below a block threshold, each at least 1 or None."""
    _check_threshold(f"{prefix}nudge_threshold", nudge)
    _check_threshold(f"{prefix}block_threshold", block)
    if isinstance(nudge, int) and isinstance(block, int) and nudge >= block:
        raise PolicyError(
            f"{prefix}nudge_threshold ({nudge}) must be below {prefix}block_threshold ({block}), "
            "or no call would ever be nudged"
        )


def _check_threshold(key: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise PolicyError(f"{key} must be a whole number of calls, or None for off, not {show(value)}")
    if value < 1:
        raise PolicyError(
            f'{key} must be at least 1, not {value}; None (in a policy file: "off") turns it off'
        )


def check_names(key: str, value: object) -> frozenset[str]:
    """A set of names."""
    return frozenset(check_texts(key, value, "names"))


def check_texts(key: str, value: object, what: str) -> tuple[str, ...]:
    """A list of texts, each once, in the order given."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise PolicyError(f"{key} must be a list of {what}, not {show(value)}")
    texts = list(value)
    for text in texts:
        if not isinstance(text, str):
            raise PolicyError(f"{key} must be a list of {what}; {show(text)} is not one")
    return tuple(dict.fromkeys(texts))


def check_outcomes(key: str, value: object) -> frozenset[Outcome]:
    """A set of outcomes."""
    outcomes: set[Outcome] = set()
    for name in check_names(key, value):
        try:
            outcomes.add(Outcome(name))
        except ValueError:
            known = ", ".join(Outcome)
            raise PolicyError(f"{key}: {show(name)} is not an outcome; there are {known}") from None
    return frozenset(outcomes)
