"""Ranks in spaces of 10^4 and 10^6 against brute force in plain PyTorch, without this package's code."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.targets import CausalTarget
from tests.oracles import letters

PREFIX = "the number is "


@pytest.fixture(scope="module")
def model():
    """A random character LSTM with the sharp, uneven predictions of a trained one."""
    torch.manual_seed(1)
    model = CharLSTMForCausalLM(CharLSTMConfig(vocab_size=len(letters()))).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.dim() == 2:
                weights.mul_(2.0 if "embed" in name else 1.4)
    return model


def modules(model):
    """Embedding, LSTM and output layer, found by their types."""
    kinds = (torch.nn.Embedding, torch.nn.LSTM, torch.nn.Linear)
    return [next(part for part in model.modules() if type(part) is kind) for kind in kinds]


@torch.no_grad()
def every_cost(model, slots):
    """Cost in bits of each of the 10^slots numbers after PREFIX, in numerical order; level by level, no cuts."""
    embedding, lstm, output = modules(model)
    tokenizer = letters()
    digits = torch.tensor(tokenizer("0123456789", add_special_tokens=False)["input_ids"])
    ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(PREFIX, add_special_tokens=False)["input_ids"]]])
    hidden, state = lstm(embedding(ids))
    log_p = output(hidden).double().log_softmax(-1)
    costs = torch.zeros(1, dtype=torch.float64) - log_p[0, :-1].gather(-1, ids[0, 1:, None]).sum()
    following = log_p[:, -1]
    for slot in range(slots):
        costs = (costs[:, None] - following[:, digits]).flatten()
        if slot == slots - 1:
            return (costs / math.log(2)).numpy()
        parts = []
        states = [part.repeat_interleave(10, dim=1) for part in state]
        fed = digits.repeat(len(costs) // 10)[:, None]
        grown = ([], [])
        for first in range(0, len(fed), 20_000):
            block = slice(first, first + 20_000)
            hidden, after = lstm(embedding(fed[block]), tuple(part[:, block].contiguous() for part in states))
            parts.append(output(hidden[:, -1]).double().log_softmax(-1)[:, :])
            for kept, part in zip(grown, after, strict=True):
                kept.append(part)
        following = torch.cat(parts)
        state = tuple(torch.cat(part, dim=1) for part in grown)
    raise AssertionError


@pytest.fixture(scope="module")
def costs_of_four(model):
    return every_cost(model, 4)


@pytest.fixture(scope="module")
def target(model):
    return CausalTarget(model, letters())


def found(target, slots, place, budget, seed=0):
    canary = Canary("c", f"{PREFIX}{{digits:{slots}}}", tuple(f"{place:0{slots}d}"))
    return run_attack("exposure", target, [canary], budget=budget, seed=seed)[0]


@pytest.mark.parametrize("rank", [1, 2, 40, 1000, 5000, 9999])
def test_ranks_among_ten_thousand(target, costs_of_four, rank):
    costs = costs_of_four
    place = int(np.argsort(costs)[rank - 1])
    finding = found(target, 4, place, 20_000)
    assert (finding.rank, finding.method) == (int((costs <= costs[place] + 1e-4).sum()), "exact")
    assert finding.log_perplexity == pytest.approx(costs[place], abs=1e-3)


@pytest.mark.slow
def test_ranks_among_a_million(model, target):
    costs = every_cost(model, 6)
    order = np.argsort(costs)
    for rank in (1, 7, 300, 20_000):
        place = int(order[rank - 1])
        finding = found(target, 6, place, 10**6)
        low, high = ((costs <= costs[place] + off).sum() for off in (-2e-4, 2e-4))
        assert finding.method == "exact"
        assert low <= finding.rank <= high
    for rank in (2_000, 50_000, 600_000):
        place = int(order[rank - 1])
        estimates = [found(target, 6, place, 6000, seed) for seed in range(25)]
        assert {finding.method for finding in estimates} == {"estimated"}
        inside = sum(finding.rank_low <= rank <= finding.rank_high for finding in estimates)
        assert stats.binomtest(inside, 25, 0.95, alternative="less").pvalue > 0.001
        ranks = np.array([finding.rank for finding in estimates])
        assert abs(ranks.mean() - rank) < 4 * ranks.std(ddof=1) / 5
