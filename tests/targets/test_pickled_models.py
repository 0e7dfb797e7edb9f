"""Model folders whose weights are a pickle: plain weights load, anything more is refused in one line and never run."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.loading import load_causal
from leakage_tasks.targets.masked.target import load_masked
from tests.encoders import save_base

Maker = Callable[[Path], Any]


def gpt2(folder: Path) -> Path:
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=11)).save_pretrained(folder)
    return folder


LOADERS: dict[str, tuple[Maker, Callable[[str], Any]]] = {
    "causal": (gpt2, load_causal),
    "masked": (save_base, load_masked),
}


@pytest.fixture(params=LOADERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pickled(folder: Path, weights: Any, **settings: Any) -> str:
    """Put ``weights`` into the folder in place of its safetensors."""
    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        torch.save(weights, file) if not settings else pickle.dump(weights, file, **settings)
    return str(folder)


def trap(place: Path) -> Any:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(place),)

    return {"transformer.wte.weight": Trap()}


def state(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_is_more_than_weights_is_refused_in_one_line(kind: str, tmp_path: Path, protocol: int) -> None:
    make, load = LOADERS[kind]
    make(tmp_path / "model")
    folder = pickled(tmp_path / "model", trap(tmp_path / "sprung"), protocol=protocol)
    with pytest.raises(TargetError) as refused:
        load(folder)
    assert str(refused.value).startswith(folder)
    assert not (tmp_path / "sprung").exists()


def test_the_harness_own_model_does_not_run_it_either(tmp_path: Path) -> None:
    gpt2(tmp_path / "model")
    folder = pickled(tmp_path / "model", trap(tmp_path / "sprung"), protocol=2)
    with pytest.raises(Exception, match=r"(?i)weights.only|unpickl|safetensors|serializ"):
        HFLM(pretrained=folder, device="cpu")
    assert not (tmp_path / "sprung").exists()


def test_a_pickle_of_plain_weights_loads(tmp_path: Path) -> None:
    weights = state(gpt2(tmp_path / "model"))
    weights["lm_head.weight"] = weights["transformer.wte.weight"].clone()
    model = load_causal(pickled(tmp_path / "model", weights), device="cpu")
    assert torch.equal(model.transformer.wte.weight, weights["transformer.wte.weight"])
