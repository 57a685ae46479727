"""What a request cost, where nobody recorded it: tokens times the price of the model at that time.

Prices come from the user's table (`LOOPSCOPE_PRICES`), else from the genai-prices package where it is
installed (the extra `prices`); its table is the one it ships, nothing is fetched. What neither knows has no
cost: None, never 0.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import translate
from functools import cache, lru_cache
from typing import Any

from ..guard import LoopscopeError
from ._toml_file import read_toml

__all__ = ["PRICES_VARIABLE", "PriceTable", "Tokens", "price_of"]

_logger = logging.getLogger(__name__)

PRICES_VARIABLE = "LOOPSCOPE_PRICES"
_MILLION = 1_000_000
_PRICES = ("input", "output", "cache_read", "cache_write")
_NAMES = {"model", "provider", *_PRICES}
# Names of providers in traces that genai-prices does not know by themselves.
_ALIASES = {"gcp.gen_ai": "google", "gcp.gen-ai": "google", "google_genai": "google", "xai": "x-ai"}
_Prices = tuple[float, float, float, float]  # of a million tokens: input, output, read, written
_Rates = tuple[_Prices, float]  # and of a request
# Servers that anybody runs: their models carry the names of others', and not their prices.
_OWN_SERVERS = re.compile(r"ollama|vllm|llama|lm.?studio|sglang|tgi|local", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a request used. `input` counts those read from and written to a cache, too."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    provider: re.Pattern[str] | None
    model: re.Pattern[str]
    prices: _Prices


class PriceTable:
    """The user's prices: a TOML file with a table `models`. The first row that matches is taken."""

    def __init__(self, rows: list[_Row]) -> None:
        self._rows = rows

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> PriceTable:
        """Raises LoopscopeError, one line that names the file and the row."""
        found = read_toml(path, "the prices")
        models = found.get("models", [])
        if (
            found.get("version", 1) != 1
            or found.keys() - {"version", "models"}
            or not isinstance(models, list)
        ):
            raise LoopscopeError(f"{path}: expected version = 1 and [[models]], found {', '.join(found)}")
        return cls([_row(raw, f"{path}: row {number}") for number, raw in enumerate(models, 1)])

    def cost(self, provider: str | None, model: str, tokens: Tokens) -> float | None:
        """US dollars; None where no row matches."""
        for row in self._rows:
            if row.model.fullmatch(model) and (
                row.provider is None or (provider is not None and row.provider.fullmatch(provider))
            ):
                return _linear(row.prices, tokens)
        return None


def price_of(
    provider: str | None, model: str | None, tokens: Tokens, start_ns: int, host: str | None = None
) -> float | None:
    """US dollars of a request that succeeded; None where the price is not known.

    Args:
        provider: as recorded; None: by the name of the model.
        host: where the request went to. A model on this very machine has nobody's list price.
    """
    if model is None:
        return None
    table = _user_table(os.environ.get(PRICES_VARIABLE, "").strip())
    if table is not None and (cost := table.cost(provider, model, tokens)) is not None:
        return cost
    if _OWN_SERVERS.search(provider or "") or (host is not None and _is_own(host)):
        return None
    calculate = _calculator()
    return None if calculate is None else calculate(provider, model, tokens, start_ns)


def _row(raw: Any, where: str) -> _Row:
    if not isinstance(raw, Mapping) or raw.keys() - _NAMES:
        unknown = ", ".join(sorted(raw.keys() - _NAMES)) if isinstance(raw, Mapping) else repr(raw)[:40]
        raise LoopscopeError(f"{where}: {unknown} is not known; there are {', '.join(sorted(_NAMES))}")
    for name in ("model", "provider"):
        if not isinstance(raw.get(name, "" if name == "provider" else None), str):
            raise LoopscopeError(f"{where}: {name} must be a text")
    for name in _PRICES:
        value = raw.get(name, 0 if name.startswith("cache") else None)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise LoopscopeError(f"{where}: {name} must be US dollars per million tokens")
    price = float(raw["input"])
    prices = (price, float(raw["output"]), raw.get("cache_read", price), raw.get("cache_write", price))
    return _Row(_glob(raw["provider"]) if "provider" in raw else None, _glob(raw["model"]), prices)


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern), re.IGNORECASE)


def _linear(prices: _Prices, tokens: Tokens) -> float:
    plain = max(tokens.input - tokens.cache_read - tokens.cache_write, 0)
    counts = (plain, tokens.output, tokens.cache_read, tokens.cache_write)
    return sum(price * count for price, count in zip(prices, counts, strict=True)) / _MILLION


@cache
def _user_table(path: str) -> PriceTable | None:
    if not path:
        return None
    try:
        return PriceTable.from_file(path)
    except LoopscopeError as error:
        # Said once and not raised: a table of prices must not keep spans out of the database.
        _logger.warning("no prices of your own are used: %s", error)
        return None


@cache
def _is_own(host: str) -> bool:
    import ipaddress

    if host == "localhost" or host.endswith((".localhost", ".local")):
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False


# -- genai-prices ---------------------------------------------------------------------------------


@cache
def _calculator() -> Callable[[str | None, str, Tokens, int], float | None] | None:
    """A function of provider, model, tokens and time; None without the package."""
    try:
        from genai_prices import Usage
        from genai_prices.data_snapshot import get_snapshot
        from genai_prices.types import ModelPrice, TieredPrices
    except ImportError:
        return None
    snapshot = get_snapshot()

    @lru_cache(maxsize=2_000)
    def found(provider: str | None, model: str) -> Any:
        for name in (None,) if provider is None else _spellings(provider):
            try:
                return snapshot.find_provider_model(model, None, name, None)
            except LookupError:
                continue
        return None

    def usage(tokens: Tokens) -> Any:
        return Usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cache_read_tokens=tokens.cache_read,
            cache_write_tokens=tokens.cache_write,
        )

    def total(price: ModelPrice, tokens: Tokens) -> float:
        return float(price.calc_price(usage(tokens))["total_price"])

    rates: dict[int, tuple[Any, _Rates | None]] = {}

    def rates_of(price: ModelPrice) -> _Rates | None:
        """None where a price depends on the size. (The package itself takes 0.2 ms a request.)"""
        known = rates.get(id(price))
        if known is None:
            linear = None
            if not any(isinstance(value, TieredPrices) for value in vars(price).values()):
                each = total(price, Tokens(0, 0))  # some ask for something per request
                probes = (Tokens(_MILLION, 0), Tokens(0, _MILLION))
                probes += (Tokens(_MILLION, 0, _MILLION), Tokens(_MILLION, 0, 0, _MILLION))
                one, two, three, four = (total(price, probe) - each for probe in probes)
                linear = (one, two, three, four), each
            known = rates[id(price)] = (price, linear)  # the price is kept, and with it its id
        return known[1]

    def calculate(provider: str | None, model: str, tokens: Tokens, start_ns: int) -> float | None:
        match = found(provider, model)
        if match is None:
            return None
        try:
            at = datetime.fromtimestamp(start_ns / 1e9, UTC)
            price = match[1].get_prices(at)
            known = rates_of(price)
            return total(price, tokens) if known is None else _linear(known[0], tokens) + known[1]
        except Exception as error:  # noqa: BLE001  odd counts, a table in another form: the cost is unknown
            _logger.debug("no price for %s: %s", model, error)
            return None

    return calculate


def _spellings(provider: str) -> tuple[str, ...]:
    name = provider.strip().lower()
    tried = (_ALIASES.get(name), name, name.replace("_", "-"), name.partition(".")[0])
    return tuple(dict.fromkeys(one for one in tried if one))
