"""A clean run: a research agent searches, reads what it finds, and answers. Nothing repeats."""

import asyncio
import json

from _model import Call, Say, ScriptedModel
from _recording import Recording
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

recording = Recording("research_clean", service="research-desk", version="1.2.0")
LlamaIndexInstrumentor().instrument(tracer_provider=recording.provider)

PAPERS = {
    "P-14": "Heat pumps in 40 old houses, 2023: median seasonal performance 3.1; bad radiators cost 0.4.",
    "P-31": "Field trial with 120 houses, 2024: performance 2.9 at flow temperatures above 55 C, 3.6 below 45 C.",
    "P-52": "Noise of outdoor units, 2022: complaints come from night starts, not from the level.",
}


def search_papers(query: str) -> str:
    """Search the paper index."""
    recording.work(0.1, 0.3)
    hits = {"field": ["P-14", "P-31"], "flow": ["P-31"], "noise": ["P-52"]}
    return json.dumps(next((ids for word, ids in hits.items() if word in query), []))


def read_paper(paper_id: str) -> str:
    """The summary of a paper."""
    recording.work(0.05, 0.2)
    return PAPERS[paper_id]


def save_note(title: str, text: str) -> str:
    """Keep a note for the report."""
    recording.work(0.01, 0.05)
    return f"saved: {title}"


script = [
    Call("search_papers", {"query": "heat pump field trial old houses"}),
    Call("read_paper", {"paper_id": "P-14"}),
    Call("read_paper", {"paper_id": "P-31"}),
    Call("search_papers", {"query": "outdoor unit noise complaints"}),
    Call("read_paper", {"paper_id": "P-52"}),
    Call("save_note", {"title": "Performance", "text": "2.9 to 3.6, decided by flow temperature (P-14, P-31)."}),
    Say("Heat pumps work in old houses: 2.9 to 3.6 depending on the flow temperature. Check the radiators first."),
]


async def main() -> None:
    with ScriptedModel({"research": script}) as model:
        llm = OpenAILike(
            model="llama-3.3-70b-instruct", api_base=model.base_url, api_key="research", is_chat_model=True,
            is_function_calling_model=True, max_retries=0,
        )
        agent = FunctionAgent(
            name="researcher", description="Reads papers.", tools=[search_papers, read_paper, save_note], llm=llm,
            system_prompt="You answer from papers and name them.", streaming=False, timeout=60,
        )
        await agent.run("Do heat pumps work in old houses, and are they too loud?")


asyncio.run(main())
recording.write()
