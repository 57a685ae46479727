"""Labels: what people say incidents were, and how well thresholds tell the one from the other."""

from .._labelled import UNLABELLED, Label, LabelVerdict, label_filter, label_verdict, read_labels
from ._csv import CSV_COLUMNS, LabelImport, labels_from_csv, labels_to_csv
from ._intervals import Interval, Ratio, ratio, wilson
from ._score import (
    LabelCounts,
    LabelScores,
    Split,
    SplitScore,
    ThresholdScore,
    score_pairs,
    score_policy,
    score_thresholds,
    split_of,
)
from ._weak import WEAK_RULES, RuleAgreement, WeakLabel, weak_agreement, weak_labels
from ._write import LabelChanges, keys_of_group, labelled_key, remove_label, set_label, set_labels

__all__ = [
    "CSV_COLUMNS",
    "UNLABELLED",
    "WEAK_RULES",
    "Interval",
    "Label",
    "LabelChanges",
    "LabelCounts",
    "LabelImport",
    "LabelScores",
    "LabelVerdict",
    "Ratio",
    "RuleAgreement",
    "Split",
    "SplitScore",
    "ThresholdScore",
    "WeakLabel",
    "keys_of_group",
    "label_filter",
    "label_verdict",
    "labelled_key",
    "labels_from_csv",
    "labels_to_csv",
    "ratio",
    "read_labels",
    "remove_label",
    "score_pairs",
    "score_policy",
    "score_thresholds",
    "set_label",
    "set_labels",
    "split_of",
    "weak_agreement",
    "weak_labels",
    "wilson",
]
