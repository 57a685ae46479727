"""What all reports have in common."""

from __future__ import annotations

import shlex

from ...guard import GuardPolicy
from .._labelled import Label
from .._text import plural
from .._types import Coverage
from ._document import Block, Code, Fields, Inline, Paragraph, Quoted

__all__ = ["commands", "coverage_text", "glossary", "knobs", "label_words"]


def coverage_text(covered: Coverage) -> list[Block]:
    """What of the calls was recorded, and the settings that would record more."""
    if not covered.calls:
        return [Paragraph("No finished call is recorded.")]
    if covered.whole:
        blocks: list[Block] = [
            Paragraph(f"Arguments and results of all {plural(covered.calls, 'call')} were recorded whole.")
        ]
    else:
        parts = [
            f"{number:,} {text}"
            for number, text in (
                (covered.calls_without_arguments, "without recorded arguments"),
                (covered.calls_without_result, "without a recorded result"),
                (covered.calls_truncated, "with a text that was cut when it was recorded"),
            )
            if number
        ]
        blocks = [
            Paragraph(
                f"Of {plural(covered.calls, 'finished call')}: {', '.join(parts)}. "
                "Where arguments or result are missing a repeat cannot be seen."
            )
        ]
    if covered.calls_not_ended:
        blocks.append(
            Paragraph(
                f"{plural(covered.calls_not_ended, 'call')} without a recorded end (still running, or asked "
                "for and never run): not counted here."
            )
        )
    hints: list[tuple[str, Inline]] = [
        ("To record more", (Quoted(one.dialect, 60), f": {one.hint}")) for one in covered.dialects if one.hint
    ]
    if hints:
        blocks.append(Fields(tuple(hints)))
    return blocks


def label_words(label: Label | None) -> str:
    """What a person said of an incident."""
    return "none" if label is None else label.verdict.value.replace("_", " ")


def knobs(policy: GuardPolicy) -> list[Block]:
    """The policy in words, and as the file that a guard loads."""

    def named(threshold: int | None) -> str:
        return "off" if threshold is None else f"at {threshold} equal results in a row"

    rows: tuple[tuple[str, Inline], ...] = (
        ("Nudge", named(policy.nudge_threshold)),
        ("Block", named(policy.block_threshold)),
        ("Policy", Quoted(policy.policy_hash)),
    )
    return [Fields(rows)]


def commands(db: str, policy: GuardPolicy, key: str | None) -> list[Block]:
    """Commands that show the same again."""
    plain = GuardPolicy(policy.nudge_threshold, policy.block_threshold) == policy
    nudge = "off" if policy.nudge_threshold is None else policy.nudge_threshold
    block = "off" if policy.block_threshold is None else policy.block_threshold
    rules = f"--nudge {nudge} --block {block}" if plain else "--policy policy.toml"
    place = f"--db {shlex.quote(db)}"
    lines = [
        f"loopscope replay {place} {rules}",
        f"loopscope incidents {place} {rules}",
        f"loopscope report {place} {f'--incident {key} ' if key else ''}{rules} -o report.html",
        f"loopscope serve {place}",
    ]
    blocks: list[Block] = [Code("\n".join(lines))]
    if not plain:
        blocks.append(Paragraph("with this as policy.toml:"))
        blocks.append(Code(policy.to_toml().rstrip("\n")))
    return blocks


def glossary() -> tuple[tuple[str, Inline], ...]:
    """For readers who meet the tool for the first time."""
    return (
        ("Guard", "watches an agent's tool calls while it runs and counts equal results of equal calls"),
        (
            "Nudge",
            "from this count on the guard adds a note to the tool's result that asks for another way",
        ),
        ("Block", "at this count the guard adds a last note and the host stops the run"),
        ("Not counted", "failures of the tool or network, and calls whose content was not recorded"),
        ("Avoidable", "a call after the block whose result the run had already seen"),
        ("Lost", "a call after the block that brought something new; a block there would have done harm"),
        ("Exact", "true of the recording as it is: no note came before that the agent had not seen"),
        ("Projected", "what the recording says of a time when a live agent would already have had a note"),
    )
