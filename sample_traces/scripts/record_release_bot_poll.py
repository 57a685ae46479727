"""A release bot polls a deployment until it is done. Every repeat has a reason: the status moves."""

import asyncio
import json
import os

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"

from _hand_written_agent import Agent, function, instrument  # noqa: E402
from _model import Call, Say, ScriptedModel  # noqa: E402
from _recording import Recording  # noqa: E402

DEPLOYMENT = {"deployment_id": "dep-7731"}
STATUSES = [
    {"status": "queued", "progress": 0},
    {"status": "queued", "progress": 0},
    {"status": "building image", "progress": 15},
    {"status": "building image", "progress": 40},
    {"status": "building image", "progress": 40},
    {"status": "pushing image", "progress": 60},
    {"status": "rolling out", "progress": 75, "ready": "1/3"},
    {"status": "rolling out", "progress": 90, "ready": "2/3"},
    {"status": "succeeded", "progress": 100, "ready": "3/3"},
]

recording = Recording("release_bot_poll", service="release-bot", version="1.8.2")
handler = instrument(recording)
statuses = iter(STATUSES)


async def run_tool(name: str, arguments: dict) -> str:
    recording.work()
    if name == "start_deployment":
        return json.dumps({**DEPLOYMENT, "service": arguments["service"], "status": "queued"})
    if name == "get_deployment_status":
        await asyncio.sleep(1.0)  # the pause between two polls
        return json.dumps(DEPLOYMENT | next(statuses))
    return "posted to #releases"


script = [
    Call("start_deployment", {"service": "checkout", "version": "4.12.0", "environment": "production"}),
    *[Call("get_deployment_status", DEPLOYMENT) for _ in STATUSES],
    Call("post_message", {"channel": "#releases", "text": "checkout 4.12.0 is live in production."}),
    Say("checkout 4.12.0 is live: 3 of 3 replicas are ready. I told #releases."),
]
with ScriptedModel({"release": script}) as model:
    agent = Agent(
        "deployer",
        model="gpt-4.1-mini",
        instructions="You roll out releases and report when they are live.",
        tools=[
            function("start_deployment", "Start a deployment.", service="string", version="string", environment="string"),
            function("get_deployment_status", "How far a deployment is.", deployment_id="string"),
            function("post_message", "Post to a chat channel.", channel="string", text="string"),
        ],
        run_tool=run_tool,
        handler=handler,
        base_url=model.base_url,
    )
    asyncio.run(agent.ask("Roll out checkout 4.12.0 to production.", script="release", conversation="rel-2026-1187"))
recording.write()
