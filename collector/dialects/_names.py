"""Attribute names that belong to no dialect: our own, and those that all of them share."""

from __future__ import annotations

__all__ = [
    "COMPARED_HASH",
    "ERROR_TYPE",
    "HTTP_STATUS",
    "OUR_DIALECT",
    "OUTCOME_FAILED",
    "RUN_ID",
    "RUN_PARENT",
]

OUR_DIALECT = "loopscope.dialect"  # the dialect to report
OUTCOME_FAILED = "loopscope.outcome.failed"  # the source's own failure flag
RUN_ID = "loopscope.run.id"
RUN_PARENT = "loopscope.run.parent"  # beside it: the run that started this one
COMPARED_HASH = "loopscope.guard.result_hash"  # of the bare result, where a live guard wrote it
ERROR_TYPE = "error.type"
HTTP_STATUS = ("http.response.status_code", "http.status_code", "status_code")
