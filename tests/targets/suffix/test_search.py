"""Greedy and beam search against `transformers`' own."""

import numpy as np
import pytest
import torch

from leakage_tasks.targets.suffix.search import beam_search
from tests.targets.suffix_oracle import bits_of, direct_logits, prefixes_of, sampler_of

LENGTH = 8


@pytest.mark.parametrize("width", [1, 4, 10])
@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt-neox"])
def test_beams_are_those_of_transformers(name, width):
    sampler, prefixes = sampler_of(name), prefixes_of(3, 6)
    for prefix, found in zip(prefixes, beam_search(sampler, prefixes, LENGTH, width), strict=True):
        theirs = sampler.target.model.generate(
            torch.tensor([prefix]),
            num_beams=width,
            num_return_sequences=width,
            do_sample=False,
            max_new_tokens=LENGTH,
            min_new_tokens=LENGTH,
            pad_token_id=0,
            eos_token_id=None,
        )
        assert found.tokens.tolist() == theirs[:, len(prefix) :].tolist()
        logits = direct_logits(sampler.target.model, prefix, found.tokens)
        assert np.abs(found.own - bits_of(logits, found.tokens)).max() < 1e-4


@pytest.mark.parametrize("name", ["lstm", "mamba", "sliding window"])
def test_states_of_other_kinds_follow_their_beams(name):
    sampler, prefixes = sampler_of(name), prefixes_of(2, 6)
    for prefix, found in zip(prefixes, beam_search(sampler, prefixes, LENGTH, 5), strict=True):
        logits = direct_logits(sampler.target.model, prefix, found.tokens)
        assert np.abs(found.own - bits_of(logits, found.tokens)).max() < 1e-4
        assert np.all(np.diff(found.own.sum(1)) >= -1e-9)


def test_a_beam_as_wide_as_the_space_finds_the_best_of_all():
    sampler, prefix = sampler_of("gpt2"), prefixes_of(1, 6)[0]
    (found,) = beam_search(sampler, [prefix], 2, 400)
    rows = torch.tensor([[*prefix, token] for token in range(400)])
    with torch.no_grad():
        logits = sampler.target.model(rows).logits[:, -2:].double().log_softmax(-1)
    costs = -(logits[0, 0, :, None] + logits[:, 1]).numpy() / np.log(2)
    assert found.tokens[0].tolist() == list(np.unravel_index(costs.argmin(), costs.shape))
    assert found.own[:10].sum(1) == pytest.approx(np.sort(costs.ravel())[:10], abs=1e-4)


def test_a_search_in_parts_is_the_same():
    prefixes = prefixes_of(5, 6)
    whole = beam_search(sampler_of(), prefixes, LENGTH, 3)
    sampler = sampler_of()
    sampler.limit.most = 4
    for one, other in zip(whole, beam_search(sampler, prefixes, LENGTH, 3), strict=True):
        assert np.array_equal(one.tokens, other.tokens)
        assert one.nodes == other.nodes
