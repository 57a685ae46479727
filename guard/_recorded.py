"""A call as a recording has it, to be judged by the guard's own fold."""

from __future__ import annotations

from typing import NamedTuple

from ._outcome import ErrorKind, Outcome

__all__ = ["RecordedCall"]


class RecordedCall(NamedTuple):
    """A finished call of a recording: what `DuplicateCallGuard.observe_recorded` needs of it.

    Attributes:
        tool_name: the tool.
        arguments: as recorded; None where they were not. Needed only where there is no
            `fingerprint`, or where `policy.changes_fingerprints(tool_name)`.
        result: as recorded, without a guard's note; None where it was not. Needed only where
            there is no `result_hash`, or where `policy.changes_results(tool_name)`.
        outcome: how the call ended; None where that is not known.
        agent_name: who called.
        fingerprint: the fingerprint as stored, of the present FINGERPRINT_VERSION.
        result_hash: the result hash as stored.
        recorded_verdict: "nudge" or "block" where a guard's note was taken off the result.
        error_type: the class of the exception, as recorded. This and what follows, and `result`,
            are needed only where the policy has `outcome_rules`.
        error_message: the message of the exception, else of the status.
        http_status: of a failure, where one is known.
        error_kind: what a failed call failed of, as stored.
    """

    tool_name: str
    arguments: object
    result: object
    outcome: Outcome | str | None
    agent_name: str | None = None
    fingerprint: int | None = None
    result_hash: int | None = None
    recorded_verdict: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    http_status: int | None = None
    error_kind: ErrorKind | str | None = None
