"""Soft prompts as PEFT saves them, and checkpoints of their tuning."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load, save

from adapters.soft_prompt import _tuned_on, check_prompt
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.training.prompt.files import (
    CONFIG,
    RECORD,
    WEIGHTS,
    Progress,
    PromptEpoch,
    PromptLoss,
    check_output,
    load_checkpoint,
    save_checkpoint,
)
from leakage_tasks.training.prompt.settings import PromptSettings
from tests.fuzzing import hostile, mutate
from tests.fuzzing.case import Call, ensure

_CONFIG: dict[str, Any] = {
    "peft_type": "PROMPT_TUNING",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "base",
    "num_virtual_tokens": 3,
    "token_dim": 4,
}
_RECORD = {"hashes": {"model": "ab" * 32}, "losses": []}
_SET = ("length", "epochs", "batch_size", "learning_rate", "warmup", "alpha", "patience", "seed", "weight_decay")
_NAMES = ("vocabulary", "random", "text", "")


@cache
def _run() -> dict[str, Any]:
    return {"settings": asdict(PromptSettings()), "dtype": "float32", "model": "ab", "pairs": "cd"}


@cache
def _checkpoint() -> bytes:
    """The bytes of a sound checkpoint."""
    losses = PromptLoss(2.0, 3.0, 5.0)
    prompt = torch.zeros(3, 4)
    progress = Progress(prompt, prompt, {"step": torch.zeros(1)}, [PromptEpoch(1, losses, losses)])
    with tempfile.TemporaryDirectory() as place:
        save_checkpoint(Path(place) / "made", progress, _run())
        return (Path(place) / "made").read_bytes()


def make(stream: Random, folder: Path) -> Call:
    """An adapter's folder, a checkpoint, or settings."""
    kind = stream.randrange(4)
    if kind == 0:
        values = {name: hostile.value(stream) for name in stream.sample(_SET, 2)}
        values["init"] = stream.choice(_NAMES)
        return Call(lambda: _settle(values))
    if kind == 1:
        path = folder / "run.checkpoint"
        told = _checkpoint()
        path.write_bytes(mutate.data(stream, told))
        return Call(lambda: _resume(path))
    (folder / "prompt").mkdir()
    for name, told in _files(stream).items():
        (folder / "prompt" / name).write_bytes(told)
    return Call(lambda: _read(folder / "prompt"))


def _files(stream: Random) -> dict[str, bytes]:
    shape = stream.choice(((3, 4), (3, 4), (3, 4), (3,), (0, 4), (3, 0)))
    weights = save({stream.choice(("prompt_embeddings",) * 9 + ("x",)): torch.zeros(shape)})
    changed = stream.randrange(3)
    return {
        CONFIG: mutate.json_file(stream, _CONFIG) if changed == 0 else mutate.written(stream, _CONFIG),
        WEIGHTS: mutate.data(stream, weights) if changed == 1 else weights,
        RECORD: mutate.json_file(stream, _RECORD) if changed == 2 else mutate.written(stream, _RECORD),
    }


def _settle(values: dict[str, Any]) -> None:
    PromptSettings(**values).record()


def _read(folder: Path) -> None:
    _tuned_on(folder)
    with suppress(LeakageError):
        check_output(folder)
    ensure(check_prompt(folder, "base", 4) >= 0, "a prompt has a length")
    load((folder / WEIGHTS).read_bytes())


def _resume(path: Path) -> None:
    ensure(load_checkpoint(path, _run()).best_epoch >= 0, "a checkpoint knows its best epoch")
