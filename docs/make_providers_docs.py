"""Write docs/providers.md from the table of provider rules, so that the two cannot differ.

python docs/make_providers_docs.py           writes the file
python docs/make_providers_docs.py --check   exit code 1 if the file is not what would be written
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from generated import write_or_check

TARGET = Path(__file__).with_name("providers.md")
INTRO = """# What each provider refuses

<!-- Written by docs/make_providers_docs.py from guard/messages/_providers.py: edit that. -->

A provider answers a history that breaks one of its rules with an error (HTTP 400, some with 422 or 500), and
goes on doing so as long as the client sends that history. `lint_messages` finds such a history before it is
sent; `sanitize_messages` with `provider=` mends it. Both work from the table on this page.

```python
from loopscope.guard import lint_messages, sanitize_messages

messages = [
    {"role": "user", "content": "list the files"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a:1", "name": "ls", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a:1", "content": "a.txt"}]},
]
for violation in lint_messages(messages, provider="anthropic"):
    print(violation.rule, violation.message_index, violation.detail)
result = sanitize_messages(messages, provider="anthropic")
```

How to read the table:

- A rule is on for a provider only where somebody has shown in public that it refuses what the rule
  forbids; "seen in" says where. A rule that is not listed is not known to be enforced, which does not say
  that it is not.
- `provider=` takes the names of this page, the values of `gen_ai.provider.name` (`aws.bedrock`,
  `gcp.vertex_ai`, `azure.ai.openai`, …), names with the API behind them (`openai.responses`) and those of
  LiteLLM. A gateway such as OpenRouter or LiteLLM passes on what the provider behind it answers: there
  the model's name tells which that is.
- Providers change. Where a recorded refusal itself proves a rule (it names an id that comes back in a
  later round, say), a request can be judged with the rule switched on: `with_unique_call_ids`.
- Rules marked *by model* depend on the model that is served. They count where a history is linted for
  that provider, and are left out where it is only asked which other provider would refuse a history.

Not checked, as a recorded history does not tell: whether reasoning has to be passed back
(`reasoning_content` of DeepSeek and Kimi, `thought_signature` of Gemini 3, the `rs_…` item that a `fc_…`
item of OpenAI belongs to), and the schemas of tools. That a provider refuses a call that is repeated too
often (class `repeated_calls`) is no fault of the history: the [guard](guard.md) is what helps there.
"""


def render() -> str:
    """The whole text of docs/providers.md."""
    from loopscope.guard.messages._providers import PROVIDERS
    from loopscope.guard.messages._rules import Rule, rule_class, rule_text

    parts = [INTRO, "## Rules\n"]
    parts.append("| rule | what it asks for | class of the error | enforced by |\n| --- | --- | --- | --- |")
    for rule in Rule:
        names = ", ".join(name for name, row in PROVIDERS.items() if rule in row.rules)
        parts.append(f"| `{rule.value}` | {rule_text(rule)} | `{rule_class(rule).value}` | {names} |")
    parts.append("\n## Providers\n")
    for row in PROVIDERS.values():
        parts.append(f"### {row.name}\n")
        formats = ", ".join(f"`{one}`" for one in row.formats)
        parts.append(f"{row.title}. Format: {formats}. {row.note}".rstrip() + "\n")
        if row.sources:
            parts.append("| rule | seen in |\n| --- | --- |")
            for sources, rules in groupby(row.sources, key=lambda one: one[1]):
                names = ", ".join(
                    f"`{rule.value}`" + (" (*by model*)" if rule in row.unsure else "") for rule, _ in rules
                )
                parts.append(f"| {names} | {', '.join(map(_link, sources))} |")
            parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _link(source: str) -> str:
    if source.startswith("https://"):
        return f"[{source.removeprefix('https://').partition('/')[0]}]({source})"
    owner, repository, kind, number = source.split("/")
    return f"[{owner}/{repository}#{number}](https://github.com/{owner}/{repository}/{kind}/{number})"


if __name__ == "__main__":
    sys.exit(write_or_check(TARGET, render(), "the table of providers"))
