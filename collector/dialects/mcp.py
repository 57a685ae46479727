"""Spans of the Model Context Protocol, written by its SDK and by FastMCP (client and server side)."""

from __future__ import annotations

from .._records import SpanRecord
from ._model import Dialect, Kind

MCP = Dialect(
    name="mcp",
    title="MCP",
    scopes=("mcp-python-sdk", "fastmcp", "@modelcontextprotocol/"),
    marks={"mcp.method.name": {"tools/call": Kind.TOOL}},
    tool_name=("mcp.tool.name",),
    content_hint=(
        "The MCP SDK and FastMCP never record arguments or results: instrument the agent that calls the "
        "tools as well (or attach DuckDBSpanProcessor there)."
    ),
)

SESSION = "mcp.session.id"
REQUEST_ID = "jsonrpc.request.id"


def mcp_session_of(span: SpanRecord) -> str | None:
    """The MCP session that a span names."""
    value = span.attributes.get(SESSION)
    return value if isinstance(value, str) and value and not value.isspace() else None
