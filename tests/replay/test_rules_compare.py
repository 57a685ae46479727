"""Rules side by side over stores: what they would have stopped, what that would have cost, who agrees."""

from __future__ import annotations

import json
from typing import Any

import pytest
from replay_rows import SECOND, START, call, database

from loopscope.collector import ToolCall
from loopscope.guard import GuardPolicy, LoopscopeError, NotFoundError, ToolPolicy
from loopscope.replay import Filters, find_incidents, totals
from loopscope.replay.rules import RULES, RuleComparison, compare_rules
from loopscope.replay.rules import _compare as compare

Q = '{"q": "refund"}'


def compared(
    calls: list[ToolCall], policy: GuardPolicy | None = None, **more: Any
) -> dict[str, RuleComparison]:
    return {one.rule: one for one in compare_rules(database(calls), policy or GuardPolicy(), **more)}


def loop(run: str, times: int, **more: Any) -> list[ToolCall]:
    return [call(run=run, **more) for _ in range(times)]


def test_what_a_stop_would_have_cost() -> None:
    calls = [
        *loop("run-1", 6),
        call(run="run-1", result="at last"),  # lost
        call(run="run-1", outcome="general_tool_error", result="503"),  # unjudged
        *loop("run-2", 2),
    ]
    found = compared(calls)
    roo = found["roo-code"]  # refuses the fourth
    assert (roo.runs, roo.calls) == (2, 10)
    assert (roo.runs_noticed, roo.runs_stopped, roo.runs_stopped_exact) == (0, 1, 1)
    assert (roo.calls_avoidable, roo.calls_lost, roo.calls_unjudged, roo.calls_after_stop) == (3, 1, 1, 5)
    assert (roo.calls_refused, roo.refused_avoidable, roo.refused_lost, roo.refused_unjudged) == (2, 1, 0, 1)
    cline = found["cline"]  # a note at 3; halts before the fifth
    assert (cline.runs_noticed, cline.runs_stopped, cline.runs_stopped_exact) == (1, 1, 0)
    assert (cline.calls_avoidable, cline.calls_after_stop, cline.calls_refused) == (2, 4, None)
    openhands = found["openhands"]  # halts behind the fourth
    assert (openhands.calls_avoidable, openhands.calls_after_stop) == (2, 4)
    ours = found["ours"]
    assert (ours.runs_stopped, ours.runs_stopped_exact, ours.calls_after_stop) == (1, 0, 3)
    assert next(iter(found)) == "ours"


def test_who_stops_what_the_other_does_not() -> None:
    calls = [
        *loop("loop", 6),
        *[call(run="poll", result=str(number)) for number in range(6)],
        *[one for _ in range(5) for one in (call(run="turns"), call("b", run="turns"))],
    ]
    roo = compared(calls)["roo-code"]
    assert roo.agreement is not None
    assert (roo.agreement.both, roo.agreement.both_runs) == (1, ("loop",))
    assert (roo.agreement.only_rule, roo.agreement.only_rule_runs) == (1, ("poll",))
    assert (roo.agreement.only_ours, roo.agreement.only_ours_runs) == (1, ("turns",))
    many = compared([one for number in range(5) for one in loop(f"run-{number}", 6)])["roo-code"].agreement
    assert many is not None
    assert (many.both, many.both_runs) == (5, ("run-0", "run-1", "run-2"))
    off = compared(calls, GuardPolicy(None, None))["roo-code"].agreement
    assert off is not None
    assert (off.both, off.only_rule, off.only_ours) == (0, 2, 0)


def test_filters_choose_what_is_reported() -> None:
    calls = [*loop("run-1", 6), *loop("run-2", 6, tool="other"), *loop("run-3", 1)]
    found = compared(calls, filters=Filters(tools=("other",)))["roo-code"]
    assert (found.runs, found.calls, found.runs_stopped) == (1, 6, 1)
    late = compared(calls, filters=Filters(since=START + 5 * SECOND))["roo-code"]
    assert (late.runs, late.runs_stopped, late.calls_after_stop) == (3, 1, 3 + 1)  # run-1's stop lies before
    assert compared(calls, filters=Filters(run_ids=("run-1",)))["ours"].runs_stopped == 1


def test_what_the_recording_lacks_is_counted_for_the_rules_that_need_it() -> None:
    calls = [call(turn=1), call(args=None), call(result=None), call(outcome=None), *loop("run-2", 6)]
    found = compared(calls)
    assert found["opencode"].lacking == {"arguments": 1, "turn": 9}
    assert found["opencode"].runs_stopped == 0
    assert found["ours"].lacking == {"arguments": 1, "result": 1, "outcome": 1}
    assert found["roo-code"].lacking == {"arguments": 1}
    assert compared(calls, filters=Filters(run_ids=("run-2",)))["roo-code"].lacking == {"arguments": 0}


