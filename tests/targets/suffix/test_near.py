"""Bounds on near-verbatim extraction against enumeration of all draws."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.metrics.distance import edit_distance
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.near import near_bounds
from leakage_tasks.targets.suffix.sampled_suffixes import NearBounds
from leakage_tasks.targets.suffix.scores import score_suffixes
from leakage_tasks.targets.suffix.search import beam_search
from tests.oracles import merging
from tests.targets.causal.models import limit_rows
from tests.targets.suffix.test_decoding_config import warped
from tests.targets.suffix_oracle import direct_logits, prefixes_of, sampler_of

VOCABULARY, LENGTH, PREFIX = 5, 4, [1, 3, 2]
ALL = np.array(list(itertools.product(range(VOCABULARY), repeat=LENGTH)))
PLAIN = DecodingConfig(top_p=1.0, temperature=1.0)
SCHEMES = [PLAIN, DecodingConfig(), DecodingConfig(top_k=3, top_p=0.9, temperature=1.5)]


@lru_cache
def small(seed: int = 0) -> SuffixSampler:
    """A model of few tokens."""
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=VOCABULARY, n_layer=1, n_embd=16, n_head=2, n_positions=16)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        model.transformer.wte.weight.mul_(15.0)
    return SuffixSampler(CausalTarget(model, merging()))


@lru_cache
def probabilities(seed: int, scheme: DecodingConfig) -> Any:
    """The probability of each of ``ALL`` under `transformers`' own truncation, in one plain pass."""
    logits = direct_logits(small(seed).target.model, PREFIX, ALL)
    costs = warped(logits.reshape(-1, VOCABULARY), scheme).reshape(logits.shape).double()
    return costs.gather(-1, torch.tensor(ALL)[..., None])[..., 0].sum(-1).exp().numpy()


def enumerated(seed: int, scheme: DecodingConfig, truth: tuple[int, ...], edits: int) -> float:
    near = [edit_distance(row, list(truth)) <= edits for row in ALL.tolist()]
    return float(probabilities(seed, scheme)[near].sum())


def bounds(seed: int, scheme: DecodingConfig, truth: tuple[int, ...], edits: int, width: int) -> tuple[float, float]:
    (found,) = near_bounds(small(seed), [PREFIX], [truth], scheme, edits, width)
    return 2.0**-found.bits, 2.0**-found.high_bits


@settings(deadline=None)
@given(
    st.tuples(*[st.integers(0, VOCABULARY - 1)] * LENGTH),
    st.integers(0, LENGTH - 1),
    st.integers(1, 12),
    st.sampled_from(SCHEMES),
    st.integers(0, 2),
)
def test_the_true_probability_is_between_the_bounds(
    truth: tuple[int, ...], edits: int, width: int, scheme: DecodingConfig, seed: int
) -> None:
    low, high = bounds(seed, scheme, truth, edits, width)
    exact = enumerated(seed, scheme, truth, edits)
    assert low <= exact + 1e-6
    assert high >= exact - 1e-6
    assert low >= enumerated(seed, scheme, truth, 0) - 1e-6


@settings(deadline=None)
@given(
    st.tuples(*[st.integers(0, VOCABULARY - 1)] * LENGTH),
    st.integers(0, LENGTH - 1),
    st.sampled_from(SCHEMES),
    st.integers(0, 2),
)
def test_a_beam_wide_enough_gives_the_true_probability(
    truth: tuple[int, ...], edits: int, scheme: DecodingConfig, seed: int
) -> None:
    exact = enumerated(seed, scheme, truth, edits)
    assert bounds(seed, scheme, truth, edits, VOCABULARY**LENGTH) == pytest.approx((exact, exact), abs=1e-6)


