"""How each framework sends its traces here: exact settings, those that record content included."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Way", "ways"]


@dataclass(frozen=True, slots=True)
class Way:
    """One framework. `code` and `language` of each part to copy."""

    name: str
    about: str
    parts: tuple[tuple[str, str, str], ...]  # caption, code, language
    content: str  # what is recorded of arguments and results, and the setting for it


def ways(db: str, db_quoted: str, to: str, headers: str | None) -> tuple[Way, ...]:
    """All of them.

    `db`: the database as a Python literal; `db_quoted`: for a shell; `to`: address of the receiver;
    `headers`: the line that shows a token, where one is asked for.
    """
    send = f"export OTEL_EXPORTER_OTLP_ENDPOINT={to}\nexport OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
    if headers:
        send += f"\nexport {headers}"

    def instrumented(module: str, name: str, more: tuple[str, str] | None = None) -> str:
        lines = ["from loopscope.collector import instrument", f"from {module} import {name}"]
        calls = [f"instrument({db})  # before the agent runs", f"{name}().instrument()"]
        if more:
            lines.append(f"from {more[0]} import {more[1]}")
            calls.append(f"{more[1]}().instrument()")
        return "\n".join([*lines, "", *calls])

    on = "Content is recorded by default; OPENINFERENCE_HIDE_INPUTS and …_HIDE_OUTPUTS turn it off."
    agent, pip = "In the agent:", "Install:"
    return (
        Way(
            "OpenAI Agents SDK",
            "Through OpenInference.",
            (
                (pip, "pip install openinference-instrumentation-openai-agents", "bash"),
                (
                    agent,
                    instrumented(
                        "openinference.instrumentation.openai_agents",
                        "OpenAIAgentsInstrumentor",
                    ),
                    "python",
                ),
            ),
            on,
        ),
        Way(
            "LangChain and LangGraph",
            "Through OpenInference. Pass `session_id` in the metadata of a run to join its traces.",
            (
                (pip, "pip install openinference-instrumentation-langchain", "bash"),
                (
                    agent,
                    instrumented("openinference.instrumentation.langchain", "LangChainInstrumentor"),
                    "python",
                ),
            ),
            on,
        ),
        Way(
            "Pydantic AI",
            "It makes its own spans.",
            (
                (
                    agent,
                    "from loopscope.collector import instrument\nfrom pydantic_ai import Agent\n\n"
                    f"instrument({db})  # before the agent runs\nAgent.instrument_all()",
                    "python",
                ),
            ),
            "Content is recorded by default; InstrumentationSettings(include_content=False) turns it off.",
        ),
        Way(
            "CrewAI",
            "Through OpenInference. Its requests to models need the second instrumentor.",
            (
                (
                    pip,
                    "pip install openinference-instrumentation-crewai openinference-instrumentation-litellm",
                    "bash",
                ),
                (
                    agent,
                    instrumented(
                        "openinference.instrumentation.crewai",
                        "CrewAIInstrumentor",
                        ("openinference.instrumentation.litellm", "LiteLLMInstrumentor"),
                    ),
                    "python",
                ),
            ),
            on,
        ),
        Way(
            "LlamaIndex",
            "Through OpenInference.",
            (
                (pip, "pip install openinference-instrumentation-llama-index", "bash"),
                (
                    agent,
                    instrumented("openinference.instrumentation.llama_index", "LlamaIndexInstrumentor"),
                    "python",
                ),
            ),
            on,
        ),
        Way(
            "Vercel AI SDK",
            "Over OTLP/HTTP, from Node.js.",
            (
                (
                    pip,
                    "npm install @opentelemetry/sdk-node @ai-sdk/otel \\\n"
                    "    @opentelemetry/exporter-trace-otlp-proto",
                    "bash",
                ),
                (
                    "Before the agent runs (version 7):",
                    'import { OpenTelemetry } from "@ai-sdk/otel";\n'
                    'import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";\n'
                    'import { NodeSDK } from "@opentelemetry/sdk-node";\n'
                    'import { registerTelemetry } from "ai";\n\n'
                    "new NodeSDK({ traceExporter: new OTLPTraceExporter() }).start();\n"
                    "registerTelemetry(new OpenTelemetry());",
                    "javascript",
                ),
                (
                    "Versions before 7 have no registerTelemetry; there each call asks for it:",
                    "generateText({ …, experimental_telemetry: { isEnabled: true } })",
                    "javascript",
                ),
                ("Where to send:", send, "bash"),
            ),
            "Content is recorded once telemetry is on; recordInputs and recordOutputs: false turn it off.",
        ),
        Way(
            "Google ADK",
            "It makes its own spans.",
            (
                (
                    agent,
                    f"from loopscope.collector import instrument\n\ninstrument({db})  # before the runner",
                    "python",
                ),
                (
                    "So that arguments and results are recorded:",
                    "export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_AND_EVENT",
                    "bash",
                ),
            ),
            "ADK 2 records no content without this setting. ADK 1 records it; "
            "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false turns it off.",
        ),
        Way(
            "AWS Strands",
            "It makes its own spans.",
            (
                (
                    agent,
                    "from loopscope.collector import instrument\nfrom strands import Agent\n\n"
                    f"instrument({db})  # before the agent is made\n"
                    'agent = Agent(tools=[…], trace_attributes={"session.id": session})',
                    "python",
                ),
            ),
            "Content is recorded by default, in span events: let exporters in between keep these.",
        ),
        Way(
            "Claude Code",
            "Over OTLP/HTTP while it runs, or from the sessions that it keeps.",
            (
                (
                    "Live, before `claude`:",
                    "export CLAUDE_CODE_ENABLE_TELEMETRY=1\nexport CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1\n"
                    "export OTEL_TRACES_EXPORTER=otlp OTEL_LOGS_EXPORTER=otlp OTEL_METRICS_EXPORTER=none\n"
                    f"{send}\n"
                    "export OTEL_LOG_TOOL_DETAILS=1    # arguments\n"
                    "export OTEL_LOG_TOOL_CONTENT=1    # results\n"
                    "export OTEL_LOG_RAW_API_BODIES=1  # messages",
                    "bash",
                ),
                (
                    "Or what it has recorded, with whole arguments and results:",
                    f"loopscope import ~/.claude/projects --db {db_quoted}",
                    "bash",
                ),
            ),
            "Without the last three settings no content is recorded. Arguments are cut at 512 characters.",
        ),
        Way(
            "Codex",
            "Log events over OTLP/HTTP, or the sessions that it keeps.",
            (
                (
                    "In ~/.codex/config.toml:",
                    f'[otel]\nexporter = {{ otlp-http = {{ endpoint = "{to}/v1/logs", protocol = "binary"'
                    + (', headers = { authorization = "Bearer <token>" }' if headers else "")
                    + " } }",
                    "toml",
                ),
                (
                    "Or what it has recorded:",
                    f"loopscope import ~/.codex/sessions --db {db_quoted}",
                    "bash",
                ),
            ),
            "Arguments and results are in its log events by default.",
        ),
        Way(
            "Gemini CLI",
            "Spans and log events over OTLP/HTTP, or the chats that it keeps.",
            (
                (
                    "In ~/.gemini/settings.json:",
                    '{\n  "telemetry": {\n    "enabled": true,\n    "target": "local",\n'
                    f'    "otlpEndpoint": "{to}",\n    "otlpProtocol": "http",\n'
                    '    "traces": true,\n    "logPrompts": true\n  }\n}',
                    "json",
                ),
                ("Or what it has recorded:", f"loopscope import ~/.gemini/tmp --db {db_quoted}", "bash"),
            ),
            "Results are not in its log events: they are on the spans, and in the chats that it keeps.",
        ),
        Way(
            "MCP",
            "The MCP SDK and FastMCP make spans of calls, without what was asked and answered.",
            (
                (
                    "In the server or client:",
                    f"from loopscope.collector import instrument\n\ninstrument({db})",
                    "python",
                ),
            ),
            "They never record arguments or results: instrument the agent as well, in one of the ways here.",
        ),
        Way(
            "OpenTelemetry packages",
            "The official ones for OpenAI, Anthropic, LangChain and others "
            "(`opentelemetry-instrumentation-genai-*`), without a line of code.",
            (
                (
                    "Run the agent:",
                    "pip install opentelemetry-distro\n"
                    "export OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only  # content\n"
                    # Without the two "none" the launcher looks for exporters nobody installed.
                    "OTEL_TRACES_EXPORTER=loopscope OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none \\\n"
                    f"LOOPSCOPE_DB={db_quoted} OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=10000 \\\n"
                    "    opentelemetry-instrument python agent.py",
                    "bash",
                ),
            ),
            "No content without this setting. Packages before 1.37 of the conventions take true.",
        ),
        Way(
            "Anything with OTLP",
            "Any OpenTelemetry SDK or collector, over OTLP/HTTP (protobuf or JSON).",
            (("Where to send:", send, "bash"),),
            "What makes the spans decides whether content is recorded; pages name the setting where not.",
        ),
    )
