"""GuardedRun and @guarded_tool: outputs, outcomes, contexts, traces."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from agreement import agreed

from loopscope.guard import (
    ABORT_MARKER,
    GUIDANCE_MARKER,
    Action,
    DuplicateCallGuard,
    GuardPolicy,
    Guidance,
    LoopscopeError,
    Outcome,
    OutcomeRule,
    PolicyError,
    ToolPolicy,
    result_hash,
)
from loopscope.guard.adapters import (
    LOOP_BLOCKED,
    CallResult,
    GuardedRun,
    LoopBlocked,
    current_run,
    guarded_tool,
)

LADDER = ["allow", "allow", "nudge", "nudge", "block", "after_block"]


def repeat(run: GuardedRun, times: int, output: object = "nothing", name: str = "search") -> list[CallResult]:
    return [run.call(name, {"q": "x"}, lambda: output) for _ in range(times)]


# -- outputs ------------------------------------------------------------------------------------------


def test_text_gets_the_note_behind_the_whole_output():
    results = repeat(GuardedRun(), 6)
    assert [result.verdict.action for result in results] == LADDER
    assert [result.content for result in results[:2]] == ["nothing", "nothing"]
    for result in results[2:4]:
        assert str(result.content).startswith(f"nothing\n\n{GUIDANCE_MARKER}\n")
    assert str(results[4].content).startswith(f"nothing\n\n{ABORT_MARKER}\n")
    assert results[5].content == "nothing"


def test_content_blocks_get_one_more_block():
    blocks = [{"type": "image", "data": "…"}, {"type": "text", "text": "a chart"}]
    last = repeat(GuardedRun(), 3, blocks)[-1].content
    assert isinstance(last, list)
    assert last[:2] == blocks
    assert last[2]["text"].startswith(GUIDANCE_MARKER)
    assert len(blocks) == 2  # the tool's own list is left alone


@pytest.mark.parametrize(
    ("output", "text"),
    [({"b": 1, "a": [2]}, '{"a": [2], "b": 1}'), (None, "null"), (7, "7"), ([], "[]"), ("", "")],
)
def test_any_other_output_is_its_json_text(output, text):
    results = repeat(GuardedRun(), 3, output)
    assert results[0].content == text
    assert str(results[2].content).startswith(f"{text}\n\n{GUIDANCE_MARKER}")


def test_an_object_that_no_json_can_write_is_compared_by_its_contents():
    class Thing:
        def __init__(self, size):
            self.size = size

    run = GuardedRun()
    counts = [run.call("f", {}, lambda size=size: Thing(size)).verdict.count for size in (1, 1, 2)]
    assert counts == [1, 2, 1]


def test_the_wording_of_the_notes_can_be_replaced():
    run = GuardedRun(guidance=Guidance(nudge="Again: {count}.", block="Enough: {count}."))
    assert str(repeat(run, 3)[-1].content).endswith("Again: 3.")


# -- outcomes -----------------------------------------------------------------------------------------


class RefusedError(Exception):
    def __init__(self, **attributes: object) -> None:
        super().__init__("refused")
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ConnectionError("refused"), Outcome.GENERAL_TOOL_ERROR),
        (RefusedError(status_code=422), Outcome.SCHEMA_ERROR),
        (RefusedError(response=SimpleNamespace(status_code=400)), Outcome.SCHEMA_ERROR),
        (RefusedError(response=SimpleNamespace(status_code=503)), Outcome.GENERAL_TOOL_ERROR),
        (RefusedError(error=SimpleNamespace(code=-32602)), Outcome.SCHEMA_ERROR),
        (RefusedError(error=SimpleNamespace(code=-32603)), Outcome.GENERAL_TOOL_ERROR),
        (RefusedError(error=SimpleNamespace(code="E1"), status_code=True), Outcome.GENERAL_TOOL_ERROR),
    ],
)
def test_an_exception_is_told_to_the_model_and_judged(recorder, error, outcome):
    def fail():
        raise error

    policy = GuardPolicy()
    with GuardedRun(policy, tracer_provider=recorder.provider) as run:
        results = [run.call("search", {"q": "x"}, fail, call_id=f"c{number}") for number in range(3)]
    assert {result.is_error for result in results} == {True}
    assert str(results[0].content) == f"{type(error).__name__}: refused"
    assert [one.outcome for one in recorder.verdicts(policy)] == [outcome] * 3
    counted = outcome is Outcome.SCHEMA_ERROR
    assert [action for _, action, _ in agreed(recorder, policy)] == (
        ["allow", "allow", "nudge"] if counted else ["not_counted"] * 3
    )
    assert (GUIDANCE_MARKER in str(results[2].content)) is counted


def test_a_failure_envelope_in_the_output_is_a_failure():
    result = GuardedRun().call("f", {}, lambda: {"isError": True, "content": "no such page"})
    assert result.is_error
    assert result.verdict.action is Action.NOT_COUNTED


def test_what_is_not_an_exception_passes_through_and_is_judged():
    run = GuardedRun()
    with pytest.raises(KeyboardInterrupt), run.tool_call("f", {}) as call:
        raise KeyboardInterrupt
    assert call.verdict.action is Action.NOT_COUNTED


def test_control_flow_is_not_judged():
    run = GuardedRun()
    with pytest.raises(LookupError), run.tool_call("f", {}, control_flow=(LookupError,)) as call:
        raise LookupError
    assert call.verdict is None


def test_a_call_is_judged_once():
    with GuardedRun().tool_call("f", {}) as call:
        call.returned("x")
        with pytest.raises(RuntimeError, match="judged already"):
            call.returned("x")


def test_the_outcome_of_a_run():
    run = GuardedRun(GuardPolicy(nudge_threshold=None, block_threshold=2))
    assert run.outcome is None
    assert run.explanation is None
    run.check()
    repeat(run, 2)
    assert run.outcome == LOOP_BLOCKED
    assert run.explanation == '"search" gave the same result 2 times in a row for the same arguments'
    with pytest.raises(LoopBlocked, match="2 times in a row") as caught:
        run.check()
    assert caught.value.run is run


def test_the_policy_may_be_a_file(tmp_path):
    file = tmp_path / "policy.toml"
    policy = GuardPolicy(tools={"search": ToolPolicy(exempt=True)})
    policy.to_file(file)
    assert GuardedRun(file).policy == policy
    assert [result.verdict.action for result in repeat(GuardedRun(file), 4)] == ["allow"] * 4
    with pytest.raises(PolicyError, match="missing"):
        GuardedRun(tmp_path / "missing.toml")


# -- contexts -----------------------------------------------------------------------------------------


@guarded_tool
def search(q: str, page: int = 1) -> str:
    return "nothing"


@guarded_tool(name="lookup")
async def find(q: str) -> str:
    await asyncio.sleep(0)
    return "nothing"


def test_the_decorator_finds_the_open_run():
    assert search("x") == "nothing"
    assert current_run() is None
    with GuardedRun() as run:
        assert current_run() is run
        shown = [search("x"), search(q="x"), search("x")]
    assert current_run() is None
    assert GUIDANCE_MARKER in shown[2]
    assert search("x") == "nothing"


def test_the_decorator_names_arguments_as_the_function_does():
    class Tools:
        @guarded_tool
        def read(self, path, *parts, **options):
            return "text"

    with GuardedRun() as run:
        tools = Tools()
        for _ in range(2):
            tools.read("a", "b", mode="r")
        Tools().read("a", "b", mode="r")  # another object, the same call
        verdict = run.guard.observe(
            tool_name="read",
            arguments={"mode": "r", "parts": ["b"], "path": "a"},
            output="text",
            outcome=Outcome.SUCCESS,
        )
    assert verdict.count == 4


def test_the_decorator_lets_exceptions_through_and_judges_them():
    @guarded_tool
    def fail(code):
        raise RefusedError(status_code=code)

    with GuardedRun() as run:
        for _ in range(5):
            with pytest.raises(RefusedError):
                fail(422)
        with pytest.raises(TypeError):
            fail()
    assert run.blocked


def test_the_decorator_can_put_the_note_elsewhere():
    @guarded_tool(note_into=lambda output, note: {**output, "hint": note})
    def status():
        return {"state": "busy"}

    with GuardedRun():
        shown = [status() for _ in range(3)]
    assert shown[0] == {"state": "busy"}
    assert shown[2]["state"] == "busy"
    assert shown[2]["hint"].startswith(GUIDANCE_MARKER)


def test_runs_in_parallel_tasks_do_not_mix():
    async def agent(times):
        with GuardedRun() as run:
            for _ in range(times):
                await find("x")
        return run

    async def main():
        return await asyncio.gather(agent(2), agent(5), agent(3))

    runs = asyncio.run(main())
    assert [run.outcome for run in runs] == [None, LOOP_BLOCKED, None]


def test_parallel_calls_of_one_run_count_once_each():
    async def main():
        with GuardedRun() as run:
            shown = await asyncio.gather(*(find("x") for _ in range(6)))
        return run, shown

    run, shown = asyncio.run(main())
    assert sum(GUIDANCE_MARKER in text for text in shown) == 2
    assert sum(ABORT_MARKER in text for text in shown) == 1
    assert run.escalation.tool_name == "lookup"


def test_threads_count_into_the_run_of_their_context(recorder):
    policy = GuardPolicy(nudge_threshold=None, block_threshold=20)
    barrier = threading.Barrier(4)

    def work(run):
        barrier.wait()
        for _ in range(5):
            run.call("search", {"q": "x"}, lambda: "nothing")

    with GuardedRun(policy, tracer_provider=recorder.provider) as run:
        contexts = [contextvars.copy_context() for _ in range(2)]
        with ThreadPoolExecutor(4) as pool:
            # Two with the context of the run, two bare ones: spans belong to the run all the same.
            jobs = [pool.submit(context.run, work, run) for context in contexts]
            jobs += [pool.submit(work, run) for _ in range(2)]
        for job in jobs:
            job.result()
    assert run.blocked
    verdicts = agreed(recorder, policy)
    assert [count for _, _, count in verdicts] == list(range(1, 21))
    assert len({one.run_id for one in recorder.verdicts(policy)}) == 1


def test_a_run_is_opened_once():
    with GuardedRun() as run, pytest.raises(LoopscopeError, match="open already"):
        run.__enter__()


def test_a_nested_run_counts_for_itself_and_is_silent_after_a_block(recorder):
    policy = GuardPolicy()
    with GuardedRun(policy, agent="outer", tracer_provider=recorder.provider) as outer:
        repeat(outer, 2)
        with outer.tool_call("ask", {}) as call:
            with outer.nested("inner") as inner:
                repeat(inner, 2)
            call.returned("done")
        repeat(outer, 3)
        with outer.tool_call("ask", {}) as call:
            with outer.nested("inner") as silent:
                repeat(silent, 2)
            call.returned("done")
    assert inner.outcome is None
    assert silent.outcome == LOOP_BLOCKED
    assert silent.explanation == "the run that this one is part of was blocked"
    assert agreed(recorder, policy) != []
    runs = {one.run_id: one.agent for one in recorder.verdicts(policy)}
    assert sorted(runs.values()) == ["inner", "inner", "outer"]


def test_a_shadow_run_nested_behind_a_block_is_judged_as_replay_judges_it(recorder):
    policy = GuardPolicy(shadow=True)
    with GuardedRun(policy, agent="outer", tracer_provider=recorder.provider) as outer:
        repeat(outer, 5)
        with outer.tool_call("ask", {}) as call:
            with outer.nested("inner") as inner:
                repeat(inner, 2)
            call.returned("done")
    assert inner.outcome is None
    assert inner.guard.after_block
    actions = {(one.agent, one.tool): one.live for one in recorder.verdicts(policy)}
    assert actions["inner", "search"] == ("after_block", 0)
    agreed(recorder, policy)


def test_a_tool_inside_of_its_own_wrapper_is_judged_once():
    with GuardedRun() as run:
        for _ in range(2):
            with run.tool_call("search", {"q": "x"}) as call:
                call.returned(search("x"))
            assert call.verdict.action is Action.ALLOW
            with run.tool_call("server_search", {"q": "x"}) as call:
                call.returned(search("x"))
        assert call.verdict.count == 2


# -- traces -------------------------------------------------------------------------------------------


def test_a_run_makes_spans_for_itself_and_its_calls(recorder):
    policy = GuardPolicy()
    with GuardedRun(policy, agent="helper", tracer_provider=recorder.provider) as run:
        for number in range(6):
            run.call("search", {"q": "ü"}, lambda: "nothing", call_id=f"c{number}")
    assert [action for _, action, _ in agreed(recorder, policy)] == LADDER
    agent, *calls = recorder.spans()
    hashes = [call["attributes"].get("loopscope.guard.result_hash") for call in calls]
    assert hashes == [None, None, *[result_hash("nothing")] * 3, None]  # beside the notes
    assert agent["name"] == "invoke_agent helper"
    assert agent["attributes"]["loopscope.guard.outcome"] == LOOP_BLOCKED
    assert agent["attributes"]["loopscope.guard.blocked_tool"] == "search"
    assert {call["parent_span_id"] for call in calls} == {agent["span_id"]}
    assert calls[0]["attributes"] == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "c0",
        "gen_ai.agent.name": "helper",
        "gen_ai.tool.call.arguments": '{"q": "ü"}',
        "gen_ai.tool.call.result": "nothing",
        "loopscope.guard.action": "allow",
        "loopscope.guard.count": 1,
        "loopscope.guard.certainty": "certain",
        "loopscope.guard.policy_hash": policy.policy_hash,
    }


def test_a_run_that_is_not_blocked_has_no_outcome(recorder):
    with GuardedRun(tracer_provider=recorder.provider) as run:
        repeat(run, 1)
    assert "loopscope.guard.outcome" not in recorder.spans()[0]["attributes"]


def test_the_spans_of_a_framework_are_used(recorder):
    tracer = recorder.provider.get_tracer("framework")
    with (
        tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}),
        GuardedRun(tracer_provider=recorder.provider) as run,
    ):
        for _ in range(3):
            with tracer.start_as_current_span(
                "tool",
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "search",
                    "gen_ai.tool.call.arguments": "{}",
                },
            ) as span:
                with run.tool_call("search", {}) as call:
                    output = call.returned("nothing")
                span.set_attribute("gen_ai.tool.call.result", output)
    assert [span["name"] for span in recorder.spans()] == ["agent", "tool", "tool", "tool"]
    assert [count for _, _, count in agreed(recorder, GuardPolicy())] == [1, 2, 3]


def test_a_tool_span_of_another_call_is_not_taken(recorder):
    tracer = recorder.provider.get_tracer("framework")
    marks = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "research"}
    with (
        tracer.start_as_current_span("tool", attributes=marks),
        GuardedRun(tracer_provider=recorder.provider),
    ):
        search("x")
    named = [span["attributes"].get("gen_ai.tool.name") for span in recorder.spans()]
    assert named == ["research", None, "search"]


def test_without_spans_of_its_own_a_verdict_is_an_event(recorder):
    tracer = recorder.provider.get_tracer("app")
    with tracer.start_as_current_span("work"), GuardedRun(spans=False) as run:
        run.call("search", {}, lambda: "nothing", call_id="c1")
    (span,) = recorder.spans()
    (event,) = span["events"]
    assert event["name"] == "loopscope.guard.verdict"
    assert event["attributes"]["gen_ai.tool.name"] == "search"
    assert event["attributes"]["gen_ai.tool.call.id"] == "c1"
    assert event["attributes"]["loopscope.guard.action"] == "allow"


@pytest.mark.parametrize("by_environment", [True, False])
def test_content_can_be_left_out(recorder, monkeypatch, by_environment):
    if by_environment:
        monkeypatch.setenv("LOOPSCOPE_CAPTURE_CONTENT", "false")

    def fail():
        raise ConnectionError("secret")

    with GuardedRun(
        tracer_provider=recorder.provider, capture_content=None if by_environment else False
    ) as run:
        run.call("search", {"q": "secret"}, lambda: "secret")
        run.call("search", {"q": "secret"}, fail)
    spans = recorder.spans()
    assert "secret" not in str(spans)
    assert spans[1]["attributes"]["loopscope.guard.action"] == "allow"
    assert spans[2]["attributes"]["error.type"] == "ConnectionError"


def test_an_exception_that_ends_a_run_is_on_its_span(recorder):
    with pytest.raises(ValueError, match="no model"), GuardedRun(tracer_provider=recorder.provider):
        raise ValueError("no model")
    (span,) = recorder.spans()
    assert span["status_code"] == 2
    assert span["attributes"]["error.type"] == "ValueError"


def _stop(run):
    repeat(run, 1)
    run.check()


def test_a_block_that_is_raised_is_no_error_of_the_run(recorder):
    policy = GuardPolicy(nudge_threshold=None, block_threshold=1)
    run = GuardedRun(policy, tracer_provider=recorder.provider)
    with pytest.raises(LoopBlocked), run:
        _stop(run)
    span = recorder.spans()[0]
    assert span["status_code"] == 0
    assert span["attributes"]["loopscope.guard.outcome"] == LOOP_BLOCKED


def test_text_that_no_exporter_can_encode_is_written_all_the_same(recorder):
    with GuardedRun(tracer_provider=recorder.provider) as run:
        result = run.call("search", {"q": "\ud800"}, lambda: "x\udfff")
    assert result.content == "x\udfff"
    assert recorder.spans()[1]["attributes"]["gen_ai.tool.call.result"] == "x\\udfff"


PROBE = """
import sys
before = set(sys.modules)
from loopscope.guard.adapters import GuardedRun
with GuardedRun() as run:
    for _ in range(5):
        run.call("f", {}, lambda: "x")
