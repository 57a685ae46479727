"""Runs, agents, sessions and the order of counting."""

from __future__ import annotations

import pytest
from derive_tools import TRACE, agent, asks, chat, span, tool

from loopscope.collector._derive import derive_trace
from loopscope.guard import scope_key


def run_of(*spans, **options):
    """(run_id, run_source, parent_run_id) of the only call."""
    (call,) = derive_trace(list(spans), **options).tool_calls
    return call.run_id, call.run_source, call.parent_run_id


def test_the_nearest_agent_span_is_the_run() -> None:
    root = agent("planner")
    step = span("step", parent=root)
    call = tool(parent=step)
    assert run_of(root, step, call) == (f"{TRACE}/{root.span_id}", "agent_span", None)


def test_a_nested_agent_is_a_run_of_its_own() -> None:
    outer = agent("planner")
    inner = agent("researcher", parent=outer)
    call = tool(parent=inner)
    assert run_of(outer, inner, call) == (
        f"{TRACE}/{inner.span_id}",
        "agent_span",
        f"{TRACE}/{outer.span_id}",
    )


@pytest.mark.parametrize("inner_name", ["support", None])
def test_two_spans_of_one_invocation_are_one_run(inner_name: str | None) -> None:
    outer = agent("support")
    wrapper = span("wrapper", parent=outer)
    inner = agent(inner_name, parent=wrapper)
    call = tool(parent=inner)
    derived = derive_trace([outer, wrapper, inner, call]).tool_calls[0]
    assert derived.run_id == f"{TRACE}/{outer.span_id}"
    assert derived.agent_name == "support"


@pytest.mark.parametrize("between", [tool("ask_support"), chat()])
def test_an_agent_called_again_through_a_tool_or_model_is_a_new_run(between) -> None:
    outer = agent("support")
    between.parent_span_id = outer.span_id
    inner = agent("support", parent=between)
    call = tool("search", parent=inner)
    calls = {c.tool_name: c for c in derive_trace([outer, between, inner, call]).tool_calls}
    assert calls["search"].run_id == f"{TRACE}/{inner.span_id}"
    assert calls["search"].parent_run_id == f"{TRACE}/{outer.span_id}"


def test_attempts_side_by_side_are_runs_of_their_own() -> None:
    root = span("retry")
    first, second = agent(parent=root), agent(parent=root)
    calls = [tool(parent=first), tool(parent=second)]
    assert len({c.run_id for c in derive_trace([root, first, second, *calls]).tool_calls}) == 2


def test_without_an_agent_span_the_conversation_is_the_run() -> None:
    call = tool(attrs={"session.id": "s-1"})
    assert run_of(call) == ("conversation:s-1", "conversation", None)


def test_a_conversation_id_is_inherited_then_taken_from_anywhere() -> None:
    root = span("root", attrs={"gen_ai.conversation.id": "c-1"})
    other = span("other", attrs={"session.id": "c-2"})
    below = tool(parent=root)
    beside = tool("beside", parent=span("lonely"))
    calls = {c.tool_name: c for c in derive_trace([other, beside, root, below]).tool_calls}
    assert calls["search"].session_id == "c-1"
    assert calls["beside"].session_id == "c-1"  # the earliest span that has one


def test_thread_id_in_openinference_metadata() -> None:
    call = tool(attrs={"metadata": '{"thread_id": "t-9", "langgraph_step": 3}'})
    assert run_of(call)[0] == "conversation:t-9"


def test_without_anything_the_trace_is_the_run() -> None:
    assert run_of(tool()) == (TRACE, "trace", None)


def mcp_call(session: str, request: str, **fields):
    attrs = {"mcp.method.name": "tools/call", "mcp.session.id": session, "jsonrpc.request.id": request}
    return tool(attrs=attrs, **fields)


def test_an_mcp_session_that_outlives_one_request_is_the_run() -> None:
    calls = [mcp_call("m-1", "1"), mcp_call("m-1", "2")]
    assert {c.run_id for c in derive_trace(calls).tool_calls} == {"mcp_session:m-1"}
    assert {c.run_source for c in derive_trace(calls).tool_calls} == {"mcp_session"}


def test_an_mcp_session_of_one_request_says_nothing() -> None:
    calls = [mcp_call("m-1", "1"), mcp_call("m-2", "2")]
    assert {c.run_id for c in derive_trace(calls).tool_calls} == {TRACE}
    # The client's and the server's span of one request are not two requests.
    client = mcp_call("m-3", "7")
    assert run_of(client, mcp_call("m-3", "7", parent=client))[1] == "trace"
    # Other traces may know better.
    assert run_of(mcp_call("m-4", "1"), mcp_sessions={"m-4"}) == ("mcp_session:m-4", "mcp_session", None)


def test_a_given_run_id_beats_everything() -> None:
    root = agent(attrs={"loopscope.run.id": "sim-7", "gen_ai.conversation.id": "c"})
    call = tool(parent=root)
    assert run_of(root, call) == ("sim-7", "transcript", None)
    other = tool(parent=root, attrs={"loopscope.run.id": "sim-8"})
    assert run_of(root, other)[0] == "sim-8"


