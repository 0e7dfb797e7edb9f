"""Cache objects of `transformers` taken apart and put together again."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from leakage_tasks.targets.causal.cache import attention_only, bytes_of, filled, form_of, hollow, tensors_of
from tests.targets.causal.models import ATTENTION, MODELS, model_of, target_of

TOKENS = torch.arange(5, 17).reshape(3, 4)


def read(name: str, tokens: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """The cache of a target's first pass, and its logits."""
    target = target_of(name)
    with target.inference():
        logits, cache = target.read_first(tokens, [None])
    return cache, logits


@pytest.mark.parametrize("name", MODELS)
def test_a_cache_that_was_put_together_again_is_continued_like_the_first(name: str) -> None:
    target = target_of(name)
    with target.inference():
        cache = target.read_first(TOKENS, [None])[1]
        tensors = [tensor.clone() for tensor in tensors_of(cache)]
        again = filled(hollow(cache), tensors)
        found = target.read_on(again, torch.full((3, 1), 7))[0][:, -1]
        plain = model_of(name)(input_ids=torch.cat([TOKENS, torch.full((3, 1), 7)], dim=1)).logits[:, -1]
    assert torch.allclose(found.log_softmax(-1), plain.log_softmax(-1), atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_hollow_cache_keeps_no_rows(name: str) -> None:
    cache, _ = read(name, TOKENS)
    assert bytes_of(tensors_of(cache)) > 0
    assert bytes_of(tensors_of(hollow(cache))) == 0
    assert bytes_of(tensors_of(cache)) > 0


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_one_length_have_one_form(name: str) -> None:
    assert form_of(read(name, TOKENS)[0]) == form_of(read(name, TOKENS[:1] + 1)[0])


@pytest.mark.parametrize("name", ["gpt2", "hybrid"])
def test_attention_of_another_length_has_another_form(name: str) -> None:
    assert form_of(read(name, TOKENS)[0]) != form_of(read(name, TOKENS[:, :3])[0])


@pytest.mark.parametrize("name", MODELS)
def test_attention_alone_is_told_from_other_states(name: str) -> None:
    assert attention_only(read(name, TOKENS)[0]) == (name in ATTENTION)