print(*sorted(set(sys.modules) - before))
"""


def loaded(code: str) -> set[str]:
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_neither_a_framework_nor_opentelemetry_is_imported():
    foreign = {name for name in loaded(PROBE) if name.split(".")[0] not in sys.stdlib_module_names}
    assert foreign
    assert {name for name in foreign if not name.startswith("loopscope.guard")} <= {"loopscope"}


def test_the_guard_itself_does_not_import_its_adapters():
    assert not any("adapters" in name for name in loaded("import sys, loopscope.guard; print(*sys.modules)"))


# -- other policies -----------------------------------------------------------------------------------


def test_in_shadow_mode_nothing_changes_and_everything_is_written_down(recorder):
    policy = GuardPolicy(shadow=True)
    with GuardedRun(policy, tracer_provider=recorder.provider) as run:
        results = repeat(run, 6)
    assert {result.content for result in results} == {"nothing"}
    assert run.outcome is None
    assert [action for _, action, _ in agreed(recorder, policy)] == LADDER
    agent, *calls = recorder.spans()
    assert "loopscope.guard.outcome" not in agent["attributes"]
    assert {call["attributes"]["loopscope.guard.shadow"] for call in calls} == {True}


KNOBS = {
    "error thresholds": GuardPolicy(error_nudge_threshold=2, error_block_threshold=4),
    "ignored argument": GuardPolicy(metadata_keys=["page"]),
    "ignored result key": GuardPolicy(ignored_result_keys=["took"]),
    "ignored pattern": GuardPolicy(ignored_result_patterns=["took.: [0-9]+"]),
    "resets": GuardPolicy(tools={"write": ToolPolicy(resets=True)}),
    "exempt": GuardPolicy(tools={"search": ToolPolicy(exempt=True)}),
    "shadow": GuardPolicy(shadow=True, block_threshold=3, nudge_threshold=2),
}


@pytest.mark.parametrize("knob", KNOBS)
def test_every_knob_counts_alike_live_and_offline(recorder, knob):
    def fail(text):
        raise ConnectionError(text)

    with GuardedRun(KNOBS[knob], tracer_provider=recorder.provider) as run:
        for number in range(5):
            run.call("search", {"q": "x", "page": number % 2}, lambda: {"hits": [], "took": 12})
            run.call("read", {"q": "x"}, lambda number=number: {"text": "abc", "took": number})
            if number % 2:
                run.call("write", {"q": "x"}, lambda: "written")
            run.call("fetch", {"q": "x"}, lambda: fail("refused"))
            run.call("fetch", {"q": "y"}, lambda number=number: fail(f"refused {number // 3}"))
    assert agreed(recorder, KNOBS[knob])


RULES = GuardPolicy(
    outcome_rules=[
        OutcomeRule(tool="grep", error_type="ExitError", outcome=Outcome.SUCCESS),
        OutcomeRule(http_status=409, outcome=Outcome.SCHEMA_ERROR),
        OutcomeRule(text_pattern="no such column", outcome=Outcome.SCHEMA_ERROR),
        OutcomeRule(text_pattern="Error", on_success=True, outcome=Outcome.GENERAL_TOOL_ERROR),
        OutcomeRule(error_type="tool_error", tool="told", outcome=Outcome.SCHEMA_ERROR),
    ]
)


class ExitError(Exception):
    status_code = None


class ConflictError(Exception):
    status_code = 409


def test_outcome_rules_count_alike_live_and_offline(recorder):
    def fail(error):
        raise error

    with GuardedRun(RULES, tracer_provider=recorder.provider) as run:
        for _ in range(3):
            grep = run.call("grep", {"q": "x"}, lambda: fail(ExitError("exit 1")))
            other = run.call("sed", {"q": "x"}, lambda: fail(ExitError("exit 1")))
            conflict = run.call("put", {"q": "x"}, lambda: fail(ConflictError("taken")))
            query = run.call("sql", {"q": "x"}, lambda: fail(RuntimeError("no such column: a")))
            lead = run.call("book", {"q": "x"}, lambda: "Error: no seats")
            word = run.call("book", {"q": "y"}, lambda: "No Error")
            block = run.call("book", {"q": "z"}, lambda: [{"type": "text", "text": "Error: full"}])
            with run.tool_call("told", {"q": "x"}) as told:
                told.returned("exit 2", failed=True)
    nudged = [one.verdict.action for one in (grep, conflict, query, word, told) if one.verdict is not None]
    assert nudged == [Action.NUDGE] * 5
    assert [one.verdict.action for one in (other, lead, block)] == [Action.NOT_COUNTED] * 3
    assert lead.is_error
    assert not word.is_error
    assert agreed(recorder, RULES)


def test_one_guard_for_several_runs(recorder):
    guard = DuplicateCallGuard(GuardPolicy(scope="session"))
    for _ in range(2):
        with GuardedRun(guard=guard) as run:
            repeat(run, 2)
            with run.nested() as inner:
                repeat(inner, 1)
    assert run.outcome == inner.outcome == LOOP_BLOCKED
    with pytest.raises(ValueError, match="not both"):
        GuardedRun(GuardPolicy(), guard=guard)
