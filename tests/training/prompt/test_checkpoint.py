"""Checkpoints of prompt tuning: whole, never pickles, and of the very run they are taken up by."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.prompt.checkpoint import Progress, load_checkpoint, save_checkpoint
from leakage_tasks.training.prompt.loss import PromptEpoch, PromptLoss
from leakage_tasks.training.prompt.settings import PromptSettings
from leakage_tasks.training.prompt.tuning import tune_prompt
from tests.training.prompt.prompt_oracle import make_model, make_pairs

SETTINGS = PromptSettings(length=3, epochs=1, batch_size=4)
RUN = {"settings": {"epochs": 2, "alpha": 0.7}, "model": "m", "training": "t", "validation": "v"}


def progress() -> Progress:
    losses = [
        PromptEpoch(n, PromptLoss(1.5, 2.5, total), PromptLoss(1 / 3, 2.0, total)) for n, total in ((1, 3), (2, 3.5))
    ]
    optimiser = {"step": torch.tensor(4.0), "exp_avg": torch.rand(3, 2), "exp_avg_sq": torch.rand(3, 2)}
    return Progress(torch.rand(3, 2), torch.rand(3, 2), optimiser, losses)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = progress()
    save_checkpoint(tmp_path / "c", written, RUN)
    read = load_checkpoint(tmp_path / "c", RUN)
    assert torch.equal(read.prompt, written.prompt)
    assert torch.equal(read.best, written.best)
    assert read.optimiser.keys() == written.optimiser.keys()
    assert all(torch.equal(read.optimiser[name], tensor) for name, tensor in written.optimiser.items())
    assert read.epochs == written.epochs
    assert read.best_epoch == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"settings": {"epochs": 3, "alpha": 0.7}}, "a run with epochs=2, not 3: resume with"),
        ({"settings": {"epochs": 2, "alpha": 0.0}}, "alpha=0.7, not 0.0"),
        ({"model": "n"}, "another model"),
        ({"training": "u"}, "another training"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, other: dict[str, Any], message: str) -> None:
    save_checkpoint(tmp_path / "c", progress(), RUN)
    with pytest.raises(OptionError, match=message):
        load_checkpoint(tmp_path / "c", RUN | other)


@pytest.mark.parametrize("content", [b"", b"12345678 no header", pickle.dumps({"prompt": 1})])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(OptionError, match="not a checkpoint of a soft prompt"):
        load_checkpoint(tmp_path / "c", RUN)


def test_another_safetensors_file_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"prompt": torch.rand(2, 2)}, tmp_path / "c")
    with pytest.raises(OptionError, match="not a checkpoint"):
        load_checkpoint(tmp_path / "c", RUN)


def run(path: Path, *, model: Any = None, seed: int = 1, resume: bool = False, **changes: Any) -> None:
    model, settings = model or make_model(), replace(SETTINGS, **changes)
    options: dict[str, Any] = {"checkpoint": path, "resume": resume, "progress": False}
    tune_prompt(model, make_pairs(8, seed), make_pairs(4, 9), settings, **options)


def test_resuming_takes_the_same_settings_pairs_and_weights(tmp_path: Path) -> None:
    path = tmp_path / "c"
    run(path)
    for others, message in (
        ({"seed": 2}, "another training"),
        ({"alpha": 0.5}, "alpha=0.7, not 0.5"),
        ({"init_tokens": (1, 2)}, r"init_tokens=\[\], not \[1, 2\]"),
        ({"model": make_model(seed=1)}, "another model"),
        ({"model": make_model().bfloat16()}, "another dtype"),
    ):
        with pytest.raises(OptionError, match=message):
            run(path, resume=True, **others)
    run(path, resume=True)


def test_neither_a_missing_checkpoint_nor_one_in_the_way_is_passed_over(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no checkpoint there to go on from: start anew"):
        run(tmp_path / "c", resume=True)
    run(tmp_path / "c")
    with pytest.raises(OptionError, match="holds an interrupted run: go on with it by --resume"):
        run(tmp_path / "c")
