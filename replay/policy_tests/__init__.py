"""Tests of a policy: sequences of calls with the decision that is expected at call k.

A file of them is run in CI (`loopscope policy test`), so that a policy that is changed later still nudges and
blocks where it has to, and nowhere else. docs/policy-tests.md describes the file.
"""

from ._export import case_of_incident
from ._read import PolicyTestCase, TestCall, parse_policy_tests, read_policy_tests
from ._run import CaseFailure, CaseResult, policy_tests_junit, run_policy_tests

__all__ = [
    "CaseFailure",
    "CaseResult",
    "PolicyTestCase",
    "TestCall",
    "case_of_incident",
    "parse_policy_tests",
    "policy_tests_junit",
    "read_policy_tests",
    "run_policy_tests",
]
