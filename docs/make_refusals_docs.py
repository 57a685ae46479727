"""Write docs/refusals.md from the catalogue of providers' refusals, so that the two cannot differ.

python docs/make_refusals_docs.py           writes the file
python docs/make_refusals_docs.py --check   exit code 1 if the file is not what would be written
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from generated import write_or_check

TARGET = Path(__file__).with_name("refusals.md")
QUOTED = Path(__file__).parent.parent / "tests" / "guard" / "provider_texts.jsonl"
INTRO = """# Providers' refusals, read

<!-- Written by docs/make_refusals_docs.py from guard/messages/_error_texts*.py: edit these. -->

`classify_provider_error` says what a provider's refusal (HTTP 400, with some 422 or 500) is about, and
where the calls and results of a history do not fit together, which.

```python
from loopscope.guard import classify_provider_error

body = '{"error": {"message": "No tool output found for function call call_a1.", "param": "input"}}'
error = classify_provider_error(400, body)
assert error.error_class == "missing_result"
assert (error.provider, error.call_ids) == ("openai", ("call_a1",))
```

- `error_class` is one of `duplicate_call_id`, `duplicate_result`, `orphan_result`, `missing_result`,
  `misplaced_result`, `count_mismatch`, `empty_tool_calls`, `empty_content`, `id_format`, `arguments_json`,
  `role_order`, `reasoning_pairing`, `repeated_calls` (the provider refuses loops itself), and `other`: all
  that is not about calls and results, such as sizes, models, schemas of tools, content filters, rate
  limits, and texts that say nothing. In the store it is `llm_requests.error_class`, NULL where a failed
  request has no text.
- `provider`: whose words they are. Where many word it alike (*shared*), the envelope's word comes first.
- `call_ids`: the ids of calls that the text names. `positions`: (message, block), counted from 0.
- `message`: the provider's own words. `text_id`: the row of the table below.

The body may be the provider's JSON, or what became of it on its way: a dict in the text of an exception
(`Error code: 400 - {'error': {…}}`), prefixes of LiteLLM, OpenRouter's `metadata.raw`, the wrappers of
Pydantic AI, Agent Framework, Semantic Kernel, LangChain, the OpenAI Agents SDK, Genkit, the AI SDK and
others, JSON inside of JSON. Quotes, case and line breaks do not matter. Nothing in it is evaluated, and of
a long text its beginning and its end are read.

## The catalogue

Each wording was seen in public; ids are shortened.

"""
_LINK = re.compile(r"(?<![\w/])([\w.-]+/[\w.-]+)/(issues|pull|commit)/(\w+)")


def render() -> str:
    """The whole text of docs/refusals.md."""
    from loopscope.guard.messages._error_texts import error_texts

    quoted: dict[tuple[str, str], str] = {}
    for line in QUOTED.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        quoted.setdefault((case["row"], case["class"]), case["text"])
    parts = [INTRO + "| id | provider | class | words | seen in |\n| --- | --- | --- | --- | --- |"]
    seen = set()
    for row in sorted(error_texts(), key=lambda row: (row.id[0], int(row.id[1:]))):
        key = (row.id, str(row.error_class))
        text = quoted.get(key)
        if key in seen or text is None:
            continue
        seen.add(key)
        provider = f"{row.provider} (*shared*)" if row.shared else row.provider
        words = f"`` {' '.join(text.split())} ``".replace("|", "\\|")
        parts.append(f"| {row.id} | {provider} | `{row.error_class}` | {words} | {_linked(row.source)} |")
    return "\n".join(parts) + "\n"


def _linked(source: str) -> str:
    def link(match: re.Match[str]) -> str:
        repository, kind, number = match.groups()
        mark = "@" if kind == "commit" else "#"
        return f"[{repository}{mark}{number}](https://github.com/{repository}/{kind}/{number})"

    return _LINK.sub(link, source)


if __name__ == "__main__":
    sys.exit(write_or_check(TARGET, render(), "the catalogue of refusals"))
