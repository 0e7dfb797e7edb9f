"""What fine-tuning added: ranks by the difference of two models, against brute force with `transformers` and PEFT."""

from __future__ import annotations

import copy
import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from lm_eval.models.huggingface import HFLM
from peft import LoraConfig, get_peft_model

from leakage_tasks.attacks import finding_from_json, run_attack
from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets import CausalTarget
from tests.oracles import direct_costs, letters, merging, tiny_gpt2
from tests.tasks.test_canary_tasks import evaluate

TOKENIZERS = {"letters": letters, "merging": merging}


@lru_cache
def adapted(kind: str) -> Any:
    """A random base with a random adapter, which changes what it says."""
    torch.manual_seed(1)
    base = tiny_gpt2.__wrapped__(TOKENIZERS[kind]())
    lora = LoraConfig(r=4, task_type="CAUSAL_LM", init_lora_weights=False, target_modules=["c_attn"])
    return get_peft_model(base, lora).eval()


def canary(kind: str, digits: int = 3) -> Canary:
    (one,) = make_canaries("the pin of {unique} is {digits:N}.".replace("N", str(digits)), 1, seed=2)
    return one


def differences(kind: str, one: Canary) -> tuple[np.ndarray, np.ndarray]:
    """Costs of all fillings after and before fine-tuning."""
    texts = [one.space.fill(filling) for filling in one.space.enumerate()]
    tokenizer, model = TOKENIZERS[kind](), adapted(kind)
    with model.disable_adapter():
        base = direct_costs(model, tokenizer, texts)
    return np.array(direct_costs(model, tokenizer, texts)), np.array(base)


def rank_of(costs: np.ndarray, place: int) -> int:
    return int((costs <= costs[place] + 1e-4).sum())


def target(kind: str) -> CausalTarget:
    return CausalTarget(adapted(kind), TOKENIZERS[kind]())


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_exact_ranks_are_those_of_brute_force(kind: str) -> None:
    one = canary(kind)
    tuned, base = differences(kind, one)
    place = one.space.index(one.secret)
    # As many fillings as the budget are counted, though their tokens are more.
    (found,) = run_attack("exposure", target(kind), [one], budget=1000, values={"signal": "calibrated"})
    assert (found.method, found.rank) == ("exact", rank_of(tuned - base, place))
    bits = [math.log2(one.space.size / rank_of(costs, place)) for costs in (tuned, base)]
    (found,) = run_attack("exposure", target(kind), [one], budget=100_000, values={"signal": "calibrated"})
    assert [found.extra["tuned_exposure"], found.extra["base_exposure"]] == pytest.approx(bits)
    assert found.log_perplexity == pytest.approx(tuned[place], abs=1e-3)
    assert found.access.endswith("before fine-tuning")


@pytest.mark.slow
def test_beyond_the_budget_the_interval_holds_the_rank() -> None:
    one = canary("letters")
    tuned, base = differences("letters", one)
    true = rank_of(tuned - base, one.space.index(one.secret))
    held, settings, model = 0, {"signal": "calibrated"}, target("letters")
    for seed in range(20):
        (found,) = run_attack("exposure", model, [one], budget=900, seed=seed, values=settings)
        assert found.method in ("estimated", "lower_bound")
        held += found.rank_low <= true <= found.rank_high
    assert held >= 18


def test_a_merged_model_with_its_base_by_name_gives_the_same(tmp_path: Any) -> None:
    one = canary("letters")
    tiny_gpt2.__wrapped__(letters()).save_pretrained(tmp_path)
    letters().save_pretrained(tmp_path)
    plain = CausalTarget(copy.deepcopy(adapted("letters")).merge_and_unload().eval(), letters())
    given = {"signal": "calibrated", "untuned": str(tmp_path)}
    (found,) = run_attack("exposure", plain, [one], budget=100_000, values=given)
    (unmerged,) = run_attack("exposure", target("letters"), [one], budget=100_000, values={"signal": "calibrated"})
    assert found.rank == unmerged.rank
    assert found.log_perplexity == pytest.approx(unmerged.log_perplexity, abs=1e-3)


def test_in_a_context_both_models_read_it() -> None:
    one = canary("letters", 2)
    context = Context(before="x\n")
    settings = {"signal": "calibrated"}
    (found,) = run_attack("exposure", target("letters"), [one], budget=9000, values=settings, context=context)
    texts = ["x\n" + one.space.fill(filling) for filling in one.space.enumerate()]
    lead = ["x\n"]
    model = adapted("letters")
    tuned = np.array(direct_costs(model, letters(), texts)) - direct_costs(model, letters(), lead)[0]
    with model.disable_adapter():
        base = np.array(direct_costs(model, letters(), texts)) - direct_costs(model, letters(), lead)[0]
    assert found.rank == rank_of(tuned - base, one.space.index(one.secret))


def test_the_adapter_is_on_again_afterwards() -> None:
    one, model = canary("letters", 2), target("letters")
    before = model.log_perplexity([one.text])[0]
    run_attack("exposure", model, [one], budget=9000, values={"signal": "calibrated"})
    assert model.log_perplexity([one.text])[0] == before


def test_a_model_without_a_base_is_one_line() -> None:
    plain = CausalTarget(tiny_gpt2(letters()), letters())
    with pytest.raises(OptionError, match="needs the model before fine-tuning: name it with untuned="):
        run_attack("exposure", plain, [canary("letters")], values={"signal": "calibrated"})


def test_a_base_that_cannot_be_read_is_one_line() -> None:
    plain = CausalTarget(tiny_gpt2(letters()), letters())
    with pytest.raises(TargetError, match="untuned=nowhere: cannot be loaded"):
        run_attack("exposure", plain, [canary("letters")], values={"signal": "calibrated", "untuned": "nowhere"})


def test_rows_tell_what_fine_tuning_added(tmp_path: Any) -> None:
    canaries = make_canaries("the pin of {unique} is {digits:2}.", 2, controls=2, seed=2)
    write_manifest(canaries, tmp_path / "c.jsonl")
    lm = HFLM(pretrained=adapted("letters"), tokenizer=letters(), batch_size=16)
    given = {"canaries": str(tmp_path / "c.jsonl"), "signal": "calibrated", "rows": "all"}
    results = evaluate(lm, ["canary_exposure", "canary_extraction"], given)
    row = results["results"]["canary_exposure"]
    samples = results["samples"]["canary_exposure"]
    found = [finding_from_json(each["resps"][0][0]) for each in samples]
    added = [each.extra["tuned_exposure"] - each.extra["base_exposure"] for each in found if each.planted]
    assert row["exposure_added,none"] == pytest.approx(sum(added) / len(added))
    assert row["exposure_added,none"] == pytest.approx(row["exposure_tuned,none"] - row["exposure_base,none"])
    assert "exposure_added_ci_low,none" in row