def test_the_order_of_keys_is_seen_through_the_store() -> None:
    written = ['{"a": {"x": 1, "y": 2}}', '{"a": {"y": 2, "x": 1}}']
    long = [text.replace("}}", f', "z": "{"z" * 2_000}"}}}}') for text in written]
    for texts in (written, long):
        found = compared([call(args=texts[number % 2]) for number in range(8)])
        assert found["cline"].runs_stopped == 1
        assert found["roo-code"].runs_stopped == 0
        assert found["gemini-cli"].runs_stopped == 0
        spaced = compared([call(args=" " * (number % 2) + texts[0]) for number in range(8)])
        assert spaced["gemini-cli"].runs_stopped == 1
        assert spaced["openlit"].runs_noticed == 1


def test_tools_that_a_rule_reads_are_read() -> None:
    git = [
        call("run_shell_command", json.dumps({"command": f"git status {'-s ' * n}"}), str(n))
        for n in range(8)
    ]
    assert compared(git)["qwen-code"].runs_stopped == 1
    long = json.dumps({"command": "git status " + "-s " * 2_000})
    assert compared([*git[:7], call("run_shell_command", long, "x")])["qwen-code"].runs_stopped == 1
    make = [*git[:4], call("run_shell_command", '{"command": "make"}', "x"), *git[4:]]
    assert compared(make)["qwen-code"].runs_stopped == 0
    sent = [
        call("message", '{"action": "send"}', json.dumps({"messageId": n, "to": "x" * 2_000}))
        for n in range(22)
    ]
    assert compared(sent)["openclaw"].runs_stopped == 1


def test_errors_are_read_wherever_they_stand() -> None:
    def failing(**more: Any) -> list[ToolCall]:
        return [call(args=f'{{"n": {n}}}', outcome="general_tool_error", **more) for n in range(5)]

    found = compared(failing(result="e" * 5_000))["goose-rep-002"]  # in a run in which no call occurs twice
    assert (found.runs_stopped, found.calls_after_stop, found.calls_unjudged, found.calls_refused) == (
        1,
        2,
        2,
        1,
    )
    assert compared(failing(result=None, error_message="down"))["goose-rep-002"].runs_stopped == 1
    assert compared(failing(result=None, error_message="d" * 5_000))["goose-rep-002"].runs_stopped == 1
    assert compared(failing(result=None))["goose-rep-002"].runs_stopped == 0


def test_each_agent_has_a_rule_of_its_own() -> None:
    both = [one for _ in range(3) for one in (call(agent="one", turn=1), call(agent="two", turn=1))]
    found = compared(both)
    assert found["roo-code"].runs_stopped == 0
    assert found["cline"].runs_noticed == 1
    assert found["opencode"].runs_stopped == 1  # three of one agent, others of the same run between
    more = compared([*both, call(agent="two"), call(agent="one")])["roo-code"]
    assert (more.runs_stopped, more.calls_after_stop, more.calls_refused) == (1, 2, 2)


def test_a_run_inside_a_stopped_one_that_starts_later_is_not_made() -> None:
    calls = [
        *[call(run="t/outer", at=number, run_source="agent_span") for number in range(6)],
        *[
            call("x", run="t/inner", at=number, parent_run_id="t/outer", result=str(number))
            for number in (10, 11)
        ],
        *[call("x", run="t/early", at=number, parent_run_id="t/outer") for number in (0.1, 12)],
    ]
    found = compared(calls)
    assert found["cline"].calls_after_stop == 2 + 2  # the call that is stopped, the last one, and `inner`
    assert found["cline"].calls_lost == 2
    assert found["roo-code"].calls_after_stop == 3  # it refuses single calls, the run goes on
    assert (
        found["ours"].calls_after_stop == 1 + 2 == totals(database(calls), GuardPolicy())[0].calls_after_block
    )


def test_our_figures_are_those_of_totals_whatever_the_policy() -> None:
    calls = [
        *loop("run-1", 7, session_id="s"),
        *loop("run-2", 3, session_id="s"),
        *loop("run-3", 9, tool="free"),
        *[call(run="run-4", outcome="general_tool_error", result="x") for _ in range(5)],
    ]
    con = database(calls)
    for policy in (
        GuardPolicy(2, 4, scope="session"),
        GuardPolicy(None, 3, tools={"free": ToolPolicy(exempt=True)}),
        GuardPolicy(error_nudge_threshold=2, error_block_threshold=4),
    ):
        ours = compare_rules(con, policy, ["ours"])[0]
        everything, exact = totals(con, policy)
        assert ours.runs_stopped == everything.runs_blocked
        assert ours.runs_stopped_exact == exact.runs_blocked
        assert ours.calls_after_stop == everything.calls_after_block
        assert ours.calls_avoidable == everything.calls_avoidable


