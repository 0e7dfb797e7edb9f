"""Audits of checkpoints as a table and as panels, in the order of steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.board.steps import StepBoard, read_steps, steps_text
from tests.report.made import STAMP, declaration, leaking, results


def write(folder: Path, exposures: tuple[float, float], control: float = 1.25) -> Path:
    """One checkpoint's results: canaries planted once and 16 times, and bits per byte."""
    once, often = exposures
    tiers = {"exposure_x1": once, "exposure_x1_ci_low": once - 1, "exposure_x1_ci_high": once + 1, "n_x1": 10}
    tiers |= {"exposure_x16": often, "exposure_x16_ci_low": often - 1, "exposure_x16_ci_high": often + 2, "n_x16": 10}
    values = {**leaking()["canary_exposure"], **tiers, "control_exposure": control}
    declared = {"canary_exposure": declaration("canary_exposure", {1: 10, 16: 10})}
    content = results(
        {"canary_exposure": values, "prose": {"bits_per_byte": 2.0}}, declared=declared, model=str(folder)
    )
    folder.mkdir(parents=True)
    (folder / f"results_{STAMP}.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def steps(tmp_path: Path) -> StepBoard:
    late = write(tmp_path / "late", (4.0, 9.0), 1.5)
    early = write(tmp_path / "early", (2.0, 3.0))
    return read_steps([(20, "checkpoint-20", late), (10, "checkpoint-10", early)])


def test_a_panel_has_a_line_per_number_of_copies_with_interval_and_controls(steps: StepBoard) -> None:
    exposure, usefulness = steps.panels()
    assert [line.title for line in exposure.lines] == ["Exposure, planted once", "Exposure, planted 16 times"]
    values = [[(step, f.low, f.value, f.high) for step, f in line.points] for line in exposure.lines]
    assert values == [[(10, 1.0, 2.0, 3.0), (20, 3.0, 4.0, 5.0)], [(10, 2.0, 3.0, 5.0), (20, 8.0, 9.0, 11.0)]]
    assert [(step, value.value) for step, value in exposure.controls] == [(10, 1.25), (20, 1.5)]
    assert (exposure.unit, exposure.direction) == ("bits", "lower")
    assert [(step, value.value) for step, value in usefulness.lines[0].points] == [(10, 2.0), (20, 2.0)]


def test_the_table_has_a_row_per_step_with_interval_count_and_controls(steps: StepBoard) -> None:
    head, first, second, *notes = steps_text(steps).splitlines()
    assert head.split()[:2] == ["step", "model"]
    assert first.split()[:2] == ["10", "checkpoint-10"]
    assert "2.00 [1.00, 3.00] (controls 1.25, n = 10)" in first
    assert "4.00 [3.00, 5.00] (controls 1.50, n = 10)" in second
    assert any(note.startswith("= checkpoint-20: canary_exposure: ") for note in notes)


def test_a_flag_of_all_checkpoints_is_told_once(steps: StepBoard) -> None:
    flags = [line for line in steps_text(steps).splitlines() if line.startswith("!")]
    assert len(flags) == len(set(flags))
    assert all(line.startswith("! all: ") for line in flags)


def test_results_without_a_file_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no results file in it"):
        read_steps([(1, "checkpoint-1", tmp_path)])
