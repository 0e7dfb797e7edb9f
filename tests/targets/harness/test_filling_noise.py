"""Noise of fillings against the same texts in float32, by plain `transformers`."""

import json
import math

import numpy as np
import pytest
import torch
from lm_eval.models.huggingface import HFLM
from transformers import BartConfig, BartForConditionalGeneration

from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.log import warn_once
from leakage_tasks.targets import CausalTarget, Seq2SeqTarget
from leakage_tasks.targets.harness.filling_noise import example_of, noise_on_fillings, random_texts, warn_of_blur
from leakage_tasks.targets.harness.scorer_proof import prove
from tests.oracles import letters, tiny_gpt2
from tests.targets.large_logits import large_logits
from tests.tasks.test_canary_tasks import evaluate

PIN = Canary("c", "the pin of the box is {digits:6}.", tuple("123456"))
LEAD = "a line that is read before: "


@pytest.fixture(autouse=True)
def _warnings_anew():
    warn_once.cache_clear()


def plain(model, texts, before=""):
    """Costs in bits of texts after ``before``, by one pass a text."""
    lead = letters()(before, add_special_tokens=False)["input_ids"]
    costs = []
    for text in texts:
        own = letters()(text, add_special_tokens=False)["input_ids"]
        row = torch.tensor([[letters().bos_token_id, *lead, *own]])
        with torch.no_grad():
            logits = model(input_ids=row).logits.float().log_softmax(-1)[0, :-1]
        token_costs = -logits.gather(-1, row[0, 1:, None])[:, 0] / math.log(2)
        costs.append(float(token_costs[len(lead) :].double().sum()))
    return np.array(costs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("before", ["", LEAD])
def test_the_noise_is_what_16_bits_do_to_the_fillings_costs(dtype, before):
    half, full = large_logits(dtype), large_logits()
    context = Context(before=before) if before else Context()
    noise = noise_on_fillings(CausalTarget(half, letters()), PIN, context)
    texts = random_texts(PIN.attack_space, 16)
    apart = plain(half, texts, before) - plain(full, texts, before)
    # A processor rounds in one way, of which the noise is a mean.
    assert 1 / 4 < noise.of(len(texts[0])) / np.sqrt(np.mean(apart**2)) < 4
    assert 1 / 4 < noise.path_margin(7) / 1.96 / apart.std() < 4


def test_a_canary_that_is_too_long_leaves_the_general_noise():
    target = CausalTarget(large_logits(torch.bfloat16), letters(), max_length=30)
    assert noise_on_fillings(target, PIN, Context(before="a" * 40)) == target.noise


def test_a_translation_whose_source_holds_the_secret_is_measured_as_whole_texts():
    size = {"d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64}
    heads = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    torch.manual_seed(0)
    config = BartConfig(vocab_size=len(letters()), decoder_start_token_id=0, forced_eos_token_id=None, **size, **heads)
    target = Seq2SeqTarget(BartForConditionalGeneration(config).eval().to(torch.bfloat16), letters())
    both = Canary("c", "so is {digits:2}", ("1", "2"), source="the pin is {digits:2}")
    prove(target, [both])
    assert noise_on_fillings(target, both, Context()) == target.noise


def test_the_example_is_no_natural_secret_and_has_the_largest_space():
    small, natural = (
        Canary("s", "a {digits:1}", ("1",)),
        Canary("n", "b {digits:9}", tuple("123456789"), kind="natural"),
    )
    assert example_of([small, PIN, natural]) == PIN


@pytest.mark.parametrize(("noise", "warned"), [(0.1, False), (0.6, True), (0.0, False)])
def test_noise_of_a_quarter_of_what_fillings_differ_by_is_warned_of(noise, warned, caplog):
    warn_of_blur(noise, np.random.default_rng(0).normal(50, 1, 200))
    assert any("ranks and exposures are imprecise by that much" in each for each in caplog.messages) == warned


@pytest.mark.slow
def test_a_finding_has_the_noise_whatever_canaries_its_process_attacks(tmp_path):
    canaries = make_canaries("the pin of {unique} is {digits:4}.", 3, controls=1, seed=2)
    write_manifest(canaries, tmp_path / "c.jsonl")

    def noises(**given):
        model = HFLM(pretrained=large_logits(torch.bfloat16), tokenizer=letters())
        results = evaluate(model, ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl"), "budget": 200}, **given)
        rows = [json.loads(row["filtered_resps"][0]) for row in results["samples"]["canary_exposure"]]
        return {row["canary"]: row["noise_bits"] for row in rows}

    assert noises(limit=1).items() <= noises().items()


def test_in_float32_no_finding_has_a_noise(tmp_path):
    write_manifest([PIN], tmp_path / "c.jsonl")
    model = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    results = evaluate(model, ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl"), "budget": 200})
    assert "noise_bits" not in json.loads(results["samples"]["canary_exposure"][0]["filtered_resps"][0])
