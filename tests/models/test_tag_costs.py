"""The costs of tags against torchcrf, which adds them up in another way."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torchcrf import CRF

from leakage_tasks.models.tag_costs import tag_costs
from tests.taggers import tag_nats


def drawn(lengths: list[int], tags: int, seed: int, spread: float = 2.0) -> tuple[CRF, torch.Tensor, ...]:
    """A random CRF in float64, emissions, mask and tags of rows of these lengths."""
    torch.manual_seed(seed)
    crf = CRF(tags, batch_first=True).double()
    for weight in crf.parameters():
        torch.nn.init.normal_(weight, std=spread)
    longest = max(lengths)
    emissions = spread * torch.randn(len(lengths), longest, tags, dtype=torch.double)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return crf, emissions, mask, torch.randint(0, tags, (len(lengths), longest))


lengths = st.lists(st.integers(1, 7), min_size=1, max_size=5)


@given(lengths, st.integers(1, 6), st.integers(0, 99), st.sampled_from([0.1, 2.0, 30.0]))
def test_costs_are_those_of_torchcrf(lengths: list[int], tags: int, seed: int, spread: float) -> None:
    crf, emissions, mask, chosen = drawn(lengths, tags, seed, spread)
    expected = -crf(emissions, chosen, mask, reduction="none")
    torch.testing.assert_close(tag_costs(crf, emissions, mask, chosen), expected, rtol=1e-9, atol=1e-9)


def test_gradients_are_those_of_torchcrf() -> None:
    crf, emissions, mask, chosen = drawn([5, 2, 7, 1], 6, seed=1)
    emissions.requires_grad_(True)
    inputs = [emissions, *crf.parameters()]
    ours = torch.autograd.grad(tag_costs(crf, emissions, mask, chosen).sum(), inputs)
    theirs = torch.autograd.grad(-crf(emissions, chosen, mask, reduction="sum"), inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_the_probabilities_of_all_sequences_add_up_to_one() -> None:
    crf, emissions, mask, _ = drawn([4], 3, seed=2)
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    costs = tag_costs(crf, emissions.expand(len(every), -1, -1), mask.expand(len(every), -1), every)
    torch.testing.assert_close(torch.exp(-costs).sum(), torch.tensor(1.0, dtype=torch.double))


def test_a_model_in_float32_is_normalised_in_float64() -> None:
    crf, emissions, mask, tags = drawn([6], 4, seed=3)
    found = tag_costs(crf.float(), emissions.float(), mask, tags)
    assert found.dtype == torch.double
    assert abs(found.item() - tag_nats(crf, emissions.float()[0].double(), tags[0].tolist())) < 1e-9
