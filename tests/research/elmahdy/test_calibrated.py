"""What the study of calibrated signals makes of places that are known, and a trial of it."""

from __future__ import annotations

from functools import lru_cache
from math import log2
from pathlib import Path

import pytest

from leakage_tasks.research.elmahdy import calibrated, calibrated_trials, trials
from leakage_tasks.research.framework.gains import cell_value
from leakage_tasks.research.framework.papers import KNOWN_PAPERS
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Measured, Report
from tests.research.stored import stored

SMALL = StudyPlan("small", trials=3)
SIZE = 1_000


def made(factor: float, chance: int = SIZE // 2) -> list[StudyTrial]:
    """Trials whose secrets stand so many times higher beside a reference."""
    found = []
    for number, config in enumerate(calibrated.calibrated_trials(SMALL)):
        places = {"loss": [8 + number, 16, 32, 64], "calibrated": [int(n / factor) for n in (8 + number, 16, 32, 64)]}
        controls = {signal: [chance - 200, chance, chance + 200, chance] for signal in places}
        result = {"places": places, "controls": controls, "alphabet": SIZE, "accuracy": 0.4, "training_accuracy": 0.6}
        found.append(StudyTrial(config, result, 1.0))
    return found


@lru_cache
def report_of(factor: float, chance: int = SIZE // 2) -> Report:
    return calibrated.calibrated_report(made(factor, chance), SMALL)


def test_a_gain_is_bits_of_the_place_and_each_canary_counts_once() -> None:
    report = report_of(4.0)
    gain = next(row for row in report.rows if row["copies"] == "all")[calibrated.GAIN]
    assert isinstance(gain, Measured)
    assert gain.count == 12
    own = [trial.result["places"] for trial in made(4.0)]
    # By hand: the first canary of each seed stands in two victims, the others' places are the same in all.
    firsts = [[log2(own[place]["loss"][0] / own[place]["calibrated"][0]) for place in range(s, 6, 3)] for s in range(3)]
    assert gain.value == pytest.approx((sum(sum(each) / 2 for each in firsts) + 3 * 3 * 2.0) / 12)


@pytest.mark.parametrize(("factor", "holds"), [(4.0, True), (0.25, False), (1.0, None)])
def test_the_claim_follows_the_places(factor: float, holds: bool | None) -> None:
    assert report_of(factor).claims[0].holds is holds


@pytest.mark.parametrize(("chance", "holds"), [(SIZE // 2, True), (250, False)])
def test_controls_are_held_to_chance(chance: int, holds: bool) -> None:
    assert report_of(4.0, chance).claims[1].holds is holds


def test_its_row_shows_the_gain_over_all_victims() -> None:
    item = next(item for item in KNOWN_PAPERS["elmahdy"].beyond if item.study == "calibrated")
    rows = report_of(4.0).to_json()["rows"]
    gain = item.gain(stored(rows=rows))
    assert gain == cell_value({"copies": "all"}, calibrated.GAIN)(stored(rows=rows))
    assert gain is not None
    assert gain.value > 1.9


@pytest.mark.slow
def test_a_trial_ranks_by_the_difference_of_two_classifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The places of one canary, computed from both classifiers' losses of every value."""
    from leakage_tasks.attacks import run as running

    asked = []
    plain = running.run_attack

    def noted(name: str, target: object, canaries: list, **given: object) -> list:
        asked.append((target, canaries))
        return plain(name, target, canaries, **given)

    monkeypatch.setattr("leakage_tasks.attacks.run_attack", noted)
    config = trials.victim(StudyPlan("smoke"), 0, penalties=[])
    found = calibrated_trials.run(config, tmp_path)
    target, canaries = asked[0]
    space, label = canaries[0].attack_space, target.labels.index(canaries[0].label)
    texts = [space.fill((word,)) for word in space.slots[0].values]
    own, beside = (each.label_costs(each.encode(texts))[:, label] for each in (target, target.reference))
    true = space.slots[0].position(canaries[0].secret[0])
    for signal, costs in (("loss", own), ("calibrated", own - beside)):
        strictly = int((costs < costs[true] - 1e-4).sum()) + 1
        loosely = int((costs <= costs[true] + 1e-4).sum())
        assert strictly <= found["places"][signal][0] <= loosely
    assert found["places"]["loss"] != found["places"]["calibrated"]
