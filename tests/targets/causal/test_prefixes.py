"""Prefixes of several lengths that are read together, each against plain `transformers` on it alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.asked import Start, Step
from leakage_tasks.targets.causal.questions import extend_all, start_all
from tests.oracles import letters
from tests.targets.causal.test_passes import MODELS, SHARING, V, model_of

PREFIXES = ("the pin of anna is ", "a", "the very long pin of bob who is old is ", "a b")
PADDING = (*SHARING, "bloom")
"""Models whose state is attention to all that was read, and nothing else."""


def target_of(name: str, **settings: Any) -> CausalTarget:
    """A target that pads however much, as on a GPU."""
    target = CausalTarget(model_of(name), letters(), **settings)
    target.most_padding = math.inf
    return target


def begun(target: CausalTarget) -> tuple[list[list[int]], list[Any]]:
    """The tokens of each prefix, and what is said of all of them when they are asked about together."""
    rows = [list(target._with_prefix_token(row)) for row in target.encode(list(PREFIXES))]
    return rows, start_all([Start(target, row, np.arange(V)) for row in rows])


def bits(name: str, row: list[int]) -> torch.Tensor:
    """Bits of each next token ``[length, V]``, by a plain pass over one text."""
    with torch.no_grad():
        return model_of(name)(input_ids=torch.tensor([row])).logits[0].double().log_softmax(-1) / -math.log(2)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_each_prefix_costs_what_it_costs_alone(name: str, cached: bool) -> None:
    rows, found = begun(target_of(name, cached=cached))
    for row, (_, cost, after) in zip(rows, found, strict=True):
        plain = bits(name, row)
        own = plain[:-1].gather(-1, torch.tensor(row[1:])[:, None])
        assert cost == pytest.approx(float(own.sum()), abs=1e-3)
        assert np.abs(after[0] - plain[-1].numpy()).max() < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_texts_go_on_from_their_own_prefix(name: str) -> None:
    target, token = target_of(name), np.array([7])
    rows, found = begun(target)
    zero = np.zeros(1, dtype=np.int64)
    steps = [Step(target, [state], zero, zero, token, np.arange(V)) for state, _, _ in found]
    for row, (_, costs) in zip(rows, extend_all(steps), strict=True):
        assert np.abs(costs[0] - bits(name, [*row, 7])[-1].numpy()).max() < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_lengths_share_a_pass_where_attention_is_all_that_is_remembered(name: str) -> None:
    target = target_of(name)
    begun(target)  # what is found out once
    with metered([model_of(name)]) as count:
        begun(target)
    assert count.passes == (1 if name in PADDING else len({len(text) for text in PREFIXES}))
    assert count.rows == len(PREFIXES)


def test_a_cpu_does_not_read_much_padding() -> None:
    target = CausalTarget(model_of("gpt2"), letters(), device="cpu")
    begun(target)
    with metered([model_of("gpt2")]) as count:
        begun(target)
    assert count.tokens <= 1.1 * sum(1 + len(text) for text in PREFIXES)


def test_a_model_that_looks_ahead_reads_each_length_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, target = model_of("gpt2"), target_of("gpt2")
    forward = model.forward

    def ahead(input_ids: torch.Tensor, **told: Any) -> Any:
        out = forward(input_ids=input_ids, **told)
        out.logits = out.logits + input_ids.shape[1] * torch.arange(V)
        return out

    monkeypatch.setattr(model, "forward", ahead)
    rows, found = begun(target)
    for row, (_, _, after) in zip(rows, found, strict=True):
        assert np.abs(after[0] - bits("gpt2", row)[-1].numpy()).max() < 1e-4
