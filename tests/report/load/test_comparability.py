from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters.frankenstein_mlm import TRAINED_HERE, FrankensteinLM
from leakage_tasks.core.option import by_name
from leakage_tasks.report.load.comparability import (
    HEAD_ARGUMENTS,
    TRAINED_HEADS,
    group_comparable,
    separation_reason,
)
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
    found = separation_reason([runs["b"]], [runs["a"]])
    assert found.startswith("canary_exposure, canary_extraction: ")
    assert reason in found.partition(": ")[2].split("; ")


def test_the_differences_of_a_task_follow_its_name_once(tmp_path: Path):
    both = {"protocol": {"canaries": "ab" * 32, "budget": 100}}
    declared = {task: declaration(task, **both) for task in leaking()}
    declared["canary_extraction"]["protocol"] = {**both["protocol"], "known": "none", "beam": 3}
    runs = _runs(tmp_path, a=results(leaking()), b=results(leaking(), declared=declared))
    assert separation_reason([runs["b"]], [runs["a"]]) == (
        "canary_exposure, canary_extraction: budget 100 instead of unset; "
        "canary_extraction: beam 3 instead of unset; known none instead of unset"
    )


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


def _classifiers(tmp_path: Path, *runs: tuple[dict[str, Any], dict[str, Any]]) -> list[Run]:
    """Runs of classifiers a, b, …, each given as changes of its declaration and arguments of the model."""
    task = "canary_extraction"
    for name, (changed, arguments) in zip("abcdefgh", runs, strict=False):
        usual = declaration(task)
        declared = {task: {**usual, **{part: {**usual[part], **more} for part, more in changed.items()}}}
        content = results({task: leaking()[task]}, declared=declared, model=name)
        config = {"model": "frankenstein-mlm", "model_args": {"pretrained": name, **arguments}}
        write(tmp_path / name, {**content, "config": config})
    return read_runs([tmp_path])


CALIBRATED = {"protocol": {"label-search.signal": "calibrated"}}


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (
            ({"tested": {"generator": "causal:gpt2"}}, {}),
            ({"tested": {"generator": "frankenstein"}}, {}),
            "generator frankenstein instead of causal:gpt2",
        ),
        (
            ({"tested": {"generator": "text:m, 2000 texts pruned to candidates, seed 0"}}, {}),
            ({"tested": {"generator": "text:m, 50 texts pruned to template, seed 0"}}, {}),
            "generator text:m, 50 texts pruned to template instead of text:m, 2000 texts pruned to candidates",
        ),
        (
            ({"tested": {"generator": "frankenstein"}}, {"head": "train", "text": "a.txt", "head_epochs": 3}),
            ({"tested": {"generator": "frankenstein"}}, {"head": "adapter", "text": "b.txt", "base": "bert"}),
            "canary_extraction: base bert instead of unset; head adapter instead of train; text b.txt instead of a.txt",
        ),
        ((CALIBRATED, {"reference": "one"}), (CALIBRATED, {"reference": "two"}), "reference two instead of one"),
        ((CALIBRATED, {"reference": "one"}), (CALIBRATED, {}), "reference unset instead of one"),
    ],
)
def test_runs_with_other_generators_or_references_are_not_comparable(
    tmp_path: Path, first: tuple[dict, dict], second: tuple[dict, dict], reason: str
):
    one, other = _classifiers(tmp_path, first, second)
    assert [len(group) for group in group_comparable([one, other])] == [1, 1]
    assert reason in separation_reason([other], [one])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # Seeds may differ, and what no attack used.
        (
            ({"tested": {"generator": "text:m, 9 texts pruned to candidates, seed 0"}}, {"seed": 0}),
            ({"tested": {"generator": "text:m, 9 texts pruned to candidates, seed 12"}}, {"seed": 12}),
        ),
        (({}, {"generator": "exhaustive", "reference": "one"}), ({}, {"reference": "two"})),
        # A default is no other protocol, and the base of a model belongs to the model.
        (
            ({"tested": {"generator": "frankenstein"}}, {"head": "train", "text": "a.txt", "head_epochs": "3"}),
            ({"tested": {"generator": "frankenstein"}}, {"head": "train", "text": "a.txt"}),
        ),
        (
            ({"tested": {"generator": "frankenstein"}}, {"head": "bert-base"}),
            ({"tested": {"generator": "frankenstein"}}, {"head": "bert-large"}),
        ),
    ],
)
def test_arguments_that_change_no_attack_leave_runs_comparable(
    tmp_path: Path, first: tuple[dict, dict], second: tuple[dict, dict]
):
    assert len(group_comparable(_classifiers(tmp_path, first, second))) == 1


def test_the_arguments_of_trained_heads_are_those_of_the_model():
    options = by_name(FrankensteinLM.OPTIONS)
    assert {name: options[name].default for name in HEAD_ARGUMENTS} == HEAD_ARGUMENTS
    assert TRAINED_HEADS == TRAINED_HERE
