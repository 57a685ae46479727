"""A coding agent goes back and forth between two tools, and neither ever says anything new.

It reads a file, runs the tests, reads the file, runs the tests … six laps with equal results,
without ever editing anything. No single tool is called twice in a row, so a rule that only
looks at neighbours sees nothing.
"""

from _model import Call, Say, ScriptedModel
from _recording import Recording
from agents import Agent, ModelSettings, OpenAIResponsesModel, RunConfig, Runner, function_tool, set_trace_processors
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

recording = Recording("coder_two_step_loop", service="code-assistant", version="0.14.2")
set_trace_processors([])  # the SDK's own uploader
OpenAIAgentsInstrumentor().instrument(tracer_provider=recording.provider)

SOURCE = '''from datetime import date, datetime


def parse_date(text: str) -> date:
    """Accepts 2026-03-01 and 01/03/2026."""
    if "/" in text:
        return datetime.strptime(text, "%m/%d/%Y").date()
    return date.fromisoformat(text)
'''
FAILURE = """..F...
FAILED tests/test_dates.py::test_day_comes_first
    assert parse_date("01/03/2026") == date(2026, 3, 1)
E   AssertionError: assert datetime.date(2026, 1, 3) == datetime.date(2026, 3, 1)
1 failed, 5 passed"""


@function_tool
def list_files(folder: str) -> str:
    """Names of the files in a folder."""
    recording.work(0.02, 0.05)
    return "src/dates.py\nsrc/cli.py\ntests/test_dates.py\npyproject.toml"


@function_tool
def read_file(path: str) -> str:
    """The text of a file."""
    recording.work(0.02, 0.05)
    return SOURCE


@function_tool
def run_tests(target: str) -> str:
    """Run pytest on a file."""
    recording.work(0.6, 1.1)
    return FAILURE


READ, TEST = Call("read_file", {"path": "src/dates.py"}), Call("run_tests", {"target": "tests/test_dates.py"})
script = [
    Call("list_files", {"folder": "."}),
    *[READ, TEST] * 6,
    Say("The test still fails. The date format in src/dates.py looks correct to me, so the test may be wrong."),
]
with ScriptedModel({"coder": script}) as model:
    agent = Agent(
        name="coder",
        instructions="You fix failing tests in a Python repository.",
        model=OpenAIResponsesModel("gpt-5-mini", AsyncOpenAI(base_url=model.base_url, api_key="coder", max_retries=0)),
        model_settings=ModelSettings(parallel_tool_calls=False),
        tools=[list_files, read_file, run_tests],
    )
    Runner.run_sync(
        agent, "test_day_comes_first fails on main. Please fix it.", max_turns=30,
        run_config=RunConfig(workflow_name="fix failing test", group_id="issue-412"),
    )
recording.write()
