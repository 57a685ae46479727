"""Requests that succeeded: broken by the sanitizer, refused elsewhere, and what could not be checked."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused_histories import asks, gives, says
from replay_rows import database
from request_rows import analysed, asked, sent, texts

from loopscope.collector._schema import create_schema
from loopscope.guard import GuardPolicy
from loopscope.guard.messages import format_of
from loopscope.guard.messages._sanitize import sanitize_parsed
from loopscope.guard.messages._scan import HistoryScan
from loopscope.replay import Filters, analyse_requests
from loopscope.replay.requests import _histories, _passed, _state
from loopscope.replay.requests._histories import Reader, joined_turns
from loopscope.replay.requests._passed import Chain, HistoryFacts

USER = says("user", "where is my refund?")
ROUND = [USER, asks("callaaaaa"), gives("callaaaaa")]  # an id that Mistral takes, too
ODD = [USER, asks("callaaaaa", name="multi_tool_use.parallel"), gives("callaaaaa")]


def test_a_sound_history_is_neither_broken_nor_latent() -> None:
    found = analysed(sent(ROUND, at=1))
    assert (found.totals.broken, found.totals.latent, found.coverage.passed_checked) == (0, 0, 1)
    assert (found.by_provider, found.broken) == ((), ())


def test_broken_names_the_repair_and_the_request() -> None:
    found = analysed(sent(ODD, at=1), sent(ROUND, at=2))
    (broken,) = found.broken
    assert (found.totals.broken, broken.repairs, broken.messages) == (1, ("fixed_function_name",), 3)
    assert (broken.provider, broken.dialect, broken.run_id) == ("openai", "otel_genai", "run-1")
    assert "multi_tool_use.parallel" in broken.reason
    assert (found.coverage.passed_checked, found.coverage.passed_against_rules) == (2, 0)


def test_what_the_own_provider_is_said_to_refuse_and_did_not_is_not_judged() -> None:
    late = [*ROUND, says("user", "and?"), gives("callaaaaa", "late")]
    found = analysed(sent(late, at=1))
    assert (found.totals.broken, found.totals.latent, found.by_provider) == (0, 0, ())
    assert (found.coverage.passed_checked, found.coverage.passed_against_rules) == (0, 1)
    # Of a provider that is not known nothing speaks against it.
    assert analysed(sent(late, at=1, provider="acme", model="acme-1")).totals.broken == 1


def test_latent_counts_requests_by_provider_and_class_without_the_own() -> None:
    long_id = [USER, asks("call_0123456789"), gives("call_0123456789")]
    found = analysed(
        sent(long_id, at=1),
        sent([*long_id, says("user", "thanks")], at=2),
        sent(long_id, at=3, provider="mistral_ai", model="mistral-large-latest"),
        sent(ROUND, at=4),
    )
    (risk,) = found.by_provider
    assert (risk.provider, risk.requests) == ("mistral", 2)
    assert risk.by_class == {"id_format": 2, "role_order": 1}
    assert (risk.sample_trace_id, risk.sample_span_id) != (None, None)
    assert found.totals.latent == 2
    assert found.coverage.passed_against_rules == 1


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_sample_is_the_earliest_request_whatever_was_imported_first(order: tuple[int, ...]) -> None:
    long_id = [USER, asks("call_0123456789"), gives("call_0123456789")]
    longer = [*long_id, says("user", "thanks")]
    requests = [
        sent(long_id, at=1, provider="mistral_ai", model="mistral-large-latest"),  # not judged
        sent(longer, at=2, trace_id="b", span_id="1"),
        sent(long_id, at=2, trace_id="a", span_id="2"),
        sent(long_id, at=3, trace_id="a", span_id="0"),
    ]
    (risk,) = analysed(*(requests[number] for number in order)).by_provider
    assert (risk.provider, risk.requests) == ("mistral", 3)
    assert (risk.sample_trace_id, risk.sample_span_id) == ("a", "2")


def test_rules_that_depend_on_the_model_served_are_no_risk() -> None:
    found = analysed(sent([USER, says("user", "hello?"), *ROUND[1:]], at=1))
    assert (found.by_provider, found.totals.latent) == ((), 0)


@pytest.mark.parametrize(
    ("messages", "column"),
    [
        (None, "passed_not_recorded"),
        ([USER, {"role": "assistant", "parts": []}, gives("callaaaaa")], "passed_not_recorded"),
        ([USER, asks("callaaaaa"), {"role": "tool", "content": "x"}], "passed_without_ids"),
        (
            [
                USER,
                {"role": "assistant", "parts": [{"type": "tool_call", "id": "fc_1", "name": "search"}]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "x"}]},
            ],
            "passed_without_ids",
        ),
    ],
)
def test_what_was_not_recorded_is_not_checked(messages: list | None, column: str) -> None:
    found = analysed(sent(messages, at=1))
    assert (found.coverage.passed, found.coverage.passed_checked) == (1, 0)
    assert getattr(found.coverage, column) == 1
    assert (found.totals.broken, found.totals.latent) == (0, 0)


def test_cut_recordings_are_not_checked() -> None:
    found = analysed(sent([*ROUND, gives("callaaaaa")], at=1, content_state="truncated"))
    assert (found.coverage.passed_not_recorded, found.coverage.truncated, found.totals.broken) == (1, 1, 0)


def test_turns_recorded_item_by_item_are_not_broken() -> None:
    items = [USER, asks("callaaaaa"), asks("callbbbbb"), gives("callaaaaa"), gives("callbbbbb")]
    assert analysed(sent(items, at=1)).totals.broken == 0
    assert analysed(sent(items, at=1)).coverage.passed_against_rules == 0
    assert analysed(sent(items[:-1], at=1)).coverage.passed_against_rules == 1


def test_same_histories_are_checked_once_and_counted_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    facts = Chain.facts

    def counting(self: Chain, keys: list[int]) -> HistoryFacts:
        seen.append(len(keys))
        return facts(self, keys)

    monkeypatch.setattr(Chain, "facts", counting)
    found = analysed(*(sent(ODD, f"run-{number}", at=number) for number in range(5)))
    assert (found.totals.broken, seen) == (5, [3])


def _file(path: Path, *requests: Any) -> None:
    con = duckdb.connect(str(path))
    create_schema(con)
    database(requests=requests, con=con)
    con.execute("INSERT OR REPLACE INTO meta VALUES ('version', '1')")
    con.close()


def test_only_new_histories_are_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.duckdb"
    _file(path, sent(ROUND, at=1))
    _state.forget()
    seen: list[int] = []
    facts = Chain.facts
    monkeypatch.setattr(Chain, "facts", lambda self, keys: (seen.append(len(keys)), facts(self, keys))[1])

    def ask() -> tuple[int, int | None]:
        with duckdb.connect(str(path)) as con:
            found = analyse_requests(con, GuardPolicy())
        return found.totals.requests, found.coverage.passed_checked

    assert (ask(), seen) == ((1, 1), [3])
    assert (ask(), seen) == ((1, 1), [3])
    with duckdb.connect(str(path)) as con:
        texts_of_store = [*ROUND, says("user", "thanks")]
        con.execute("DELETE FROM contents")
        con.execute("DELETE FROM llm_request_rows")
        database(requests=[sent(ROUND, at=1), sent(texts_of_store, at=2)], con=con)
        con.execute("UPDATE meta SET value = '2' WHERE key = 'version'")
    assert (ask(), seen) == ((2, 2), [3, 4])


def test_time_allowed_is_kept_and_the_rest_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    _file(path, *(sent([USER, says("assistant", str(n)), *ROUND[1:]], f"run-{n}", at=n) for n in range(9)))
    monkeypatch.setattr(_passed, "_BATCH", 4)
    heard: list[tuple[int, int]] = []
    with duckdb.connect(str(path), read_only=True) as con:

        def ask() -> tuple[int | None, int | None]:
            found = analyse_requests(con, GuardPolicy(), seconds=-1, progress=lambda *at: heard.append(at))
            return found.coverage.passed_checked, found.coverage.passed_waiting

        assert [ask(), ask(), ask(), ask()] == [(4, 5), (8, 1), (9, 0), (9, 0)]
    assert heard == [(4, 9), (4, 5), (1, 1)]


def test_the_filter_chooses_requests_and_not_facts() -> None:
    con = database(requests=[sent(ODD, "run-1", at=1), sent(ROUND, "run-2", at=2)])
    assert asked(con, filters=Filters(run_ids=("run-2",))).totals.broken == 0
    assert asked(con, filters=Filters(run_ids=("run-1",))).totals.broken == 1


# -- a history that grows is checked as if each of its states stood alone ------------------------------

_IDS = st.sampled_from(["callaaaaa", "callbbbbb", "call_too_long_for_one", "fc_1"])
_CHAT = st.one_of(
    st.builds(says, st.sampled_from(["user", "assistant", "system", "critic"]), st.sampled_from(["", "hi"])),
    st.lists(_IDS, min_size=1, max_size=2).map(lambda ids: asks(*ids)),
    _IDS.map(gives),
    st.just({"role": "assistant", "content": "x", "tool_calls": []}),
    _IDS.map(lambda one: asks(one, args="{")),
)
_PARTS = st.one_of(
    st.just({"role": "user", "parts": [{"type": "text", "content": "hi"}]}),
    _IDS.map(lambda one: {"role": "assistant", "parts": [{"type": "tool_call", "id": one, "name": "f"}]}),
    _IDS.map(
        lambda one: {"role": "tool", "parts": [{"type": "tool_call_response", "id": one, "response": "r"}]}
    ),
)
_BLOCKS = st.one_of(
    st.just(says("user", "hi")),
    _IDS.map(
        lambda one: {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": one, "name": "f", "input": {}}],
        }
    ),
    _IDS.map(
        lambda one: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": "r"}]}
    ),
)
_ITEMS = st.one_of(
    st.just({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}),
    _IDS.map(lambda one: {"type": "function_call", "call_id": one, "name": "f", "arguments": "{}"}),
    _IDS.map(lambda one: {"type": "function_call_output", "call_id": one, "output": "r"}),
)
_STEPS = st.one_of(
    *(
        st.lists(st.lists(one, max_size=4), min_size=1, max_size=6)
        for one in (_CHAT, _PARTS, _BLOCKS, _ITEMS)
    ),
    st.lists(st.lists(st.one_of(_CHAT, _PARTS), max_size=3), min_size=1, max_size=5),
)


def _alone(reader: Reader, keys: list[int]) -> HistoryFacts:
    """The same by the whole lint and the whole sanitizer."""
    history = reader.history(keys)
    if history.silent is not None:
        return HistoryFacts("not_recorded")
    if history.without_ids:
        return HistoryFacts("without_ids")
    form = format_of(history.format)
    messages, repairs = sanitize_parsed(history.messages, form)
    together = joined_turns(history)
    if repairs and together is not None and not sanitize_parsed(together, form)[1]:
        repairs, history.messages = [], together
    broken = HistoryScan(history.format).extend(history.messages).broken()
    refused = _passed._refusing(history.format, broken)
    if not repairs:
        return HistoryFacts("checked", refused=refused)
    made = HistoryScan(history.format).extend(messages).broken()
    dirty = frozenset(name for name, _ in _passed._refusing(history.format, made))
    kinds = tuple(dict.fromkeys(str(repair.kind) for repair in repairs))
    return HistoryFacts("checked", kinds, dirty, refused, repairs[0].detail)


@settings(max_examples=150, deadline=None)
@given(_STEPS)
def test_growing_histories_are_checked_as_if_each_stood_alone(steps: list[list[dict[str, Any]]]) -> None:
    keys_of: dict[str, int] = {}
    for text in texts([message for step in steps for message in step]):
        keys_of.setdefault(text, len(keys_of) + 1)
    reader, other = Reader(), Reader()
    for one in (reader, other):
        one._entries = {key: _histories._entry(text) for text, key in keys_of.items()}
    chain = Chain(reader)
    keys: list[int] = []
    for step in steps:
        keys = [*keys, *(keys_of[json.dumps(message)] for message in step)]
        assert chain.facts(keys) == _alone(other, keys)
