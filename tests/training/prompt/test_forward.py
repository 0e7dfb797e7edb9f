"""Batches through a frozen model: costs and gradients of `transformers` used by hand, and no more work than that."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2LMHeadModel

from leakage_tasks.core.errors import TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.training.prompt.forward import PromptPass, Rows, frozen, suffix_losses, token_costs
from leakage_tasks.training.text_batches import IGNORED
from tests.training.prompt.prompt_oracle import MODELS, WIDTH, make_model, make_pairs, pair_costs

LENGTH = 5


def prompt() -> torch.Tensor:
    return torch.randn(LENGTH, WIDTH, generator=torch.Generator().manual_seed(3)).requires_grad_()


def found(model: Any, pairs: list[Pair], share: bool = True) -> tuple[PromptPass, list[list[float]], torch.Tensor]:
    """The pass, the costs of each pair's suffix and the gradient of their sum."""
    rows, vectors = Rows(pairs, "cpu"), prompt()
    forward = PromptPass(model)
    batch = rows.batch(torch.arange(len(pairs)))
    with frozen(model):
        if share:
            forward.share(vectors, batch)
        costs = forward.costs(vectors, batch)
        costs.sum().backward()
    assert vectors.grad is not None
    picked = [row[wanted].tolist() for row, wanted in zip(costs.detach(), batch.targets != IGNORED, strict=True)]
    return forward, picked, vectors.grad


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("lengths", [(6, 7), (None, None)])
@pytest.mark.parametrize("name", MODELS)
def test_costs_and_gradient_are_those_of_one_pair_at_a_time(name: str, lengths: tuple, share: bool) -> None:
    model, pairs, vectors = make_model(name), make_pairs(6, 1, *lengths), prompt()
    _, costs, gradient = found(model, pairs, share)
    expected = [pair_costs(model, vectors, pair) for pair in pairs]
    torch.cat(expected).sum().backward()
    for ours, theirs in zip(costs, expected, strict=True):
        assert ours == pytest.approx(theirs.tolist(), abs=1e-4)
    assert vectors.grad is not None
    assert torch.allclose(gradient, vectors.grad, atol=1e-4 * float(vectors.grad.abs().max()))


@pytest.mark.parametrize("name", MODELS)
def test_the_prompt_is_computed_once_a_batch(name: str) -> None:
    assert found(make_model(name), make_pairs(3))[0].shared


def test_a_pair_without_prefix_is_costed_too() -> None:
    model, pairs = make_model(), [Pair(0, (), (1, 2, 3)), Pair(1, (4, 5), (6,))]
    forward, costs, _ = found(model, pairs)
    forward.shared = True
    again = forward.costs(prompt(), Rows(pairs, "cpu").batch(torch.arange(2)))
    with torch.no_grad():
        expected = pair_costs(model, prompt(), pairs[0]).tolist()
    assert costs[0] == pytest.approx(expected, abs=1e-4)
    assert again[0, :3].tolist() == pytest.approx(expected, abs=1e-4)


class Detaching(GPT2LMHeadModel):
    """Lets no gradient through the keys of its cache."""

    def forward(self, inputs_embeds: Any = None, past_key_values: Any = None, **options: Any) -> Any:
        for layer in past_key_values.layers if past_key_values is not None else ():
            layer.keys = layer.keys.detach()
        return super().forward(inputs_embeds=inputs_embeds, past_key_values=past_key_values, **options)


class Cacheless(GPT2LMHeadModel):
    """Has no cache."""

    def forward(self, inputs_embeds: Any = None, use_cache: bool | None = None, **options: Any) -> Any:
        assert "past_key_values" not in options
        return super().forward(inputs_embeds=inputs_embeds, use_cache=False, **options)


@pytest.mark.parametrize("kind", [Detaching, Cacheless])
def test_a_cache_that_changes_the_gradient_is_not_shared(kind: type) -> None:
    plain = make_model()
    odd = kind(plain.config)
    odd.load_state_dict(plain.state_dict())
    forward, _, gradient = found(odd.eval(), make_pairs(3))
    assert not forward.shared
    assert torch.allclose(gradient, found(plain, make_pairs(3))[2], atol=1e-3)


