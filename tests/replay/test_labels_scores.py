"""Precision and recall of thresholds by labels."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from label_tools import by_run, say
from replay_rows import SECOND, START, call, database, number

from loopscope.collector import ToolCall
from loopscope.guard import GuardPolicy, PolicyError, ToolPolicy
from loopscope.replay import (
    Filters,
    LabelScores,
    LabelVerdict,
    Split,
    SplitScore,
    call_verdicts,
    find_incidents,
    incident_detail,
    score_pairs,
    score_policy,
    score_thresholds,
    split_of,
    weak_labels,
    wilson,
)

LOOP, POLL = "true_loop", "polling"


# Intervals


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(3, 8, 0.137, 0.694), (0, 0, 0, 1), (0, 10, 0, 0.278), (10, 10, 0.722, 1), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_intervals_of_known_shares(hits: int, n: int, low: float, high: float) -> None:
    found = wilson(hits, n)
    assert (found.low, found.high) == (pytest.approx(low, abs=6e-4), pytest.approx(high, abs=6e-4))


@given(n=st.integers(1, 10_000), data=st.data())
def test_wilson_intervals_hold_their_share_and_mirror(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    found, mirror = wilson(hits, n), wilson(n - hits, n)
    assert 0 <= found.low <= hits / n <= found.high <= 1
    assert (found.low, found.high) == (pytest.approx(1 - mirror.high), pytest.approx(1 - mirror.low))
    wider = wilson(hits * 4, n * 4)
    assert wider.high - wider.low < found.high - found.low


@pytest.mark.parametrize(("hits", "n"), [(-1, 3), (4, 3), (0, -1)])
def test_what_is_no_share_has_no_interval(hits: int, n: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(hits, n)


# Hand-made stores: runs named by what happens in them


def repeats(run: str, times: int, **more: object) -> list[ToolCall]:
    """A run of its own fault: the same call so many times."""
    return [call(run=run, args=f'{{"q": "{run}"}}', result=f"answer of {run}", **more)] * times  # type: ignore[arg-type]


def scored(scores: LabelScores, by: str = "block") -> list[tuple[int, int, int, int]]:
    """(tp, fp, fn, tn) of each row, both splits together."""
    whole = [getattr(row, by)[Split.ALL] for row in scores.rows]
    return [(one.tp, one.fp, one.fn, one.tn) for one in whole]


def labelled(calls: list[ToolCall], **verdicts: str):
    """A store whose runs hold one incident each, labelled by run."""
    con = database(calls)
    return say(con, {by_run(con)[run].key: verdict for run, verdict in verdicts.items()})


def test_each_block_threshold_divides_loops_from_the_others() -> None:
    con = labelled(
        [*repeats("long", 7), *repeats("short", 4), *repeats("poll", 5), *repeats("check", 3)],
        long=LOOP,
        short=LOOP,
        poll=POLL,
        check="legitimate_repeat",
    )
    scores = score_thresholds(con, GuardPolicy(), blocks=[3, 4, 5, 6, 8], nudges=[2, 3, 5])
    assert [(row.nudge_threshold, row.block_threshold) for row in scores.rows] == [
        *((None, block) for block in (3, 4, 5, 6, 8)),
        *((nudge, None) for nudge in (2, 3, 5)),
    ]
    # long 7, short 4 | poll 5, check 3
    assert scored(scores)[:5] == [(2, 2, 0, 0), (2, 1, 0, 1), (1, 1, 1, 1), (1, 0, 1, 2), (0, 0, 2, 2)]
    assert scored(scores, "nudge")[5:] == [(2, 2, 0, 0), (2, 2, 0, 0), (1, 1, 1, 1)]
    assert scored(scores)[5:] == [(0, 0, 2, 2)] * 3  # blocking is off
    whole = scores.rows[1].block[Split.ALL]
    assert (whole.precision.hits, whole.precision.n, whole.precision.value) == (2, 3, 2 / 3)
    assert (whole.recall.hits, whole.recall.n, whole.recall.high) == (2, 2, 1.0)
    assert scores.rows[4].block[Split.ALL].precision.value is None  # it falls on nothing
    assert (whole.n, whole.exact, whole.cut_off) == (4, 3, 0)
    labels = scores.labels
    assert (labels.incidents, labels.human, labels.weak, labels.positive, labels.negative) == (4, 4, 0, 2, 2)
    assert labels.by_verdict == {LOOP: 2, POLL: 1, "legitimate_repeat": 1, "retry_that_worked": 0}


def test_the_worked_example_of_the_docs_is_right() -> None:
    text = (Path(__file__).parents[2] / "docs" / "labels.md").read_text(encoding="utf-8")
    example = text.partition("### A worked example")[2].partition("### ")[0]
    tables = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in example.splitlines()
        if line.startswith("| ")
    ]
    runs = {row[0]: row[1:] for row in tables if len(row) == 3 and row[0] != "run"}
    lines = [row for row in tables if len(row) == 8 and row[0] != "block at"]
    calls = [one for run, (times, _) in runs.items() for one in repeats(run, int(times))]
    con = labelled(calls, **{run: verdict for run, (_, verdict) in runs.items()})
    rows = score_thresholds(con, GuardPolicy(), blocks=[int(line[0]) for line in lines]).rows
    for line, row in zip(lines, rows, strict=True):
        found = row.block[Split.ALL]
        assert [int(cell) for cell in line[2:6]] == [found.tp, found.fp, found.fn, found.tn]
        shares = [
            f"{one.hits}/{one.n}"
            + ("" if one.value is None else f" = {one.value:.0%} ({one.low:.0%}-{one.high:.0%})")
            for one in (found.precision, found.recall)
        ]
        assert line[6:] == [
            share.replace("%-", "-").replace("%)", ")").replace("%", " %") for share in shares
        ]


def test_what_is_unsure_unlabelled_or_gone_is_left_out_and_counted() -> None:
    con = labelled([*repeats("a", 5), *repeats("b", 5), *repeats("c", 5)], a=LOOP, b="unsure")
    say(con, {"0" * 16: LOOP, "1" * 16: POLL})
    scores = score_policy(con, GuardPolicy())
    assert scored(scores) == [(1, 0, 0, 0)]
    labels = scores.labels
    assert (labels.incidents, labels.unsure, labels.unlabelled, labels.without_incident) == (1, 1, 1, 2)
    only = score_policy(con, GuardPolicy(), Filters(run_ids=("b",)))
    assert scored(only) == [(0, 0, 0, 0)]
    assert (only.labels.incidents, only.labels.unsure, only.labels.unlabelled) == (0, 1, 0)
    assert only.labels.without_incident == 2


def test_without_labels_there_is_a_row_of_nothing() -> None:
    for calls in ([], repeats("a", 5)):
        [row] = score_policy(database(calls), GuardPolicy()).rows
        assert row.block == row.nudge == dict.fromkeys(Split, SplitScore())


def test_an_incident_behind_the_block_of_another_is_cut_off_where_it_would_be_caught() -> None:
    first = [call("poll", '{"job": 1}', "pending", run="a")] * 3
    second = [call("search", '{"q": 1}', "none", run="a")] * 5
    con = database([*first, *second])
    keys = {one.tool_name: one.key for one in find_incidents(con)}
    say(con, {keys["poll"]: POLL, keys["search"]: LOOP})
    three, four, six = (
        row.block[Split.ALL] for row in score_thresholds(con, GuardPolicy(), blocks=[3, 4, 6]).rows
    )
    # At 3 the poll ends the run: nobody knows of the search. At 4 the poll is let go.
    assert (three.tp, three.fp, three.fn, three.tn, three.cut_off) == (0, 1, 0, 0, 1)
    assert (four.tp, four.fp, four.fn, four.tn, four.cut_off) == (1, 0, 0, 1, 0)
    # At 6 neither gets there, and that is certain whatever was blocked.
    assert (six.tp, six.fp, six.fn, six.tn, six.cut_off) == (0, 0, 1, 1, 0)
    [pair] = score_pairs(con, GuardPolicy(), [2], [3]).rows
    assert (pair.nudge[Split.ALL].fp, pair.nudge[Split.ALL].cut_off) == (1, 1)


def test_a_nested_run_that_starts_after_a_block_is_cut_off() -> None:
    outer = repeats("outer", 3)
    inner = [call(run="inner", parent_run_id="outer", args='{"q": "in"}', at=100 + at) for at in range(3)]
    con = labelled([*outer, *inner], outer=LOOP, inner=LOOP)
    [row] = score_thresholds(con, GuardPolicy(), blocks=[3]).rows
    assert (row.block[Split.ALL].tp, row.block[Split.ALL].cut_off, row.block[Split.ALL].fn) == (1, 1, 0)
    early = [replace(one, start_ns=START - 100 * SECOND, end_ns=-1) for one in inner[:1]]
    con = labelled([*early, *outer, *inner], outer=LOOP, inner=LOOP)
    [row] = score_thresholds(con, GuardPolicy(), blocks=[3]).rows
    assert (row.block[Split.ALL].tp, row.block[Split.ALL].cut_off) == (2, 0)


def test_a_catch_is_exact_if_the_recorded_agent_had_seen_nothing_else() -> None:
    seen = [*repeats("seen", 2), *repeats("seen", 2, recorded_verdict="nudge"), *repeats("seen", 1)]
    con = labelled([*repeats("a", 5), *seen], a=LOOP, seen=LOOP)
    alone, both, nudge = (
        score_pairs(con, GuardPolicy(), [nudge], [block]).rows[0]
        for nudge, block in ((None, 5), (3, 5), (3, None))
    )
    assert (alone.block[Split.ALL].tp, alone.block[Split.ALL].exact) == (2, 2)
    # With nudges before it, only where the recorded agent had seen all of them.
    assert (both.block[Split.ALL].tp, both.block[Split.ALL].exact) == (2, 1)
    assert (nudge.nudge[Split.ALL].tp, nudge.nudge[Split.ALL].exact) == (2, 2)
    assert both.block[Split.ALL].to_json()["projected"] == 1


def test_knobs_of_the_policy_hold_at_every_threshold() -> None:
    con = labelled(
        [
            *repeats("own", 4, tool="poll"),
            *repeats("exempt", 9, tool="watch"),
            *repeats("failing", 6, outcome="general_tool_error"),
        ],
        own=POLL,
        exempt=POLL,
        failing=LOOP,
    )
    policy = GuardPolicy(
        tools={
            "poll": ToolPolicy(nudge_threshold=None, block_threshold=4),
            "watch": ToolPolicy(exempt=True),
        },
        error_nudge_threshold=2,
        error_block_threshold=5,
    )
    scores = score_thresholds(con, policy, blocks=[2, 12], nudges=[2])
    assert scored(scores)[:2] == [(1, 1, 0, 1)] * 2
    assert scored(scores, "nudge")[2] == (1, 1, 0, 1)  # the tool's own block is one, too
    assert scored(score_thresholds(con, GuardPolicy(), blocks=[4])) == [(0, 2, 1, 0)]


def test_pairs_are_those_of_a_sweep() -> None:
    con = labelled(repeats("a", 5), a=LOOP)
    rows = score_pairs(con, GuardPolicy(), [3, 2, None], [None, 3, 3]).rows
    assert [(row.nudge_threshold, row.block_threshold) for row in rows] == [
        (2, 3),
        (2, None),
        (3, None),
        (None, 3),
        (None, None),
    ]
    assert [one[0] for one in scored(score_pairs(con, GuardPolicy(), [2, 3], [4, 6]))] == [1, 0, 1, 0]


# Splits


def test_about_a_third_of_groups_is_held_out_and_a_group_is_never_divided() -> None:
    splits = [split_of(f"{number * 7919:016x}") for number in range(3_000)]
    assert 900 < splits.count(Split.HELD_OUT) < 1_100
    runs = [f"{fault}-{copy}" for fault in range(12) for copy in range(3)]
    calls = [
        one
        for run in runs
        for one in [call(f"tool {run.partition('-')[0]}", '{"job": 17}', "pending", run=run)] * 3
    ]
    con = database(calls)
    incidents = by_run(con)
    say(con, {one.key: LOOP for one in incidents.values()})
    scores = score_thresholds(con, GuardPolicy(), blocks=[3])
    [row] = scores.rows
    parts = {split: row.block[split].tp for split in Split}
    assert parts[Split.TUNING] + parts[Split.HELD_OUT] == parts[Split.ALL] == 36
    assert all(parts[split] == 3 * scores.labels.groups[split] for split in Split)
    assert 0 < parts[Split.HELD_OUT] < 36
    # Another store with more runs divides these as before.
    more = by_run(database([*repeats("new", 4), *calls]))
    assert {run: split_of(more[run].group) for run in runs} == {
        run: split_of(incidents[run].group) for run in runs
    }


# Weak labels are counted only where they are asked for


def test_weak_labels_count_where_asked_for_and_where_no_person_said_anything() -> None:
    calls = [*repeats("a", 5), *repeats("b", 5), *repeats("c", 5)]
    con = labelled(calls, a=POLL, b="unsure")
    assert {one.verdict for one in weak_labels(con)} == {LabelVerdict.TRUE_LOOP}
    plain, weak = (score_policy(con, GuardPolicy(), weak=asked) for asked in (False, True))
    assert (plain.labels.human, plain.labels.weak, scored(plain)) == (1, 0, [(0, 1, 0, 0)])
    assert (weak.labels.human, weak.labels.weak, scored(weak)) == (1, 1, [(1, 1, 0, 0)])
    assert (weak.labels.unsure, weak.labels.unlabelled, plain.labels.unlabelled) == (1, 0, 1)


def test_json_says_what_the_scores_rest_on() -> None:
    con = labelled([*repeats("a", 5), *repeats("b", 4)], a=LOOP, b=POLL)
    found = score_policy(con, GuardPolicy()).to_json()
    assert set(found) == {"schema_version", "policy", "labels", "rows"}
    assert found["policy"]["policy_hash"] == GuardPolicy().policy_hash
    [row] = found["rows"]
    assert (row["nudge"], row["block"]) == (3, 5)
    assert row["by_block"]["all"] == {
        "tp": 1,
        "fp": 0,
        "fn": 0,
        "tn": 1,
        "cut_off": 0,
        "exact": 0,
        "projected": 1,
        "n": 2,
        "precision": {"hits": 1, "n": 1, "value": 1.0, "low": wilson(1, 1).low, "high": 1.0},
        "recall": {"hits": 1, "n": 1, "value": 1.0, "low": wilson(1, 1).low, "high": 1.0},
    }
    assert row["by_nudge"]["all"]["fp"] == 1


# Every cell equals a replay of its policy


@st.composite
def recordings(draw: st.DrawFn) -> list[ToolCall]:
    runs = draw(st.lists(st.sampled_from(("root", "child", "other")), min_size=1, max_size=3))
    calls: list[ToolCall] = []
    for _ in range(draw(st.integers(1, 7))):
        made = call(
            draw(st.sampled_from(("search", "poll"))),
            draw(st.sampled_from(('{"q": 1}', '{"q": 2}'))),
            draw(st.sampled_from(("a", "b"))),
            draw(st.sampled_from(("success", "success", "schema_error", "general_tool_error"))),
            run=(run := draw(st.sampled_from(runs))),
            agent="a",
            parent_run_id={"child": "root"}.get(run),
            recorded_verdict=draw(st.sampled_from((None, None, "nudge", "block"))),
            trace_id=draw(st.sampled_from(("trace 1", "trace 2"))),
        )
        calls += [made] * draw(st.integers(1, 5))
    return number(calls)


thresholds = st.one_of(st.none(), st.integers(1, 6))


@st.composite
def policies(draw: st.DrawFn) -> GuardPolicy:
    try:
        tool = ToolPolicy(
            exempt=draw(st.booleans()),
            resets=draw(st.booleans()),
            **draw(st.dictionaries(st.sampled_from(("nudge_threshold", "block_threshold")), thresholds)),
        )
        return GuardPolicy(
            draw(thresholds),
            draw(thresholds),
            tools={"poll": tool} if draw(st.booleans()) else {},
            scope=draw(st.sampled_from(("run", "run", "trace"))),
        )
    except PolicyError:
        return GuardPolicy(2, 4)


def without_thresholds(policy: GuardPolicy) -> GuardPolicy:
    """The same counting, and nothing is nudged or blocked."""
    tools = {
        name: replace(tool, nudge_threshold=None, block_threshold=None) for name, tool in policy.tools.items()
    }
    return replace(policy, nudge_threshold=None, block_threshold=None, tools=tools)


def outcomes(
    members: list[ToolCall], verdicts: dict[str, Any], counts: dict[str, Any], policy: GuardPolicy
) -> dict[str, bool]:
    """Where the policy's verdicts fall on an incident. `counts`: how far it would count without any block."""

    def reaches(one: ToolCall, *names: str) -> bool:
        found = counts[one.span_id]
        limits = policy.rules_for(one.tool_name).thresholds
        return found["action"] != "not_counted" and any(
            limit is not None and found["count"] >= limit
            for limit in (getattr(limits, name) for name in names)
        )

    rows = [verdicts[one.span_id] for one in members]
    stepped = [one for one in rows if one["action"] in ("nudge", "block")]
    blocked = [one for one in rows if one["action"] == "block"]
    return {
        "block": bool(blocked),
        "block_exact": any(one["exact"] for one in blocked),
        "block_cut_off": not blocked and any(reaches(one, "block") for one in members),
        "nudge": bool(stepped),
        "nudge_exact": any(one["exact"] for one in stepped),
        "nudge_cut_off": not stepped and any(reaches(one, "nudge", "block") for one in members),
    }


