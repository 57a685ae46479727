"""A trace as the official packages record it out of the box: no arguments, no results, no messages.

The agent asks the same question of the leave system again and again, but the spans hold only
tool names and call ids, so nothing can be judged.
"""

import os

os.environ.pop("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", None)  # the default: no content
os.environ["LANGSMITH_TRACING"] = "false"

from _model import Call, Say, ScriptedModel  # noqa: E402
from _recording import Recording  # noqa: E402
from langchain.agents import create_agent  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor  # noqa: E402

recording = Recording("hr_content_off", service="hr-assistant", version="1.0.3")
LangChainInstrumentor().instrument(tracer_provider=recording.provider)


@tool
def find_employee(email: str) -> str:
    """The employee number for an e-mail address."""
    recording.work()
    return '{"employee": "E-2207", "team": "Design"}'


@tool
def get_leave_balance(employee: str, year: int) -> str:
    """Days of leave taken and left."""
    recording.work()
    return '{"employee": "E-2207", "year": 2026, "taken": null, "left": null, "note": "balance is being recalculated"}'


script = [
    Call("find_employee", {"email": "j.moreau@example.com"}),
    *[Call("get_leave_balance", {"employee": "E-2207", "year": 2026})] * 6,
    Say("I cannot see your leave balance at the moment."),
]
with ScriptedModel({"hr": script}) as model:
    llm = ChatOpenAI(model="gpt-4o-mini", base_url=model.base_url, api_key="hr", max_retries=0)
    agent = create_agent(llm, [find_employee, get_leave_balance], name="hr-assistant", system_prompt="You answer HR questions.")
    agent.invoke(
        {"messages": [{"role": "user", "content": "How many days of leave do I have left this year?"}]},
        {"configurable": {"thread_id": "hr-3391"}},
    )
recording.write()