def test_run_ids_of_different_sources_cannot_collide() -> None:
    trace_as_conversation = tool(attrs={"session.id": TRACE})
    assert run_of(trace_as_conversation)[0] != run_of(tool())[0]


def test_the_agent_of_a_call() -> None:
    root = agent("planner")
    own = tool("own", parent=root, attrs={"gen_ai.agent.name": "worker"})
    step = span("step", parent=root)
    inherited = tool("inherited", parent=step)
    calls = {c.tool_name: c for c in derive_trace([root, own, step, inherited]).tool_calls}
    assert calls["own"].agent_name == "worker"
    assert calls["inherited"].agent_name == "planner"


def test_a_graph_node_id_on_a_tool_span_is_no_agent() -> None:
    call = tool(attrs={"graph.node.id": "tool_search_3936501673521187286"})
    assert derive_trace([call]).tool_calls[0].agent_name is None
    root = agent(None, attrs={"graph.node.id": "strands_agent"})
    assert derive_trace([root, tool(parent=root)]).tool_calls[0].agent_name == "strands_agent"


def test_an_agent_span_without_name_may_be_named_after_it() -> None:
    root = span("support.run", attrs={"openinference.span.kind": "AGENT"})
    assert derive_trace([root, tool(parent=root)]).tool_calls[0].agent_name == "support"


def test_calls_are_counted_in_the_order_in_which_they_end() -> None:
    root = agent()
    slow = tool("slow", parent=root, at=(1, 9))
    fast = tool("fast", parent=root, at=(2, 3))
    same = tool("same", parent=root, at=(1.5, 3))
    never = tool("never", parent=root, ended=False)
    calls = {c.tool_name: c for c in derive_trace([root, slow, fast, same, never]).tool_calls}
    assert {name: call.seq for name, call in calls.items()} == {
        "same": 1,
        "fast": 2,
        "slow": 3,
        "never": None,
    }
    assert (calls["never"].outcome, calls["never"].end_ns) == (None, None)


def test_each_run_counts_for_itself() -> None:
    first, second = agent("a"), agent("b")
    spans = [first, second, tool(parent=first), tool(parent=second), tool(parent=first)]
    assert sorted((c.run_id, c.seq) for c in derive_trace(spans).tool_calls) == [
        (f"{TRACE}/{first.span_id}", 1),
        (f"{TRACE}/{first.span_id}", 2),
        (f"{TRACE}/{second.span_id}", 1),
    ]


def test_a_started_agent_span_gives_a_run_to_calls_and_no_call() -> None:
    root = agent(ended=False)
    assert derive_trace([root]).tool_calls == []
    assert run_of(root, tool(parent=root))[0] == f"{TRACE}/{root.span_id}"


def test_scope_key_is_that_of_the_guard() -> None:
    root = agent("support")
    (call,) = derive_trace([root, tool(parent=root)]).tool_calls
    assert call.fingerprint is not None
    assert call.scope_key == scope_key(call.run_id, "support", call.fingerprint)


def test_turns_are_those_of_the_answers_that_asked() -> None:
    root = agent()
    first = chat([], [asks("a"), asks("b", arguments={"q": "y"})], parent=root)
    one, two = tool(parent=root, call_id="a"), tool(parent=root, call_id="b", arguments='{"q": "y"}')
    refused = chat([], None, parent=root, status=2)
    second = chat([], [asks("c")], parent=root)
    three = tool(parent=root, call_id="c")
    derived = derive_trace([root, first, one, two, refused, second, three])
    assert [call.turn for call in derived.tool_calls] == [1, 1, 2]
    assert [request.turn for request in derived.llm_requests] == [1, None, 2]


def test_spans_of_several_traces_do_not_mix() -> None:
    calls = [tool(), tool(trace_id="f" * 32)]
    derived = derive_trace(calls).tool_calls
    assert [c.run_id for c in derived] == [TRACE, "f" * 32]
    assert [c.seq for c in derived] == [1, 1]


def test_the_agent_that_only_metadata_names() -> None:
    langchain = "openinference.instrumentation.langchain"
    metadata = '{"lc_agent_name": "support", "session_id": "s"}'
    root = span(
        "model", attrs={"openinference.span.kind": "CHAIN", "metadata": metadata}, scope_name=langchain
    )
    call = tool(parent=root)
    other = tool("fetch", parent=root, attrs={"metadata": '{"lc_agent_name": "worker"}'})
    named = tool("named", parent=root, attrs={"gen_ai.agent.name": "own"})
    odd = tool("odd", attrs={"metadata": '["lc_agent_name"]'})
    calls = {c.tool_name: c for c in derive_trace([root, call, other, named, odd]).tool_calls}
    names = {name: c.agent_name for name, c in calls.items()}
    assert names == {"search": "support", "fetch": "worker", "named": "own", "odd": None}
    assert {c.run_id for c in calls.values()} == {"conversation:s"}
