"""A CRM agent sends a tool the same invalid arguments again and again.

The tool lives in an MCP server (FastMCP), which validates arguments before it runs anything.
A second run makes the same mistake and corrects it after reading the error.
"""

import asyncio
import os
from datetime import datetime

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"
os.environ["FASTMCP_LOG_ENABLED"] = "false"

from _hand_written_agent import Agent, instrument  # noqa: E402
from _model import Call, Say, ScriptedModel  # noqa: E402
from _recording import Recording  # noqa: E402
from opentelemetry import trace  # noqa: E402

recording = Recording("crm_schema_error", service="crm-assistant", version="0.9.4")
trace.set_tracer_provider(recording.provider)  # FastMCP takes the global provider
handler = instrument(recording)

from fastmcp import Client, FastMCP  # noqa: E402

server = FastMCP("crm")
CONTACTS = {"Nordwind": ["ana.ruiz@nordwind.example", "ben.okafor@nordwind.example"]}


@server.tool
def find_contacts(company: str) -> list[str]:
    """E-mail addresses of a company's contacts."""
    recording.work()
    return CONTACTS.get(company, [])


@server.tool
def schedule_meeting(attendees: list[str], start: datetime, minutes: int) -> str:
    """Schedule a meeting and send the invitations."""
    recording.work()
    return f"Meeting booked for {start:%d %B %Y, %H:%M}, {minutes} minutes, {len(attendees)} invitations sent."


WRONG = Call("schedule_meeting", {
    "attendees": "ana.ruiz@nordwind.example, ben.okafor@nordwind.example",
    "start": "tomorrow at 3 pm",
    "minutes": 30,
})
RIGHT = Call("schedule_meeting", {
    "attendees": ["ana.ruiz@nordwind.example", "ben.okafor@nordwind.example"],
    "start": "2026-11-25T15:00:00",
    "minutes": 30,
})
FIND = Call("find_contacts", {"company": "Nordwind"})
SCRIPTS = {
    "stubborn": [FIND, *[WRONG] * 6, Say("I was not able to book the meeting. Please try again later.")],
    "corrected": [FIND, WRONG, WRONG, RIGHT, Say("Done: Ana and Ben are invited for tomorrow, 15:00, 30 minutes.")],
}


async def main() -> None:
    with ScriptedModel(SCRIPTS) as model:
        async with Client(server) as client:
            tools = [
                {"type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.input_schema}}
                for tool in await client.list_tools()
            ]

            async def run_tool(name: str, arguments: dict) -> str:
                # An MCP host hands the error's text to the model instead of raising it.
                result = await client.call_tool(name, arguments, raise_on_error=False)
                return "\n".join(block.text for block in result.content)

            agent = Agent(
                "crm-assistant",
                model="gpt-4.1-mini",
                instructions="You keep the sales team's calendar.",
                tools=tools,
                run_tool=run_tool,
                handler=handler,
                base_url=model.base_url,
            )
            for script, conversation in (("stubborn", "crm-5521"), ("corrected", "crm-5534")):
                prompt = "Book 30 minutes with our contacts at Nordwind tomorrow at 3 pm."
                await agent.ask(prompt, script=script, conversation=conversation)


asyncio.run(main())
recording.write()
