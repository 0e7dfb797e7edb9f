"""Findings as JSON, and what is no finding."""

from __future__ import annotations

import json

import pytest

from leakage_tasks.attacks.untargeted.finding import Hits, UntargetedFinding, untargeted_finding_from_json

FINDING = UntargetedFinding(
    "divergence", 3, 1, False, "greedy", 5, 20, True, Hits(((2, 9, 0, 7),), ((0, 7, 5),)), Hits(), True, {"email": 1},
    {"email": 2}, "text", "data", "settings", "access",
)  # fmt: skip


@pytest.mark.parametrize("hits", [Hits(((2, 9, 0, 7),), ((0, 7, 5),)), Hits(), None])
def test_a_finding_is_read_as_it_was_written(hits):
    finding = UntargetedFinding("empty", 0, 0, True, "greedy", 5, 20, False, hits, None)
    assert untargeted_finding_from_json(finding.to_json()) == finding
    assert untargeted_finding_from_json(FINDING.to_json()) == FINDING


@pytest.mark.parametrize(
    "change",
    [
        {"kind": 3},
        {"unseen": 1},
        {"tokens": -1},
        {"tokens": 1.5},
        {"tokens": True},
        {"tokens": 4},
        {"prompt": 1 << 60},
        {"hits": []},
        {"hits": {"runs": []}},
        {"hits": {"runs": [[1, 2, 3]], "ngrams": []}},
        {"hits": {"runs": [], "ngrams": [[0, 1 << 40, 1]]}},
        {"hits": {"runs": [], "ngrams": [[0, 0, 1 << 27]]}},
        {"hits": {"runs": [["a", 2, 3, 4]], "ngrams": []}},
        {"personal": {"email": "x"}},
        {"personal": []},
        {"diverged": "yes"},
        {"text": 5},
        {"more": 1},
    ],
)
def test_what_is_no_finding_is_refused(change):
    text = json.dumps({**json.loads(FINDING.to_json()), **change})
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        untargeted_finding_from_json(text)
