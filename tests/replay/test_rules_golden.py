"""Where other frameworks' rules speak and stop on sequences of which the answers are known."""

from __future__ import annotations

from typing import Any

import pytest
from loop_sequences import SEQUENCES, sequence

from loopscope.replay.rules import RULES, run_rule

# First notice (n) and first refusal, halt or question to the user (b), by sequence S1 to S11.
TABLE = """
crewai           |b2     |b2     |b2   |–      |–     |–    |–     |–     |b2|– |b2
opencode         |b3     |b3     |b3   |–      |–     |–    |–     |–     |b3|– |b3
roo-code         |b4     |b4     |b4   |–      |–     |–    |–     |–     |– |– |b4
cline            |n3 b5  |n3 b5  |n3 b5|–      |–     |–    |–     |–     |n3|– |n3 b5
qwen-code        |b5     |b5     |b5   |–      |–     |–    |–     |–     |– |– |b5
gemini-cli       |b5     |b5     |b5   |b10    |b15   |–    |–     |–     |– |– |b5
goose-rep-001    |–      |–      |–    |–      |–     |–    |–     |–     |– |– |–
goose-rep-002    |b4     |–      |–    |–      |–     |b4   |–     |–     |– |– |–
openhands        |n3 b4  |b4     |–    |b6     |–     |–    |–     |–     |– |– |b6
hermes-0.19      |n2 b6  |n2 b6  |–    |n3 b11 |n4 b16|n3 b8|n5 b21|n3 b11|n2|– |–
hermes-cycles    |–      |–      |–    |n6 b10 |n9 b15|–    |–     |–     |– |– |n6 b10
crush            |b10    |b10    |–    |–      |–     |–    |–     |–     |– |– |–
qwen-code-opt-in |b5     |b5     |b5   |b6     |b8    |b8   |b8    |b11   |b8|b8|b5
openclaw         |n11 b21|n11 b21|n11  |n10 b20|n31   |–    |–     |n21   |– |– |n11
openlit          |n3     |n3     |n3   |n5     |n7    |–    |n9    |n5    |n3|– |n3
ours             |–      |n3 b5  |–    |n5 b9  |n7 b13|–    |n9 b17|–     |– |– |n6 b10
reasoned-override|b2     |b2     |b2   |b3     |b4    |–    |b5    |b3    |b2|– |b2
"""
# The table above takes every call of a run as one message, and failed calls as ones that returned.
OPTIONS: dict[str, dict[str, Any]] = {
    "opencode": {"one_message": True},
    "crewai": {"failed_calls_count": True},
}
# As the source of the two has it: one call a message; what raised is not remembered.
BY_DEFAULT = """
crewai           |–      |b2     |b2   |–      |–     |–    |–     |–     |– |– |b3
opencode         |–      |–      |–    |–      |–     |–    |–     |–     |– |– |–
"""


def cells(table: str) -> list[tuple[str, str, str]]:
    found = []
    for line in table.strip().splitlines():
        name, *row = (part.strip() for part in line.split("|"))
        assert len(row) == len(SEQUENCES)
        found += [(name, one, cell) for one, cell in zip(SEQUENCES, row, strict=True)]
    return found


def shown(rule: str, which: str, **options: Any) -> str:
    found = run_rule(rule, sequence(which), **options)
    parts = [f"n{found.notice_at}"] if found.notice_at else []
    parts += [f"b{found.stop_at}"] if found.stop_at else []
    return " ".join(parts) or "–"


@pytest.mark.parametrize(("rule", "which", "cell"), cells(TABLE))
def test_where_a_rule_speaks_and_stops(rule: str, which: str, cell: str) -> None:
    assert shown(rule, which, **OPTIONS.get(rule, {})) == cell


@pytest.mark.parametrize(("rule", "which", "cell"), cells(BY_DEFAULT))
def test_rules_whose_defaults_differ(rule: str, which: str, cell: str) -> None:
    assert shown(rule, which) == cell


def test_the_table_has_every_rule() -> None:
    assert {rule for rule, _, _ in cells(TABLE)} == set(RULES)
