"""A clean run with two agents: a concierge hands the customer over to the orders agent.

Tools repeat, arguments differ; two calls of one turn run in parallel. A guard has nothing to say.
"""

import json
import os

os.environ["TRACELOOP_METRICS_ENABLED"] = "false"

from _model import Call, Say, ScriptedModel
from _recording import Recording
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool, set_trace_processors
from openai import AsyncOpenAI
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor

recording = Recording("shop_clean_handoff", service="shop-concierge", version="7.2.0")
set_trace_processors([])
OpenAIAgentsInstrumentor().instrument(tracer_provider=recording.provider)

ORDERS = {
    "B-7710": {"item": "walking boots", "status": "delivered", "eur": 129},
    "B-7745": {"item": "rain jacket", "status": "in transit", "eur": 89},
    "B-7761": {"item": "wool socks", "status": "packed", "eur": 14},
}


@function_tool
def find_customer(email: str) -> str:
    """The customer's number and open orders."""
    recording.work()
    return json.dumps({"customer": "C-3004", "orders": list(ORDERS)})


@function_tool
def get_order(order_id: str) -> str:
    """Item, status and price of an order."""
    recording.work()
    return json.dumps({"order": order_id} | ORDERS[order_id])


@function_tool
def track_parcel(order_id: str) -> str:
    """Where a parcel is."""
    recording.work()
    return json.dumps({"order": order_id, "parcel": "at the depot in Graz", "expected": "2026-11-26"})


@function_tool
def change_address(order_id: str, street: str, city: str) -> str:
    """Change where an order is sent, as long as it has not left."""
    recording.work()
    if ORDERS[order_id]["status"] != "packed":
        return json.dumps({"order": order_id, "changed": False, "reason": "the parcel has left"})
    return json.dumps({"order": order_id, "changed": True, "street": street, "city": city})


@function_tool
def add_note(customer: str, text: str) -> str:
    """A note for the shop's staff."""
    recording.work(0.01, 0.04)
    return json.dumps({"noted": True, "customer": customer})


ADDRESS = {"street": "Lindengasse 4", "city": "Wien"}
script = [
    Call("find_customer", {"email": "lea.brandt@example.com"}),
    Call("transfer_to_orders", {}),
    [Call("get_order", {"order_id": order}) for order in ORDERS],
    [Call("track_parcel", {"order_id": "B-7745"}), Call("change_address", {"order_id": "B-7761", **ADDRESS})],
    Call("change_address", {"order_id": "B-7745", **ADDRESS}),
    [Call("add_note", {"customer": "C-3004", "text": "Moves to Lindengasse 4, Wien."}),
     Call("add_note", {"customer": "C-3004", "text": "B-7745 must be redirected by the carrier."})],
    Say("The socks go to Lindengasse 4. The rain jacket has left already: I asked the carrier to redirect it."),
]
with ScriptedModel({"shop": script}) as model:
    llm = OpenAIResponsesModel("gpt-4.1", AsyncOpenAI(base_url=model.base_url, api_key="shop", max_retries=0))
    orders = Agent(
        name="orders", instructions="You look after orders.", model=llm,
        tools=[get_order, track_parcel, change_address, add_note],
    )
    concierge = Agent(
        name="concierge", instructions="You greet customers and hand them over.", model=llm,
        tools=[find_customer], handoffs=[orders],
    )
    Runner.run_sync(
        concierge, "I am moving to Lindengasse 4 in Vienna. Please change the address of my open orders.",
        max_turns=20, run_config=RunConfig(workflow_name="shop concierge", group_id="visit-20931"),
    )
recording.write()
