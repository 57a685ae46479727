"""A support bot searches its help centre with the same words until it gives up.

First run: eight equal searches, eight equal empty answers, then a ticket. Second run: three
equal searches, then better words that find the article.
"""

import json
import os

os.environ["LANGSMITH_TRACING"] = "false"

from _model import Call, Say, ScriptedModel
from _recording import Recording
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openinference.instrumentation.langchain import LangChainInstrumentor

recording = Recording("helpdesk_search_loop", service="helpdesk-bot", version="2.3.0")
LangChainInstrumentor().instrument(tracer_provider=recording.provider)

ARTICLE = {"id": "kb-118", "title": "Gift cards", "text": "Unused gift cards can be returned within 14 days."}


@tool
def lookup_order(order_id: str, fields: list[str]) -> str:
    """Facts about an order."""
    recording.work()
    return json.dumps({"order_id": order_id, "item": "digital gift card, 50 EUR", "status": "delivered"})


@tool
def search_help_center(query: str, locale: str) -> str:
    """Search the help centre's articles."""
    recording.work(0.08, 0.25)
    hits = [ARTICLE] if query == "gift card" else []
    return json.dumps({"results": hits, "total": len(hits)})


@tool
def create_ticket(subject: str, order_id: str) -> str:
    """Hand the case to a person."""
    recording.work()
    return json.dumps({"ticket": "T-5512", "queue": "refunds"})


SEARCH = Call("search_help_center", {"query": "refund policy for digital gift cards", "locale": "en"})
SCRIPTS: dict = {
    "loop": [
        Call("lookup_order", {"order_id": "A-20418", "fields": ["item", "status"]}),
        *[SEARCH] * 8,
        Call("create_ticket", {"subject": "Refund of a digital gift card", "order_id": "A-20418"}),
        Say("I could not find our refund policy for gift cards. A colleague will answer in ticket T-5512."),
    ],
    "found": [
        SEARCH, SEARCH, SEARCH,
        Call("search_help_center", {"query": "gift card", "locale": "en"}),
        Say("Unused gift cards can be returned within 14 days."),
    ],
}
with ScriptedModel(SCRIPTS) as model:
    for script, question, session in (
        ("loop", "I want my money back for the digital gift card in order A-20418.", "chat-70211"),
        ("found", "Can I return a gift card that I bought last week?", "chat-70254"),
    ):
        llm = ChatOpenAI(model="gpt-4o-mini", base_url=model.base_url, api_key=script, max_retries=0)
        agent = create_agent(
            llm, [lookup_order, search_help_center, create_ticket], name="support",
            system_prompt="You are the help desk of a web shop. Answer from the help centre.",
        )
        agent.invoke(
            {"messages": [{"role": "user", "content": question}]},
            {"recursion_limit": 60, "metadata": {"session_id": session}},
        )
recording.write()
