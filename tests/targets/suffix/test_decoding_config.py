"""What a sampling scheme keeps of a distribution, against `transformers`' own warpers, and draws by inverse CDF."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.truncation import cut, draw

SCHEMES = [
    DecodingConfig(),
    DecodingConfig(top_k=5, top_p=0.9),
    DecodingConfig(top_k=40, top_p=1.0, temperature=1.3),
    DecodingConfig(top_p=1.0, temperature=1.0),
    DecodingConfig(top_p=0.99, temperature=2.0),
]


def warped(logits, scheme):
    """Log-probabilities after `transformers`' warpers, in its order."""
    scores = TemperatureLogitsWarper(float(scheme.temperature))(None, logits)
    scores = TopKLogitsWarper(scheme.top_k)(None, scores) if scheme.top_k else scores
    scores = TopPLogitsWarper(scheme.top_p)(None, scores) if scheme.top_p < 1 else scores
    return scores.log_softmax(-1)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize(("vocabulary", "spread"), [(30, 1.0), (300, 0.3), (2000, 3.0)])
def test_what_is_kept_is_what_transformers_keeps(scheme, vocabulary, spread):
    logits = spread * torch.randn(40, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    expected = warped(logits, scheme)
    found = cut(logits, scheme)
    rows = torch.stack([found.log_probability(torch.full((40,), token)) for token in range(vocabulary)], dim=1)
    # A sum that ends within rounding of top_p may be cut a token earlier or later.
    differ = (rows.isinf() != expected.isinf()).sum(1)
    assert int((differ > 0).sum()) <= 2
    same = differ == 0
    assert torch.allclose(rows[same].exp(), expected[same].exp(), atol=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_uniform_number_becomes_the_token_whose_part_of_the_distribution_it_falls_in(scheme):
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(7, 50, generator=generator)
    rows = torch.randint(7, (500,), generator=generator)
    uniforms = torch.rand(500, generator=generator, dtype=torch.float64)
    tokens = draw(cut(logits, scheme), rows.numpy(), uniforms.numpy()).numpy()
    probabilities = warped(logits, scheme).double().exp().numpy()
    for row, uniform, token in zip(rows.tolist(), uniforms.tolist(), tokens.tolist(), strict=True):
        below = probabilities[row, :token].sum()
        assert below - 1e-5 <= uniform <= below + probabilities[row, token] + 1e-5


def test_one_token_that_holds_all_that_is_kept_is_always_drawn():
    logits = torch.tensor([[0.0, 9.0, 0.0], [9.0, 0.0, 0.0]])
    found = cut(logits, DecodingConfig(top_p=0.5))
    assert draw(found, np.array([0, 1, 0]), np.array([0.0, 0.5, 0.999999])).tolist() == [1, 0, 1]
    assert found.log_probability(torch.tensor([1, 1])).tolist() == [0.0, -math.inf]


def test_tokens_a_model_rules_out_are_never_drawn():
    logits = torch.tensor([[0.0, -math.inf, 0.0, -math.inf]])
    uniforms = np.linspace(0, 0.9999, 50)
    for scheme in (DecodingConfig(top_p=1.0, temperature=1.0), DecodingConfig(top_p=0.9)):
        drawn = draw(cut(logits, scheme), np.zeros(50, dtype=np.int64), uniforms)
        assert set(drawn.tolist()) == {0, 2}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 1.0), st.floats(0.2, 3.0), st.integers(0, 12))
def test_what_is_kept_sums_to_one_and_is_the_likeliest(seed, top_p, temperature, top_k):
    logits = torch.randn(3, 20, generator=torch.Generator().manual_seed(seed))
    found = cut(logits, DecodingConfig(top_p=top_p, temperature=temperature, top_k=top_k))
    costs = torch.stack([found.log_probability(torch.full((3,), token)) for token in range(20)], dim=1)
    assert torch.allclose(costs.exp().sum(1), torch.ones(3), atol=1e-5)
    for row in range(3):
        kept = set(np.flatnonzero(~costs[row].isinf().numpy()))
        assert kept == set(logits[row].topk(len(kept)).indices.tolist())


@pytest.mark.parametrize("scheme", [*SCHEMES, DecodingConfig(top_p=0.3), DecodingConfig(top_k=3, top_p=1.0)], ids=str)
def test_equally_likely_tokens_are_kept_together_and_all_counted(scheme):
    """16-bit logits tie often; what is drawn from must be what probabilities are said for."""
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(60, 300, generator=generator) - 60).bfloat16().float()
    logits[0] = 1.0
    found = cut(logits, scheme)
    rows = torch.stack([found.log_probability(torch.full((60,), token)) for token in range(300)], dim=1)
    assert torch.allclose(rows.exp().sum(1), torch.ones(60), atol=1e-5)
    drawn = draw(found, np.tile(np.arange(60), 200), torch.rand(12_000, generator=generator).numpy())
    assert set(drawn[::60].tolist()) <= set(torch.nonzero(rows[0].isfinite())[:, 0].tolist())
    assert bool(rows.isfinite()[torch.arange(60).repeat(200), drawn].all())


def test_more_tokens_than_there_are_and_next_to_no_temperature():
    logits = 100 * torch.randn(5, 20, generator=torch.Generator().manual_seed(1))
    wide, narrow = (cut(logits, DecodingConfig(top_k=50, top_p=0.9, temperature=t)) for t in (1.0, 1e-40))
    uniforms = np.full(5, 0.999)
    assert draw(narrow, np.arange(5), uniforms).tolist() == logits.argmax(1).tolist()
    assert draw(wide, np.arange(5), uniforms).max() < 20


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"decoding": "nucleus"}, "decoding is 'nucleus': use sample, greedy, beam"),
        ({"temperature": 0.0}, "temperature is 0.0: give a number above 0, or decoding=greedy"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.2}, "top_p is 1.2"),
        ({"top_k": -1}, "top_k is -1"),
        ({"beams": 0}, "beams is 0"),
    ],
)
def test_a_scheme_that_cannot_be_is_refused(values, message):
    with pytest.raises(OptionError, match=message):
        DecodingConfig(**values)


def test_a_scheme_says_what_it_is():
    assert str(DecodingConfig()) == "top-p 0.7, temperature 0.8"
    assert str(DecodingConfig(top_k=40, top_p=1.0)) == "top-k 40, temperature 0.8"
    assert str(DecodingConfig(decoding="beam", beams=4)) == "beam search, 4 wide"
    assert [each.plain for each in (DecodingConfig(), DecodingConfig(top_p=1.0, temperature=1.0))] == [False, True]
