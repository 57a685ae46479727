"""Whole runs: the list, the tree of spans, messages, calls."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_rows import SECOND, START, call, database, request

from loopscope.collector import Store, import_paths
from loopscope.guard import GuardPolicy, NotFoundError
from loopscope.replay import Filters, call_verdicts, find_incidents
from loopscope.replay.traces import (
    RunSort,
    find_run,
    list_runs,
    run_calls,
    run_head,
    run_logs,
    run_messages,
    span_detail,
    span_tree,
)
from loopscope.replay.traces._tree import BUCKETS, FOLDED_FROM, Spans, build
from loopscope.sample_traces import files

POLICY = GuardPolicy()


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    db = tmp_path_factory.mktemp("traces") / "samples.duckdb"
    import_paths(db, files())
    with Store(db).lease() as con:
        yield con


# -- the list ------------------------------------------------------------------------------------


def test_the_list_has_every_run_once_and_pages_of_it_fit_together(samples):
    known = samples.execute(
        "SELECT run_id FROM tool_call_rows UNION SELECT run_id FROM llm_request_rows"
    ).fetchall()
    whole = list_runs(samples, POLICY, limit=1_000)
    assert sorted(one.run_id for one in whole.rows) == sorted(name for (name,) in known)
    parts = [list_runs(samples, POLICY, limit=7, offset=offset) for offset in range(0, whole.total, 7)]
    assert [one for part in parts for one in part.rows] == list(whole.rows)
    assert {part.total for part in parts} == {len(known)}
    behind = list_runs(samples, POLICY, limit=7, offset=10_000)
    assert (behind.rows, behind.total) == ((), whole.total)


def test_figures_of_the_list_are_those_of_the_calls(samples):
    whole = list_runs(samples, POLICY, limit=1_000)
    verdicts = call_verdicts(samples, POLICY).to_pylist()
    for field, wanted in (
        ("repeats", lambda one: one["count"] >= 2 and one["action"] not in ("not_counted", "after_block")),
        ("nudged", lambda one: one["action"] == "nudge"),
        ("blocked", lambda one: one["action"] == "block"),
        ("after_block", lambda one: one["action"] == "after_block"),
        ("calls", lambda one: True),
    ):
        expected = Counter(one["run_id"] for one in verdicts if wanted(one))
        found = {one.run_id: getattr(one, field) for one in whole.rows if getattr(one, field)}
        if field == "repeats":  # a repeat after a block is one all the same
            assert all(found.get(run, 0) >= number for run, number in expected.items())
        else:
            assert found == dict(expected)
    incidents = Counter(one.run_id for one in find_incidents(samples))
    assert {one.run_id: one.incidents for one in whole.rows if one.incidents} == dict(incidents)
    assert whole.calls == len(verdicts)
    assert whole.with_incidents == len(incidents)


@pytest.mark.parametrize("sort", list(RunSort))
def test_every_order_is_kept_over_pages(samples, sort):
    of = {
        RunSort.NEWEST: lambda one: one.last_ns,
        RunSort.REPEATS: lambda one: one.repeats,
        RunSort.CALLS: lambda one: one.calls,
        RunSort.TOKENS: lambda one: -1 if one.tokens is None else one.tokens,
        RunSort.COST: lambda one: -1 if one.cost is None else one.cost,
    }.get(sort)
    found = list_runs(samples, POLICY, sort=sort, limit=1_000).rows
    halves = (
        *list_runs(samples, POLICY, sort=sort, limit=20).rows,
        *list_runs(samples, POLICY, sort=sort, limit=1_000, offset=20).rows,
    )
    assert halves == found
    if sort in (RunSort.REPEATS, RunSort.CALLS, RunSort.TOKENS, RunSort.COST):
        values = [of(one) for one in found]
        assert values == sorted(values, reverse=True)
        assert len(set(values)) > 1


def test_the_list_by_filter_and_by_the_beginning_of_an_id():
    con = database(
        [
            call("a", run="r1", agent="one", at=0),
            call("b", run="r1", agent="one", at=1),
            call("b", run="r2", agent="two", at=5, session_id="sess-2"),
        ],
        [request("r3", at=9, model="m-3"), request("r1", at=2, model="m-1")],
    )

    def runs(search: str = "", **filters: object) -> list[str]:
        found = list_runs(con, POLICY, Filters(**filters), search=search)  # type: ignore[arg-type]
        assert found.total == len(found.rows)
        return [one.run_id for one in found.rows]

    assert runs() == ["r3", "r2", "r1"]
    assert runs(tools=("a",)) == ["r1"]
    assert runs(tools=("b",)) == ["r2", "r1"]
    assert runs(models=("m-3",)) == ["r3"]
    assert runs(agents=("two",)) == ["r2"]
    assert runs(since=START + 5 * SECOND) == ["r3", "r2"]
    assert runs("r2") == ["r2"]
    assert runs("trace-r") == ["r3", "r2", "r1"]
    assert runs("sess-") == ["r2"]
    assert runs("%") == []
    whole = list_runs(con, POLICY, Filters(tools=("a",))).rows[0]
    assert (whole.calls, whole.requests) == (2, 1)  # figures are of the whole run


# -- one run -------------------------------------------------------------------------------------


def test_every_run_of_the_samples_says_what_it_was(samples):
    for row in list_runs(samples, POLICY, limit=1_000).rows:
        head = run_head(samples, row.run_id, POLICY)
        assert (head.run.calls, head.run.requests, head.run.repeats) == (row.calls, row.requests, row.repeats)
        assert head.run.status == row.status
        assert [one.run_id for one in head.incidents] == [row.run_id] * row.incidents


def test_a_trace_id_names_its_run_or_the_whole_trace(samples):
    single = samples.execute(
        "SELECT trace_id, min(run_id) FROM tool_call_rows GROUP BY trace_id HAVING count(DISTINCT "
        "run_id) = 1 LIMIT 1"
    ).fetchall()[0]
    assert find_run(samples, single[0]) == single[1]
    several = samples.execute(
        "SELECT trace_id, count(*) FROM tool_call_rows GROUP BY trace_id HAVING count(DISTINCT run_id) > "
        "1 LIMIT 1"
    ).fetchall()[0]
    head = run_head(samples, find_run(samples, several[0]), POLICY)
    assert (head.run.run_id, head.run.run_source) == (several[0], "trace")
    assert 0 < head.run.calls <= several[1]
    with pytest.raises(NotFoundError, match="no run"):
        find_run(samples, "no such run")


def test_an_agent_that_made_no_call_yet_is_a_running_run():
    trace, span = "c" * 32, "d" * 16
    con = database([], [], [(trace, span, START, None, 0)])
    con.execute(
        "INSERT INTO trace_rows (trace_id, spans, first_start_ns, last_start_ns, logs, stale) VALUES (?, "
        "1, ?, ?, 0, false)",
        [trace, START, START],
    )
    run = find_run(con, f"{trace}/{span}")
    assert run_head(con, run, POLICY).run.status == "running"
    tree = span_tree(con, run, POLICY)
    assert (tree.total, tree.running) == (1, 1)
    assert tree.window().rows[0].end_ns is None


def test_the_trees_of_the_samples_are_those_of_the_spans(samples):
    parents = {
        (trace, span): (trace, parent)
        for trace, span, parent in samples.execute(
            "SELECT trace_id, span_id, parent_span_id FROM spans"
        ).fetchall()
    }
    actions = {
        (one["trace_id"], one["span_id"]): one["action"]
        for one in call_verdicts(samples, POLICY).to_pylist()
        if one["position"] == 0
    }
    seen = 0
    for row in list_runs(samples, POLICY, limit=1_000).rows:
        tree = span_tree(samples, row.run_id, POLICY)
        spans = tree.spans
        window = tree.window(fold=False, opened={tree.key(place) for place in tree.children}, limit=10_000)
        assert window.total == tree.total
        for line in window.rows:
            place = spans.place[(line.key.split("/")[0], line.key.split("/")[1])]
            if line.span_id is not None and spans.parents[place] >= 0:
                parent = spans.parents[place]
                assert (spans.trace_ids[parent], spans.span_ids[parent]) == parents[
                    (line.trace_id, line.span_id)
                ]
            if line.kind == "call" and line.foldable is False and (line.trace_id, line.span_id) in actions:
                assert line.actions == (actions[(line.trace_id, line.span_id)],)
                seen += 1
        if row.run_source == "agent_span":
            assert [tree.key(root) for root in tree.roots] == [row.run_id]
            whole = span_tree(samples, row.run_id, POLICY, whole=True)
            assert whole.total >= tree.total
    assert seen > 50


def test_a_span_is_given_whole(samples):
    trace, span, attributes, start = samples.execute(
        "SELECT trace_id, span_id, attributes, start_ns FROM spans ORDER BY length(attributes) DESC LIMIT 1"
    ).fetchall()[0]
    found = span_detail(samples, trace, span)
    assert (found.attributes, found.start_ns) == (attributes, start)
    cut = span_detail(samples, trace, span, text_limit=10)
    assert (cut.attributes, cut.attributes_length) == (attributes[:10], len(attributes))
    with pytest.raises(NotFoundError, match="no span"):
        span_detail(samples, trace, "0" * 16)


def test_for_one_span_no_other_texts_are_put_together():
    """The view would do that of all spans before it looks at the condition."""
    con = database(
        spans=[("t", "wanted", START, START + SECOND, 0), ("t", "other", START, START + SECOND, 0)]
    )
    con.execute(
        "UPDATE span_rows SET attributes = span_id, attribute_parts = [1], event_parts = [1], events = '[]'"
    )
    con.execute(
        "INSERT INTO trace_rows (trace_id, spans, first_start_ns, last_start_ns, logs, stale)"
        f" VALUES ('t', 2, {START}, {START}, 0, FALSE)"
    )
    con.execute(
        "CREATE OR REPLACE MACRO whole_text(template, keys) AS (SELECT p.text FROM (SELECT unnest(keys),"
        " CASE WHEN template = 'other' THEN error('put together') ELSE template || '!' END AS text) p"
        " LIMIT 1)"
    )
    with pytest.raises(duckdb.Error, match="put together"):
        con.execute("SELECT attributes FROM spans WHERE span_id = 'wanted'").fetchall()
    found = span_detail(con, "t", "wanted")
    assert (found.attributes, found.events, found.links) == ("wanted!", "[]!", "[]")


def test_log_records_of_a_run(samples):
    found = samples.execute(
        "SELECT trace_id, count(*) FROM logs WHERE trace_id IS NOT NULL GROUP BY 1"
    ).fetchall()
    for trace, number in found:
        page = run_logs(samples, find_run(samples, trace), trace_id=trace, limit=2)
        assert page.total == number
        assert len(page.lines) == min(2, number)


# -- calls ---------------------------------------------------------------------------------------


def test_calls_of_a_run_with_their_verdicts_page_by_page():
    con = database(
        [call(at=at) for at in range(6)]
        + [call("other", result="x" * 5_000, at=7), call("late", outcome="general_tool_error", at=8)]
        + [call("open", at=9, end_ns=None)]
    )
    whole = run_calls(con, "run-1", POLICY)
    assert whole.total == 9
    assert [one.action for one in whole.calls] == [
        "allow", "allow", "nudge", "nudge", "block", "after_block", "after_block", "after_block", None,
    ]  # fmt: skip
    assert [one.count for one in whole.calls[:5]] == [1, 2, 3, 4, 5]
    assert [one.exact for one in whole.calls[:5]] == [True, True, True, False, False]
    parts = [run_calls(con, "run-1", POLICY, limit=4, offset=offset).calls for offset in (0, 4, 8)]
    assert tuple(one for part in parts for one in part) == whole.calls
    assert run_calls(con, "run-1", POLICY, actions=["nudge", "block"]).total == 3
    assert [one.tool_name for one in run_calls(con, "run-1", POLICY, failed=True).calls] == ["late"]
    cut = run_calls(con, "run-1", POLICY, text_limit=100).calls[6]
    assert (len(cut.result or ""), cut.result_length) == (100, 5_000)


# -- messages ------------------------------------------------------------------------------------


def _said(role: str, text: str) -> str:
    return json.dumps({"role": role, "content": text})


def _calls(*ids: str, **more: object) -> str:
    made = [{"id": one, "type": "function", "function": {"name": "look", "arguments": "{}"}} for one in ids]
    return json.dumps({"role": "assistant", "tool_calls": made, **more})


def _result(call_id: str, text: str) -> str:
    return json.dumps({"role": "tool", "tool_call_id": call_id, "content": text})


def _growing():
    history = [_said("system", "Be brief."), _said("user", "Find it.")]
    requests = []
    for number in range(5):
        answer = _calls(f"c{number}")
        requests.append(
            request(
                at=10.0 * number,
                input_messages=tuple(history),
                output_messages=(answer,),
                content_state="full",
            )
        )
        # The history writes the answer down in another way.
        history += [_calls(f"c{number}", content=None), _result(f"c{number}", f"nothing {number}")]
    calls = [
        call("look", "{}", f"nothing {number}", call_id=f"c{number}", at=10 * number + 1)
        for number in range(4)
    ]
    return database(calls, requests)


def test_each_message_stands_once_where_it_came_first():
    con = _growing()
    page = run_messages(con, "run-1", POLICY)
    shown = [[(one.answered, one.role, one.parts[0].text) for one in q.messages] for q in page.requests]
    assert shown[0] == [
        (False, "system", "Be brief."),
        (False, "user", "Find it."),
        (True, "assistant", "{}"),
    ]
    assert shown[1] == [(False, "tool", "nothing 0"), (True, "assistant", "{}")]
    assert [len(one) for one in shown] == [3, 2, 2, 2, 2]
    assert page.total == 5
    assert {name: part.text for name, part in page.results.items()} == {
        f"c{n}": f"nothing {n}" for n in range(4)
    }
    assert (page.calls["c2"].tool_name, page.calls["c2"].action) == ("look", "allow")


def test_pages_of_messages_fit_together_and_know_what_lies_behind_them():
    con = _growing()
    whole = run_messages(con, "run-1", POLICY)
    parts = [run_messages(con, "run-1", POLICY, limit=2, offset=offset) for offset in (0, 2, 4)]
    assert tuple(one for part in parts for one in part.requests) == whole.requests
    assert parts[0].results["c1"].text == "nothing 1"  # which only the next page's first history brings
    assert run_messages(con, "run-1", POLICY, offset=50).requests == ()


def test_a_history_that_shrank_shows_only_what_is_new():
    first = (_said("user", "one"), _said("assistant", "two"), _said("user", "three"))
    later = (_said("user", "in short: one to three"), _said("user", "three"), _said("user", "four"))
    con = database(
        [],
        [
            request(at=0, input_messages=first),
            request(at=1, input_messages=later),
            request(at=2, input_messages=None),
        ],
    )
    page = run_messages(con, "run-1", POLICY)
    assert [part.text for one in page.requests[1].messages for part in one.parts] == [
        "in short: one to three",
        "four",
    ]
    assert (page.requests[2].messages, page.requests[2].sent) == ((), None)


def test_a_long_message_is_cut_and_one_that_is_no_json_stands_as_it_is():
    con = database([], [request(at=0, input_messages=(_said("user", "x" * 500), "{not json"))])
    long, odd = run_messages(con, "run-1", POLICY, text_limit=100).requests[0].messages
    assert (long.cut, len(long.parts[0].text or "")) == (True, 100)
    assert (odd.cut, odd.parts[0].text) == (False, "{not json")


# -- the tree ------------------------------------------------------------------------------------


def _spans(parents: list[int], *, names: list[str] | None = None) -> Spans:
    spans = Spans()
    for number, parent in enumerate(parents):
        name = names[number] if names else f"n{number}"
        start = START + number * SECOND
        spans.add(("t", f"s{number}"), parent, name, start, start + SECOND // 2, recorded=True)
    return spans


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-1, 30), max_size=31), st.integers(1, 9))
def test_whatever_the_parents_are_nothing_is_lost_and_nothing_is_twice(parents, limit):
    parents = [parent if parent < len(parents) else -1 for parent in parents]
    tree = build(_spans(parents, names=[f"n{number % 3}" for number in range(len(parents))]), None)
    every = {tree.key(place) for place in range(len(parents))}
    window = tree.window(opened=every, fold=False, limit=1_000)
    assert sorted(row.key for row in window.rows) == sorted(every)
    assert tree.total == len(parents)
    assert sum(tree.inside[root] + 1 for root in tree.roots) == len(parents)
    parts = [
        tree.window(opened=every, fold=False, limit=limit, offset=at) for at in range(0, len(parents), limit)
    ]
    assert [row.key for part in parts for row in part.rows] == [row.key for row in window.rows]
    folded = tree.window(fold=True, limit=1_000)
    closed = sum(row.members + row.inside for row in folded.rows if not row.open)
    opened = sum(1 for row in folded.rows if row.open and row.members == 1)
    assert opened + closed >= len(parents)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-1, 12), min_size=1, max_size=13), st.integers(0, 12))
def test_what_lies_below_a_span_is_a_tree_even_in_a_circle(parents, top):
    parents = [parent if parent < len(parents) else -1 for parent in parents]
    top %= len(parents)
    tree = build(_spans(parents), top)
    below = {top}
    while more := {at for at, parent in enumerate(parents) if parent in below} - below:
        below |= more
    every = {tree.key(place) for place in range(len(parents))}
    window = tree.window(opened=every, fold=False, limit=1_000)
    assert sorted(row.key for row in window.rows) == sorted(tree.key(place) for place in below)
    assert tree.total == len(below)


def test_many_equal_siblings_are_one_line_that_opens():
    number = 300
    names = ["agent", *["ask" if at % 2 else "call" for at in range(number)]]
    spans = _spans([-1, *[0] * number], names=names)
    for place in range(1, number + 1, 2):
        spans.kinds[place] = "call"
        spans.verdicts[place] = ("nudge" if place == 101 else "allow", 1, True)
    spans.failed[7] = True
    tree = build(spans, None)
    window = tree.window()
    assert [(row.name, row.members, row.failed) for row in window.rows] == [
        ("agent", 1, 0), ("call", 150, 1), ("ask", 150, 0),
    ]  # fmt: skip
    group = next(row for row in window.rows if "nudge" in row.actions)
    assert group.members > FOLDED_FROM
    assert all(0 <= first <= last < BUCKETS for first, last, _ in group.pieces)
    assert "nudge" in {look for _, _, look in group.pieces}
    opened = tree.window(opened={group.key}, limit=1_000)
    assert opened.total == window.total + group.members
    shut = tree.window(closed={tree.key(0)})
    assert [row.name for row in shut.rows] == ["agent"]
    assert (shut.rows[0].inside, shut.rows[0].failed_inside, "nudge" in shut.rows[0].actions) == (
        number,
        1,
        True,
    )


def test_a_window_of_time_leaves_what_lies_in_it():
    names = ["agent", *["call"] * 20]
    tree = build(_spans([-1, *[0] * 20], names=names), None)
    since, until = START + 5 * SECOND, START + 8 * SECOND
    found = tree.window(since=since, until=until, limit=100)
    assert [row.start_ns for row in found.rows[1:]] == [START + at * SECOND for at in range(5, 9)]
    assert (found.first_ns, found.last_ns) == (since, until)
    assert tree.find("CALL", since=since, until=until).total == 4


def test_a_span_deep_down_is_found_and_its_line_opened():
    names = ["agent", *[f"part{at}" for at in range(250)], "deep"]
    spans = _spans([-1, *[0] * 250, 40], names=names)
    tree = build(spans, None)
    key = tree.key(251)
    assert key not in {row.key for row in tree.window(limit=1_000).rows}
    opened = set(tree.above(key))
    window = tree.window(opened=opened, at=key, limit=20)
    assert window.offset == 40
    assert key in {row.key for row in window.rows}
    assert [row.name for row in tree.find("deep").rows] == ["deep"]


def test_a_chain_ten_thousand_deep_is_walked():
    tree = build(_spans([at - 1 for at in range(10_000)]), None)
    assert tree.inside[0] == 9_999
    every = {tree.key(place) for place in range(10_000)}
    assert tree.window(opened=every, fold=False, offset=9_990).rows[-1].depth == 9_999


def test_the_statements_are_named_after_their_part():
    folder = Path(__file__).resolve().parents[2] / "replay"
    used = {
        word
        for path in (folder / "traces").glob("*.py")
        for word in path.read_text(encoding="utf-8").split('"')
        if word.startswith("traces_") and word != "traces_of"
    }
    assert used == {path.stem for path in (folder / "sql").glob("traces_*.sql")}
