"""A report agent runs into a locked database and repeats its query until it gives up.

The error is the tool's own, not a refusal of arguments, so the guard does not count it; it is
shown as a retry storm that nothing resolved, and a policy may count it.
"""

import os
import sqlite3

os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental,gen_ai_tool_definitions"

from _model import Call, Say, ScriptedModel  # noqa: E402
from _recording import Recording  # noqa: E402
from opentelemetry import trace  # noqa: E402

recording = Recording("report_db_locked", service="report-agent", version="4.4.0")
trace.set_tracer_provider(recording.provider)  # Strands takes the global provider

from strands import Agent, tool  # noqa: E402
from strands.models.openai import OpenAIModel  # noqa: E402


@tool
def list_tables(database: str) -> str:
    """The tables of a database.

    Args:
        database: the database's name
    """
    recording.work()
    return "orders, customers, returns"


@tool
def run_sql(database: str, sql: str) -> str:
    """Run a query.

    Args:
        database: the database's name
        sql: one SELECT statement
    """
    recording.work(0.2, 0.5)
    raise sqlite3.OperationalError("database is locked")


QUERY = Call("run_sql", {"database": "shop", "sql": "SELECT country, count(*) FROM returns GROUP BY country"})
script = [
    Call("list_tables", {"database": "shop"}),
    *[QUERY] * 6,
    Say("The database is locked. Please ask me again when the nightly load is done."),
]
with ScriptedModel({"report": script}) as model:
    agent = Agent(
        name="reporter", callback_handler=None, tools=[list_tables, run_sql],
        system_prompt="You answer questions with SQL.", trace_attributes={"session.id": "report-661"},
        model=OpenAIModel(
            client_args={"api_key": "report", "base_url": model.base_url, "max_retries": 0}, model_id="gpt-4.1-mini"
        ),
    )
    agent("How many returns did we have by country?")
recording.write()
