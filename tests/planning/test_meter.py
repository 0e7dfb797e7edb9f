"""Counts by hooks against what attacks say that they scored, and against calls made by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import make_canaries
from leakage_tasks.planning.meter import Count, metered, modules_of
from leakage_tasks.targets import CausalTarget
from tests.oracles import letters, tiny_gpt2
from tests.taggers import tiny_tagger


@pytest.mark.parametrize("attack", ["exposure", "shortest-path", "beam", "sample-tokens"])
def test_tokens_are_those_of_the_sequences_that_the_attack_says_it_scored(attack: str) -> None:
    model = tiny_gpt2(letters())
    canaries = make_canaries("pin {digits:4}.", 2, controls=1, seed=1, id_prefix="p")
    target = CausalTarget(model, letters())
    # What shares a pass is read in separate ones as well when it is first met, to prove that they agree.
    for some in (canaries[:1], canaries):
        run_attack(attack, target, some, budget=300)
    with metered(modules_of(SimpleNamespace(model=model))) as count:
        findings = run_attack(attack, target, canaries, budget=300)
    # The first sequence of each canary is a start token and the four of its prefix, and every other adds a token; a row
    # may read several of them.
    assert count.tokens == 4 * len(findings) + sum(int(found.model_calls or 0) for found in findings)
    assert 0 < count.passes <= count.rows <= count.tokens


def test_passes_rows_and_tokens_of_calls_by_hand() -> None:
    model = tiny_gpt2(letters())
    with metered([model]) as count:
        model(torch.zeros(3, 5, dtype=torch.long))
        model(input_ids=torch.zeros(2, 4, dtype=torch.long))
    model(torch.zeros(9, 9, dtype=torch.long))
    assert count == Count(passes=2, rows=5, tokens=23)


def test_a_tagger_is_counted_by_its_first_layer() -> None:
    tagger = tiny_tagger()
    with metered(modules_of(SimpleNamespace(target=SimpleNamespace(model=tagger)))) as count:
        for mask in (torch.ones(3, 4), torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]])):
            ids = torch.ones(mask.shape, dtype=torch.long)
            tagger(ids, mask)
    # What is padding is not read.
    assert count == Count(passes=2, rows=5, tokens=12 + 6)


def test_an_api_has_no_modules() -> None:
    assert modules_of(SimpleNamespace(model="gpt-9")) == []
