"""An option with the value that it would have without being given does not set a run apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.tasks.contamination.task import ContaminationTest
from leakage_tasks.tasks.membership.task import Membership
from leakage_tasks.tasks.memorization.task import Memorization
from leakage_tasks.tasks.suffix.task import SuffixExtraction
from leakage_tasks.tasks.text_task import TextTask
from leakage_tasks.tasks.untargeted.task import UntargetedExtraction
from tests.oracles import letters
from tests.tasks.contamination.test_task import add_benchmark, documents

Make = Callable[..., TextTask]


@pytest.fixture
def made(tmp_path: Path) -> Callable[[type[TextTask], dict[str, Any]], TextTask]:
    letters().save_pretrained(tmp_path / "tokenizer")
    for name in ("data", "other"):
        rows = [{"text": f"the {name} {number} of ann is lost and found again"} for number in range(20)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    add_benchmark(tmp_path, documents(24))
    data, other = str(tmp_path / "data.jsonl"), str(tmp_path / "other.jsonl")
    usual: dict[type[TextTask], dict[str, Any]] = {
        SuffixExtraction: {"data": data, "split": "all", "prefix_length": 4, "suffix_length": 3},
        Memorization: {"data": data, "prefix": 8, "suffix": 20},
        UntargetedExtraction: {"data": data, "run_length": 30, "kinds": "empty"},
        Membership: {"members": data, "nonmembers": other, "attacks": "all"},
        ContaminationTest: {"of": str(tmp_path / "riddle.yaml")},
    }
    more = {"tokenizer": str(tmp_path / "tokenizer")}

    def make(task: type[TextTask], given: dict[str, Any]) -> TextTask:
        needed = usual[task] | ({} if task is ContaminationTest else more)
        return task({"task": task.SCORING.task, "metadata": {**needed, **given}})

    return make


@pytest.mark.parametrize(
    ("task", "given", "other"),
    [
        (SuffixExtraction, {"validation": 0}, {"beams": 3, "decoding": "beam"}),
        (Memorization, {"ngrams": [20]}, {"ngrams": [10]}),
        (UntargetedExtraction, {"propensity_length": 30}, {"propensity_length": 40}),
        (Membership, {"shots": 7, "neighbours": "words"}, {"shots": 3}),
        (ContaminationTest, {"shards": 12, "permutations": 30}, {"shards": 6}),
        (ContaminationTest, {"form": "permutation", "permutations": 199}, {"form": "permutation", "permutations": 30}),
    ],
)
def test_a_usual_value_is_no_difference(
    made: Make, task: type[TextTask], given: dict[str, Any], other: dict[str, Any]
) -> None:
    left_out = {name: value for name, value in given.items() if name == "form"}
    usual = made(task, left_out).protocol()
    assert made(task, given).protocol() == usual
    assert made(task, other).protocol() != usual


def test_the_usual_number_of_wrong_guesses_depends_on_the_pairs_with_a_value(made: Make) -> None:
    task = made(SuffixExtraction, {"wrong": 3})
    task.found["n"] = 35.0
    assert "wrong" not in task.protocol()
    task.found["n"] = 45.0
    assert task.protocol()["wrong"] == 3
