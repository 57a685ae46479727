"""A history with one tool_call_id twice, refused with HTTP 400.

The travel desk keeps its histories in a database. A worker restarts while a tool's result is
being saved, the save is repeated, and the history comes back with the result in it twice. The
service refuses it; the job is retried with the same history and is refused again.
A second conversation, untouched by the restart, goes through.
"""

import asyncio
import json
import os

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"

from _hand_written_agent import Agent, function, instrument  # noqa: E402
from _model import Call, Say, ScriptedModel  # noqa: E402
from _recording import Recording  # noqa: E402
from openai import BadRequestError  # noqa: E402

recording = Recording("travel_duplicate_id", service="travel-desk", version="3.1.0")
handler = instrument(recording)

FLIGHTS = [
    {"flight": "LH 1173", "departs": "07:05", "arrives": "10:25", "eur": 214},
    {"flight": "TP 571", "departs": "13:40", "arrives": "16:55", "eur": 189},
]


async def run_tool(name: str, arguments: dict) -> str:
    recording.work()
    if name == "search_flights":
        return json.dumps(FLIGHTS)
    if name == "hold_seat":
        return json.dumps({"flight": arguments["flight"], "seat": arguments["seat"], "held_until": "18:00"})
    return json.dumps({"traveller": arguments["traveller"], "limit_eur": 250, "class": "economy"})


class RestartedAgent(Agent):
    """An agent whose store writes the second result twice, as if a worker had died between write and commit."""

    rounds = 0

    def after_tools(self, messages: list[dict]) -> None:
        self.rounds += 1
        if self.rounds == 2:
            messages.append(messages[-1])


POLICY = Call("get_travel_policy", {"traveller": "m.keller"})
SEARCH = Call("search_flights", {"from": "FRA", "to": "LIS", "date": "2026-12-03"})
HOLD = Call("hold_seat", {"flight": "TP 571", "seat": "14C"})
SCRIPTS = {
    "restarted": [POLICY, SEARCH],
    "untouched": [POLICY, SEARCH, HOLD, Say("TP 571 at 13:40 fits the limit of 250 EUR. Seat 14C is held until 18:00.")],
}
TOOLS = [
    function("get_travel_policy", "Spending limit and class of a traveller.", traveller="string"),
    function("search_flights", "Flights of a day.", **{"from": "string", "to": "string", "date": "string"}),
    function("hold_seat", "Hold a seat for some hours.", flight="string", seat="string"),
]


async def retried(agent: Agent, prompt: str, *, script: str, conversation: str) -> None:
    """Three attempts to finish one history, each as a run of its own, as a job queue does it."""
    messages = [{"role": "system", "content": agent.instructions}, {"role": "user", "content": prompt}]
    for _ in range(3):
        try:
            with handler.invoke_local_agent(
                request_model=agent.model, agent_name=agent.name, conversation_id=conversation
            ):
                await agent.loop(messages, script)
                return
        except BadRequestError:
            await asyncio.sleep(0.8)


async def main() -> None:
    with ScriptedModel(SCRIPTS) as model:
        settings = {
            "model": "gpt-4o", "instructions": "You book business trips within the traveller's limits.", "tools": TOOLS,
            "run_tool": run_tool, "handler": handler, "base_url": model.base_url,
        }
        prompt = "Find me a flight from Frankfurt to Lisbon on 3 December."
        await retried(RestartedAgent("booker", **settings), prompt, script="restarted", conversation="trip-88140")
        await Agent("booker", **settings).ask(
            prompt + " Hold an aisle seat.", script="untouched", conversation="trip-88152"
        )
        assert model.refused == 3


asyncio.run(main())
recording.write()