@settings(
    max_examples=int(os.environ.get("LOOPSCOPE_EXAMPLES", "8")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(calls=recordings(), policy=policies(), nudge=thresholds, block=thresholds, data=st.data())
def test_every_row_equals_a_replay_of_its_thresholds(
    calls: list[ToolCall],
    policy: GuardPolicy,
    nudge: int | None,
    block: int | None,
    data: st.DataObject,
) -> None:
    con = database(calls)
    found = find_incidents(con)
    said = {one.key: data.draw(st.sampled_from((LOOP, LOOP, POLL, "unsure"))) for one in found}
    say(con, said)
    by_span = {one.span_id: one for one in calls}

    def judged(rules: GuardPolicy) -> dict[str, Any]:
        return {row["span_id"]: row for row in call_verdicts(con, rules).to_pylist()}

    counts = judged(without_thresholds(policy))
    members = {
        one.key: [
            by_span[each.call.span_id] for each in incident_detail(con, one.key, policy).calls if each.member
        ]
        for one in found
    }
    for row in score_pairs(con, policy, [None, nudge], [4, block]).rows:
        cell = replace(policy, nudge_threshold=row.nudge_threshold, block_threshold=row.block_threshold)
        verdicts = judged(cell)
        expected = {by: dict.fromkeys(Split, SplitScore()) for by in ("block", "nudge")}
        for one in found:
            if said[one.key] == "unsure":
                continue
            seen = outcomes(members[one.key], verdicts, counts, cell)
            for by, scores in expected.items():
                name = "cut_off"
                if not seen[f"{by}_cut_off"]:
                    right = seen[by] == (said[one.key] == LOOP)
                    name = f"{'t' if right else 'f'}{'p' if seen[by] else 'n'}"
                for split in (split_of(one.group), Split.ALL):
                    was = scores[split]
                    was = replace(was, **{name: getattr(was, name) + 1})
                    scores[split] = replace(was, exact=was.exact + seen[f"{by}_exact"])
        assert row.block == expected["block"], cell
        assert row.nudge == expected["nudge"], cell
