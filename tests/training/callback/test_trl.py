"""The callback in TRL's trainer, however that trains: what the log says last is what the saved model gives away."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, TrainerCallback

from leakage_tasks import ExposureCallback
from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, write_manifest
from leakage_tasks.targets import CausalTarget
from leakage_tasks.training.callback.target import live_target, preserved_training_state
from tests.training.callback.training_runs import looks
from tests.training.preflight.trainers import canaries, sft, texts, tokenizer

SETUPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2},
    "compile": {"torch_compile": True, "torch_compile_backend": "aot_eager"},
    "checkpointing": {"gradient_checkpointing": True},
    "packing": {"packing": True, "max_length": 128},
}
WAYS = [pytest.param(each, marks=pytest.mark.slow if each == "compile" else ()) for each in SETUPS]


@pytest.fixture
def made() -> list[Canary]:
    return canaries(2, 3)


def trained(folder: Path, made: list[Canary], *, resume: bool = False, callbacks: Any = (), **arguments: Any) -> Any:
    """A trainer that has run, watched."""
    write_manifest(made, folder / "canaries.jsonl")
    rows = [{"text": text} for text in texts(made)]
    usual = {"num_train_epochs": 2, "learning_rate": 1e-2, "max_length": None, "logging_strategy": "epoch", "seed": 0}
    trainer = sft(folder / "run", rows, **{**usual, **arguments})
    ExposureCallback(folder / "canaries.jsonl", share=None, budget=300).attach(trainer)
    for each in callbacks:
        trainer.add_callback(each)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def means(target: CausalTarget, made: list[Canary]) -> tuple[float, float]:
    """Exposure of planted canaries and of controls, asked without the callback."""
    found = run_attack("exposure", target, made, budget=300, seed=0)
    sides = [[each.exposure or 0.0 for each in found if each.planted is planted] for planted in (True, False)]
    return fmean(sides[0]), fmean(sides[1])


@pytest.mark.parametrize("setup", WAYS)
def test_looks_are_at_steps_of_the_optimizer_and_the_last_is_what_the_saved_model_gives_away(
    tmp_path: Path, made: list[Canary], setup: str
) -> None:
    trainer = trained(tmp_path, made, **SETUPS[setup])
    steps = [entry["step"] for entry in looks(trainer)]
    assert steps == [0, trainer.state.max_steps // 2, trainer.state.max_steps]
    trainer.save_model(str(tmp_path / "saved"))
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "saved").eval()
    planted, controls = means(CausalTarget(saved, tokenizer()), made)
    last = looks(trainer)[-1]
    assert last["leakage/exposure_mean"] == pytest.approx(planted, abs=1e-3)
    assert last["leakage/exposure_controls"] == pytest.approx(controls, abs=1e-3)


@pytest.mark.slow
def test_in_mixed_precision_the_model_is_read_as_training_reads_it(tmp_path: Path, made: list[Canary]) -> None:
    trainer = trained(tmp_path, made, bf16=True)
    target = live_target(trainer.model_wrapped, tokenizer())
    with preserved_training_state(target.model):
        planted, controls = means(target, made)
    last = looks(trainer)[-1]
    assert (last["leakage/exposure_mean"], last["leakage/exposure_controls"]) == pytest.approx((planted, controls))


@pytest.mark.slow
def test_a_compiled_run_trains_as_without_the_callback(tmp_path: Path, made: list[Canary]) -> None:
    watched = trained(tmp_path, made, **SETUPS["compile"])
    rows = [{"text": text} for text in texts(made)]
    usual = {"num_train_epochs": 2, "learning_rate": 1e-2, "max_length": None, "logging_strategy": "epoch", "seed": 0}
    alone = sft(tmp_path / "alone", rows, **usual, **SETUPS["compile"])
    alone.train()
    pairs = zip(watched.model.state_dict().values(), alone.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


class Stop(TrainerCallback):
    """Ends training at the end of the first epoch, as a machine that goes down would."""

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save = control.should_training_stop = True


@pytest.mark.slow
def test_a_resumed_run_goes_on_where_it_was(tmp_path: Path, made: list[Canary]) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = trained(tmp_path / "whole", made, save_strategy="epoch")
    trained(tmp_path / "parts", made, save_strategy="epoch", callbacks=[Stop()])
    parts = trained(tmp_path / "parts", made, save_strategy="epoch", resume=True)
    one, other = (
        [
            {name: value for name, value in entry.items() if name == "step" or name.startswith("leakage/exposure")}
            for entry in looks(each)
        ]
        for each in (whole, parts)
    )
    assert one == other
    assert [entry["step"] for entry in other] == [0, 4, 8]
