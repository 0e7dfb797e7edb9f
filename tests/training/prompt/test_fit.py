"""What tells models apart before a prompt is put before them."""

from __future__ import annotations

import hashlib

import pytest
import torch

from leakage_tasks.training.prompt.fit import SAMPLED, comparable, model_hash
from tests.training.prompt.prompt_oracle import make_model


def test_the_hash_is_of_evenly_spread_values_in_bfloat16() -> None:
    model, digest = make_model(), hashlib.sha256()
    for name, weight in model.named_parameters():
        values = weight.detach().flatten().tolist()
        some = [values[n * len(values) // SAMPLED] for n in range(SAMPLED)] if len(values) > SAMPLED else values
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(torch.tensor(some).bfloat16().view(torch.int16).numpy().tobytes())
    assert model_hash(model) == digest.hexdigest()


def test_the_hash_is_the_same_in_both_precisions() -> None:
    assert model_hash(make_model().bfloat16()) == model_hash(make_model())


@pytest.mark.parametrize("kind", ["gpt2", "opt"])
def test_the_hash_tells_weights_apart(kind: str) -> None:
    assert model_hash(make_model(kind)) == model_hash(make_model(kind))
    assert model_hash(make_model(kind, seed=1)) != model_hash(make_model(kind))


def test_what_rounding_or_quantizing_changed_is_not_compared() -> None:
    assert comparable(make_model())
    assert comparable(make_model().bfloat16())
    assert not comparable(make_model().half())
    assert not comparable(make_model().to("meta"))
    model = make_model()
    model.config.quantization_config = {"bits": 4}
    assert not comparable(model)
