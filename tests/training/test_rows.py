"""What the trainers share: random state that is theirs while they train, and nobody else's."""

from __future__ import annotations

import pytest
import torch

from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.research.victims.architectures import build
from leakage_tasks.training.char_lstm import fresh_model
from leakage_tasks.training.rows import seeded

CPU = torch.device("cpu")


def test_inside_it_is_the_seed_s_state_and_afterwards_the_old_one():
    before = torch.get_rng_state()
    with seeded(7, CPU):
        drawn = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(7)))


@pytest.mark.parametrize(
    "make",
    [lambda tokenizer: build("gru-1x370", tokenizer, units=8), lambda tokenizer: fresh_model(tokenizer, 0, 8, 1)],
)
def test_what_is_made_on_the_cpu_seeds_no_gpu(monkeypatch, make):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    make(char_tokenizer("abc"))
    assert seeds == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_s_state_is_the_seed_s_inside_and_the_old_one_afterwards():
    before = torch.cuda.get_rng_state()
    drawn = []
    for place in (torch.device("cuda"), torch.device("cuda", torch.cuda.current_device())):
        with seeded(7, place):
            drawn.append(torch.rand(3, device=place))
    assert torch.equal(*drawn)
    assert torch.equal(torch.cuda.get_rng_state(), before)
