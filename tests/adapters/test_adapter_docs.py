"""The Python examples of docs/adapters.md run, section by section, against the real frameworks."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from scripted import DONE, agents_model, langchain_model, pydantic_model

from loopscope.guard import ABORT_MARKER, GUIDANCE_MARKER, GuardPolicy
from loopscope.guard.adapters import LOOP_BLOCKED

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "adapters.md"
LOOP = [[("search_docs", {"query": "refunds"})]] * 5 + [DONE]


def sections() -> dict[str, list[str]]:
    """The Python blocks under each heading."""
    found: dict[str, list[str]] = {}
    for section in re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        found[section.split("\n", 1)[0]] = re.findall(
            r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL
        )
    return found


def search_docs(query: str) -> str:
    """Search the handbook."""
    return f"No documents found for: {query}"


@pytest.fixture(autouse=True)
def _policy_file(tmp_path, monkeypatch):
    GuardPolicy().to_file(tmp_path / "policy.toml")
    monkeypatch.chdir(tmp_path)


def execute(code: str, **names: Any) -> dict[str, Any]:
    """Run a block, which may await, with these names given; everything that it named."""
    space: dict[str, Any] = {"__name__": "example", **names}
    compiled = compile(code, str(DOCUMENT), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(compiled, space)
    if inspect.iscoroutine(result):

        async def main():
            await result

        asyncio.run(main())
    return space


def test_every_block_has_its_test():
    assert {heading: len(blocks) for heading, blocks in sections().items() if blocks} == {
        "A run": 2,
        "A decorator": 1,
        "The reasoned override": 1,
        "LangChain and LangGraph": 2,
        "Pydantic AI": 2,
        "OpenAI Agents SDK": 1,
        "MCP": 1,
    }


def test_a_run(capsys):
    first, second = sections()["A run"]
    names = execute(first)
    assert names["run"].outcome == LOOP_BLOCKED
    assert names["result"].content.startswith(f"No documents found for: refunds\n\n{ABORT_MARKER}")
    expected = re.search(r"print\(run\.explanation\)  # (.+)", first)
    assert expected is not None
    assert capsys.readouterr().out.strip() == expected[1]
    names = execute(second)
    assert names["call"].verdict.count == 1
    assert names["shown"] == "No documents found."


def test_the_decorator():
    names = execute(sections()["A decorator"][0])
    assert GUIDANCE_MARKER in names["shown"]


def test_the_reasoned_override():
    names = execute(sections()["The reasoned override"][0])
    assert names["messages"][0] == names["messages"][2] == "sent to ann"
    assert len(names["messages"]) == 3
    assert (names["call"].verdict.action, names["call"].verdict.count) == ("allow", 2)
    assert names["override"].stress > 0


def test_langchain():
    pytest.importorskip("langchain.agents", reason="langchain is not installed")
    names = execute(
        sections()["LangChain and LangGraph"][0], model=langchain_model(LOOP), search_docs=search_docs
    )
    assert names["state"]["loopscope_outcome"] == LOOP_BLOCKED
    assert names["state"]["messages"][-1].content == DONE


def test_langgraph():
    pytest.importorskip("langgraph.prebuilt", reason="langgraph is not installed")
    names = execute(
        sections()["LangChain and LangGraph"][1], model=langchain_model(LOOP), search_docs=search_docs
    )
    assert names["run"].outcome == LOOP_BLOCKED
    assert names["state"]["messages"][-1].content == DONE


@pytest.fixture
def awaited(monkeypatch):
    """run_sync without the event loop that it leaves open."""
    agents = pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
    monkeypatch.setattr(agents.Agent, "run_sync", lambda agent, prompt: asyncio.run(agent.run(prompt)))


@pytest.mark.usefixtures("awaited")
def test_pydantic_ai():
    block = sections()["Pydantic AI"][0]
    names = execute(block, model=pydantic_model(LOOP), search_docs=search_docs)
    assert names["result"].output == DONE
    assert names["result"].metadata["loopscope_outcome"] == LOOP_BLOCKED


@pytest.mark.usefixtures("awaited")
def test_pydantic_ai_when_the_model_goes_on(capsys):
    block = sections()["Pydantic AI"][0]
    execute(block, model=pydantic_model([*LOOP[:5], ["Once more.", *LOOP[0]]]), search_docs=search_docs)
    assert capsys.readouterr().out.endswith("for the same arguments Once more.\n")


@pytest.mark.usefixtures("awaited")
def test_a_pydantic_ai_toolset():
    block = sections()["Pydantic AI"][1]
    names = execute(block, model=pydantic_model(LOOP), search_docs=search_docs)
    assert ABORT_MARKER in str(names["result"].all_messages())


def test_openai_agents(capsys):
    pytest.importorskip("agents.testing", reason="openai-agents is not installed")
    from agents import set_tracing_disabled

    set_tracing_disabled(True)  # the SDK's own tracing, which would report to OpenAI
    block = sections()["OpenAI Agents SDK"][0]
    names = execute(block, model=agents_model(LOOP), search_docs=search_docs)
    assert names["run"].outcome == LOOP_BLOCKED
    assert names["result"].final_output == DONE
    execute(block, model=agents_model([*LOOP[:5], ["Once more.", *LOOP[0]]]), search_docs=search_docs)
    assert capsys.readouterr().out.endswith("for the same arguments Once more.\n")


def test_mcp():
    servers = pytest.importorskip("mcp.server.mcpserver", reason="mcp 2 is not installed")
    server = servers.MCPServer("handbook")
    server.tool()(search_docs)
    names = execute(sections()["MCP"][0], server=server)
    assert names["result"].content[0].text == "No documents found for: refunds"
    assert names["result"].content[-1].text.startswith(GUIDANCE_MARKER)
