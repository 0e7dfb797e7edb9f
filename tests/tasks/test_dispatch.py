"""What lets the harness' models answer requests of a task's own kind."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2LMHeadModel

from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.hf import HFLM
from leakage_tasks.tasks.base_task import LocalTask
from leakage_tasks.tasks.canary_tasks import CanaryExposure
from leakage_tasks.tasks.dispatch import answer_by_group
from tests.oracles import letters, tiny_gpt2


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    yield
    if hasattr(LM, "echo"):
        del LM.echo


def echoing(name: str = "Echo") -> type[LocalTask]:
    def answers(cls: type, lm: LM, requests: Sequence[Instance]) -> list[Any]:
        return [request.args[1] for request in requests]

    return type(name, (LocalTask,), {"OUTPUT_TYPE": "echo", "answers": classmethod(answers)})


def test_every_model_answers_what_a_task_class_answers() -> None:
    echoing()

    class Model(LM):
        loglikelihood = loglikelihood_rolling = generate_until = lambda self, requests: []

    from leakage_tasks.harness.generation import request

    assert Model().echo([request("echo", {}, ("", 3)), request("echo", {}, ("", 4))]) == [3, 4]


def test_a_class_that_is_made_again_answers_anew() -> None:
    echoing()
    echoing()


def test_a_kind_of_another_class_is_one_line() -> None:
    echoing()
    with pytest.raises(OptionError, match="^requests of kind 'echo' are answered by .* already: choose another name$"):
        echoing("Other")


def test_a_subclass_without_answers_of_its_own_takes_its_parents() -> None:
    first = LM.attack
    type("Mine", (CanaryExposure,), {"OUTPUT_TYPE": "attack"})
    assert LM.attack is first


@pytest.mark.parametrize("tied", [True, False])
def test_a_delta_that_the_harness_adds_twice_is_a_warning(
    tied: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notices.warn_once.cache_clear()
    config = copy.deepcopy(tiny_gpt2(letters()).config)
    config.tie_word_embeddings = tied
    model = GPT2LMHeadModel(config)
    model.save_pretrained(tmp_path)
    letters().save_pretrained(tmp_path)
    lm = HFLM(pretrained=str(tmp_path), delta=str(tmp_path), device="cpu", dtype="float32")
    answer_by_group(lm, [], lambda settings, group: [])
    times = 3 if tied else 2  # the model itself, and its delta
    assert torch.allclose(lm.model.lm_head.weight, times * model.lm_head.weight)
    assert ("twice to tied weights (lm_head.weight)" in caplog.text) == tied
