"""Suffixes beside the model before fine-tuning, against plain `transformers` and PEFT."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from lm_eval.models.huggingface import HFLM
from peft import LoraConfig, PromptTuningConfig, get_peft_model

from leakage_tasks.attacks.suffix.finding import suffix_finding_from_json
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.metrics.scoring import Answered, score
from leakage_tasks.metrics.suffix_scoring import SUFFIX_EXTRACTION
from tests.oracles import letters, merging, tiny_gpt2
from tests.targets.text_models import TextOnly, hf
from tests.tasks.suffix.test_task import PREFIX, TASK, arrays, data, evaluate  # noqa: F401

HOT, TOP_P = 0.3, 0.95


@lru_cache
def adapted() -> Any:
    """A random model with an adapter that changes what it says."""
    torch.manual_seed(5)
    lora = LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", init_lora_weights=False, target_modules=["c_attn"])
    return get_peft_model(copy.deepcopy(tiny_gpt2(merging())), lora).eval()


def merged() -> Any:
    return copy.deepcopy(adapted()).merge_and_unload().eval()


@pytest.fixture
def base(tmp_path: Any) -> str:
    folder = tmp_path / "base"
    tiny_gpt2(merging()).save_pretrained(folder)
    merging().save_pretrained(folder)
    return str(folder)


def run(model: Any, folder: Any, **given: Any) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
    """The table's row, findings in the order of the pairs, and the results."""
    results = evaluate(HFLM(pretrained=model, tokenizer=merging(), batch_size=4), folder, **given)
    samples = [each for each in results["samples"][TASK] if each["filter"] == "none"]
    findings = [suffix_finding_from_json(each["resps"][0][0]) for each in samples]
    return results["results"][TASK], sorted(findings, key=lambda each: each.pair), results


def chances(model: Any, skip: int = 0) -> np.ndarray:
    """p_z of all pairs by `transformers` alone, their first ``skip`` tokens left out."""
    prefixes, suffixes = (each.astype(np.int64) for each in arrays())
    rows = torch.from_numpy(np.concatenate([prefixes[:, skip:], suffixes], axis=1))
    with torch.no_grad():
        logits = model(rows).logits[:, PREFIX - skip - 1 : -1].double() / HOT
    ordered, ids = logits.softmax(-1).sort(descending=True)
    kept = (ordered.cumsum(-1) - ordered) < TOP_P
    own = (ids == rows[:, PREFIX - skip :, None]) & kept
    return np.asarray(((ordered * own).sum(-1) / (ordered * kept).sum(-1)).prod(-1).numpy())


def told(finding: Any, view: str = "none") -> float:
    return 0.0 if finding.views[view].base_p_z_bits is None else 2.0 ** -finding.views[view].base_p_z_bits


@pytest.mark.slow
def test_the_base_is_the_model_without_its_adapter(data: Any) -> None:  # noqa: F811
    row, findings, results = run(adapted(), data, prefix_lengths=f"{PREFIX}:5", suffix_lengths="3")
    plain, now = chances(tiny_gpt2(merging())), chances(merged())
    assert np.abs(plain - now).max() > 0.1
    assert [told(each) for each in findings] == pytest.approx(plain.tolist(), abs=1e-4)
    shorter = chances(tiny_gpt2(merging()), skip=PREFIX - 5)
    assert [told(each, "prefix_5") for each in findings] == pytest.approx(shorter.tolist(), abs=1e-4)
    assert row["p_z_base,none"] == pytest.approx(plain.mean(), abs=1e-4)
    assert row["p_z_added,none"] == pytest.approx((now - plain).mean(), abs=1e-4)
    assert row["p_z_base,prefix_5"] == pytest.approx(shorter.mean(), abs=1e-4)
    assert row["p_z_added_ci_low,none"] < row["p_z_added,none"] < row["p_z_added_ci_high,none"]
    held = [1 - (1 - each) ** 20 >= 0.5 for each in (now, plain)]
    assert row["memorized_beyond_base,none"] == pytest.approx((held[0] & ~held[1]).mean())
    assert "p_z_base,suffix_3" in row
    assert "prompt" not in findings[0].access
    # Samples alone give the same.
    task_settings = {"temperature": HOT, "top_p": TOP_P, "wrong": 5}
    again = score(
        SUFFIX_EXTRACTION,
        [Answered(each["resps"][0][0], each["filter"], task_settings) for each in results["samples"][TASK]],
    )
    names = [name for name in again["none"] if "base" in name or "added" in name]
    assert len(names) == 10
    assert [again["none"][name] for name in names] == pytest.approx([row[f"{name},none"] for name in names])


@pytest.mark.slow
def test_a_merged_model_beside_its_base_by_name_gives_the_same(data: Any, base: str) -> None:  # noqa: F811
    given = {"temperature": 1.0, "top_p": 1.0}
    row, findings, _ = run(merged(), data, untuned=base, **given)
    other, unmerged, _ = run(adapted(), data, **given)
    for one, two in zip(findings, unmerged, strict=True):
        for name in ("own_bits", "p_z_bits", "base_own_bits", "base_p_z_bits"):
            both = getattr(one.views["none"], name), getattr(two.views["none"], name)
            assert both[0] == pytest.approx(both[1], abs=1e-3)
    for name in ("p_z_base", "p_z_added", "bits_added", "memorized_beyond_base"):
        assert row[f"{name},none"] == pytest.approx(other[f"{name},none"], abs=1e-4)
    assert findings[0].settings_hash != unmerged[0].settings_hash


def test_without_adapter_and_name_there_are_no_such_rows(data: Any) -> None:  # noqa: F811
    prompt = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    for model in (tiny_gpt2(merging()), get_peft_model(copy.deepcopy(tiny_gpt2(merging())), prompt).eval()):
        row, findings, _ = run(model, data, samples=3)
        assert not [name for name in row if "base" in name or "added" in name]
        assert findings[0].views["none"].base_own_bits is None
    assert "prompt" in findings[0].access


@pytest.mark.parametrize("where", ["/nowhere", "other"])
def test_a_base_that_cannot_be_compared_with_is_one_clear_line(data: Any, tmp_path: Any, where: str) -> None:  # noqa: F811
    other = tmp_path / "other"
    tiny_gpt2(letters()).save_pretrained(other)
    letters().save_pretrained(other)
    message = {"/nowhere": "untuned=/nowhere: cannot be loaded", "other": r"give (one|pairs made) with (the same|this)"}
    expected: type[LeakageError] = TargetError if where == "/nowhere" else LeakageError
    with pytest.raises(expected, match=message[where]):
        run(merged(), data, untuned=where if where == "/nowhere" else str(other))


def test_models_that_take_text_alone_are_told_so(data: Any, base: str) -> None:  # noqa: F811
    with pytest.raises(OptionError, match=r"untuned=\S+ needs a model that takes token ids: use --model hf"):
        evaluate(TextOnly(hf(merging())), data, untuned=base)
