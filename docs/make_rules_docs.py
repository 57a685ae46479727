"""Write docs/rules.md from the registry of rules, so that the two cannot differ.

python docs/make_rules_docs.py           writes the file
python docs/make_rules_docs.py --check   exit code 1 if the file is not what would be written
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path

from generated import write_or_check

TARGET = Path(__file__).with_name("rules.md")
INTRO = """# Other frameworks' rules

<!-- Written by docs/make_rules_docs.py from replay/rules: edit that. -->

Many agent frameworks stop loops by a rule of their own. `loopscope rules` runs them beside our guard on the
same recorded runs: what each would have noticed and stopped, what that would have cost, and where it and
ours differ.

```console
$ loopscope rules --db traces.duckdb
$ loopscope rules --db traces.duckdb --rule cline --set cline.soft=2 --format json
$ loopscope rules --list
```

```python
from loopscope.collector import Store
from loopscope.guard import GuardPolicy
from loopscope.replay.rules import CallRecord, compare_rules, run_rule

calls = [CallRecord("read", {"path": "a"}, "text of a", turn=number) for number in range(6)]
print(run_rule("cline", calls))  # RuleVerdicts(notice_at=3, stop_at=5, made=False, refused=())

with Store("traces.duckdb").lease() as con:
    for one in compare_rules(con, GuardPolicy()):
        print(one.rule, one.runs_stopped, one.calls_lost, one.agreement)
```

Each rule was read in its source and restated here; the source is named below. Defaults are theirs, knobs
can be set. On eleven sequences of sixty calls (loops, polls, retries, edits and tests) every rule is held
to the calls at which it speaks and stops (`tests/replay/test_rules_golden.py`).

## What the figures mean

- A rule's *stop* is its first refusal, halt or question to the user in a run; a *notice* is a note to the
  model, or a mark in a view. Each agent of a run has a rule of its own, as it would have live; the first
  stop is the run's.
- Up to its first notice or stop a run is as it was recorded. *Exact* stops are those before which there was
  no notice. Everything after the first of the two is *projected*: it assumes that the agent would have gone
  on all the same.
- *Calls after the stop* are what would not have been made, had the run ended there, and fall into
  *avoidable*, *lost* and *unjudged* as with our own [guard](replay.md#avoidable-lost-unjudged). A call that
  is refused, or halted before it was made, is among them. So are runs that start later inside a run that
  halts.
- Many rules do not end the run: they refuse one call, or ask, and the agent goes on. For these *refused*
  counts the calls they would have refused in the run as recorded. A refused call that was lost brought
  something new: that is harm.
- *Not by ours* and *by ours only* are runs that one of the two stops; the JSON names three of each.
- With [labels](labels.md), a stop inside an incident called a true loop is *right*, one inside polling, a
  legitimate repeat or a retry that worked is *wrong*, and a true loop without a stop inside is *missed*. An
  incident after an earlier stop says nothing and is counted apart (`cut_off`). For a rule that only marks,
  its mark counts. Precision and recall come with Wilson intervals.
- What a rule needs and the recording lacks is counted, per rule (`lacking`). A call without recorded
  arguments equals no other; where nobody knows which response asked for a call, it is in no message with
  another.
- Calls come in the order in which they finished. Rules that look at the next call before it is made are
  asked in that order, too.

A run counts as one turn, one conversation or one session, whatever a framework calls it. What it keeps
beyond that (between turns, across sessions) is not seen.

How it is kept fast: a run is read for a rule only if a few counts of the run leave it a chance to fire
(`LoopRule.may_fire`); tests show that leaving the others out changes nothing. `benchmarks/bench_rules.py`
measures it.
"""


def render() -> str:
    """The whole text of docs/rules.md."""
    from loopscope.replay.rules import RULES

    parts = [INTRO, "## All rules\n"]
    parts.append("| rule | whose | when it fires | needs |\n| --- | --- | --- | --- |")
    for info in RULES.values():
        does = {
            "halts": "the run ends",
            "refuses": "single calls are not made",
            "marks": "nothing is stopped",
        }[info.does]
        link = f"[`{info.name}`](#{info.name.replace('.', '')})"
        parts.append(f"| {link} | {info.framework} | {does} | {', '.join(info.needs)} |")
    for info in RULES.values():
        parts.append(f"\n## {info.name}\n")
        parts.append(f"{info.title}.\n\n{_wrapped(info.says)}")
        if info.unseen:
            parts.append(_wrapped(f"Not seen here: {info.unseen}"))
        knobs = [
            f"`{name}` ({_shown(info.options.get(name, one.default))})"
            for name, one in inspect.signature(info.make).parameters.items()
            if name != "policy"
        ]
        if knobs:
            parts.append(_wrapped(f"Knobs: {', '.join(knobs)}."))
        parts.append(f"Source: {info.source}")
    return "\n".join(parts).rstrip() + "\n"


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if value is None:
        return "off"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value == () else str(value)


if __name__ == "__main__":
    sys.exit(write_or_check(TARGET, render(), "the registry of rules"))
