"""Cost of a request: the recorded one, else the user's table, else genai-prices; unknown stays unknown."""

from __future__ import annotations

import logging
import random
import sys
from datetime import UTC, datetime

import pytest
from genai_prices import Usage
from genai_prices.data_snapshot import get_snapshot
from store_tools import put_segment, spans_payload

from loopscope.collector import Spool, Store, _prices, fold
from loopscope.collector._prices import PriceTable, Tokens, price_of
from loopscope.guard import LoopscopeError

AT = 1_760_000_000_000_000_000


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("LOOPSCOPE_PRICES", raising=False)
    for cached in (_prices._calculator, _prices._user_table):
        cached.cache_clear()
    yield
    for cached in (_prices._calculator, _prices._user_table):
        cached.cache_clear()


def table(tmp_path, text: str):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    return path


OWN = """
version = 1
[[models]]
provider = "vllm*"
model = "llama-*"
input = 0.2
output = 0.6
[[models]]
model = "GPT-4o"
input = 1
output = 2
cache_read = 0.1
cache_write = 1.5
"""


# -- the package ----------------------------------------------------------------------------------


def theirs(match, tokens: Tokens) -> float:
    provider, model = match
    usage = Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
    )
    at = datetime.fromtimestamp(AT / 1e9, UTC)
    return float(model.calc_price(usage, provider, genai_request_timestamp=at).total_price)


def test_it_says_what_the_package_says():
    """Over models of every provider, with and without tiers: our short cut computes the same."""
    draw = random.Random(3)
    snapshot = get_snapshot()
    models = [(provider, model) for provider in snapshot.providers for model in provider.models]
    compared = 0
    for provider, model in draw.sample(models, 120):
        read, written = draw.randrange(3_000), draw.randrange(3_000)
        tokens = Tokens(draw.choice((10_000, 400_000)), draw.randrange(50_000), read, written)
        try:
            match = snapshot.find_provider_model(model.id, None, provider.id, None)
            expected = theirs(match, tokens)
        except (LookupError, ValueError):
            continue
        assert price_of(provider.id, model.id, tokens, AT) == pytest.approx(expected, rel=1e-9)
        compared += expected > 0
    assert compared > 60


@pytest.mark.parametrize(
    ("provider", "like"),
    [
        ("openai", "openai"),
        ("OpenAI", "openai"),
        ("openai.chat", "openai"),
        (None, "openai"),
        ("azure.ai.openai", "openai"),
    ],
)
def test_names_of_providers(provider, like):
    tokens = Tokens(1_000, 100)
    match = get_snapshot().find_provider_model("gpt-4o", None, like, None)
    assert price_of(provider, "gpt-4o", tokens, AT) == pytest.approx(theirs(match, tokens))


def test_names_that_the_package_does_not_know():
    tokens = Tokens(1_000, 100)
    assert price_of("gcp.gen_ai", "gemini-2.5-pro", tokens, AT) == price_of(
        "google", "gemini-2.5-pro", tokens, AT
    )
    assert price_of("x_ai", "grok-3", tokens, AT) == price_of("x-ai", "grok-3", tokens, AT) != None  # noqa: E711


@pytest.mark.parametrize(
    ("provider", "model", "host"),
    [
        ("openai", "no-such-model", None),
        (None, "no-such-model", None),
        ("nobody", "gpt-4o", None),  # somebody else's model of that name has another price
        ("ollama", "gpt-oss:20b", None),
        ("openai", "gpt-4o", "localhost"),  # a server that speaks OpenAI's language
        ("openai", "gpt-4o", "10.0.0.7"),
        ("openai", None, None),
    ],
)
def test_unknown_stays_unknown(provider, model, host):
    assert price_of(provider, model, Tokens(1_000, 100), AT, host) is None


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert price_of("openai", "gpt-4o", Tokens(1_000, 100), AT) is None


# -- the user's table -----------------------------------------------------------------------------


def test_the_users_table_overrides(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPSCOPE_PRICES", str(table(tmp_path, OWN)))
    million = 1_000_000
    assert price_of("openai", "gpt-4o", Tokens(million, million), AT) == pytest.approx(3)
    assert price_of("openai", "gpt-4o", Tokens(million, 0, million // 2, million // 4), AT) == pytest.approx(
        0.25 * 1 + 0.5 * 0.1 + 0.25 * 1.5
    )
    assert price_of("vllm-eu", "Llama-3", Tokens(million, million), AT, "localhost") == pytest.approx(0.8)
    assert price_of(None, "llama-3", Tokens(1, 1), AT) != pytest.approx(0.8e-6)  # the row asks for a provider
    assert price_of("openai", "gpt-4.1", Tokens(million, 0), AT) is not None  # the rest as before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("models = 5", r"\[\[models\]\]"),
        ("version = 2", "version"),
        ('[[models]]\nmodel = "x"\ninput = 1\noutput = 1\nprice = 2', "price"),
        ('[[models]]\nmodel = "x"\ninput = 1', "output"),
        ('[[models]]\nmodel = "x"\ninput = -1\noutput = 1', "input"),
        ('[[models]]\nmodel = "x"\ninput = "1"\noutput = 1', "input"),
        ("[[models]]\ninput = 1\noutput = 1", "model"),
        ("[[models", "not TOML"),
    ],
)
def test_a_wrong_table_is_one_clear_line_and_stops_nothing(tmp_path, monkeypatch, caplog, text, says):
    path = table(tmp_path, text)
    with pytest.raises(LoopscopeError, match=says) as found:
        PriceTable.from_file(path)
    assert "\n" not in str(found.value)
    monkeypatch.setenv("LOOPSCOPE_PRICES", str(path))
    with caplog.at_level(logging.WARNING):
        assert price_of("openai", "gpt-4o", Tokens(1_000, 100), AT) is not None
        price_of("openai", "gpt-4o", Tokens(1_000, 100), AT)
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]  # said once


# -- in the store ---------------------------------------------------------------------------------


def costs(tmp_path, *requests: dict) -> list[float | None]:
    store = Store(tmp_path / "traces.duckdb")
    base = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 1_000_000,
        "gen_ai.usage.output_tokens": 0,
    }
    spans = [
        {
            "trace": n,
            "span": n,
            "start": AT,
            "end": AT + 1,
            "status": request.pop("status", 0),
            "attributes": {key: value for key, value in (base | request).items() if value is not None},
        }
        for n, request in enumerate(requests, 1)
    ]
    put_segment(Spool(store.path), [("traces", spans_payload(*spans))], received_ns=AT, name="a")
    fold(store)
    with store.lease() as con:
        return [cost for (cost,) in con.execute("SELECT cost FROM llm_requests ORDER BY trace_id").fetchall()]


def test_costs_in_the_store(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPSCOPE_PRICES", str(table(tmp_path, OWN)))
    found = costs(
        tmp_path,
        {},
        {"gen_ai.usage.cost": 7.5},  # what was recorded stays
        {"gen_ai.usage.cost": 0},
        {"gen_ai.usage.output_tokens": None},
        {"gen_ai.usage.input_tokens": None},
        {"gen_ai.request.model": "unheard-of"},
        {"status": 2, "error.type": "400"},
        {"gen_ai.usage.cache_read.input_tokens": 500_000},
        {"gen_ai.usage.cache_read_input_tokens": 3_000_000},  # more than the input: counted beside it
        {"gen_ai.usage.cache_read.input_tokens": -1},
    )
    assert found == [
        pytest.approx(1),
        7.5,
        0,
        None,
        None,
        None,
        None,
        pytest.approx(0.5 + 0.05),
        pytest.approx(1 + 0.3),
        None,
    ]
