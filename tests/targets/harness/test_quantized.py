"""Models in 4 and 8 bits are scored as the harness scores the same quantized model, where the packages are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.quantized import KINDS, installed, loaded
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.harness.target import HarnessTarget, as_target
from leakage_tasks.targets.rounding import in_half_precision
from tests.oracles import merging

TEXTS = [f"the pin of ann is {number:03}." for number in range(0, 1000, 10)]
ROUNDED = {"bfloat16", "float16", "bitsandbytes, 8 bits"}
"""What rounds the numbers between its layers, so that the batch shows; the others only unpack their weights."""
SLOW = {"quanto, 4 bits"}
"""What cannot be read in torch's inference mode."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama whose distributions are far from uniform."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=len(merging()), max_position_embeddings=64))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    place = tmp_path_factory.mktemp("llama")
    model.save_pretrained(place)
    merging().save_pretrained(place)
    return place


@pytest.mark.parametrize("name", KINDS)
def test_costs_are_the_harness_own_on_the_same_model(folder: Path, name: str) -> None:
    if not installed(KINDS[name][0]):
        pytest.skip(f"{KINDS[name][0]} is not installed")
    lm = loaded(folder, name)
    target = as_target(lm)
    costs, theirs = target.log_perplexity(TEXTS), HarnessTarget(lm).log_perplexity(TEXTS)
    assert isinstance(target, CausalTarget) == (name not in SLOW)
    assert in_half_precision(lm.model) == (name in ROUNDED)
    assert np.ptp(costs) > 1
    allowed = 0.02 * theirs if name in ROUNDED else 1e-3
    assert (np.abs(costs - theirs) <= allowed).all()


def layer(dtype: torch.dtype, **more: Any) -> Any:
    """A model of one layer with a weight of that type."""
    found = torch.nn.Module()
    found.weight = torch.nn.Parameter(torch.zeros(2, 2, dtype=dtype), requires_grad=False)
    for name, value in more.items():
        setattr(found, name, value)
    return torch.nn.Sequential(torch.nn.Linear(2, 2), found)


def test_packed_weights_count_as_what_they_are_computed_in() -> None:
    assert not in_half_precision(layer(torch.float32))
    assert in_half_precision(layer(torch.bfloat16))
    assert in_half_precision(layer(torch.int8))
    assert not in_half_precision(layer(torch.uint8, compute_dtype=torch.float32))
    assert in_half_precision(layer(torch.uint8, compute_dtype=torch.bfloat16))
    assert in_half_precision(layer(torch.float32), autocast=torch.float16)
