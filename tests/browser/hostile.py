"""A trace in which every text tries to be more than text."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["MARKS", "write_hostile_trace"]

MARKS = (
    "<script>window.pwned = 1</script>",
    '<img src=x onerror="window.pwned = 1">',
    "[click](javascript:window.pwned=1)",
    "![pixel](https://evil.example/pixel.png)",
    "**loud** :red[tinted] :material/home: `tick` ``two`` $x^2$ # head",
    "\x1b[31mred\x1b[0m \u202egnitfiL",
    "</code></pre><iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
)


def _value(value: object) -> dict[str, object]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def _attributes(**values: object) -> list[dict[str, object]]:
    return [{"key": key.replace("__", "."), "value": _value(value)} for key, value in values.items()]


def write_hostile_trace(folder: Path) -> Path:
    """OTLP JSON lines: one run with a loop, failures and a refused request, hostile in every field."""
    name = " ".join(MARKS[:2])[:120]
    trace, agent, begin = "ab" * 16, "cd" * 8, 1_751_630_400_000_000_000
    spans = [
        {
            "traceId": trace,
            "spanId": agent,
            "name": f"invoke_agent {name}",
            "kind": 1,
            "startTimeUnixNano": str(begin),
            "endTimeUnixNano": str(begin + 60_000_000_000),
            "status": {"code": 1},
            "attributes": _attributes(
                gen_ai__operation__name="invoke_agent", gen_ai__agent__name=f"agent {MARKS[4]} {MARKS[1]}"
            ),
        }
    ]
    for number in range(12):
        failed = number >= 8
        start = begin + (number + 1) * 1_000_000_000
        text = " ".join(MARKS)
        spans.append(
            {
                "traceId": trace,
                "spanId": f"{number + 1:016x}",
                "parentSpanId": agent,
                "name": f"execute_tool {name}",
                "kind": 1,
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(start + 20_000_000),
                "status": {"code": 2, "message": f"boom {text}"} if failed else {"code": 0},
                "attributes": _attributes(
                    gen_ai__operation__name="execute_tool",
                    gen_ai__tool__name=f"tool {MARKS[4]} {MARKS[0]}",
                    gen_ai__tool__call__id=f"call_{number}",
                    gen_ai__tool__call__arguments=json.dumps({text: text}),
                    **({"error__type": MARKS[0]} if failed else {"gen_ai__tool__call__result": text}),
                ),
            }
        )
    start = begin + 30_000_000_000
    spans.append(
        {
            "traceId": trace,
            "spanId": "ef" * 8,
            "parentSpanId": agent,
            "name": f"chat {name}",
            "kind": 3,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + 20_000_000),
            "status": {"code": 2, "message": f"Error code: 400 - {' '.join(MARKS)}"},
            "attributes": _attributes(
                gen_ai__operation__name="chat",
                gen_ai__request__model=f"model {MARKS[4]} {MARKS[1]}",
                gen_ai__provider__name=f"provider {MARKS[0]}",
                http__response__status_code=400,
                error__type=f"BadRequest {MARKS[1]}",
            ),
        }
    )
    resource = {"attributes": _attributes(service__name=f"service {MARKS[4]} {MARKS[0]}")}
    path = folder / "hostile.jsonl"
    path.write_text(
        json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}) + "\n",
        encoding="utf-8",
    )
    return path
