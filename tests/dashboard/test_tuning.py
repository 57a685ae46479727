"""The tuning page: every knob is in the draft, nothing is lost, gain and harm are said together."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from test_pages import figures, samples_db, texts, visit, well

from loopscope.collector import Store
from loopscope.dashboard import _knobs_draft, _knobs_shelf, _tuning_charts, _tuning_map
from loopscope.guard import GuardPolicy, LoopscopeError, Outcome, OutcomeRule, PolicyError, ToolPolicy
from loopscope.replay import (
    Split,
    find_incidents,
    impact,
    score_policy,
    score_thresholds,
    set_labels,
    suggestion_report,
    sweep,
)

__all__ = ["samples_db", "visit"]


@pytest.fixture
def own_db(tmp_path, samples_db) -> Path:
    """A copy of the samples that may be written into."""
    copy = tmp_path / "own.duckdb"
    copy.write_bytes(samples_db.read_bytes())
    return copy


def knob(app, kind: str, name: str):
    """The widget of a knob, whatever generation of knobs stands."""
    key = re.compile(rf"knob\d+_(?:[0-9a-f]{{8}}_)?{name}")
    found = [one for one in getattr(app, kind) if one.key and key.fullmatch(one.key)]
    assert len(found) == 1, (name, [one.key for one in getattr(app, kind)])
    return found[0]


def toml(app) -> GuardPolicy:
    """The draft as the page would put it in force."""
    return GuardPolicy.from_toml(next(code.value for code in app.code if code.language == "toml"))


def test_every_knob_of_a_policy_is_in_the_draft(samples_db, visit):
    app = visit(samples_db, "tuning")
    knob(app, "number_input", "error_nudge_threshold").set_value(4).run()
    knob(app, "number_input", "error_block_threshold").set_value(7).run()
    knob(app, "multiselect", "metadata_keys").set_value(["request_id"]).run()
    knob(app, "text_area", "ignored_result_patterns").set_value(r"\d+ ms").run()
    knob(app, "toggle", "shadow").set_value(True).run()
    knob(app, "toggle", "strip_annotations").set_value(False).run()
    app.toggle(key="general").set_value(True).run()
    well(app)
    made = toml(app)
    assert (made.error_nudge_threshold, made.error_block_threshold) == (4, 7)
    assert "request_id" in made.metadata_keys
    assert made.ignored_result_patterns == (r"\d+ ms",)
    assert made.shadow
    assert not made.strip_annotations
    assert "general_tool_error" in made.counted_outcomes
    assert _knobs_draft.PARAMETER in app.query_params


def test_a_tool_gets_thresholds_and_knobs_of_its_own(samples_db, visit):
    app = visit(samples_db, "tuning")
    app.selectbox(key="knob_tool").set_value("get_pod").run()
    knob(app, "selectbox", "block_threshold").set_value("off").run()
    knob(app, "selectbox", "nudge_threshold").set_value(4).run()
    knob(app, "toggle", "resets").set_value(True).run()
    well(app)
    assert toml(app).tools == {"get_pod": ToolPolicy(nudge_threshold=4, block_threshold=None, resets=True)}
    assert "resets the others" in str(app.dataframe[0].value)


def test_a_broken_pattern_is_named_at_its_knob_and_loses_nothing(samples_db, visit):
    app = visit(samples_db, "tuning")
    knob(app, "number_input", "error_block_threshold").set_value(6).run()
    knob(app, "text_area", "ignored_result_patterns").set_value("(a+)+").run()
    well(app)
    assert "Not used: " in texts(app)
    assert knob(app, "text_area", "ignored_result_patterns").value == "(a+)+"
    assert toml(app) == GuardPolicy(error_block_threshold=6)
    knob(app, "text_area", "ignored_result_patterns").set_value("a+").run()
    assert "Not used: " not in texts(app)
    assert toml(app).ignored_result_patterns == ("a+",)


def test_thresholds_that_clash_with_a_tools_own_keep_the_draft_before(samples_db, visit):
    app = visit(samples_db, "tuning")
    app.selectbox(key="knob_tool").set_value("get_pod").run()
    knob(app, "selectbox", "block_threshold").set_value(4).run()
    before = toml(app)
    app.slider(key="nudge").set_value(4).run()
    well(app)
    assert "The draft before it is shown." in texts(app)
    assert toml(app) == before


def test_a_link_opens_the_same_draft(samples_db, visit):
    app = visit(samples_db, "tuning")
    knob(app, "number_input", "error_block_threshold").set_value(6).run()
    app.selectbox(key="knob_tool").set_value("get_pod").run()
    knob(app, "selectbox", "nudge_threshold").set_value(2).run()
    app.slider(key="block").set_value(9).run()
    link = app.query_params[_knobs_draft.PARAMETER]
    link = link if isinstance(link, str) else link[0]
    other = visit(samples_db, "tuning", draft=link, block="9")
    well(other)
    assert toml(other) == toml(app)
    assert other.text[0].value == app.text[0].value


@pytest.mark.parametrize("link", ["", "!!", "AAAA", _knobs_draft.link_value(GuardPolicy())[:-3]])
def test_a_link_that_cannot_be_read_opens_the_saved_policy(samples_db, visit, link):
    app = visit(samples_db, "tuning", draft=link)
    well(app)
    assert toml(app) == GuardPolicy()


policies = some.builds(
    GuardPolicy,
    nudge_threshold=some.none() | some.integers(1, 5),
    block_threshold=some.none() | some.integers(6, 50),
    error_block_threshold=some.none() | some.integers(2, 20),
    metadata_keys=some.frozensets(some.text(min_size=1, max_size=8), max_size=3),
    scope=some.sampled_from(("run", "trace", "session")),
    shadow=some.booleans(),
    tools=some.dictionaries(
        some.text(min_size=1, max_size=12),
        some.builds(ToolPolicy, resets=some.booleans(), exempt=some.booleans()),
        max_size=3,
    ),
    outcome_rules=some.just(())
    | some.just((OutcomeRule(outcome=Outcome.SUCCESS, tool="grep", text_pattern="x"),)),
)


@settings(deadline=None)
@given(policies)
def test_a_link_carries_any_policy(policy):
    text = _knobs_draft.link_value(policy)
    assert text.isascii()
    assert not set(text) & set("+/=&?# ")
    assert _knobs_draft.read_link(text) == policy


def test_a_link_is_not_unpacked_without_end():
    import base64
    import zlib

    bomb = base64.urlsafe_b64encode(zlib.compress(b'{"scope": "' + b"a" * 1_000_000 + b'"}')).decode()
    with pytest.raises(PolicyError, match="cannot be read"):
        _knobs_draft.read_link(bomb)


def test_the_sentence_says_gain_and_harm(samples_db, visit):
    with Store(samples_db).lease() as con:
        old, new = (impact(con, GuardPolicy(3, block)).totals for block in (5, 4))
    spared = new.calls_avoidable - old.calls_avoidable
    lost = new.calls_lost - old.calls_lost
    assert spared > 0
    assert lost > 0
    app = visit(samples_db, "tuning")
    app.slider(key="block").set_value(4).run()
    said = app.text[0].value
    assert f"{spared:,} more needless calls spared" in said
    assert f"{lost:,} more useful calls lost" in said


def test_cost_is_what_impact_says(samples_db, visit):
    with Store(samples_db).lease() as con:
        spared = impact(con, GuardPolicy()).effect.after.avoidable
    shown = figures(visit(samples_db, "tuning"))
    assert not spared.cost_whole
    assert shown["Money spared"] == f"≥ ${spared.cost:.2f}"
    assert shown["Tokens spared"] == f"{(spared.input_tokens or 0) + (spared.output_tokens or 0):,}"


def test_labels_give_caught_and_missed_and_bands(own_db, visit):
    app = visit(own_db, "tuning")
    app.segmented_control(key="picture").set_value("labels").run()
    well(app)
    assert "No incident is labelled yet." in texts(app)
    assert "loopscope label KEY true_loop" in texts(app)
    store = Store(own_db)
    with store.lease() as con:
        found = find_incidents(con)
    set_labels(
        store, {one.key: ("legitimate_repeat" if one.resolved else "true_loop", None) for one in found}
    )
    with store.lease() as con:
        part = score_policy(con, GuardPolicy()).rows[0].nudge[Split.ALL]
    app.run()
    well(app)
    assert figures(app)["True loops caught"] == f"{part.tp} of {part.tp + part.fn}"
    card = next(metric for metric in app.metric if metric.label == "True loops caught")
    assert f"{part.fn} missed" in card.help
    assert f"{part.fp} of {part.fp + part.tn} others caught wrongly" in card.help
    assert "95 % Wilson intervals" in texts(app)


def test_a_suggestion_is_accepted_into_the_draft_and_undone(samples_db, visit):
    with Store(samples_db).lease() as con:
        one = suggestion_report(con, GuardPolicy()).suggestions[0]
    app = visit(samples_db, "tuning")
    assert one.title in texts(app)
    app.button(key=f"accept_{one.key}").click().run()
    well(app)
    assert toml(app) == one.policy
    app.button(key="undo").click().run()
    well(app)
    assert toml(app) == GuardPolicy()


def test_policies_are_kept_under_a_name_compared_loaded_and_deleted(own_db, visit):
    app = visit(own_db, "tuning")
    app.slider(key="block").set_value(4).run()
    app.text_input(key="policy_name").set_value("  strict *one*  ").run()
    app.button(key="save_as").click().run()
    well(app)
    with Store(own_db).lease() as con:
        rows = con.execute("SELECT name, toml, policy_hash FROM policies").fetchall()
    assert [row[0] for row in rows] == ["strict *one*"]
    assert GuardPolicy.from_toml(rows[0][1]) == GuardPolicy(3, 4)
    assert rows[0][2] == GuardPolicy(3, 4).policy_hash
    app.button(key="reset").click().run()
    assert toml(app) == GuardPolicy()
    app.button(key="shelf_load").click().run()
    well(app)
    assert toml(app) == GuardPolicy(3, 4)
    app.button(key="shelf_delete").click().run()
    well(app)
    with Store(own_db).lease() as con:
        assert con.execute("SELECT count(*) FROM policies").fetchone() == (0,)


@pytest.mark.parametrize("name", ["", "  \n ", "\x00\x07"])
def test_a_policy_needs_a_name(name):
    with pytest.raises(LoopscopeError, match="name"):
        _knobs_shelf.named(name)


def test_other_rules_stand_beside_ours(samples_db, visit):
    app = visit(samples_db, "tuning")
    tables = [str(frame.value) for frame in app.dataframe]
    assert any("crewai" in table and "ours" in table for table in tables)


def test_the_map_of_the_trade_shows_both_numbers(samples_db):
    with Store(samples_db).lease() as con:
        rows = sweep(con, GuardPolicy(), range(2, 5), range(3, 7))
    figure = _tuning_map.threshold_map(rows, "trade", "", (3, 5), (3, 5))
    texts = figure.data[2]
    shown = dict(zip(zip(texts.x, texts.y, strict=True), texts.text, strict=True))
    for row in rows:
        assert shown[row.nudge, row.block] == f"{row.totals.calls_avoidable}<br>{row.totals.calls_lost}"


def test_bands_are_the_intervals_of_the_scores(own_db):
    store = Store(own_db)
    with store.lease() as con:
        found = find_incidents(con)
    set_labels(store, {one.key: ("true_loop", None) for one in found})
    with store.lease() as con:
        scores = score_thresholds(con, GuardPolicy(), blocks=range(2, 6), nudges=())
    figure = _tuning_charts.score_bands(scores, "block", Split.ALL, 3, None)
    band = figure.to_dict()["data"][2]  # of recall
    ratios = [row.block[Split.ALL].recall for row in scores.rows]
    assert list(band["y"]) == [*(one.high for one in ratios), *(one.low for one in reversed(ratios))]


def test_where_runs_leave_counts_every_run_once(samples_db):
    with Store(samples_db).lease() as con:
        found = impact(con, GuardPolicy(), examples=0).divergence
    for by in ("share", "number"):
        assert sum(_tuning_charts.divergence_bars(found, by).to_dict()["data"][0]["y"]) == found.runs > 0


def test_what_differs_in_thresholds_alone_is_no_other_rest():
    saved = GuardPolicy(tools={"poll": ToolPolicy(exempt=True, resets=True)})
    base = _knobs_draft.plain_rest(saved)
    assert _knobs_draft.assemble(base, 3, 5, False, ["poll"]) == saved
    assert _knobs_draft.assemble(base, 2, 5, True, []).tools == {"poll": ToolPolicy(resets=True)}
    assert replace(base, nudge_threshold=2) != base
