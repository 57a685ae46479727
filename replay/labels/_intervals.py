"""How far a share of few cases can be trusted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

__all__ = ["Interval", "Ratio", "ratio", "wilson"]

_Z = 1.959963984540054  # of the normal distribution, 95 % within so many deviations


@dataclass(frozen=True, slots=True)
class Interval:
    """The 95 % interval of a share."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """`hits` of `n` as a share, with its 95 % interval. Of no cases: no value, and 0 to 1."""

    hits: int
    n: int
    value: float | None
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """A JSON-ready dict."""
        return asdict(self)


def wilson(hits: int, n: int) -> Interval:
    """Wilson's 95 % interval for `hits` of `n`: honest where n is small or the share near 0 or 1.

    Raises ValueError unless 0 ≤ hits ≤ n.
    """
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is no share")
    if n == 0:
        return Interval(0.0, 1.0)
    share, square = hits / n, _Z * _Z
    middle = share + square / (2 * n)
    half = _Z * sqrt(share * (1 - share) / n + square / (4 * n * n))
    whole = 1 + square / n
    # Rounding must not push an end that is 0 or 1 by definition.
    low = 0.0 if hits == 0 else (middle - half) / whole
    high = 1.0 if hits == n else (middle + half) / whole
    return Interval(low, high)


def ratio(hits: int, n: int) -> Ratio:
    """The share with its interval. Raises ValueError unless 0 ≤ hits ≤ n."""
    interval = wilson(hits, n)
    return Ratio(hits, n, hits / n if n else None, interval.low, interval.high)
