"""Small runs of a real ``transformers.Trainer``, with and without an ``ExposureCallback``."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from leakage_tasks import ExposureCallback
from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from tests.oracles import letters, tiny_gpt2

TEXTS = ["the cat sat on the mat.", "a dog ran fast over it.", "numbers are 17 and 92.."] * 4
LENGTH = 20


def canaries() -> list[Canary]:
    return make_canaries("{unique} pin {digits:2}.", 2, repetitions=(1, 4), controls=1, seed=0)


def manifest(folder: Path, made: list[Canary] | None = None) -> Path:
    path = folder / "canaries.jsonl"
    write_manifest(made or canaries(), path)
    return path


def rows() -> list[dict[str, torch.Tensor]]:
    """Twelve rows of text and five of canaries."""
    texts = TEXTS + [canary.text for canary in canaries() for _ in range(canary.repetitions)]
    encoded = letters()([text.ljust(LENGTH)[:LENGTH] for text in texts])["input_ids"]
    return [{"input_ids": torch.tensor(ids), "labels": torch.tensor(ids)} for ids in encoded]


def model(seed: int = 0) -> Any:
    """A fresh copy, in which dropout draws random numbers."""
    return copy.deepcopy(tiny_gpt2(letters(), seed, 1.0)).train()


class Listener(TrainerCallback):
    """Stands where TensorBoard's callback stands and hears what it would."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, dict[str, Any]]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self.heard.append((state.global_step, dict(logs)))


def trainer_of(folder: Path, net: Any, *, tokenizer: Any = None, callbacks: Any = (), **arguments: Any) -> Trainer:
    """Four steps an epoch, on the CPU, without a checkpoint unless ``arguments`` say otherwise."""
    set_seed(0)
    usual = {"num_train_epochs": 2, "per_device_train_batch_size": 5, "learning_rate": 1e-2, "save_strategy": "no"}
    quiet = {"use_cpu": True, "disable_tqdm": True, "report_to": "none", "logging_strategy": "epoch"}
    settings: Any = {"output_dir": str(folder / "run"), **usual, **quiet, **arguments}
    return Trainer(
        net,
        TrainingArguments(**settings),
        train_dataset=rows(),
        eval_dataset=rows()[:3],
        processing_class=letters() if tokenizer is None else tokenizer,
        callbacks=list(callbacks),
    )


def watched(folder: Path, net: Any = None, *, callbacks: Any = (), watch: Any = None, **arguments: Any) -> Trainer:
    """A trainer that has run with an ExposureCallback made of ``watch``."""
    trainer = trainer_of(folder, model() if net is None else net, callbacks=callbacks, **arguments)
    ExposureCallback(manifest(folder), **({"share": None} | (watch or {}))).attach(trainer)
    trainer.train()
    return trainer


def looks(trainer: Trainer) -> list[dict[str, float]]:
    """The entries of the log that hold exposure."""
    return [entry for entry in trainer.state.log_history if "leakage/exposure_mean" in entry]
