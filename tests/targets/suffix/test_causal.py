"""The sampling engine against direct forward passes and `transformers`' own distributions."""

import weakref

import numpy as np
import pytest
import torch

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets import memory
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix import causal as engine
from leakage_tasks.targets.suffix import growing_attention
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from tests.oracles import merging, tiny_gpt2
from tests.targets.suffix.test_decoding_config import warped
from tests.targets.suffix_oracle import ARCHITECTURES, bits_of, direct_logits, model_of, prefixes_of, sampler_of

PLAIN = DecodingConfig(top_p=1.0, temperature=1.0)
SAMPLES, LENGTH = 30, 9


def numbers(count, samples=SAMPLES, length=LENGTH, seed=1):
    return np.random.default_rng(seed).random((count, samples, length))


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("scheme", [DecodingConfig(), PLAIN], ids=str)
def test_log_probabilities_equal_a_direct_forward_pass(name, scheme):
    sampler, prefixes = sampler_of(name), prefixes_of(3, 6)
    for prefix, found in zip(prefixes, draw_suffixes(sampler, prefixes, numbers(3), scheme), strict=True):
        logits = direct_logits(sampler.target.model, prefix, found.tokens)
        assert np.abs(found.own - bits_of(logits, found.tokens)).max() < 1e-4
        flat = warped(logits.reshape(-1, 400), scheme).reshape(logits.shape)
        # A nucleus whose end is within rounding of top_p may have a token more or less.
        assert np.mean(np.abs(found.drawn - bits_of(flat, found.tokens)) > 1e-4) < 0.01
        probabilities = logits.double().softmax(-1)
        entropy = -(probabilities * probabilities.log2()).nan_to_num().sum(-1)
        assert np.abs(found.entropy - entropy.numpy()).max() < 1e-4
        taken = probabilities.gather(-1, torch.tensor(found.tokens)[..., None])
        others = probabilities.scatter(-1, torch.tensor(found.tokens)[..., None], 0.0)
        margin = taken[..., 0] - others.max(-1).values
        assert np.abs(found.margin - margin.numpy()).max() < 1e-4


@pytest.mark.parametrize("name", ["gpt2", "llama", "lstm"])
def test_every_draw_is_what_its_own_numbers_make_of_it(name):
    """Each draw made alone, token by token, by cumulative sums over a plain pass."""
    sampler, prefixes, uniforms = sampler_of(name), prefixes_of(2, 5), numbers(2, 8)
    scheme = DecodingConfig(top_p=0.9, temperature=1.2)
    for prefix, found, own in zip(prefixes, draw_suffixes(sampler, prefixes, uniforms, scheme), uniforms, strict=True):
        for draw, sequence in enumerate(own):
            row = list(prefix)
            for uniform in sequence:
                with torch.no_grad():
                    logits = sampler.target.model(torch.tensor([row]), use_cache=False).logits[:, -1].float()
                running = warped(logits, scheme)[0].double().exp().cumsum(0)
                row.append(int(torch.searchsorted(running, torch.tensor([uniform * float(running[-1])]), right=True)))
            assert row[5:] == found.tokens[found.of_draw[draw]].tolist()


def test_without_a_cache_the_draws_are_the_same():
    prefixes, uniforms = prefixes_of(3, 6), numbers(3)
    pairs = zip(
        *(draw_suffixes(sampler_of(cached=cached), prefixes, uniforms, DecodingConfig()) for cached in (True, False)),
        strict=True,
    )
    assert all(np.array_equal(with_cache.tokens, without.tokens) for with_cache, without in pairs)


def test_fewer_draws_are_the_first_of_many():
    prefixes, uniforms = prefixes_of(2, 6), numbers(2, 40)
    many = draw_suffixes(sampler_of(), prefixes, uniforms, PLAIN)
    few = draw_suffixes(sampler_of(), prefixes, uniforms[:, :11], PLAIN)
    for found, other in zip(many, few, strict=True):
        rows, counts = found.first(11, LENGTH)
        assert np.array_equal(found.tokens[rows], other.tokens)
        assert np.array_equal(counts, np.bincount(other.of_draw))


def test_shorter_suffixes_are_the_beginnings_of_the_draws():
    (prefix,), uniforms = prefixes_of(1, 6), numbers(1, 60)
    (found,) = draw_suffixes(sampler_of(), [prefix], uniforms, DecodingConfig())
    (short,) = draw_suffixes(sampler_of(), [prefix], uniforms[:, :, :3], DecodingConfig())
    rows, counts = found.first(60, 3)
    assert np.array_equal(found.tokens[rows, :3], short.tokens)
    assert np.array_equal(counts, np.bincount(short.of_draw))


def test_draws_that_are_still_identical_are_computed_once():
    (found,) = draw_suffixes(sampler_of(), prefixes_of(1, 6), numbers(1, 50), DecodingConfig(temperature=0.01))
    assert (len(found.tokens), found.nodes) == (1, LENGTH)
    (wide,) = draw_suffixes(sampler_of(), prefixes_of(1, 6), numbers(1, 50), PLAIN)
    distinct = sum(len(np.unique(wide.tokens[:, :depth], axis=0)) for depth in range(1, LENGTH + 1))
    assert wide.nodes == distinct


