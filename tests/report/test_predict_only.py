"""Runs under ``--predict_only``, of which the harness scores nothing: each report says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.report.board.board import make_board
from leakage_tasks.report.load.results import read_runs
from tests.conftest import Leakage, Ran, Refused
from tests.oracles import letters, tiny_gpt2
from tests.report.made import STAMP, leaking, results, write
from tests.report.saved import EXPOSURE, save

BYPASS = {"bypass": 999, "bypass_stderr": "N/A"}


@pytest.fixture
def predicted(tmp_path: Path) -> Path:
    """A run of a task of ours and one of the harness, as the harness writes it."""
    return write(tmp_path / "predicted", results({"canary_exposure": BYPASS, "arc_easy": BYPASS}), STAMP)


def test_a_board_says_why_the_row_is_empty(predicted: Path, ran: Ran) -> None:
    out, _ = ran("leaderboard", predicted)
    assert "canary_exposure: not scored: the run had --predict_only; 'leakage score' scores its samples" in out
    assert "arc_easy: not scored: the run had --predict_only; run it again without" in out
    assert "999" not in out


def test_a_run_without_figures_is_not_ranked_with_one_that_has_some(predicted: Path, tmp_path: Path) -> None:
    write(tmp_path / "scored", results(leaking(), model="models/two"), STAMP)
    first, second = make_board(read_runs([tmp_path])).groups
    assert [entry.run.source for entry in first.entries] == ["models/two"]
    assert [(entry.run.source, entry.place) for entry in second.entries] == [("models/one", None)]
    assert second.reason == "no leakage was measured"


def test_a_run_with_one_scored_task_beside_it_is_read(predicted: Path, tmp_path: Path) -> None:
    both = {"canary_exposure": BYPASS, "canary_extraction": leaking()["canary_extraction"]}
    (run,) = read_runs([write(tmp_path / "both", results(both), STAMP)])
    assert [(task, result.predicted_only) for task, result in run.tasks.items()] == [
        ("canary_exposure", True),
        ("canary_extraction", False),
    ]


def test_a_card_is_refused_with_the_reason_and_nothing_is_written(
    predicted: Path, tmp_path: Path, refused: Refused
) -> None:
    err = refused("card", predicted, "--card", tmp_path / "README.md")
    assert "the run had --predict_only, so nothing was scored" in err
    assert not (tmp_path / "README.md").exists()


def test_a_card_of_another_task_names_the_one_that_was_not_scored(tmp_path: Path, leakage: Leakage) -> None:
    both = {"canary_exposure": BYPASS, "canary_extraction": leaking()["canary_extraction"]}
    path, card = write(tmp_path, results(both), STAMP), tmp_path / "README.md"
    assert leakage("card", path, "--card", card)[0] == 0
    text = card.read_text(encoding="utf-8")
    assert "canary\\_exposure: not scored" in text or "canary_exposure: not scored" in text
    assert "could not serve it" not in text


def test_a_check_says_why_there_is_no_figure_to_limit(predicted: Path, refused: Refused) -> None:
    err = refused("check", predicted, "--max-exposure", 3)
    assert "as arc_easy, canary_exposure ran under --predict_only and nothing was scored" in err
    assert "run lm_eval again without --predict_only" in err


def test_a_check_of_another_task_fails_for_a_task_that_was_not_scored(tmp_path: Path, leakage: Leakage) -> None:
    both = {"canary_exposure": BYPASS, "canary_extraction": leaking()["canary_extraction"]}
    path = write(tmp_path, results(both), STAMP)
    code, out, _ = leakage("check", path, "--max-extracted", 1)
    assert code == 1
    assert "canary_exposure: not scored" in out
    assert leakage("check", path, "--max-extracted", 1, "--allow", "no-headline")[0] == 0


def test_a_comparison_says_which_run_was_not_scored(predicted: Path, tmp_path: Path, refused: Refused) -> None:
    scored = write(tmp_path / "scored", results(leaking()), STAMP)
    err = refused("compare", scored, predicted)
    assert err.startswith(f"leakage: {predicted}: the run had --predict_only, so nothing was scored")


def test_samples_of_such_a_run_are_scored_and_not_held_against_its_empty_results(tmp_path: Path, ran: Ran) -> None:
    write_manifest(make_canaries("pin {unique} is {digits:2}", 3, controls=2), tmp_path / "canaries.jsonl")
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters(), batch_size=4)
    file = save(lm, [EXPOSURE], tmp_path, {"canaries": str(tmp_path / "canaries.jsonl")}, predict_only=True)
    assert json.loads(file.read_text())["results"][EXPOSURE]["alias"] == "canary_exposure (not scored)"
    out, _ = ran("score", file)
    assert "exposure_x1 " in out
    assert "differs from" not in out
