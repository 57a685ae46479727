"""The Streamlit dashboard, and the server that runs it together with the OTLP receiver."""

from __future__ import annotations

from ._server import serve

__all__ = ["serve"]
