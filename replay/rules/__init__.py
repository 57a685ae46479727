"""Other frameworks' rules against loops, run beside ours over the same recorded calls.

Each rule is a small class that is fed finished calls (`LoopRule`). Constants and behaviour are those
of the source that `RuleInfo.source` names; docs/rules.md is written from them.
"""

from ._calls import CallRecord
from ._compare import Agreement, RuleComparison, compare_rules
from ._labels import RuleLabels
from ._registry import RULES, check_options, rule_info, run_rule
from ._rule import LoopRule, RuleInfo, RuleVerdicts, Said

__all__ = [
    "RULES",
    "Agreement",
    "CallRecord",
    "LoopRule",
    "RuleComparison",
    "RuleInfo",
    "RuleLabels",
    "RuleVerdicts",
    "Said",
    "check_options",
    "compare_rules",
    "rule_info",
    "run_rule",
]
