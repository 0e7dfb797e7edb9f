"""A callback reaches a trainer that another program makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import Trainer

from leakage_tasks import ExposureCallback
from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.callback.hidden_trainer import attached_when_training
from tests.training.callback.training_runs import Listener, looks, manifest, model, trainer_of, watched


def run_exp(folder: Path, *callbacks: object, **arguments: object) -> Trainer:
    """A program that makes its own trainer and takes callbacks, as LLaMA-Factory's function of that name."""
    trainer = trainer_of(folder, model(), callbacks=callbacks, **arguments)
    trainer.train()
    return trainer


def test_the_log_is_that_of_a_callback_attached_by_hand(tmp_path: Path) -> None:
    by_hand = watched(tmp_path)
    listener = Listener()
    with attached_when_training(ExposureCallback(manifest(tmp_path), share=None)):
        trainer = run_exp(tmp_path, listener)
    exposures = [{k: v for k, v in each.items() if "exposure" in k or k == "step"} for each in looks(trainer)]
    assert exposures == [{k: v for k, v in each.items() if "exposure" in k or k == "step"} for each in looks(by_hand)]
    assert any("leakage/exposure_mean" in logs for _, logs in listener.heard)
    assert (tmp_path / "run" / "preflight.json").is_file()


def test_a_second_trainer_is_not_watched(tmp_path: Path) -> None:
    with attached_when_training(ExposureCallback(manifest(tmp_path), share=None)) as callback:
        trainers = [run_exp(tmp_path, max_steps=1), run_exp(tmp_path, max_steps=1)]
    assert [callback in trainer.callback_handler.callbacks for trainer in trainers] == [True, False]


def test_the_class_is_restored_also_after_an_error(tmp_path: Path) -> None:
    before = Trainer.train
    with pytest.raises(ZeroDivisionError), attached_when_training(ExposureCallback(manifest(tmp_path))):
        raise ZeroDivisionError
    assert Trainer.train is before


def test_a_block_without_training_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(OptionError, match=r"no transformers\.Trainer trained inside the block"),
        attached_when_training(ExposureCallback(manifest(tmp_path))),
    ):
        pass
