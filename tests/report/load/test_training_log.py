"""What a run's log says of exposure: written, and read back from trainer states and the demo's history."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from leakage_tasks.attacks import Finding
from leakage_tasks.attacks.finding import CONTEXT
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.report.load.training_log import (
    TrainingCurves,
    curves_of_log,
    exposure_entry,
    read_curves,
    read_history,
)


def finding(exposure: float, times: int, **given) -> Finding:
    rank = 2 ** (20.0 - exposure)
    return Finding("c", "exposure", times > 0, times, "random", 20.0, rank=rank, **({"method": "exact"} | given))


def looked(step: int, epoch: float, *found: Finding) -> dict[str, float]:
    return {**exposure_entry(found), "leakage/seconds": 0.5, "leakage/skipped": 0, "epoch": epoch, "step": step}


LOG = [
    looked(0, 0, finding(1.0, 1), finding(2.0, 10), finding(3.0, 0)),
    {"loss": 4.0, "grad_norm": 1.0, "learning_rate": 0.1, "epoch": 1.0, "step": 5},
    {"eval_loss": 4.5, "eval_runtime": 0.1, "epoch": 1.0, "step": 5},
    looked(10, 2.0, finding(6.0, 1), finding(20.0, 10), finding(0.5, 0)),
    {"loss": 3.0, "epoch": 2.0, "step": 10},
    {"eval_loss": 4.75, "epoch": 2.0, "step": 10},
    {"train_runtime": 3.0, "train_loss": 3.5, "epoch": 2.0, "step": 10},
]


def test_an_entry_holds_means_by_repetitions_maximum_bound_and_what_is_known():
    found = [finding(2.0, 1), finding(4.0, 1), finding(9.0, 10, method="lower_bound"), finding(1.5, 0)]
    found.append(dataclasses.replace(finding(2.5, 0), log2_size=30.0, rank=2**27.5))
    assert exposure_entry(found) == pytest.approx(
        {
            "leakage/exposure_mean": 5.0,
            "leakage/exposure_max": 9.0,
            "leakage/exposure_controls": 2.0,
            "leakage/exposure_x1": 3.0,
            "leakage/exposure_x10": 9.0,
            "leakage/exposure_x10_at_least": 1.0,
            "leakage/exposure_bound": 30.0,
            "leakage/share_with_interval": 2 / 3,
        }
    )
    assert "leakage/exposure_controls" not in exposure_entry(found[:3])


def test_canaries_that_training_did_not_learn_from_are_in_no_tier_of_copies():
    found = [finding(6.0, 1), finding(2.0, 1, reading="context"), finding(1.0, 4, reading="absent"), finding(1.5, 0)]
    entry = looked(5, 1.0, *found)
    assert entry["leakage/exposure_x1"] == 6
    assert entry["leakage/exposure_mean"] == 3
    assert curves_of_log([entry]).planted == {1: [(1.0, 6.0)], CONTEXT: [(1.0, 2.0)], None: [(1.0, 1.0)]}


def test_a_finding_without_a_rank_is_not_taken_for_no_exposure():
    with pytest.raises(AssertionError, match="have a rank"):
        exposure_entry([dataclasses.replace(finding(1.0, 1), rank=None)])


def test_curves_are_read_by_epoch_and_by_step():
    expected = TrainingCurves(
        training=[(1.0, 4.0), (2.0, 3.0)],
        validation=[(1.0, 4.5), (2.0, 4.75)],
        planted={1: [(0, 1.0), (2.0, 6.0)], 10: [(0, 2.0), (2.0, 20.0)]},
        controls=[(0, 3.0), (2.0, 0.5)],
        log2_size=20.0,
    )
    assert curves_of_log(LOG) == expected
    by_step = curves_of_log(LOG, "step")
    assert (by_step.over, by_step.training, by_step.planted[10]) == (
        "step",
        [(5, 4.0), (10, 3.0)],
        [(0, 2.0), (10, 20)],
    )


def test_of_two_entries_at_one_place_the_last_counts_and_a_loss_that_is_no_number_does_not():
    again = [*LOG, {"loss": 2.5, "epoch": 2.0, "step": 10}, {"loss": math.nan, "epoch": 3.0, "step": 15}]
    again += [{"loss": 10**400, "epoch": 4.0, "step": 20}, {"loss": 1.0, "epoch": 10**400, "step": 10**400}]
    assert curves_of_log(again).training == [(1.0, 4.0), (2.0, 2.5)]


def test_a_log_without_exposure_has_no_curves():
    assert curves_of_log([entry for entry in LOG if "leakage/exposure_mean" not in entry]) is None


def saved(path, log=LOG):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"epoch": 2.0, "log_history": log}))
    return path


def test_a_state_its_folder_and_its_newest_checkpoint_are_read(tmp_path):
    for step in (9, 10, 2):
        saved(tmp_path / "run" / f"checkpoint-{step}" / "trainer_state.json", LOG[: step - 3])
    (tmp_path / "run" / "checkpoint-best").mkdir()
    assert read_curves(tmp_path / "run") == curves_of_log(LOG)
    assert read_curves(saved(tmp_path / "run" / "trainer_state.json", LOG[:4])) == curves_of_log(LOG[:4])
    assert read_curves(tmp_path / "run") == curves_of_log(LOG[:4])


def demo(tmp_path, losses, exposures=True):
    points = [
        {"epoch": epoch, "canary": name, "repetitions": times, "exposure": epoch * slope, "log2_size": 29.9}
        for epoch in (1, 2)
        for name, times, slope in (("a", 1, 1.0), ("b", 10, 4.0), ("c", 10, 6.0), ("d", 0, 0.5))
    ]
    path = tmp_path / "exposure_by_epoch.json"
    path.write_text(json.dumps({"losses": losses, "exposures": points if exposures else []}))
    return path


def test_the_demos_history_is_read_as_means_of_its_canaries(tmp_path):
    losses = [{"training": 3.0, "validation": 3.5, "epsilon": None}, {"training": 2.0, "validation": None}]
    assert read_curves(demo(tmp_path, losses)) == TrainingCurves(
        training=[(1, 3.0), (2, 2.0)],
        validation=[(1, 3.5)],
        planted={1: [(1, 1.0), (2, 2.0)], 10: [(1, 5.0), (2, 10.0)]},
        controls=[(1, 0.5), (2, 1.0)],
        log2_size=29.9,
        loss_unit="bits per character",
    )


def test_the_history_is_grouped_by_what_training_read(tmp_path):
    path = demo(tmp_path, [])
    data = json.loads(path.read_text())
    data["exposures"][1] |= {"reading": "context", "bound": True}
    data["exposures"][5]["reading"] = "context"
    path.write_text(json.dumps(data))
    curves = read_curves(path)
    assert curves.planted == {1: [(1, 1.0), (2, 2.0)], CONTEXT: [(1, 4.0), (2, 8.0)], 10: [(1, 6.0), (2, 12.0)]}
    assert (curves.bounds, curves.controls) == ({CONTEXT: [1]}, [(1, 0.5), (2, 1.0)])


def test_lower_bounds_are_read_back_as_such(tmp_path):
    log = [
        looked(0, 0, finding(1.0, 1), finding(2.0, 10, method="lower_bound"), finding(3.0, 10)),
        looked(
            10, 2.0, finding(6.0, 1, method="lower_bound"), finding(20.0, 10), finding(0.5, 0, method="lower_bound")
        ),
    ]
    assert log[0]["leakage/exposure_x10_at_least"] == 0.5
    assert curves_of_log(log).bounds == {1: [2.0], 10: [0]}
    assert curves_of_log(log, "step").bounds == {1: [10], 10: [0]}
    assert curves_of_log(LOG).bounds == {}


def test_lower_bounds_in_the_demos_history_are_read_back_as_such(tmp_path):
    path = demo(tmp_path, [])
    data = json.loads(path.read_text())
    data["exposures"][1]["bound"] = data["exposures"][3]["bound"] = True
    path.write_text(json.dumps(data))
    assert [point.bound for point in read_history(path)] == [False, True, False, True, False, False, False, False]
    assert read_curves(path).bounds == {10: [1]}


def test_the_demo_knows_no_steps(tmp_path):
    with pytest.raises(OptionError, match="contains epochs, but no steps: remove --steps"):
        read_curves(demo(tmp_path, []), "step")


def test_a_demo_without_points_or_losses_is_one_line(tmp_path):
    with pytest.raises(ResultsError, match="field 'exposures': is empty"):
        read_curves(demo(tmp_path, [], exposures=False))
    with pytest.raises(ResultsError, match="field 'losses': expected a list of objects"):
        read_curves(demo(tmp_path, 3))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON: give the trainer_state.json of a Trainer"),
        ("[]", "field 'log_history': expected a list of objects"),
        ('{"log_history": [3]}', "field 'log_history': expected a list of objects"),
        ('{"log_history": [{"loss": 3.0, "epoch": 1}]}', "contains no exposure: train with an ExposureCallback"),
    ],
)
def test_a_file_without_exposure_is_one_line(tmp_path, text, words):
    path = tmp_path / "trainer_state.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match=words) as raised:
        read_curves(path)
    assert str(raised.value).startswith(str(path))


def test_a_missing_file_and_a_folder_without_a_state_are_one_line(tmp_path):
    with pytest.raises(ResultsError, match="none.json: cannot be read"):
        read_curves(tmp_path / "none.json")
    with pytest.raises(ResultsError, match="contains no trainer_state.json, nor does a checkpoint"):
        read_curves(tmp_path)
