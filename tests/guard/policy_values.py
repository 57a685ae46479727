"""Strategies for policies with every knob, and for sequences of calls that make them matter."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from loopscope.guard import INHERIT, ErrorKind, GuardPolicy, Outcome, OutcomeRule, ToolPolicy

names = st.text(max_size=12)
thresholds = st.one_of(st.none(), st.integers(1, 50))
PATTERNS = (r"\d+", r"took [\d.]+ ?ms", "[0-9a-f]{8}(-[0-9a-f]{4}){3}", "'\"\\\\", r"^#.*$", "(?i)req-\\w+")
patterns = st.lists(st.sampled_from(PATTERNS), unique=True, max_size=3)


def _pair(draw: Any, prefix: str) -> dict[str, Any]:
    nudge, block = draw(thresholds), draw(thresholds)
    if nudge is not None and block is not None and nudge >= block:
        nudge, block = block, nudge + 1
    return {f"{prefix}nudge_threshold": nudge, f"{prefix}block_threshold": block}


@st.composite
def tool_policies(draw: st.DrawFn) -> ToolPolicy:
    knobs: dict[str, Any] = {**_pair(draw, ""), **_pair(draw, "error_")}
    if draw(st.booleans()):
        knobs = dict.fromkeys(knobs, INHERIT)
    return ToolPolicy(
        **knobs,
        exempt=draw(st.booleans()),
        resets=draw(st.booleans()),
        metadata_keys=draw(st.lists(names, max_size=2)),
        ignored_result_keys=draw(st.lists(names, max_size=2)),
        ignored_result_patterns=draw(patterns),
    )


@st.composite
def outcome_rules(draw: st.DrawFn) -> OutcomeRule:
    outcome = draw(st.sampled_from(list(Outcome)))
    kinds = st.none() if outcome is Outcome.SUCCESS else st.none() | st.sampled_from(list(ErrorKind))
    tool = draw(st.none() | st.text(min_size=1, max_size=12))
    kind = draw(kinds)
    if draw(st.booleans()):
        pattern = draw(st.sampled_from(PATTERNS))
        return OutcomeRule(outcome=outcome, kind=kind, tool=tool, text_pattern=pattern, on_success=True)
    return OutcomeRule(
        outcome=outcome,
        kind=kind,
        tool=tool,
        error_type=draw(st.none() | st.text(min_size=1, max_size=12)),
        http_status=draw(st.integers(100, 599)),
        text_pattern=draw(st.none() | st.sampled_from(PATTERNS)),
    )


@st.composite
def policies(draw: st.DrawFn) -> GuardPolicy:
    """Any policy."""
    return GuardPolicy(
        **_pair(draw, ""),
        **_pair(draw, "error_"),
        counted_outcomes=draw(st.sets(st.sampled_from(list(Outcome)))),
        tools=draw(st.dictionaries(names, st.just(ToolPolicy()) | tool_policies(), max_size=3)),
        metadata_keys=draw(st.lists(names, max_size=3)),
        ignored_result_keys=draw(st.lists(names, max_size=3)),
        ignored_result_patterns=draw(patterns),
        scope=draw(st.sampled_from(["run", "trace", "session"])),
        shadow=draw(st.booleans()),
        outcome_rules=draw(st.lists(outcome_rules(), max_size=3)),
        strip_annotations=draw(st.booleans()),
    )


# Few of everything, so that repeats are common.

TOOLS = ("read", "edit", "write", "poll")
_pairs = st.sampled_from([(None, None), (1, 2), (2, 4), (3, 5), (None, 3), (2, None)])


@st.composite
def busy_policies(draw: st.DrawFn) -> GuardPolicy:
    """Policies whose knobs speak of the tools, arguments and outputs of `call_rows`."""
    nudge, block = draw(_pairs)
    error_nudge, error_block = draw(_pairs)
    tools = {
        "edit": ToolPolicy(
            resets=draw(st.booleans()), error_nudge_threshold=None, error_block_threshold=None
        ),
        "write": ToolPolicy(resets=draw(st.booleans()), ignored_result_patterns=draw(patterns)),
        "poll": ToolPolicy(
            exempt=draw(st.booleans()),
            resets=draw(st.booleans()),
            metadata_keys=draw(st.sampled_from([(), ("page",)])),
            ignored_result_keys=draw(st.sampled_from([(), ("at",)])),
        ),
    }
    return GuardPolicy(
        nudge_threshold=nudge,
        block_threshold=block,
        error_nudge_threshold=error_nudge,
        error_block_threshold=error_block,
        counted_outcomes=draw(st.sampled_from([("success", "schema_error"), ("success",), list(Outcome)])),
        tools={name: tool for name, tool in tools.items() if draw(st.booleans())},
        metadata_keys=draw(st.sampled_from([(), ("trace",)])),
        ignored_result_keys=draw(st.sampled_from([(), ("ms",)])),
        ignored_result_patterns=draw(st.sampled_from([(), (r"\d+ ms",)])),
        shadow=draw(st.booleans()),
    )


ARGUMENTS = (
    '{"q": 1}',
    '{"q": 1, "page": 2}',
    '{"page": 3, "q": 1}',
    '{"q": 1, "trace": "t"}',
    "text",
    None,
)
OUTPUTS = (
    "same",
    "took 3 ms",
    "took 4 ms",
    '{"n": 1, "ms": 5}',
    '{"ms": 6, "n": 1}',
    '{"n": 1, "at": {"ms": 1}}',
    "",
    None,
)
call_rows = st.lists(
    st.fixed_dictionaries(
        {
            "tool_name": st.sampled_from(TOOLS),
            "arguments": st.sampled_from(ARGUMENTS[:2]) | st.sampled_from(ARGUMENTS),
            "output": st.sampled_from(OUTPUTS[:3]) | st.sampled_from(OUTPUTS),
            "outcome": st.sampled_from([*Outcome, Outcome.SUCCESS, Outcome.GENERAL_TOOL_ERROR, None]),
            "agent": st.sampled_from([None, None, "x"]),
        }
    ),
    max_size=30,
)
