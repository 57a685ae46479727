"""LoopGuardMiddleware in real LangChain agents and LangGraph graphs, with scripted models."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("langchain.agents", reason="langchain is not installed (loopscope[langchain])")

from agreement import agreed
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolErrorMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from scripted import DONE, SEARCH, langchain_model

from loopscope.guard import ABORT_MARKER, GUIDANCE_MARKER, GuardPolicy, LoopscopeError
from loopscope.guard.adapters import LOOP_BLOCKED, GuardedRun, LoopBlocked
from loopscope.guard.adapters.langchain import LoopGuardMiddleware

POLICY = GuardPolicy()
ASK = {"messages": [("user", "What is our refund policy?")]}


@tool
def search(query: str) -> str:
    """Search the handbook."""
    return "nothing"


@tool
def chart(kind: str) -> list[dict[str, str]]:
    """Draw."""
    return [{"type": "image", "url": "http://example.org/a.png"}]


@tool
def page(number: int) -> str:
    """Read a page."""
    return f"page {number}"


@tool
def broken(number: int) -> str:
    """Fail."""
    raise ConnectionError("refused")


@tool
def remember(fact: str) -> Command:
    """Answer by a state update."""
    return Command(update={"messages": [ToolMessage("kept", tool_call_id="c1")]})


TOOLS = [search, chart, page, broken]


def agent(turns, recorder=None, *, tools=TOOLS, checkpointer=None, name="helper", **options):
    provider = None if recorder is None else recorder.provider
    guard = LoopGuardMiddleware(options.pop("policy", POLICY), tracer_provider=provider, **options)
    return create_agent(
        langchain_model(turns), tools, middleware=[guard], name=name, checkpointer=checkpointer
    )


def outputs(state):
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def test_the_nudge_stands_behind_the_real_output(recorder):
    state = agent([[SEARCH]] * 4 + [DONE], recorder).invoke(ASK)
    contents = [message.content for message in outputs(state)]
    assert contents[:2] == ["nothing", "nothing"]
    assert all(content.startswith(f"nothing\n\n{GUIDANCE_MARKER}") for content in contents[2:])
    assert state["loopscope_outcome"] is None
    assert state["messages"][-1].content == DONE
    assert agreed(recorder, POLICY) == [
        ("search", "allow", 1),
        ("search", "allow", 2),
        ("search", "nudge", 3),
        ("search", "nudge", 4),
    ]


def test_an_answer_after_the_block_stays_and_the_outcome_tells(recorder):
    state = agent([[SEARCH]] * 5 + [DONE], recorder).invoke(ASK)
    assert ABORT_MARKER in outputs(state)[-1].content
    assert state["messages"][-1].content == DONE
    assert state["loopscope_outcome"] == LOOP_BLOCKED
    assert agreed(recorder, POLICY)[-1] == ("search", "block", 5)
    assert recorder.spans()[0]["attributes"]["loopscope.guard.outcome"] == LOOP_BLOCKED


def test_tools_asked_for_after_the_block_are_not_run(recorder):
    turns = [[SEARCH]] * 5 + [["One more time.", SEARCH, ("page", {"number": 1})], "not reached"]
    state = agent(turns, recorder).invoke(ASK)
    assert state["loopscope_outcome"] == LOOP_BLOCKED
    last = outputs(state)[-2:]
    assert [(message.tool_call_id, message.status) for message in last] == [("c6", "error"), ("c7", "error")]
    assert "the same result 5 times in a row" in last[0].content
    assert len(agreed(recorder, POLICY)) == 5
    # Every call in the history is answered.
    asked = {call["id"] for m in state["messages"] if isinstance(m, AIMessage) for call in m.tool_calls}
    assert asked == {message.tool_call_id for message in outputs(state)}


def test_the_run_can_end_without_another_request():
    state = agent([[SEARCH]] * 5 + ["not reached"], on_block="end").invoke(ASK)
    assert state["loopscope_outcome"] == LOOP_BLOCKED
    assert ABORT_MARKER in state["messages"][-1].content


def test_the_block_can_be_raised(recorder):
    with pytest.raises(LoopBlocked, match="5 times in a row"):
        agent([[SEARCH]] * 5 + ["not reached"], recorder, on_block="raise").invoke(ASK)
    assert agreed(recorder, POLICY)[-1] == ("search", "block", 5)


def test_on_block_is_checked():
    with pytest.raises(ValueError, match="on_block"):
        LoopGuardMiddleware(on_block="stop")


def test_parallel_calls_of_the_turn_of_the_block_run_to_their_end(recorder):
    state = agent([[SEARCH] * 3, [SEARCH, SEARCH, ("page", {"number": 1})], DONE], recorder).invoke(ASK)
    assert len(outputs(state)) == 6
    searches = [action for name, action, _ in agreed(recorder, POLICY) if name == "search"]
    assert searches == ["allow", "allow", "nudge", "nudge", "block"]
    assert state["messages"][-1].content == DONE


def test_content_blocks_get_one_more_block(recorder):
    state = agent([[("chart", {"kind": "bar"})]] * 4 + [DONE], recorder).invoke(ASK)
    contents = [message.content for message in outputs(state)]
    assert contents[2][:-1] == contents[0]
    assert contents[2][-1]["text"].startswith(GUIDANCE_MARKER)
    assert [action for _, action, _ in agreed(recorder, POLICY)] == ["allow", "allow", "nudge", "nudge"]


def test_refused_arguments_are_counted(recorder):
    state = agent([[("page", {"number": "one"})]] * 3 + [DONE], recorder).invoke(ASK)
    assert outputs(state)[0].status == "error"
    assert GUIDANCE_MARKER in outputs(state)[2].content
    assert [one.outcome for one in recorder.verdicts(POLICY)] == ["schema_error"] * 3
    assert agreed(recorder, POLICY)[-1] == ("page", "nudge", 3)


def test_an_unknown_tool_is_not_counted(recorder):
    agent([[("serch", {})]] * 3 + [DONE], recorder).invoke(ASK)
    assert {action for _, action, _ in agreed(recorder, POLICY)} == {"not_counted"}


def test_a_failing_tool_is_judged_and_its_exception_goes_on(recorder):
    with pytest.raises(ConnectionError):
        agent([[("broken", {"number": 1})]] * 3 + [DONE], recorder).invoke(ASK)
    assert agreed(recorder, POLICY) == [("broken", "not_counted", 0)]


@pytest.mark.parametrize("outermost", [True, False])
def test_errors_that_another_middleware_turns_into_messages(recorder, outermost):
    turns = [[("broken", {"number": 1})]] * 3 + [DONE]
    errors = ToolErrorMiddleware(lambda error, request: f"ConnectionError: {error}")
    guard = LoopGuardMiddleware(POLICY, tracer_provider=recorder.provider)
    middleware = [guard, errors] if outermost else [errors, guard]
    state = create_agent(langchain_model(turns), TOOLS, middleware=middleware).invoke(ASK)
    assert len(outputs(state)) == 3
    assert agreed(recorder, POLICY) == [("broken", "not_counted", 0)] * 3


def test_the_note_goes_into_the_message_of_a_state_update(recorder):
    turns = [[("remember", {"fact": "x"})]] * 3 + [DONE]

    class Renumber(AgentMiddleware):
        """The tool above answers as c1; let it answer the call that it was given."""

        def wrap_tool_call(self, request, handler):
            command = handler(request.override(tool_call={**request.tool_call, "id": "c1"}))
            message = command.update["messages"][0]
            return Command(
                update={"messages": [message.model_copy(update={"tool_call_id": request.tool_call["id"]})]}
            )

    guard = LoopGuardMiddleware(POLICY, tracer_provider=recorder.provider)
    state = create_agent(langchain_model(turns), [remember], middleware=[guard, Renumber()]).invoke(ASK)
    assert outputs(state)[2].content.startswith(f"kept\n\n{GUIDANCE_MARKER}")
    assert agreed(recorder, POLICY)[-1] == ("remember", "nudge", 3)


def test_async_runs(recorder):
    state = asyncio.run(agent([[SEARCH, SEARCH]] * 3 + [DONE], recorder).ainvoke(ASK))
    assert state["loopscope_outcome"] == LOOP_BLOCKED
    assert [action for _, action, _ in agreed(recorder, POLICY)] == [
        "allow",
        "allow",
        "nudge",
        "nudge",
        "block",
        "after_block",
    ]


def test_runs_at_the_same_time_do_not_mix():
    guard = LoopGuardMiddleware(POLICY)

    async def run(times):
        one = create_agent(langchain_model([[SEARCH]] * times + [DONE]), TOOLS, middleware=[guard])
        return (await one.ainvoke(ASK))["loopscope_outcome"]

    async def main():
        return await asyncio.gather(run(2), run(5), run(4), run(6))

    assert asyncio.run(main()) == [None, LOOP_BLOCKED, None, LOOP_BLOCKED]
    assert not guard._runs


def test_the_next_run_of_a_thread_starts_from_zero():
    one = agent([[SEARCH]] * 5 + [DONE] + [[SEARCH]] * 2 + [DONE], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    assert one.invoke(ASK, thread)["loopscope_outcome"] == LOOP_BLOCKED
    state = one.invoke(ASK, thread)
    assert state["loopscope_outcome"] is None
    assert GUIDANCE_MARKER not in str(outputs(state)[-1].content)


def test_an_interrupted_run_goes_on_with_its_counts(recorder):
    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return interrupt(question)

    turns = [[SEARCH]] * 2 + [[("ask", {"question": "?"})], [SEARCH], DONE]
    one = agent(turns, recorder, tools=[search, ask], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    one.invoke(ASK, thread)
    state = one.invoke(Command(resume="yes"), thread)
    assert GUIDANCE_MARKER in outputs(state)[-1].content
    # The interrupted execution has a span, but no result: replay does not count it either.
    judged = [one for one in recorder.spans() if "loopscope.guard.action" in one["attributes"]]
    assert [span["attributes"]["loopscope.guard.count"] for span in judged] == [1, 2, 1, 3]


def test_an_agent_as_a_tool_is_a_run_of_its_own(recorder):
    guard = LoopGuardMiddleware(POLICY, tracer_provider=recorder.provider)

    @tool
    def research(topic: str) -> str:
        """Let another agent look."""
        inner = create_agent(
            langchain_model([[SEARCH]] * 3 + [DONE]), [search], middleware=[guard], name="researcher"
        )
        return inner.invoke(ASK)["messages"][-1].content

    turns = [[SEARCH], [("research", {"topic": "refunds"})], [SEARCH], DONE]
    outer = create_agent(langchain_model(turns), [search, research], middleware=[guard], name="lead")
    state = outer.invoke(ASK)
    assert state["messages"][-1].content == DONE
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


def test_inside_of_a_guarded_run_that_run_is_the_agent_s(recorder):
    strict = GuardPolicy(nudge_threshold=None, block_threshold=2)
    with GuardedRun(strict, agent="outside", tracer_provider=recorder.provider) as run:
        state = agent([[SEARCH]] * 2 + [DONE]).invoke(ASK)
    assert run.outcome == state["loopscope_outcome"] == LOOP_BLOCKED
    assert agreed(recorder, strict) == [("search", "allow", 1), ("search", "block", 2)]


def test_spans_are_left_to_an_instrumentation_of_langchain(recorder):
    from langchain_core.callbacks import BaseCallbackHandler

    class Tracer(BaseCallbackHandler):
        pass

    Tracer.__module__ = "openinference.instrumentation.langchain._tracer"
    agent([[SEARCH], DONE], recorder).invoke(ASK, {"callbacks": [Tracer()]})
    assert recorder.spans() == []
    agent([[SEARCH], DONE], recorder, spans=True).invoke(ASK, {"callbacks": [Tracer()]})
    assert len(agreed(recorder, POLICY)) == 1


def test_a_tool_node_outside_of_a_run_says_what_to_do():
    guard = LoopGuardMiddleware()
    node = ToolNode([search], wrap_tool_call=guard.wrap_tool_call, handle_tool_errors=False)
    from langgraph.graph import START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    call = {"name": "search", "args": {"query": "x"}, "id": "c1", "type": "tool_call"}
    with pytest.raises(LoopscopeError, match="no run is open"):
        graph.compile().invoke({"messages": [AIMessage("", tool_calls=[call])]})


def test_the_policy_may_be_a_file(tmp_path):
    GuardPolicy(nudge_threshold=None, block_threshold=1).to_file(tmp_path / "policy.toml")
    state = agent([[SEARCH], DONE], policy=tmp_path / "policy.toml").invoke(ASK)
    assert state["loopscope_outcome"] == LOOP_BLOCKED


def test_agents_of_one_run_are_counted_apart(recorder):
    with GuardedRun(POLICY, tracer_provider=recorder.provider):
        for name in ("front", "back"):
            agent([[SEARCH]] * 2 + [DONE], name=name).invoke(ASK)
    judged = recorder.verdicts(POLICY)
    assert [one.live for one in judged] == [one.replayed for one in judged]
    assert [(one.agent, one.live[1]) for one in judged] == [
        ("front", 1),
        ("front", 2),
        ("back", 1),
        ("back", 2),
    ]


def test_a_run_continued_where_it_is_not_known_counts_anew(recorder):
    saver = InMemorySaver()

    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return interrupt(question)

    thread = {"configurable": {"thread_id": "t"}}
    first = [[SEARCH]] * 2 + [[("ask", {"question": "?"})]]
    agent(first, recorder, tools=[search, ask], checkpointer=saver).invoke(ASK, thread)
    second = agent([[SEARCH], DONE], recorder, tools=[search, ask], checkpointer=saver)
    state = second.invoke(Command(resume="yes"), thread)
    assert state["loopscope_outcome"] is None
    assert outputs(state)[-1].content == "nothing"
    spans = recorder.spans()
    assert [span["name"] for span in spans].count("invoke_agent helper") == 2
    counts = [span["attributes"].get("loopscope.guard.count") for span in spans if "tool" in span["name"]]
    assert counts == [1, 2, None, 1, 1]  # the interrupted call, and what became of it
