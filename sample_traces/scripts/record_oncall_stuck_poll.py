"""An on-call agent waits for a pod that never becomes ready, until its budget of requests ends.

The counterpart of release_bot_poll: the same kind of polling, but the answer stays the same.
The keys of the arguments come in changing order, as they do from some models; it is the same call.
"""

import json

from _model import Call, ScriptedModel
from _recording import Recording
from pydantic_ai import Agent, UsageLimitExceeded, UsageLimits
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

recording = Recording("oncall_stuck_poll", service="oncall-bot", version="0.6.0")


def get_alert(alert_id: str) -> str:
    """What an alert says."""
    recording.work()
    return json.dumps({"alert": alert_id, "service": "search", "text": "pod search-7c9 is not ready", "region": "eu-west-1"})


def restart_pod(pod: str, region: str) -> str:
    """Restart a pod."""
    recording.work()
    return json.dumps({"pod": pod, "restart": "requested"})


def get_pod(pod: str, region: str) -> str:
    """The state of a pod."""
    recording.work(0.3, 0.7)
    return json.dumps({"pod": pod, "ready": False, "reason": "ImagePullBackOff"})


GET = Call("get_pod", {"pod": "search-7c9", "region": "eu-west-1"})
SAME = Call("get_pod", {"region": "eu-west-1", "pod": "search-7c9"})
script = [
    Call("get_alert", {"alert_id": "AL-5530"}),
    GET,
    Call("restart_pod", {"pod": "search-7c9", "region": "eu-west-1"}),
    GET, SAME, GET, GET, SAME, GET, SAME, GET, GET, SAME, GET,
]
with ScriptedModel({"oncall": script}) as model:
    settings = InstrumentationSettings(version=5, tracer_provider=recording.provider)
    agent = Agent(
        OpenAIChatModel("gpt-4.1", provider=OpenAIProvider(base_url=model.base_url, api_key="oncall")),
        name="oncall", instructions="You look after alerts at night.", tools=[get_alert, restart_pod, get_pod],
        capabilities=[Instrumentation(settings)],
    )
    try:
        agent.run_sync(
            "Please take care of alert AL-5530.", conversation_id="page-1207",
            usage_limits=UsageLimits(request_limit=len(script)),
        )
    except UsageLimitExceeded as error:
        print("stopped:", error)
recording.write()
