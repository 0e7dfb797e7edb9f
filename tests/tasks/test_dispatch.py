"""What lets the harness' models answer requests of a task's own kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.tasks.base_task import LocalTask


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
    type("Mine", (LocalTask,), {"OUTPUT_TYPE": "attack"})
    assert LM.attack is first