def test_the_override_takes_exemptions_from_the_policy() -> None:
    calls = [*loop("run-1", 3), *loop("run-2", 3, tool="free")]
    found = compared(calls)["reasoned-override"]
    assert (found.runs_stopped, found.calls_refused, found.refused_avoidable) == (2, 4, 4)
    free = GuardPolicy(tools={"free": ToolPolicy(exempt=True)})
    assert compared(calls, free)["reasoned-override"].runs_stopped == 1
    harm = compared([call(), call(result="new")])["reasoned-override"]
    assert (harm.calls_refused, harm.refused_lost) == (1, 1)
    said = '{"q": "refund", "_duplicate_reasoning": "it moved"}'
    assert compared([call(), call(args=said), call(args=said)])["reasoned-override"].calls_refused == 1


def test_labels_tell_right_from_wrong() -> None:
    calls = [
        *loop("true", 6),
        *loop("poll", 6),
        *[one for _ in range(4) for one in (call(run="turns"), call("b", run="turns"))],
        *loop("unsure", 6),
        *loop("twice", 5),
        *[call("b", run="twice") for _ in range(5)],
    ]
    con = database(calls)
    incidents = {(one.run_id, one.tool_name): one for one in find_incidents(con)}
    labels = {
        ("true", "search_docs"): "true_loop",
        ("poll", "search_docs"): "polling",
        ("turns", "search_docs"): "true_loop",
        ("unsure", "search_docs"): "unsure",
        ("twice", "b"): "true_loop",
    }
    assert {one.labels for one in compare_rules(con, GuardPolicy())} == {None}
    for place, verdict in labels.items():
        con.execute(
            "INSERT INTO labels VALUES (?, ?, NULL, now()::TIMESTAMP)", [incidents[place].key, verdict]
        )
    con.execute("INSERT INTO labels VALUES ('gone', 'true_loop', NULL, now()::TIMESTAMP)")
    found = {one.rule: one.labels for one in compare_rules(con, GuardPolicy())}
    cline = found["cline"]
    assert cline is not None
    assert (cline.right, cline.missed, cline.wrong, cline.spared, cline.unsure, cline.cut_off) == (
        1,
        1,
        1,
        0,
        1,
        1,
    )
    assert (cline.precision.value, cline.recall.value, cline.n) == (0.5, 0.5, 3)
    roo = found["roo-code"]  # refuses single calls, so the later loop is met as well
    assert roo is not None
    assert (roo.right, roo.missed, roo.wrong, roo.cut_off) == (2, 1, 1, 0)
    ours = found["ours"]
    assert ours is not None
    assert (ours.right, ours.missed, ours.wrong, ours.cut_off) == (1, 1, 1, 1)
    openlit = found["openlit"]  # its marks count
    assert openlit is not None
    assert (openlit.right, openlit.missed, openlit.wrong) == (2, 0, 1)


def test_knobs_and_names() -> None:
    calls = loop("run-1", 4)
    found = compared(calls, names=["cline", "roo-code", "cline"], options={"cline": {"soft": 2, "hard": 4}})
    assert list(found) == ["cline", "roo-code"]
    assert (found["cline"].runs_stopped, found["cline"].runs_noticed) == (1, 1)
    assert set(compared(calls)) == set(RULES)
    with pytest.raises(NotFoundError, match="did you mean"):
        compared(calls, names=["clime"])
    with pytest.raises(NotFoundError, match="no knob"):
        compared(calls, options={"cline": {"limit": 1}})
    with pytest.raises(LoopscopeError):
        compared(calls, options={"cline": {"soft": 0}})


def test_an_empty_store_and_one_without_content() -> None:
    assert all(one.runs == one.calls == one.runs_stopped == 0 for one in compared([]).values())
    blind = compared([call(args=None, result=None) for _ in range(9)])
    # Eight calls of one tool in a row are enough for one of them.
    assert [name for name, one in blind.items() if one.runs_stopped] == ["qwen-code-opt-in"]
    assert blind["ours"].lacking == {"arguments": 9, "result": 9, "outcome": 0}


def test_runs_that_go_over_the_end_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [one for number in range(40) for one in loop(f"run-{number:02d}", 3 + number % 5)]
    con = database(calls)
    whole = [one.to_json() for one in compare_rules(con, GuardPolicy())]
    monkeypatch.setattr("loopscope.replay.rules._stream._BATCH_ROWS", 7)
    assert [one.to_json() for one in compare_rules(con, GuardPolicy())] == whole


def test_json_is_plain() -> None:
    data = [one.to_json() for one in compared(loop("run-1", 6)).values()]
    assert json.loads(json.dumps(data))[0]["rule"] == "ours"
    assert compare.RuleComparison("x", "y", "z", "halts").to_json()["labels"] is None
