"""A gateway in front of the model repeats a tool call inside one answer, id and all.

The framework runs both, the history holds one tool_call_id twice, and the next request is
refused with HTTP 400.
"""

import json
import os

os.environ["LANGSMITH_TRACING"] = "false"
os.environ["TRACELOOP_METRICS_ENABLED"] = "false"

from _model import Call, Say, ScriptedModel
from _recording import Recording
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import BadRequestError
from opentelemetry.instrumentation.langchain import LangchainInstrumentor

recording = Recording("tickets_doubled_call", service="box-office", version="5.0.1")
LangchainInstrumentor().instrument(tracer_provider=recording.provider)


@tool
def find_seats(event: str, count: int) -> str:
    """Free seats that lie together."""
    recording.work()
    return json.dumps({"event": event, "seats": ["F11", "F12"], "eur": 78})


@tool
def reserve_seats(event: str, seats: list[str]) -> str:
    """Reserve seats for 15 minutes."""
    recording.work()
    return json.dumps({"event": event, "seats": seats, "reserved_minutes": 15})


FIND = Call("find_seats", {"event": "Figaro, 12 December", "count": 2})
RESERVE = {"event": "Figaro, 12 December", "seats": ["F11", "F12"]}
TWINS = [Call("reserve_seats", RESERVE, id="call_7Qm2ZrXb0WcUy4pNfKe1sT9d")] * 2
SCRIPTS: dict = {
    "doubled": [FIND, TWINS],
    "plain": [FIND, Call("reserve_seats", RESERVE), Say("F11 and F12 are reserved for 15 minutes.")],
}
with ScriptedModel(SCRIPTS) as model:
    for script, thread in (("doubled", "web-9917"), ("plain", "web-9918")):
        llm = ChatOpenAI(model="gpt-4.1", base_url=model.base_url, api_key=script, max_retries=0)
        agent = create_agent(llm, [find_seats, reserve_seats], name="box-office")
        try:
            agent.invoke(
                {"messages": [{"role": "user", "content": "Two seats together for Figaro on 12 December, please."}]},
                {"configurable": {"thread_id": thread}},
            )
        except BadRequestError as error:
            print("refused:", error)
    assert model.refused == 1
recording.write()