def test_the_last_layer_sees_nothing_but_what_predicts_the_suffixes() -> None:
    model, seen = make_model(), []
    model.lm_head.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0].shape[:2]))
    found(model, make_pairs(4, prefix=6, suffix=7), share=False)
    assert seen == [(4, 7)]


def test_a_batch_is_no_wider_than_its_pairs() -> None:
    pairs = [Pair(0, (1, 2), (3,)), Pair(1, (1,) * 9, (2,) * 9), Pair(2, (4,), (5, 6))]
    batch = Rows(pairs, "cpu").batch(torch.tensor([2, 0]))
    assert batch.ids.tolist() == [[4, 5, 6], [1, 2, 3]]
    assert batch.first == 1
    assert batch.targets.tolist() == [[5, 6], [IGNORED, 3]]


def test_a_model_that_takes_tokens_alone_is_refused() -> None:
    class TokensOnly(torch.nn.Module):
        def forward(self, input_ids: Any) -> Any:
            raise AssertionError

    with pytest.raises(TargetError, match="TokensOnly takes token ids only.*choose another model"):
        PromptPass(TokensOnly())


def test_a_frozen_model_is_as_it_was_afterwards_even_after_an_error() -> None:
    model = make_model().train()
    model.lm_head.eval()
    next(model.transformer.h.parameters()).requires_grad_(False)
    modes = [module.training for module in model.modules()]
    learning = [weight.requires_grad for weight in model.parameters()]
    with pytest.raises(ZeroDivisionError):
        _fail_while_frozen(model)
    assert [module.training for module in model.modules()] == modes
    assert [weight.requires_grad for weight in model.parameters()] == learning


def _fail_while_frozen(model: Any) -> None:
    with frozen(model):
        assert not any(module.training for module in model.modules())
        assert not any(weight.requires_grad for weight in model.parameters())
        raise ZeroDivisionError


COST = st.floats(0.0, 50.0, width=32)
ROW = st.tuples(st.integers(0, 3), st.lists(COST, min_size=1, max_size=8), st.integers(0, 3))


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(0, 10))
def test_both_losses_are_those_of_the_equations(rows: list, hardest: int) -> None:
    width = max(before + len(costs) + after for before, costs, after in rows)
    laid, targets = torch.zeros(len(rows), width), torch.full((len(rows), width), IGNORED)
    for number, (before, costs, _) in enumerate(rows):
        laid[number, before : before + len(costs)] = torch.tensor(costs)
        targets[number, before : before + len(costs)] = 1
    mle, smoothing = suffix_losses(laid, targets, hardest)
    for number, (_, costs, _) in enumerate(rows):
        top = sorted(costs)[-hardest:] if hardest else []
        assert float(mle[number]) == pytest.approx(math.fsum(costs) / len(costs), rel=1e-5, abs=1e-6)
        assert float(smoothing[number]) == pytest.approx(math.fsum(top) / max(len(top), 1), rel=1e-5, abs=1e-6)


def test_only_the_hardest_tokens_get_the_smoothing_gradient() -> None:
    costs = torch.tensor([[3.0, 1.0, 2.0, 0.0], [5.0, 4.0, 0.0, 0.0]], requires_grad=True)
    targets = torch.tensor([[1, 1, 1, 1], [1, 1, IGNORED, IGNORED]])
    suffix_losses(costs, targets, 3)[1].sum().backward()
    assert costs.grad is not None
    third = pytest.approx(1 / 3)
    assert costs.grad[0].tolist() == [third, third, third, 0]
    assert costs.grad[1].tolist() == [0.5, 0.5, 0, 0]


def test_costs_are_nats_in_float32_whatever_the_logits() -> None:
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0)).bfloat16()
    targets = torch.tensor([[0, 4, 2], [1, IGNORED, 3]])
    found = token_costs(logits, targets)
    assert found.dtype == torch.float32
    for row, place in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        values = [math.exp(float(value)) for value in logits[row, place]]
        expected = -math.log(values[int(targets[row, place])] / sum(values))
        assert float(found[row, place]) == pytest.approx(expected, abs=1e-5)
    assert float(found[1, 1]) == 0
