"""The Streamlit dashboard, and the server that runs it together with the OTLP receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._server import serve

__all__ = ["serve"]


def __getattr__(name: str) -> Any:
    # On first use, so that a page does not pay for the server.
    if name != "serve":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._server import serve

    return serve
