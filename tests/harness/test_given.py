"""What was said for the model counts for tasks only where an option is of both."""

from __future__ import annotations

from typing import Any

import pytest
from lm_eval.config.evaluate_config import EvaluatorConfig

from leakage_tasks.core.option import Option, by_name
from leakage_tasks.harness.given import kept, names_of_model, noted
from leakage_tasks.harness.plugin import install
from leakage_tasks.tasks.options import CANARY_OPTIONS, read_options, typed_options

install()


@pytest.mark.parametrize(
    ("model_args", "metadata", "names"),
    [
        ({"pretrained": "x", "seed": 1}, {"seed": 2}, {"pretrained"}),
        ("pretrained=x,budget=3", "canaries=c.jsonl", {"pretrained", "budget"}),
        (None, None, set()),
        ("pretrained=x", {"pretrained": "x"}, set()),
    ],
)
def test_names_that_only_the_model_has(model_args: Any, metadata: Any, names: set[str]) -> None:
    with kept(), noted("other=1", None):
        with noted(model_args, metadata):
            assert names_of_model() == names
        assert names_of_model() == {"other"}
    assert names_of_model() == frozenset()


def test_an_option_of_the_model_alone_is_none_of_the_task() -> None:
    merged = {"pretrained": "x", "budget": 3, "seed": 5, "width": 9}
    with noted({"pretrained": "x", "budget": 3, "seed": 5, "width": 9}, {}):
        options = read_options(merged, "canary_exposure")
    assert (options.budget, options.seed, dict(options.settings)) == (None, 5, {})
    with noted({"pretrained": "x", "seed": 5}, {"budget": 3, "width": 9}):
        options = read_options(merged, "canary_extraction")
    assert (options.budget, options.seed, dict(options.settings)) == (3, 5, {"width": 9})


def test_what_the_model_is_told_is_no_misspelt_option() -> None:
    with noted({"budgets": 3}, {}):
        assert read_options({"budgets": 3}, "canary_exposure").budget is None


def test_every_task_reads_like_that() -> None:
    options = by_name([Option("text", str, None, "a text"), Option("both", int, 0, "a number", of_model=True)])
    with noted("text=public.txt,both=1", {}):
        assert typed_options({"text": "public.txt", "both": 1}, "toy", options)[1] == {"both": 1}
    assert CANARY_OPTIONS["seed"].of_model


def test_a_command_line_is_noted_before_it_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    config = EvaluatorConfig(tasks=["canary_exposure"], model_args={"pretrained": "x", "data": 1}, metadata={"seed": 2})
    with noted(None, None):
        config._configure()
        assert config.metadata == {"pretrained": "x", "data": 1, "seed": 2}
        assert names_of_model() == {"pretrained", "data"}


def test_a_call_from_python_is_noted_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    import lm_eval

    seen = []

    class Manager:
        def __init__(self, metadata: Any = None) -> None:
            seen.append((metadata, names_of_model()))
            raise InterruptedError

    monkeypatch.setattr("lm_eval.evaluator.TaskManager", Manager)
    with kept(), pytest.raises(InterruptedError):
        lm_eval.simple_evaluate(model="dummy", model_args="pretrained=x,text=y", metadata={"seed": 1}, tasks=["a"])
    assert seen == [({"pretrained": "x", "text": "y", "seed": 1}, {"pretrained", "text"})]
    assert names_of_model() == frozenset()
