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

from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.near import near_bounds
from leakage_tasks.targets.suffix.sampled_suffixes import NearBounds
from leakage_tasks.targets.suffix.scores import score_suffixes
from tests.oracles import merging
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
