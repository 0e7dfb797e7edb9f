"""Findings of suffixes as records."""

from __future__ import annotations

import dataclasses
import json

import pytest

from leakage_tasks.attacks.suffix.finding import suffix_finding_from_json
from tests.report.logged import choice, suffix


def test_a_finding_survives_json() -> None:
    finding = suffix(0, {"calibrated": choice(True, 1.0)})
    assert suffix_finding_from_json(finding.to_json()) == finding


@pytest.mark.parametrize(
    ("name", "value"), [("pair", "0"), ("pair", True), ("samples", 10**400), ("seconds", "1"), ("guesses", [["a"]])]
)
def test_what_is_no_finding_is_refused(name: str, value: object) -> None:
    finding = suffix(0, {"calibrated": choice(True, 0.5)})
    with pytest.raises(ValueError, match=rf"^{name}[\d.]*: expected "):
        suffix_finding_from_json(json.dumps({**json.loads(finding.to_json()), name: value}))


def test_a_number_that_is_none_in_a_choice_is_refused() -> None:
    finding = suffix(0, {"calibrated": choice(True, float("nan"))})
    with pytest.raises(ValueError, match="confidence: expected a number up to"):
        suffix_finding_from_json(json.dumps(dataclasses.asdict(finding)))


def test_a_number_that_no_mean_could_be_taken_of_is_refused() -> None:
    data = dataclasses.asdict(suffix(0, {"calibrated": choice(True, 0.5)}))
    data["views"]["none"]["choices"]["calibrated"]["wrong"] = 1e308
    with pytest.raises(ValueError, match="wrong: expected a number up to"):
        suffix_finding_from_json(json.dumps(data))
