"""What figures cover, said below them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._output import console

__all__ = ["print_coverage"]


def print_coverage(coverage: Mapping[str, Any]) -> None:
    """A line on the coverage (`Coverage.to_json()`), and the settings that would record more."""
    calls = coverage["calls"]
    judged = calls - coverage["calls_without_arguments"] - coverage["calls_without_result"]
    out = console()
    if calls == 0:
        out.print("\nNo finished tool calls are recorded. Import traces first: loopscope import PATH")
        return
    missing = [
        f"{coverage[key]:,} {text}"
        for key, text in (
            ("calls_without_arguments", "without recorded arguments"),
            ("calls_without_result", "without a recorded result"),
            ("calls_truncated", "with content cut by the recorder"),
        )
        if coverage[key]
    ]
    if not missing:
        out.print(f"\nCovers all {calls:,} finished calls.", style="dim")
        return
    out.print(f"\nOf {calls:,} finished calls: {', '.join(missing)} (a call can be in more than one).")
    if judged <= 0:
        out.print(f"Judged: 0 of {calls:,}. Without arguments and results no repeat can be seen.")
    for dialect in coverage.get("dialects", ()):
        if dialect["hint"]:
            out.print(f"  {dialect['dialect']}: {dialect['hint']}", style="dim")
