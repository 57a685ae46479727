"""LoopGuard and GuardedToolset in real Pydantic AI agents, with scripted models."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip(
    "pydantic_ai.capabilities", reason="pydantic-ai is not installed (loopscope[pydantic-ai])"
)

from agreement import agreed
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolReturnPart, UserPromptPart
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.toolsets import FunctionToolset
from scripted import DONE, SEARCH, pydantic_model

from loopscope.collector import Store
from loopscope.guard import ABORT_MARKER, GUIDANCE_MARKER, GuardPolicy
from loopscope.guard.adapters import LOOP_BLOCKED, GuardedRun, LoopBlocked, guarded_tool
from loopscope.guard.adapters.pydantic_ai import GuardedToolset, LoopGuard

POLICY = GuardPolicy()
IMAGE = BinaryContent(b"\x89PNG", media_type="image/png")


class Item(BaseModel):
    number: int


def search(query: str) -> str:
    return "nothing"


def item(number: int) -> Item:
    return Item(number=number)


def chart(kind: str) -> list[object]:
    return [IMAGE, "a chart"]


def picture(kind: str) -> BinaryContent:
    return IMAGE


def noted(text: str) -> ToolReturn:
    return ToolReturn(text, metadata={"page": 1})


def record(number: int) -> ToolReturn:
    return ToolReturn({"number": number}, content=["see the picture", IMAGE])


def again(number: int) -> str:
    raise ModelRetry("try another number")


def strict(number: int) -> str:
    Item.model_validate({"number": "one"})
    return ""


def closed(number: int) -> str:
    raise ToolFailed("HTTP 422: no such number")


def broken(number: int) -> str:
    raise ConnectionError("refused")


TOOLS = [search, item, chart, picture, noted, record, again, strict, closed, broken]


@pytest.fixture(params=["instrumented", "plain"])
def agent(request, recorder):
    """Makes agents; once with Pydantic AI's own spans, once with the guard's."""

    def make(turns, *, tools=TOOLS, output_type=str, guard=None, name="helper", **options):
        guard = guard or LoopGuard(POLICY, tracer_provider=recorder.provider, **options)
        capabilities = [guard]
        if request.param == "instrumented":
            settings = InstrumentationSettings(tracer_provider=recorder.provider)
            capabilities.append(Instrumentation(settings=settings))
        return Agent(
            pydantic_model(turns),
            tools=tools,
            capabilities=capabilities,
            name=name,
            retries=9,
            output_type=output_type,
        )

    return make


def run(one):
    # Not run_sync: it leaves its event loop open.
    return asyncio.run(one.run("?"))


def returns(result):
    return [
        part
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart) and part.tool_name != "final_result"
    ]


def test_the_nudge_stands_behind_the_real_output(agent, recorder):
    result = run(agent([[SEARCH]] * 4 + [DONE]))
    contents = [part.content for part in returns(result)]
    assert contents[:2] == ["nothing", "nothing"]
    assert all(content.startswith(f"nothing\n\n{GUIDANCE_MARKER}") for content in contents[2:])
    assert result.output == DONE
    assert result.metadata == {"loopscope_outcome": None}
    assert agreed(recorder, POLICY) == [
        ("search", "allow", 1),
        ("search", "allow", 2),
        ("search", "nudge", 3),
        ("search", "nudge", 4),
    ]


def test_an_answer_after_the_block_stays_and_the_outcome_tells(agent, recorder):
    result = run(agent([[SEARCH]] * 5 + [DONE]))
    assert ABORT_MARKER in returns(result)[-1].content
    assert result.output == DONE
    assert result.metadata["loopscope_outcome"] == LOOP_BLOCKED
    assert agreed(recorder, POLICY)[-1] == ("search", "block", 5)
    assert recorder.spans()[0]["attributes"]["loopscope.guard.outcome"] == LOOP_BLOCKED


def test_an_answer_by_an_output_tool_stays(agent):
    turns = [[SEARCH]] * 5 + [[("final_result", {"number": 7})]]
    result = run(agent(turns, output_type=Item))
    assert result.output == Item(number=7)
    assert result.metadata["loopscope_outcome"] == LOOP_BLOCKED


def test_tools_asked_for_after_the_block_are_not_run(agent, recorder):
    with pytest.raises(LoopBlocked, match="5 times in a row") as caught:
        run(agent([[SEARCH]] * 5 + [["One more time.", SEARCH], "not reached"]))
    assert caught.value.answer == "One more time."
    assert len(agreed(recorder, POLICY)) == 5


def test_the_block_can_be_raised_at_once(agent, recorder):
    with pytest.raises(LoopBlocked):
        run(agent([[SEARCH]] * 5 + ["not reached"], on_block="raise"))
    assert agreed(recorder, POLICY)[-1] == ("search", "block", 5)


def test_on_block_is_checked():
    with pytest.raises(ValueError, match="on_block"):
        LoopGuard(on_block="end")


def test_parallel_calls(agent, recorder):
    result = run(agent([[SEARCH] * 3, [SEARCH] * 3, DONE]))
    assert len(returns(result)) == 6
    assert [action for _, action, _ in agreed(recorder, POLICY)] == [
        "allow",
        "allow",
        "nudge",
        "nudge",
        "block",
        "after_block",
    ]


def test_an_object_becomes_its_json_text_with_the_note_behind(agent, recorder):
    result = run(agent([[("item", {"number": 7})]] * 4 + [DONE]))
    assert returns(result)[0].content == Item(number=7)
    assert str(returns(result)[2].content).startswith(f'{{"number":7}}\n\n{GUIDANCE_MARKER}')
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]


def test_multimodal_content_gets_one_more_block(agent, recorder):
    result = run(agent([[("chart", {"kind": "bar"})]] * 4 + [DONE]))
    content = returns(result)[2].content
    assert content[:2] == [IMAGE, "a chart"]
    assert content[2]["text"].startswith(GUIDANCE_MARKER)
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]


def test_a_lone_picture_gets_one_more_block(agent, recorder):
    result = run(agent([[("picture", {"kind": "bar"})]] * 4 + [DONE]))
    content = returns(result)[2].content
    assert content[0] == IMAGE
    assert content[1]["text"].startswith(GUIDANCE_MARKER)
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]
    with Store(recorder.db).lease() as con:
        found = con.execute("SELECT recorded_verdict FROM tool_calls ORDER BY seq").fetchall()
    assert found == [(None,), (None,), ("nudge",), ("nudge",)]


def test_a_tool_return_with_more_content_gets_one_more_part(agent, recorder):
    result = run(agent([[("record", {"number": 1})]] * 4 + [DONE]))
    assert returns(result)[2].content == {"number": 1}
    said = [
        part.content
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, UserPromptPart) and isinstance(part.content, list)
    ]
    assert said[2][:-1] == said[0]
    assert said[2][-1].startswith(GUIDANCE_MARKER)
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]


def test_a_tool_return_keeps_its_other_parts(agent, recorder):
    result = run(agent([[("noted", {"text": "x"})]] * 4 + [DONE]))
    assert str(returns(result)[2].content).startswith(f"x\n\n{GUIDANCE_MARKER}")
    assert returns(result)[2].metadata == {"page": 1}
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]


def test_refused_arguments_are_counted_and_noted(agent, recorder):
    result = run(agent([[("item", {"number": "one"})]] * 4 + [DONE]))
    first, *_, last = returns(result)
    assert isinstance(first.content, list)
    assert first.content[0]["type"] == "int_parsing"
    text = first.model_response_str(wrap_if_error=False)
    assert last.content.startswith(f"{text}\n\n{GUIDANCE_MARKER}")
    assert {one.outcome for one in recorder.verdicts(POLICY)} == {"schema_error"}
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]


def test_arguments_refused_inside_of_the_tool_are_counted_and_noted(agent, recorder):
    result = run(agent([[("strict", {"number": 1})]] * 3 + [DONE]))
    assert GUIDANCE_MARKER in returns(result)[2].content
    assert [one.outcome for one in recorder.verdicts(POLICY)] == ["schema_error"] * 3
    assert agreed(recorder, POLICY)[-1] == ("strict", "nudge", 3)


def test_a_wish_to_be_asked_again_is_not_counted(agent, recorder):
    run(agent([[("again", {"number": 1})]] * 3 + [DONE]))
    assert {action for _, action, _ in agreed(recorder, POLICY)} == {"not_counted"}


def test_a_failure_that_the_tool_reports_is_judged_by_its_text(agent, recorder):
    result = run(agent([[("closed", {"number": 1})]] * 3 + [DONE]))
    assert [one.outcome for one in recorder.verdicts(POLICY)] == ["schema_error"] * 3
    assert GUIDANCE_MARKER in returns(result)[2].content
    assert agreed(recorder, POLICY)[-1] == ("closed", "nudge", 3)


def test_an_exception_goes_on(agent, recorder):
    with pytest.raises(ConnectionError):
        run(agent([[("broken", {"number": 1})], DONE]))
    assert agreed(recorder, POLICY) == [("broken", "not_counted", 0)]


def test_runs_at_the_same_time_do_not_mix(agent, recorder):
    guard = LoopGuard(POLICY, tracer_provider=recorder.provider)

    async def main():
        runs = (agent([[SEARCH]] * times + [DONE], guard=guard).run("?") for times in (2, 5, 4))
        return [result.metadata["loopscope_outcome"] for result in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == [None, LOOP_BLOCKED, None]
    assert len({one.run_id for one in recorder.verdicts(POLICY)}) == 3
    assert len(agreed(recorder, POLICY)) == 11


def test_an_agent_as_a_tool_is_a_run_of_its_own(agent, recorder):
    guard = LoopGuard(POLICY, tracer_provider=recorder.provider)
    inner = agent([[SEARCH]] * 3 + [DONE], guard=guard, name="researcher")

    async def research(ctx: RunContext, topic: str) -> str:
        return (await inner.run(topic)).output

    turns = [[SEARCH], [("research", {"topic": "refunds"})], [SEARCH], DONE]
    run(agent(turns, tools=[search, research], guard=guard, name="lead"))
    judged = recorder.verdicts(POLICY)
    assert [one.live for one in judged] == [one.replayed for one in judged]
    assert sorted((one.agent, one.tool, one.live[1]) for one in judged) == [
        ("lead", "research", 1),
        ("lead", "search", 1),
        ("lead", "search", 2),
        ("researcher", "search", 1),
        ("researcher", "search", 2),
        ("researcher", "search", 3),
    ]


def test_inside_of_a_guarded_run_that_run_is_the_agent_s(agent, recorder):
    policy = GuardPolicy(nudge_threshold=None, block_threshold=2)
    with GuardedRun(policy, tracer_provider=recorder.provider) as outer:
        result = run(agent([[SEARCH]] * 2 + [DONE]))
    assert outer.outcome == result.metadata["loopscope_outcome"] == LOOP_BLOCKED
    assert agreed(recorder, policy) == [("search", "allow", 1), ("search", "block", 2)]


def test_streamed_runs(agent, recorder):
    async def main():
        async with agent([[SEARCH]] * 3 + [DONE]).iter("?") as steps:
            async for _ in steps:
                pass
        return steps.result

    assert GUIDANCE_MARKER in returns(asyncio.run(main()))[2].content
    assert agreed(recorder, POLICY)[-1] == ("search", "nudge", 3)


def test_a_toolset_alone(recorder):
    toolset = GuardedToolset(FunctionToolset([search]), policy=POLICY, tracer_provider=recorder.provider)
    one = Agent(pydantic_model([[SEARCH]] * 5 + [DONE]), toolsets=[toolset], tools=[item])
    result = run(one)
    assert ABORT_MARKER in returns(result)[-1].content
    assert result.output == DONE
    assert [action for _, action, _ in agreed(recorder, POLICY)] == [
        "allow",
        "allow",
        "nudge",
        "nudge",
        "block",
    ]
    assert recorder.spans()[0]["attributes"]["loopscope.guard.outcome"] == LOOP_BLOCKED


def test_a_blocked_toolset_raises_in_the_next_turn_but_one():
    toolset = GuardedToolset(FunctionToolset([search]), policy=POLICY)
    one = Agent(pydantic_model([[SEARCH] * 3, [SEARCH] * 3, [SEARCH], DONE]), toolsets=[toolset])
    with pytest.raises(LoopBlocked):
        run(one)
    two = Agent(pydantic_model([[SEARCH], DONE]), toolsets=[toolset])
    assert run(two).output == DONE  # the next run starts from zero


def test_a_call_under_several_guards_is_judged_once(recorder):
    toolset = GuardedToolset(FunctionToolset([guarded_tool(search)]), policy=POLICY)
    guard = LoopGuard(POLICY, tracer_provider=recorder.provider)
    one = Agent(pydantic_model([[SEARCH]] * 3 + [DONE]), toolsets=[toolset], capabilities=[guard])
    result = run(one)
    assert returns(result)[2].content.count(GUIDANCE_MARKER) == 1
    assert agreed(recorder, POLICY)[-1] == ("search", "nudge", 3)
