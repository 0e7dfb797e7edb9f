"""Findings of the contamination test as JSON."""

from __future__ import annotations

import json

import pytest

from leakage_tasks.attacks.contamination.finding import (
    OrderFinding,
    TextCost,
    TwinFinding,
    contamination_finding_from_json,
)

FINDINGS = [
    OrderFinding(3, 20, -10.5, (-11.0, -12.25), 2),
    TwinFinding(1, TextCost(20.0, 8, 40, 4, 9.0, 6.0), TextCost(30.0, None, 60)),
]


@pytest.mark.parametrize("finding", FINDINGS)
def test_a_finding_is_read_as_it_was_written(finding):
    assert contamination_finding_from_json(finding.to_json()) == finding


@pytest.mark.parametrize(
    "damage",
    [
        {"kind": "other"},
        {"kind": None},
        {"shuffled": []},
        {"canonical": "low"},
        {"shuffled": [1, None]},
        {"number": -1},
    ],
)
def test_a_damaged_finding_is_refused(damage):
    with pytest.raises(ValueError, match=r".+"):
        contamination_finding_from_json(json.dumps(json.loads(FINDINGS[0].to_json()) | damage))
    with pytest.raises(ValueError, match=r".+"):
        contamination_finding_from_json("[]")


def test_rates_are_per_token_or_per_byte():
    item, twin = FINDINGS[1].item, FINDINGS[1].twin
    assert (item.rate, twin.rate) == (2.5, 0.5)
    assert (item.p_z, twin.p_z) == (2.0**-6, None)
    assert TextCost(1.0, 1, 1, 3, 5.0, None).p_z == 0.0
    assert TextCost(1.0, 1, 1, 3, 5.0, -1e-9).p_z == 1.0
