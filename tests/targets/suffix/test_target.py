"""How many pairs a causal model is given at once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.memory import SHARE, memory_within
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import TEXT_BYTES, CausalSuffixes, _agree
from tests.oracles import merging, tiny_gpt2

PAIR = Pair(0, tuple(range(2, 14)), tuple(range(2, 18)))
SAMPLES = 1000
PLAIN = DecodingConfig(top_p=1.0, temperature=1.0)


def suffixes() -> CausalSuffixes:
    return CausalSuffixes(CausalTarget(tiny_gpt2(merging(), seed=3), merging()))


@pytest.mark.parametrize("megabytes", [100, 200, 500])
def test_what_the_draws_of_pairs_given_at_once_weigh_is_half_of_the_memory_for_states(megabytes: int) -> None:
    """By the arrays of the draws of two pairs, hardly two of which are alike, and what a text takes that is read."""
    target, length = suffixes(), len(PAIR.suffix)
    uniforms = np.random.default_rng(0).random((2, SAMPLES, length))
    found = target.draw([PAIR.prefix] * 2, uniforms, PLAIN)
    held = [getattr(each, field.name) for each in found for field in fields(each)]
    arrays = [array for array in held if isinstance(array, np.ndarray) and array.ndim == 2]
    weight = (uniforms.nbytes + sum(array.nbytes for array in arrays)) / 2 + TEXT_BYTES * SAMPLES
    with memory_within(megabytes * 10**6):
        at_once = target.pairs_at_once(PAIR, SAMPLES)
    assert at_once * weight == pytest.approx(megabytes * 10**6 * SHARE / 2, rel=0.15)


def test_one_pair_is_given_however_little_memory_there_is() -> None:
    with memory_within(10**6):
        assert suffixes().pairs_at_once(PAIR, 10**6) == 1


class Forgetful(CharLSTMForCausalLM):
    """Goes on as if nothing had been read before."""

    def read(self, embedded: Any, state: Any, lengths: Any) -> tuple[Any, Any]:
        return super().read(embedded, state and tuple(torch.zeros_like(part) for part in state), lengths)


@pytest.mark.parametrize(("kind", "agrees"), [(CharLSTMForCausalLM, True), (Forgetful, False)])
def test_a_cache_that_does_not_continue_its_text_is_found_out(kind: type[CharLSTMForCausalLM], agrees: bool) -> None:
    torch.manual_seed(0)
    model = kind(CharLSTMConfig(vocab_size=len(merging()))).eval()
    assert _agree(*(CausalTarget(model, merging(), cached=cached) for cached in (True, False))) == agrees


def test_with_room_for_draws_prefixes_fill_a_pass() -> None:
    target = suffixes()
    with memory_within(10**9):
        assert target.pairs_at_once(PAIR, 1) == target.sampler.bound(PAIR.prefix, len(PAIR.suffix))
