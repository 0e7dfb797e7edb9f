"""Passes that hold rows of two lengths, as on a GPU: the draws of passes of one length, in as few as there can be."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, BloomConfig, BloomForCausalLM, Phi3Config

from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix import causal as engine
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes
from tests.oracles import merging
from tests.targets.suffix_oracle import SMALL, model_of, prefixes_of, sampler_of

SAMPLES, LENGTH = 30, 9
PLAIN = DecodingConfig(top_p=1.0, temperature=1.0)


def uniforms(count: int, samples: int = SAMPLES, length: int = LENGTH) -> Any:
    return np.random.default_rng(1).random((count, samples, length))


def mixing(sampler: engine.SuffixSampler, most: int) -> engine.SuffixSampler:
    """A sampler whose passes have so many rows at most, of several lengths."""
    sampler.limit.most, sampler.mixing = most, True
    return sampler


def bloom() -> engine.SuffixSampler:
    torch.manual_seed(0)
    model = BloomForCausalLM(BloomConfig(vocab_size=400, hidden_size=16, n_layer=2, n_head=2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    return engine.SuffixSampler(CausalTarget(model.eval(), merging()))


def check_equal(some: list[SampledSuffixes], others: list[SampledSuffixes]) -> None:
    for found, other in zip(some, others, strict=True):
        assert np.array_equal(found.tokens, other.tokens)
        assert np.array_equal(found.of_draw, other.of_draw)
        assert found.nodes == other.nodes
        for name in ("own", "drawn", "entropy", "margin"):
            assert np.abs(getattr(found, name) - getattr(other, name)).max() < 1e-4


@pytest.mark.parametrize("held", [2, 8])
@pytest.mark.parametrize("most", [7, 50])
@pytest.mark.parametrize(
    "name",
    [
        *("gpt2", "bloom", "sliding window", "lstm"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama", "gpt-neox", "mamba")),
    ],
)
def test_rows_of_two_lengths_in_a_pass_change_no_draw(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int, held: int
) -> None:
    """Also where there are more of them than are held, so that draws of two lengths go on in parts."""
    monkeypatch.setattr(engine, "PASSES_HELD", held)
    together, shared = engine.SuffixSampler.go_on_together, []

    def noted(sampler: engine.SuffixSampler, live: Any, tokens: Any, parts: Any) -> Any:
        shared.append(parts)
        return together(sampler, live, tokens, parts)

    monkeypatch.setattr(engine.SuffixSampler, "go_on_together", noted)
    samplers = [bloom() if name == "bloom" else sampler_of(name) for _ in range(2)]
    prefixes, numbers = prefixes_of(4, 6), uniforms(4)
    found = draw_suffixes(mixing(samplers[0], most), prefixes, numbers, PLAIN)
    assert shared or held != 8
    check_equal(found, draw_suffixes(samplers[1], prefixes, numbers, PLAIN))


@pytest.mark.parametrize("most", [16, 64, 80, 128])
@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_all_passes_but_one_are_full(name: str, most: int) -> None:
    """Of the fewest there can be: the tokens of a suffix, or all rows over the rows of a pass."""
    sampler, prefixes = mixing(sampler_of(name), most), prefixes_of(4, 6)
    # Proves that rows of two lengths may share a pass.
    draw_suffixes(sampler, prefixes, uniforms(4), PLAIN)
    with metered([sampler.target.model]) as count:
        found = draw_suffixes(sampler, prefixes, uniforms(4, length=16), PLAIN)
    # The last token of a suffix is not read.
    rows = len(prefixes) + sum(each.nodes - len(each.tokens) for each in found)
    assert count.rows == rows
    assert count.passes <= 1 + math.ceil(max(16, rows / most))


@pytest.mark.parametrize("samples", [100, 1000, 4000])
def test_what_is_known_by_heart_takes_a_pass_a_token_however_many_draws(samples: int) -> None:
    sampler, sharp = mixing(sampler_of(), 64), DecodingConfig(temperature=0.01)
    sampler.bound(prefixes_of(1, 6)[0], LENGTH)
    with metered([sampler.target.model]) as count:
        found = draw_suffixes(sampler, prefixes_of(60, 6), uniforms(60, samples), sharp)
    assert [each.nodes for each in found] == [LENGTH] * 60
    assert count.passes == LENGTH


@pytest.mark.parametrize("lengths", [(20, 10), (10, 20)])
def test_lengths_on_both_sides_of_a_turn_are_proven_by_themselves(lengths: tuple[int, int]) -> None:
    """Positions of all rows of a pass are rotated by what its longest row asks for, beyond 16 tokens otherwise."""
    rotary = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    rotary |= {"rope_theta": 10_000.0, "original_max_position_embeddings": 16}
    own = {"num_key_value_heads": 1, "original_max_position_embeddings": 16, "pad_token_id": 0}
    model = AutoModelForCausalLM.from_config(Phi3Config(**SMALL, **own, rope_parameters=rotary))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    sampler, plain = (engine.SuffixSampler(CausalTarget(model.eval(), merging())) for _ in range(2))
    for length in lengths:
        found = draw_suffixes(mixing(sampler, 50), prefixes_of(4, length), uniforms(4), PLAIN)
        check_equal(found, draw_suffixes(plain, prefixes_of(4, length), uniforms(4), PLAIN))


class Widening(CharLSTMForCausalLM):
    """An LSTM whose state says how many tokens were read, a second time from ten tokens on."""

    def read(self, embedded: Any, state: Any, lengths: Any) -> tuple[Any, Any]:
        hidden, own = super().read(embedded, state and state[:2], lengths)
        seen = embedded.shape[1] + (0 if state is None else int(state[2][0, 0, 0]))
        return hidden, (*own, self.count(len(embedded), seen))

    def count(self, rows: int, seen: int) -> torch.Tensor:
        return torch.full((rows, 1, 1 if seen < 10 else 2), float(seen))


class MorePrecise(Widening):
    """The same with a count that has more bits from ten tokens on."""

    def count(self, rows: int, seen: int) -> torch.Tensor:
        return torch.full((rows, 1, 1), float(seen), dtype=torch.float32 if seen < 10 else torch.float64)


@pytest.mark.parametrize("kind", [Widening, MorePrecise])
def test_a_state_that_changes_its_form_is_read_apart(kind: type[Widening]) -> None:
    torch.manual_seed(0)
    model = kind(CharLSTMConfig(vocab_size=400)).eval()
    plain = CharLSTMForCausalLM(CharLSTMConfig(vocab_size=400)).eval()
    plain.load_state_dict(model.state_dict())
    sampler, other = (engine.SuffixSampler(CausalTarget(each, merging())) for each in (model, plain))
    found = draw_suffixes(mixing(sampler, 50), prefixes_of(4, 6), uniforms(4), PLAIN)
    assert not sampler.mixing
    check_equal(found, draw_suffixes(other, prefixes_of(4, 6), uniforms(4), PLAIN))


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_memory_that_runs_out_in_a_pass_of_two_lengths_is_answered_by_smaller_ones(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sampler, read_on = mixing(sampler_of(name), 50), CausalTarget.read_on

    def small(target: CausalTarget, cache: Any, tokens: Any, **told: Any) -> Any:
        if len(tokens) > 40:
            raise torch.OutOfMemoryError
        return read_on(target, cache, tokens, **told)

    monkeypatch.setattr(CausalTarget, "read_on", small)
    found = draw_suffixes(sampler, prefixes_of(4, 6), uniforms(4), PLAIN)
    assert sampler.limit.most == 25
    check_equal(found, draw_suffixes(sampler_of(name), prefixes_of(4, 6), uniforms(4), PLAIN))


def test_what_follows_the_prefixes_is_let_go_before_their_draws_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, begin, go_on = sampler_of("gpt2"), engine.SuffixSampler.begin, engine.SuffixSampler.go_on
    began: list[weakref.ref[torch.Tensor]] = []
    held: list[bool] = []

    def beginning(*given: Any) -> Any:
        live, logits = begin(*given)
        began.append(weakref.ref(logits))
        return live, logits

    def going_on(*given: Any) -> Any:
        held.append(began[-1]() is not None)
        return go_on(*given)

    monkeypatch.setattr(engine.SuffixSampler, "begin", beginning)
    monkeypatch.setattr(engine.SuffixSampler, "go_on", going_on)
    draw_suffixes(sampler, prefixes_of(4, 6), uniforms(4), PLAIN)
    assert held == [False] * (LENGTH - 1)


def test_in_half_precision_rows_of_two_lengths_share_passes_too() -> None:
    samplers = [engine.SuffixSampler(CausalTarget(model_of("llama").to(torch.bfloat16), merging())) for _ in range(2)]
    together, apart = (
        draw_suffixes(sampler, prefixes_of(4, 6), uniforms(4), PLAIN)
        for sampler in (mixing(samplers[0], 50), samplers[1])
    )
    assert samplers[0].mixing
    # Rounding may turn a draw near the edge of a token's share.
    same = [
        np.mean(one.tokens[one.of_draw] == other.tokens[other.of_draw])
        for one, other in zip(together, apart, strict=True)
    ]
    assert np.mean(same) > 0.9


@pytest.mark.parametrize("held", [2, 8])
@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize("name", ["gpt2", "sliding window", "lstm"])
def test_a_draw_ends_at_the_tokens_that_end_texts_and_is_read_no_further(
    monkeypatch: pytest.MonkeyPatch, name: str, mixed: bool, held: int
) -> None:
    monkeypatch.setattr(engine, "PASSES_HELD", held)
    sampler, prefixes, numbers, ends = mixing(sampler_of(name), 16), prefixes_of(4, 6), uniforms(4, 12), set(range(90))
    sampler.mixing = mixed
    whole = draw_suffixes(sampler, prefixes, numbers, PLAIN)
    with metered([sampler.target.model]) as count:
        found = draw_suffixes(sampler, prefixes, numbers, PLAIN, ends)
    rows = 0
    for short, full in zip(found, whole, strict=True):
        read = set()
        for one, other in zip(short.tokens[short.of_draw], full.tokens[full.of_draw].tolist(), strict=True):
            stop = next((place + 1 for place, token in enumerate(other) if token in ends), LENGTH)
            assert one.tolist() == other[:stop] + [0] * (LENGTH - stop)
            read |= {tuple(other[:size]) for size in range(1, stop)}
        rows += len(read)
    assert rows < sum(each.nodes for each in whole) / 2
    # Rows without a draw are read until they are a quarter of a batch.
    assert len(prefixes) + rows <= count.rows <= len(prefixes) + 1.5 * rows