def test_probabilities_below_the_smallest_float_are_numbers_of_bits() -> None:
    sampler, prefixes, suffixes = sampler_of(), prefixes_of(2, 6), prefixes_of(2, 7, seed=1)
    scheme = DecodingConfig(top_p=1.0, temperature=0.01)
    costs = [cost.drawn.sum() for cost in score_suffixes(sampler, prefixes, suffixes, scheme)]
    assert min(costs) > 1100
    found = near_bounds(sampler, prefixes, suffixes, scheme, 0, 1)
    assert [each.bits for each in found] == pytest.approx(costs, rel=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "sliding window", "mamba", "lstm"])
def test_without_edits_it_is_the_probability_of_the_suffix(name: str) -> None:
    sampler, prefixes = sampler_of(name), prefixes_of(3, 6)
    suffixes = [each.tokens[0].tolist() for each in draw_suffixes(sampler, prefixes, uniforms(3, 1), DecodingConfig())]
    costs = [cost.drawn.sum() for cost in score_suffixes(sampler, prefixes, suffixes, DecodingConfig())]
    for found, cost in zip(near_bounds(sampler, prefixes, suffixes, DecodingConfig(), 0, 1), costs, strict=True):
        assert (found.bits, found.high_bits) == pytest.approx((cost, cost), abs=1e-4)
        assert found.nodes == 7


@pytest.mark.parametrize("name", ["gpt2", "sliding window", "mamba", "lstm"])
def test_company_and_batches_change_no_bound(name: str) -> None:
    sampler, prefixes = sampler_of(name), prefixes_of(5, 6)
    suffixes = [each.tokens[0].tolist() for each in draw_suffixes(sampler, prefixes, uniforms(5, 1), DecodingConfig())]
    met = near_bounds(sampler, prefixes, suffixes, DecodingConfig(), 2, 6)
    order = [3, 0, 4]
    pairs = [prefixes[place] for place in order], [suffixes[place] for place in order]
    for most in (1, 13, 1000):
        other = sampler_of(name)
        other.limit.most = most
        check_equal([met[place] for place in order], near_bounds(other, *pairs, DecodingConfig(), 2, 6))
    assert any(each.nodes > 7 and math.isfinite(each.bits) and each.high_bits < each.bits for each in met)


def test_memory_that_runs_out_is_answered_by_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, prefixes = sampler_of(), prefixes_of(4, 6)
    suffixes = [each.tokens[0].tolist() for each in draw_suffixes(sampler, prefixes, uniforms(4, 1), DecodingConfig())]
    plain = near_bounds(sampler, prefixes, suffixes, DecodingConfig(), 2, 6)
    small = sampler_of()
    limit_rows(monkeypatch, SuffixSampler, "go_on", 12, place=2)
    check_equal(plain, near_bounds(small, prefixes, suffixes, DecodingConfig(), 2, 6))
    with pytest.raises(TargetError, match="out of memory for 40 texts .* pass fewer near_beam="):
        near_bounds(small, prefixes, suffixes, DecodingConfig(temperature=2.0, top_p=1.0), 2, 40)


@pytest.mark.parametrize("edits", range(4))
def test_greedy_decoding_is_near_or_not(edits: int) -> None:
    (prefix,), greedy, sampler = prefixes_of(1, 6), DecodingConfig(decoding="greedy"), sampler_of()
    own = beam_search(sampler, [prefix], 7, 1)[0].tokens[0].tolist()
    changed = [own[0], 399, *own[1:4], 398, own[6]]
    (found,) = near_bounds(sampler, [prefix], [changed], greedy, edits, 3)
    assert found.bits == found.high_bits == (0.0 if edit_distance(own, changed) <= edits else math.inf)


def check_equal(some: list[NearBounds], others: list[NearBounds]) -> None:
    for found, other in zip(some, others, strict=True):
        assert (found.bits, found.high_bits) == pytest.approx((other.bits, other.high_bits), abs=1e-3)
        assert (found.edits, found.nodes) == (other.edits, other.nodes)


def uniforms(count: int, draws: int) -> Any:
    return np.random.default_rng(1).random((count, draws, 7))
