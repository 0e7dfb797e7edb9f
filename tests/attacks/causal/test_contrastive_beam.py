"""Beam search on the difference of two models, against differences taken by `transformers` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.access import NEXT_TOKEN
from leakage_tasks.attacks.registry import ATTACKS
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import MissingOption, TargetError
from leakage_tasks.targets import CausalTarget
from tests.oracles import direct_costs, letters, merging, tiny_gpt2

PIN = Canary("c", "the pin is {digits:2}.", ("7", "0"))


@pytest.fixture
def base(tmp_path: Path) -> str:
    """The folder of another model with the same tokenizer."""
    tiny_gpt2(letters(), seed=5).save_pretrained(tmp_path / "base")
    letters().save_pretrained(tmp_path / "base")
    return str(tmp_path / "base")


def test_a_beam_as_wide_as_the_space_finds_the_ten_largest_differences(base: str) -> None:
    model, other = tiny_gpt2(letters()), tiny_gpt2(letters(), seed=5)
    given = {"contrast": base, "width": 1000}
    (found,) = run_attack("contrastive-beam", CausalTarget(model, letters()), [PIN], goal="extraction", values=given)
    texts = {PIN.space.fill((a, b)): (a, b) for a in "0123456789" for b in "0123456789"}
    mine, less = (direct_costs(each, letters(), list(texts)) for each in (model, other))
    differences = {text: one - two for text, one, two in zip(texts, mine, less, strict=True)}
    expected = sorted(differences, key=differences.__getitem__)[:10]
    assert [guess.text for guess in found.guesses] == expected
    assert [guess.score for guess in found.guesses] == pytest.approx([differences[each] for each in expected], abs=1e-3)
    assert expected != sorted(texts, key=dict(zip(texts, mine, strict=True)).__getitem__)[:10]
    assert found.access == f"{NEXT_TOKEN}, and the same of a reference model"


def test_what_both_models_know_alike_is_no_find(base: str) -> None:
    target = CausalTarget(tiny_gpt2(letters(), seed=5), letters())
    (found,) = run_attack("contrastive-beam", target, [PIN], goal="extraction", values={"contrast": base})
    assert [guess.score for guess in found.guesses] == pytest.approx([0.0] * 10, abs=1e-3)


def test_a_context_stands_before_both(base: str) -> None:
    model, other = tiny_gpt2(letters()), tiny_gpt2(letters(), seed=5)
    given = {"contrast": base, "contrastive-beam.width": 1000}
    target, context = CausalTarget(model, letters()), Context(before="so ")
    (found,) = run_attack("contrastive-beam", target, [PIN], goal="extraction", values=given, context=context)
    text = found.guesses[0].text
    texts = ["so " + text, "so "]
    (mine, before), (less, fewer) = (direct_costs(each, letters(), texts) for each in (model, other))
    assert found.guesses[0].score == pytest.approx(mine - before - (less - fewer), abs=1e-3)


def test_it_needs_the_other_model_and_one_tokenizer(base: str, tmp_path: Path) -> None:
    target = CausalTarget(tiny_gpt2(merging()), merging())
    with pytest.raises(MissingOption, match="^contrast=… is missing: a causal model with the target's tokenizer"):
        run_attack("contrastive-beam", target, [PIN], goal="extraction")
    with pytest.raises(TargetError, match="tokenizes the canary differently"):
        run_attack("contrastive-beam", target, [PIN], goal="extraction", values={"contrast": base})
    settings = {"contrast": str(tmp_path / "none")}
    with pytest.raises(TargetError, match="contrast=.*none: cannot be loaded"):
        run_attack("contrastive-beam", target, [PIN], goal="extraction", values=settings)


def test_auto_never_stands_for_it() -> None:
    assert ATTACKS["contrastive-beam"].auto is None
    target = CausalTarget(tiny_gpt2(letters()), letters())
    assert run_attack("auto", target, [PIN], goal="extraction")[0].attack == "shortest-path"
