"""What a policy would have changed in the recorded runs, and what changes from one to another."""

from ._compare import compare_policies
from ._endings import final_answers
from ._examples import calls_after_block
from ._impact import impact
from ._types import (
    AfterBlock,
    CallAfterBlock,
    CallsAfterBlock,
    ChangedCall,
    Divergence,
    Effect,
    Impact,
    ImpactPart,
    PolicyComparison,
    PositionBin,
    SoftFailure,
    SoftFailures,
    Spent,
    ToolComparison,
    VerdictChange,
)

__all__ = [
    "AfterBlock",
    "CallAfterBlock",
    "CallsAfterBlock",
    "ChangedCall",
    "Divergence",
    "Effect",
    "Impact",
    "ImpactPart",
    "PolicyComparison",
    "PositionBin",
    "SoftFailure",
    "SoftFailures",
    "Spent",
    "ToolComparison",
    "VerdictChange",
    "calls_after_block",
    "compare_policies",
    "final_answers",
    "impact",
]
