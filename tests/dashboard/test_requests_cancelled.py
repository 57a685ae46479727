"""The sentence of the requests page where requests were cancelled."""

from __future__ import annotations

import pytest

from loopscope.dashboard._request_words import said
from loopscope.replay import RequestTotals


@pytest.mark.parametrize(
    ("totals", "sentence"),
    [
        (
            RequestTotals(requests=5, cancelled=1),
            "None of 5 requests to a model failed; 1 was cancelled.",
        ),
        (
            RequestTotals(requests=20, failed=2, cancelled=18),
            "2 of 20 requests failed, none of them over tool calls and results. 18 more were cancelled.",
        ),
        (
            RequestTotals(requests=9, failed=2, cancelled=1, tool_related=1, prevented=1, causes=1),
            "1 of 9 requests was refused over tool calls and results, from 1 broken history; the sanitizer "
            "would have prevented it. 1 more failed for other reasons. 1 more was cancelled.",
        ),
    ],
)
def test_the_sentence_names_cancelled_requests(totals: RequestTotals, sentence: str) -> None:
    assert said(totals, []) == sentence