@pytest.mark.slow
def test_a_batch_takes_no_more_memory_than_it_may(monkeypatch):
    # Two layers of keys and values of 32 floats for 15 tokens, and 400 logits.
    row = 2 * 2 * 32 * 4 * 15 + memory.LOGIT_BYTES * 400
    monkeypatch.setattr(memory, "CPU_BYTES", 12 * row)
    sampler, prefixes, uniforms = sampler_of(), prefixes_of(2, 6), numbers(2, 200)
    seen, read_on = [], sampler.target.read_on

    def watched(cache, tokens):
        seen.append(len(tokens))
        return read_on(cache, tokens)

    monkeypatch.setattr(sampler.target, "read_on", watched)
    found = draw_suffixes(sampler, prefixes, uniforms, PLAIN)
    assert max(seen) == sampler.bound(prefixes[0], LENGTH) == 12
    plain = draw_suffixes(sampler_of(), prefixes, uniforms, PLAIN)
    assert all(np.array_equal(one.tokens, other.tokens) for one, other in zip(found, plain, strict=True))


@pytest.mark.parametrize("rows", [pytest.param(8, marks=pytest.mark.slow), 30, 100])
def test_rows_that_are_gone_back_to_stay_within_the_memory_too(monkeypatch, rows):
    """All buffers that are alive at any time, of draws that part again and again."""
    kept = 2 * 2 * 32 * 4 * (6 + LENGTH)
    alive, peak, made = 0, 0, growing_attention._buffer

    def freed(size):
        nonlocal alive
        alive -= size

    def counted(held, number, length):
        nonlocal alive, peak
        found = made(held, number, length)
        weakref.finalize(found, freed, found.nbytes)
        alive += found.nbytes
        peak = max(peak, alive)
        return found

    sampler, prefixes, uniforms = sampler_of(), prefixes_of(1, 6), numbers(1, 150)
    plain = draw_suffixes(sampler_of(), prefixes, uniforms, PLAIN)
    monkeypatch.setattr(growing_attention, "_buffer", counted)
    with memory.memory_within(rows * (kept + memory.LOGIT_BYTES * 400)):
        found = draw_suffixes(sampler, prefixes, uniforms, PLAIN)
    assert kept < peak <= rows * kept
    assert all(np.array_equal(one.tokens, other.tokens) for one, other in zip(found, plain, strict=True))


def test_the_users_batch_size_bounds_the_rows():
    assert sampler_of(batch_size=3).bound(prefixes_of(1, 6)[0], 10) == 3 * 64 // 16
    assert sampler_of(batch_size=1).bound(prefixes_of(1, 6)[0], 10) == sampler_of().bound(prefixes_of(1, 6)[0], 10)


def test_probabilities_that_are_no_numbers_are_an_error():
    model = tiny_gpt2(merging(), seed=11)
    with torch.no_grad():
        model.transformer.ln_f.bias.fill_(float("nan"))
    with pytest.raises(TargetError, match="no numbers: load it in dtype=bfloat16 or float32"):
        draw_suffixes(
            engine.SuffixSampler(CausalTarget(model, merging())), prefixes_of(1, 6), numbers(1), DecodingConfig()
        )


def test_a_token_before_every_prefix_is_read_first():
    sampler, prefix = sampler_of(), prefixes_of(1, 6)[0]
    sampler.before = [7]
    (found,) = draw_suffixes(sampler, [prefix], numbers(1), PLAIN)
    logits = direct_logits(sampler.target.model, [7, *prefix], found.tokens)
    assert np.abs(found.own - bits_of(logits, found.tokens)).max() < 1e-4


def test_a_soft_prompt_goes_before_the_prefix_once(tmp_path):
    from peft import PeftModel, PromptTuningConfig, TaskType, get_peft_model

    torch.manual_seed(0)
    base = tiny_gpt2(merging(), seed=3)
    tuned = get_peft_model(base, PromptTuningConfig(TaskType.CAUSAL_LM, num_virtual_tokens=4)).eval()
    assert isinstance(tuned, PeftModel)
    sampler = engine.SuffixSampler(CausalTarget(tuned, merging(), device="cpu"))
    assert sampler.max_length == 60
    (prefix,) = prefixes_of(1, 6)
    (found,) = draw_suffixes(sampler, [prefix], numbers(1), PLAIN)
    rows = torch.tensor([[*prefix, *row] for row in found.tokens.tolist()])
    with torch.no_grad():
        vectors = tuned.get_prompt(batch_size=len(rows))
        words = base.get_input_embeddings()(rows)
        logits = base(inputs_embeds=torch.cat([vectors, words], dim=1)).logits[:, 4 + 6 - 1 : -1]
    assert np.abs(found.own - bits_of(logits, found.tokens)).max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_lower_precision_draws_too(dtype):
    model = model_of("llama").to(dtype)
    sampler = engine.SuffixSampler(CausalTarget(model, merging()))
    (found,) = draw_suffixes(sampler, prefixes_of(1, 6), numbers(1), DecodingConfig())
    logits = direct_logits(model, prefixes_of(1, 6)[0], found.tokens)
    assert np.abs(found.own - bits_of(logits, found.tokens)).mean() < 0.1
