"""The first step after a prefix, proven by what the prefix' own pass tells of it, against plain `transformers`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakage_tasks.canaries.spaces import parse_template
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal import foretold
from tests.oracles import letters
from tests.targets.causal.test_passes import MODELS, SHARING, direct, model_of

SPACE = parse_template("pin {digits:3}")
LONG = parse_template("the pin of bob who is old is {digits:3}")


def first_step(target: CausalTarget, space: Any = SPACE) -> tuple[list[np.ndarray], list[list[int]]]:
    """Costs of the next tokens after the prefix and after each digit that may follow it, and those texts."""
    paths = target.paths(space)
    state, _, costs = target.start(paths.prefix, paths.columns)
    tokens = paths.columns[paths.table(np.array([paths.root]))[0] >= 0]
    zeros = np.zeros(len(tokens), dtype=np.int64)
    _, after = target.extend([state], zeros, zeros, tokens, paths.columns)
    begun = target.begun(paths.prefix)
    return [costs[0], *after], [begun, *([*begun, int(token)] for token in tokens)]


def is_the_model_itself(name: str, found: tuple[list[np.ndarray], list[list[int]]]) -> bool:
    costs, texts = found
    columns = CausalTarget(model_of(name), letters()).paths(SPACE).columns
    return all(
        np.allclose(own, direct(model_of(name), [text])[0, columns], atol=1e-4)
        for own, text in zip(costs, texts, strict=True)
    )


def passes(target: CausalTarget, space: Any = SPACE) -> int:
    with metered([target.model]) as count:
        first_step(target, space)
    return count.passes


@pytest.mark.parametrize("name", MODELS)
def test_what_follows_is_the_model_itself(name: str) -> None:
    assert is_the_model_itself(name, first_step(CausalTarget(model_of(name), letters())))


@pytest.mark.parametrize("name", SHARING)
def test_no_pass_proves_the_first_step(name: str) -> None:
    assert passes(CausalTarget(model_of(name), letters())) == 2


def test_after_a_long_prefix_a_pass_of_few_rows_is_the_cheaper_proof() -> None:
    target = CausalTarget(model_of("gpt2"), letters())
    assert len(target.paths(LONG).prefix) > foretold.FEW_TOKENS / 3
    assert passes(target, LONG) == 3


@pytest.mark.parametrize("name", ["lstm", "mamba"])
def test_a_model_that_keeps_more_than_attention_is_asked_once(name: str) -> None:
    target = CausalTarget(model_of(name), letters())
    first, further = passes(target), passes(target)
    assert first > further
    assert passes(target) == further


def test_a_pass_that_is_wrong_steps_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "leakage_tasks.targets.causal.shared_prefix.SharedBatch.attend",
        lambda batch, query, key, value, scaling: query.transpose(1, 2) * 0.0,
    )
    target = CausalTarget(model_of("llama"), letters())
    assert is_the_model_itself("llama", first_step(target))
    assert not target.passes.shares


def test_rows_taken_for_one_another_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = "leakage_tasks.targets.causal.shared_prefix.SharedBatch.parts"
    monkeypatch.setattr(parts, lambda batch, rows: [rows.flip(0)])
    target = CausalTarget(model_of("llama"), letters())
    assert is_the_model_itself("llama", first_step(target))
    assert not target.passes.shares


def test_what_is_foretold_wrongly_is_proven_by_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    right = foretold.Foretold
    monkeypatch.setattr(foretold, "Foretold", lambda *told: replace(right(*told), logits=told[2].flip(-1)))
    target = CausalTarget(model_of("llama"), letters())
    assert is_the_model_itself("llama", first_step(target))
    assert target.passes.shares


def test_nothing_is_kept_once_a_step_is_proven() -> None:
    target = CausalTarget(model_of("gpt2"), letters())
    first_step(target)
    assert target.passes.foretold is None


def test_nothing_is_foretold_of_other_columns() -> None:
    paths = CausalTarget(model_of("gpt2"), letters()).paths(SPACE)
    assert foretold.first_tokens(paths, paths.columns.copy()) == []
    assert len(foretold.first_tokens(paths, paths.columns)) == 2


def test_a_prefix_that_fills_the_model_is_read_by_itself() -> None:
    target = CausalTarget(model_of("gpt2"), letters(), max_length=4)
    prefix = target.begun(target.encode(["pin"])[0])
    assert len(prefix) == 4
    assert foretold.read_ahead(target, prefix, [5]) is None
