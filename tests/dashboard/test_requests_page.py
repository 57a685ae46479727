"""The requests page without a browser: what it says, and one request with its history before and after."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import streamlit as st
from browser.refusals import DUPLICATE, Traces, asks, gives, says, write_refusals
from streamlit.testing.v1 import AppTest

from loopscope.collector import Store, import_paths
from loopscope.dashboard import _data, _request, _request_words
from loopscope.dashboard._request import live_snippet
from loopscope.guard import ErrorClass, GuardPolicy
from loopscope.guard.messages import RepairKind
from loopscope.replay import (
    Cause,
    CauseEvent,
    Filters,
    JudgedRequest,
    RequestAnalysis,
    RequestHistory,
    RequestTotals,
    Undetermined,
    analyse_requests,
    request_history,
)

APP = Path(_data.__file__).with_name("app.py")
Open = Callable[..., AppTest]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("refusals")
    file, places = write_refusals(folder)
    import_paths(folder / "refusals.duckdb", [file])
    return folder / "refusals.duckdb", places


@pytest.fixture
def visit(monkeypatch) -> Iterator[Open]:
    monkeypatch.delenv("LOOPSCOPE_POLICY", raising=False)
    monkeypatch.setattr(_data, "PATIENCE", 0.3)

    def go(db: Path, **parameters: str) -> AppTest:
        monkeypatch.setenv("LOOPSCOPE_DB", str(db))
        app = AppTest.from_file(APP, default_timeout=60).run()
        app.switch_page("app_pages/requests.py")
        for name, value in parameters.items():
            app.query_params[name] = value
        return app.run()

    st.cache_data.clear()
    st.cache_resource.clear()
    yield go
    st.cache_data.clear()
    st.cache_resource.clear()


def texts(app: AppTest) -> str:
    parts = (*app.text, *app.markdown, *app.caption, *app.code, *app.subheader, *app.expander)
    return "\n".join(str(getattr(part, "value", None) or getattr(part, "label", "")) for part in parts)


def well(app: AppTest) -> None:
    assert not app.exception
    assert "This cannot be shown" not in texts(app)


def figures(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def frame(app: AppTest, has: str, column: str = "") -> list[Any]:
    """A column of the table that has a column of this name."""
    return next(list(one.value[column or has]) for one in app.dataframe if has in one.value)


# -- the list ------------------------------------------------------------------------------------


def test_the_page_shows_what_the_analysis_counts(refusals, visit) -> None:
    db, _ = refusals
    with Store(db).lease() as con:
        totals = analyse_requests(con, GuardPolicy()).totals
    app = visit(db)
    well(app)
    assert figures(app) == {
        "Requests": str(totals.requests),
        "Failed": str(totals.failed),
        "About calls": str(totals.tool_related),
        "✓ Preventable": str(totals.prevented + totals.prevented_by_guard),
        "✗ Not preventable": str(totals.not_prevented),
        "? Cannot be judged": str(totals.undetermined),
    }
    assert totals.prevented > totals.prevented_by_dedup > 0
    assert totals.prevented_by_guard == totals.not_prevented == totals.undetermined == 1
    assert app.text[0].value == (
        f"9 of 13 requests were refused over tool calls and results, from {totals.causes} broken histories; "
        "the sanitizer would have prevented 6, the guard would have prevented 1, 1 would have failed all the "
        "same, 1 cannot be judged: its messages were not recorded. 1 more failed for other reasons."
    )


def test_a_cause_is_one_line_and_says_what_came_before(refusals, visit) -> None:
    app = visit(refusals[0])
    before = dict(zip(frame(app, "before"), frame(app, "requests"), strict=True))
    assert before["the history shrank from 62 to 53 messages"] == 1
    assert next(number for text, number in before.items() if "about 105 tokens" in text) == 3
    assert "cut by an interruption" in before
    assert all(len(text) <= 80 for text in before)


def test_the_longest_cells_of_what_came_before_are_short() -> None:
    events = [
        CauseEvent("history_shrank", "long", before=1000, after=900),
        CauseEvent("messages_repeated", "long", messages=1, tokens=None),
        CauseEvent("answer_reused_id", "long"),
        CauseEvent("other_model", "long"),
    ]
    said = [_request_words.came_before(cause(event, call_id="call_<b>")) for event in events]
    assert said == [
        "the history shrank from 1,000 to 900 messages",
        "1 message loaded twice",
        "the answer re-used id call_<b>",
        "went to another model",
    ]
    assert _request_words.came_before(cause(before="Not known: no messages.")) == "Not known"


def cause(*events: CauseEvent, **more: Any) -> Cause:
    values: dict[str, Any] = dict.fromkeys(Cause.__dataclass_fields__)
    return Cause(**{**values, "events": events, **more})


def test_requests_narrow_by_verdict(refusals, visit) -> None:
    app = visit(refusals[0])
    assert len(frame(app, "status")) == 10
    app.pills(key="verdict").set_value(["not_judged"]).run()
    well(app)
    assert frame(app, "status") == ["429"]


def test_requests_that_succeeded_are_judged_and_their_coverage_is_said(refusals, visit) -> None:
    app = visit(refusals[0])
    said = texts(app)
    assert "Checked 3 of 3 requests that succeeded." in said
    assert frame(app, "over") == ["form of the call id 2"]
    assert "1 of 3 checked requests." in said  # what the sanitizer would have changed for nothing
    assert any("multi_tool_use.parallel" in text for text in frame(app, "dialect", "reason"))


def test_what_was_not_recorded_is_named_with_its_setting(refusals, visit) -> None:
    app = visit(refusals[0])
    box = next(box for box in app.expander if "Messages were recorded whole for 11 of 13" in box.label)
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in "".join(code.value for code in box.code)


def test_a_store_in_which_nothing_failed_says_what_it_covers(tmp_path, visit) -> None:
    traces = Traces()
    run = traces.run()
    traces.request(run, 1, [says("user", "hello")])
    traces.request(run, 2, None)
    import_paths(tmp_path / "fine.duckdb", [traces.write(tmp_path / "fine.jsonl")])
    app = visit(tmp_path / "fine.duckdb")
    well(app)
    assert app.text[0].value == "All 2 requests to a model were answered."
    said = texts(app)
    assert "Checked 1 of 2 requests that succeeded (1 without messages, or cut)." in said
    assert "**0 of 1 checked request**" in said
    assert "Refused requests would stand here" in said


def test_failures_of_other_kinds_are_not_judged(tmp_path, visit) -> None:
    traces = Traces()
    run = traces.run()
    traces.request(run, 1, [says("user", "hello")], "Error code: 429 - slow down", status=429)
    import_paths(tmp_path / "slow.duckdb", [traces.write(tmp_path / "slow.jsonl")])
    app = visit(tmp_path / "slow.duckdb")
    well(app)
    assert app.text[0].value == "1 of 1 request failed, none of them over tool calls and results."
    assert frame(app, "verdict") == ["· not about calls"]


# -- one request ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "sentence", "shown"),
    [
        (
            "doubled",
            "Refused by OpenAI over: call id used twice; the sanitizer would have prevented it with 1 "
            "repair.",
            ("by dropping doubles alone", "3 requests with this fault", "\N{MINUS SIGN} dropped"),
        ),
        (
            "cut",
            "Refused by OpenAI over: call without its result; the sanitizer would have prevented it with 2 "
            "repairs.",
            ("↕ moved here", "↕ moved away", "+ made", "a stub: no tool said this", "`added_stub_result`"),
        ),
        (
            "long",
            "Refused by OpenAI over: result without its call; the sanitizer would have prevented it with 1 "
            "repair.",
            ("⋮ 47 messages left out, as recorded", "`dropped_orphan_result`"),
        ),
        (
            "blind",
            "Refused by OpenAI over: result without its call; whether the sanitizer would have prevented it "
            "cannot be judged.",
            ("No history to show", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        ),
        (
            "loop",
            "Refused by Alibaba DashScope (Qwen) over: repeated calls; the guard would have stepped in "
            "before.",
            ("Have it prevented live", "DuplicateCallGuard(GuardPolicy())", "nudge at call 3"),
        ),
        (
            "sound",
            "Refused by OpenAI over: order of roles; the sanitizer would not have prevented it.",
            ("The sanitizer changes nothing in this history", "breaks no rule"),
        ),
        (
            "limit",
            "Refused or failed at OpenAI, and not over tool calls and results: never judged.",
            ("slow down",),
        ),
        ("odd", "This request succeeded; OpenAI is not known to refuse its history.", ("~ changed",)),
    ],
)
def test_one_request_says_what_happened_to_it(refusals, visit, which, sentence, shown) -> None:
    db, places = refusals
    app = visit(db, request=places[which])
    well(app)
    assert app.text[0].value == sentence
    said = texts(app)
    for words in shown:
        assert words in said


def test_the_other_requests_of_a_cause_are_listed(refusals, visit, monkeypatch) -> None:
    db, places = refusals
    app = visit(db, request=places["doubled"])
    assert "The other 2 requests with this fault" in texts(app)
    assert frame(app, "status") == ["400", "400"]
    assert len(set(frame(app, "when"))) == 2
    monkeypatch.setattr(_request, "_SAME", 1)
    app.run()
    well(app)
    assert frame(app, "status") == ["400"]
    assert "The newest 1 of 2." in texts(app)
    assert "with this fault" not in texts(visit(db, request=places["cut"]))


def test_all_messages_of_a_long_history_can_be_shown(refusals, visit) -> None:
    db, places = refusals
    app = visit(db, request=places["long"])
    app.toggle(key="history_whole").set_value(True).run()
    well(app)
    assert "left out" not in texts(app)
    assert sum(" · `" in box.label for box in app.expander) == 52


def test_changed_messages_carry_signs_in_words_and_in_json(refusals, visit) -> None:
    db, places = refusals
    app = visit(db, request=places["odd"])
    codes = [code.value for code in app.code]
    assert any("- call multi_tool_use.parallel   id callaaaaa" in code for code in codes)
    assert any("+ call multi_tool_use_parallel   id callaaaaa" in code for code in codes)
    app.toggle(key="history_json").set_value(True).run()
    well(app)
    added = [line for code in app.code for line in code.value.splitlines() if line.startswith("+ ")]
    assert any('"name": "multi_tool_use_parallel"' in line for line in added)


def test_another_providers_rules_by_link_and_by_choice(refusals, visit) -> None:
    db, places = refusals
    app = visit(db, request=places["doubled"], rules="mistral")
    well(app)
    assert app.text[0].value.startswith("Mistral AI would refuse its history over: ")
    assert "form of the call id" in app.text[0].value
    assert app.selectbox(key="rules").value == "mistral"
    assert 'sanitize_messages(messages, provider="mistral")' in texts(app)
    app.selectbox(key="rules").set_value("own").run()
    well(app)
    assert app.text[0].value.startswith("Refused by OpenAI")
    assert "rules" not in app.query_params


@pytest.mark.parametrize("request_", ["ff-ff", "no such thing", "<b>x</b>-1", "1" * 5000])
def test_a_request_that_is_not_there_says_so(refusals, visit, request_) -> None:
    app = visit(refusals[0], request=request_)
    well(app)
    assert app.text[0].value == "That request is not in this database."
    app.button(key="back").click().run()  # drawn before the request is looked for
    well(app)
    assert figures(app)["Failed"] == "10"


def test_rules_that_nobody_has_are_ignored(refusals, visit) -> None:
    db, places = refusals
    app = visit(db, request=places["cut"], rules="<script>")
    well(app)
    assert app.text[0].value.startswith("Refused by OpenAI")
    assert app.selectbox(key="rules").value == "own"


# -- what is said, in pieces ---------------------------------------------------------------------


def judged(verdict: str | None, **more: Any) -> JudgedRequest:
    values: dict[str, Any] = dict.fromkeys(JudgedRequest.__dataclass_fields__)
    values |= {"error_class": "orphan_result", "content_state": "full", "messages": 3, "judged_as": "openai"}
    return JudgedRequest(**{**values, "verdict": verdict, "repairs": (), **more})


@pytest.mark.parametrize(
    ("totals", "undetermined", "said"),
    [
        (RequestTotals(requests=1), [], "The one request to a model was answered."),
        (
            RequestTotals(requests=147, failed=3, tool_related=3, prevented=2, undetermined=1, causes=2),
            [judged("undetermined", undetermined="not_recorded")],
            "3 of 147 requests were refused over tool calls and results, from 2 broken histories; the "
            "sanitizer would have prevented 2, 1 cannot be judged: its messages were not recorded.",
        ),
        (
            RequestTotals(requests=5, failed=1, tool_related=1, prevented=1, causes=1),
            [],
            "1 of 5 requests was refused over tool calls and results, from 1 broken history; the sanitizer "
            "would have prevented it.",
        ),
        (
            RequestTotals(requests=9, failed=4, tool_related=2, undetermined=2, causes=2),
            [
                judged("undetermined", undetermined="truncated"),
                judged("undetermined", undetermined="no_rules"),
            ],
            "2 of 9 requests were refused over tool calls and results, from 2 broken histories; the "
            "sanitizer would have prevented none, 2 cannot be judged (1 recorded with gaps, 1 of an unknown "
            "provider). 2 more failed for other reasons.",
        ),
        (
            RequestTotals(requests=9, failed=2, tool_related=2, prevented_by_guard=2, causes=1),
            [],
            "2 of 9 requests were refused over tool calls and results, from 1 broken history; the guard "
            "would have prevented 2.",
        ),
    ],
)
def test_the_sentence(totals: RequestTotals, undetermined: list[JudgedRequest], said: str) -> None:
    assert _request_words.said(totals, undetermined) == said


def test_every_reason_for_no_verdict_has_plain_words() -> None:
    for why in get_args(Undetermined):
        ((words, number),) = _request_words.reasons([judged("undetermined", undetermined=why)])
        assert ("_" in words, number) == (False, 1)
    loop = judged("undetermined", undetermined="not_recorded", error_class="repeated_calls")
    assert _request_words.reasons([loop]) == [("without recorded calls", 1)]


def test_every_class_and_every_repair_has_plain_words() -> None:
    assert all("_" not in _request_words.class_name(str(one)) for one in ErrorClass)
    assert {str(kind) for kind in RepairKind} == set(_request_words.REPAIR_NAMES)


def values(messages: Any) -> list[Any]:
    return [json.loads(one.text) for one in messages]


def repaired_by(snippet: str, messages: list[Any]) -> list[Any]:
    names: dict[str, Any] = {"messages": deepcopy(messages)}
    exec(snippet, names)  # our own lines: what a reader would paste
    assert names["messages"] == messages  # the agent's own history
    return names["send"]


def test_the_lines_to_paste_make_the_repairs_that_are_shown(refusals) -> None:
    db, places = refusals
    with Store(db).lease() as con:
        for which, provider in (("doubled", None), ("cut", None), ("long", None), ("cut", "mistral")):
            trace_id, span_id = places[which].split("-")
            found = request_history(con, trace_id, span_id, provider=provider)
            assert found.native
            assert found.repairs
            assert repaired_by(live_snippet(found), values(found.before)) == values(found.after)


def _one_history(tmp_path: Path, messages: list[Any], error: str) -> RequestHistory:
    traces = Traces()
    place = traces.request(traces.run(), 1, messages, error)
    import_paths(tmp_path / "one.duckdb", [traces.write(tmp_path / "one.jsonl")])
    with Store(tmp_path / "one.duckdb").lease() as con:
        trace_id, span_id = place.split("-")
        return request_history(con, trace_id, span_id)


def test_the_lines_to_paste_switch_on_the_rule_that_a_refusal_proves(tmp_path) -> None:
    again = [says("user", "hi"), *(2 * [asks("call_same1"), gives("call_same1")])]
    found = _one_history(tmp_path, again, DUPLICATE.format("call_same1"))
    assert [repair.kind for repair in found.repairs] == ["renamed_call_id"]
    snippet = live_snippet(found)
    assert '.with_unique_call_ids("history")' in snippet
    assert repaired_by(snippet, values(found.before)) == values(found.after)


# -- big stores ----------------------------------------------------------------------------------


def test_an_answer_that_is_not_whole_is_shown_and_not_kept(refusals, visit, monkeypatch) -> None:
    db, _ = refusals
    real, asked = _data.rp.analyse_requests, []

    def slow(con: Any, policy: GuardPolicy, filters: Filters, **more: Any) -> RequestAnalysis:
        found = real(con, policy, filters, **more)
        if not more.get("passed", True):
            return found
        asked.append(more["seconds"])
        if len(asked) > 2:
            return found
        coverage = replace(found.coverage, passed_checked=1, passed_waiting=2)
        return replace(found, coverage=coverage)

    monkeypatch.setattr(_data.rp, "analyse_requests", slow)
    app = visit(db)
    well(app)
    assert "Checked 1 of 3 requests that succeeded (2 not yet checked)." in texts(app)
    for _ in range(3):
        app.run()
    well(app)
    assert "Checked 3 of 3 requests that succeeded." in texts(app)
    assert len(asked) == 3  # twice in part, once whole, and then kept
    assert all(seconds is not None for seconds in asked)


def test_a_big_store_is_checked_behind_the_page(refusals, visit, monkeypatch) -> None:
    monkeypatch.setattr(_data, "CHECKED_AT_ONCE", 2)
    app = visit(refusals[0])
    well(app)
    assert "3 requests that succeeded are being checked" in texts(app)
    assert figures(app)["Failed"] == "10"
    with _data.reader() as ask:  # what the timer of the page does
        assert ask.known_requests(GuardPolicy(), Filters()) is None
        ask.checked_requests(GuardPolicy(), Filters(), 5.0)
        assert ask.known_requests(GuardPolicy(), Filters()) is not None
    app.run()
    well(app)
    assert "Checked 3 of 3 requests that succeeded." in texts(app)
