"""Measured noise against plain passes of `transformers`, in float32 and in 16 bits."""

import math

import numpy as np
import pytest
import torch

from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.key_values import Reading
from leakage_tasks.targets.causal.text_rows import TextRows
from leakage_tasks.targets.noise import Noise
from leakage_tasks.targets.rounding import SENTENCES, explains, measure, perturbed_rounding, same_logits, text_rows
from tests.oracles import letters
from tests.targets.large_logits import large_logits

HALF = (torch.bfloat16, torch.float16)
V = len(letters())
COLUMNS = np.arange(V)


def costs(model, rows):
    with torch.inference_mode():
        return model(input_ids=rows, use_cache=False).logits.float().log_softmax(-1) / -math.log(2)


def rows_of(target):
    return text_rows(target.plain_rows, V, 256)


def rms(values):
    return float(values.square().mean().sqrt())


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("scale", [2.0, 8.0])
def test_the_noise_is_what_16_bits_do_to_costs_in_float32(dtype, scale):
    half, full = large_logits(dtype, scale), large_logits(scale=scale)
    target = CausalTarget(half, letters())
    rows = rows_of(target)
    assert target.noise.token_bits == pytest.approx(rms(costs(half, rows) - costs(full, rows)), rel=0.6)


@pytest.mark.parametrize("dtype", HALF)
def test_the_noise_is_at_least_what_batches_differ_by(dtype):
    model = large_logits(dtype)
    target = CausalTarget(model, letters())
    rows = rows_of(target)
    alone = torch.cat([costs(model, row) for row in rows.split(1)])
    for batch in (rows, rows.repeat(6, 1)):
        assert target.noise.token_bits >= rms(costs(model, batch)[: len(rows)] - alone)


def test_float32_has_hardly_any():
    assert CausalTarget(large_logits(), letters()).noise.token_bits < 1e-4


def test_float32_states_none():
    assert CausalTarget(large_logits(), letters()).recorded_noise == Noise()


def test_a_model_whose_costs_are_no_numbers_has_no_noise():
    assert (
        measure(None, lambda tokens, kept: torch.full((len(tokens), kept, V), math.nan), torch.ones(8, 4).long(), V)
        == Noise()
    )


@pytest.mark.parametrize("dtype", HALF)
def test_a_pass_over_several_texts_in_16_bits_is_taken_as_it_differs_by_rounding(dtype):
    target = CausalTarget(large_logits(dtype, 8.0), letters())
    step(target)
    assert target.engine.mixes
    assert target.engine.cached


@pytest.mark.parametrize("dtype", HALF)
def test_a_pass_over_several_texts_in_16_bits_that_is_wrong_is_not_taken(dtype, monkeypatch):
    right = Reading.mask.fget
    monkeypatch.setattr(Reading, "mask", property(lambda own: np.ones_like(right(own))))
    target = CausalTarget(large_logits(dtype), letters())
    step(target)
    assert not target.engine.mixes


def step(target):
    """Extend texts after prefixes of two lengths in one pass."""
    texts = [target.start(prefix, COLUMNS)[0] for prefix in ([5, 6, 7], [5, 6, 7, 8, 9, 10, 11, 12])]
    chosen = TextRows.joined(texts)[np.arange(12) % 2]
    target.extend(chosen, 5 + np.arange(12), COLUMNS)


NOISE = Noise(0.2)
LOGITS = torch.randn(6, 50, generator=torch.Generator().manual_seed(1))


def shifted(by):
    """Logits whose costs differ from LOGITS by ``by`` bits."""
    return (LOGITS.log_softmax(-1) + by * math.log(2)).float()


def random(bits):
    return bits * torch.randn(LOGITS.shape, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    ("by", "explained"),
    [
        (random(0.2), True),
        (random(0.6), False),
        (torch.zeros(50).index_fill(0, torch.tensor(3), 8.0), False),
        (torch.eye(6)[2][:, None] * random(1.2), False),
        (torch.full((50,), math.nan), False),
    ],
    ids=["rounding", "thrice the noise", "the same token in all rows", "one row", "no number"],
)
def test_differences_are_explained_by_rounding_alone(by, explained):
    assert explains(NOISE, [shifted(by)], [LOGITS]) == explained


ROWS = torch.arange(5, 29).reshape(2, 12)


@pytest.mark.parametrize(
    ("dtype", "rows", "same"),
    [
        (torch.bfloat16, ROWS, True),
        (torch.bfloat16, ROWS.flip(1), False),
        (torch.float32, ROWS, False),
    ],
    ids=["rounding", "other texts", "float32 rounds less"],
)
def test_the_noise_on_the_texts_of_a_pass_explains_what_that_on_sentences_does_not(dtype, rows, same):
    model = large_logits(dtype, 8.0)

    def read(texts):
        with torch.inference_mode():
            return model(input_ids=texts, use_cache=False).logits.float()

    plain = read(ROWS)
    # The second term stands for the rounding of sums in another order.
    fast = read(rows) + 0.05 * torch.randn(plain.shape, generator=torch.Generator().manual_seed(3))
    assert same_logits(fast, plain, Noise, model, lambda: read(ROWS)) == same


def test_outputs_of_32_bits_are_not_moved():
    model = large_logits()
    rows = torch.arange(5, 17)[None]
    with perturbed_rounding(model):
        moved = costs(model, rows)
    assert torch.equal(moved, costs(model, rows))


def test_afterwards_the_model_and_the_random_numbers_are_as_before():
    model, rows = large_logits(torch.bfloat16), torch.arange(5, 17)[None]
    before = costs(model, rows)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with perturbed_rounding(model) as layers:
        assert not torch.equal(costs(model, rows), before)
    assert layers == 2 + 7 * 4  # embeddings and head, and seven matrices a layer
    assert torch.equal(costs(model, rows), before)
    assert torch.equal(torch.rand(3), expected)


def test_rows_are_sentences_of_one_length_that_the_model_can_read():
    rows = text_rows(lambda texts: [list(text.encode()) for text in texts], 256, 9)
    assert rows.tolist() == [list(sentence.encode()[:9]) for sentence in SENTENCES]


@pytest.mark.parametrize("encode", [lambda texts: [[] for _ in texts], lambda texts: 1 / 0], ids=["empty", "an error"])
def test_rows_are_random_tokens_where_the_tokenizer_knows_no_english(encode):
    rows = text_rows(encode, 7, 100)
    assert rows.shape == (8, 16)
    assert rows.max() < 7
