from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.report.load.comparability import group_comparable, separation_reason
from leakage_tasks.report.load.results import Run, read_runs
from tests.report.made import declaration, leaking, results, write


def _runs(tmp_path: Path, **models: dict[str, Any]) -> dict[str, Run]:
    for model, content in models.items():
        write(
            tmp_path / model,
            {**content, "model_name": model, "config": {"model": "hf", "model_args": {"pretrained": model}}},
        )
    return {run.name: run for run in read_runs([tmp_path])}


def _declaring(**changed: Any) -> dict[str, Any]:
    declared = {task: declaration(task, **changed) for task in leaking()}
    return results(leaking(), declared=declared)


def _grouped(runs: dict[str, Run]) -> list[list[str]]:
    return [[run.name for run in group] for group in group_comparable(list(runs.values()))]


def test_runs_that_were_asked_the_same_are_comparable(tmp_path: Path):
    assert _grouped(_runs(tmp_path, a=results(leaking()), b=results(leaking(extracted=1.0)))) == [["a", "b"]]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"protocol": {"canaries": "cd" * 32}}, "other canaries (cdcdcdcd… instead of abababab…)"),
        ({"protocol": {"canaries": "ab" * 32, "budget": 100}}, "budget 100 instead of unset"),
        ({"attacks": [{"attack": "rank-sample", "access": "x"}]}, "attack rank-sample instead of exposure"),
        ({"attacks": [{"attack": "exposure", "access": "white box"}]}, "access white box instead of black box"),
    ],
)
def test_what_was_asked_otherwise_sets_a_run_apart_and_is_the_reason(tmp_path: Path, changed: dict, reason: str):
    runs = _runs(tmp_path, a=results(leaking()), b=_declaring(**changed))
    assert _grouped(runs) == [["a"], ["b"]]
    assert f"canary_exposure, canary_extraction: {reason}" in separation_reason([runs["b"]], [runs["a"]])


def test_fewer_documents_set_a_run_apart(tmp_path: Path):
    runs = _runs(tmp_path, a=results(leaking()), b=results(leaking(), samples=8))
    assert "documents 8 instead of 40" in separation_reason([runs["b"]], [runs["a"]])


def test_the_attack_that_ran_counts_and_not_the_one_asked_for(tmp_path: Path):
    named = _declaring(protocol={"canaries": "ab" * 32, "attack": "exposure"})
    assert _grouped(_runs(tmp_path, a=results(leaking()), b=named)) == [["a", "b"]]


def test_a_run_with_fewer_tasks_stands_with_those_that_share_one(tmp_path: Path):
    one = {"canary_exposure": leaking()["canary_exposure"]}
    assert _grouped(_runs(tmp_path, a=results(leaking()), b=results(one))) == [["a", "b"]]


def test_runs_without_a_leakage_task_in_common_stand_apart(tmp_path: Path):
    first, second = ({task: leaking()[task]} for task in leaking())
    runs = _runs(tmp_path, a=results(first), b=results(second))
    assert _grouped(runs) == [["a"], ["b"]]
    assert separation_reason([runs["b"]], [runs["a"]]) == "other tasks: canary_extraction"


def test_a_task_that_stayed_unanswered_decides_nothing(tmp_path: Path):
    empty = {**leaking(), "canary_exposure": dict.fromkeys(leaking()["canary_exposure"])}
    null = results(empty, declared={"canary_exposure": declaration("canary_exposure", protocol={}, attacks=[])})
    assert _grouped(_runs(tmp_path, a=results(leaking()), b=null)) == [["a", "b"]]


def test_runs_without_leakage_figures_are_a_group_of_their_own(tmp_path: Path):
    runs = _runs(tmp_path, a=results(leaking()), b=results({"arc": {"acc": 0.5}}), c=results({"arc": {"acc": 0.6}}))
    assert _grouped(runs) == [["a"], ["b", "c"]]
    assert separation_reason([runs["b"]], [runs["a"]]) == "no leakage was measured"


def test_the_reason_may_be_any_run_of_the_first_group(tmp_path: Path):
    first, second = ({task: leaking()[task]} for task in leaking())
    other = {"canary_extraction": declaration("canary_extraction", protocol={"canaries": "cd" * 32})}
    runs = _runs(tmp_path, a=results(first), b=results(leaking()), c=results(second, declared=other))
    assert "other canaries" in separation_reason([runs["c"]], [runs["a"], runs["b"]])
