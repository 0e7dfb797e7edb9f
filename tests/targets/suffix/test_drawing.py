"""Draws in passes of few rows: the draws of one large pass for each token, in few passes of similar size."""

from __future__ import annotations

import math
import weakref
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BloomConfig, BloomForCausalLM

from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix import causal as engine
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.sampled_suffixes import SampledSuffixes
from leakage_tasks.targets.suffix.writing import CausalWriter
from tests.oracles import merging
from tests.targets.causal.models import limit_rows
from tests.targets.suffix_oracle import prefixes_of, sampler_of

SAMPLES, LENGTH = 30, 9
PLAIN = DecodingConfig(top_p=1.0, temperature=1.0)


def uniforms(count: int, samples: int = SAMPLES, length: int = LENGTH) -> Any:
    return np.random.default_rng(1).random((count, samples, length))


def bounded(sampler: engine.SuffixSampler, most: int) -> engine.SuffixSampler:
    """A sampler whose passes have so many rows at most."""
    sampler.limit.most = most
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


def made(name: str) -> engine.SuffixSampler:
    return bloom() if name == "bloom" else sampler_of(name)


@cache
def plain_draws(name: str) -> list[SampledSuffixes]:
    """Thirty draws after each of four prefixes, in one large pass for each token."""
    return draw_suffixes(made(name), prefixes_of(4, 6), uniforms(4), PLAIN)


@pytest.mark.parametrize(("most", "held"), [pytest.param(1, 8, marks=pytest.mark.slow), (7, 2), (50, 8)])
@pytest.mark.parametrize(
    "name", ["gpt2", "bloom", "sliding window", "lstm", pytest.param("mamba", marks=pytest.mark.slow)]
)
def test_batches_company_and_order_change_no_draw(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int, held: int
) -> None:
    """Also if there are more rows than are held, so that draws go on in parts."""
    order, prefixes = [2, 0, 3], prefixes_of(4, 6)
    expected = [plain_draws(name)[place] for place in order]
    monkeypatch.setattr(engine, "PASSES_HELD", held)
    some = [prefixes[place] for place in order]
    check_equal(draw_suffixes(bounded(made(name), most), some, uniforms(4)[order], PLAIN), expected)


@pytest.mark.parametrize("most", [7, 100])
@pytest.mark.parametrize("name", ["gpt2", "bloom", "sliding window", "lstm"])
def test_prefixes_of_several_lengths_share_their_passes_and_change_no_draw(name: str, most: int) -> None:
    """An end token in a prefix ends no draw."""
    sampler = bloom() if name == "bloom" else sampler_of(name)
    prefixes = [prefix[: 1 + 3 * (number % 4)] for number, prefix in enumerate(prefixes_of(6, 10))]
    ends, numbers = [*range(300, 330), prefixes[3][-1]], uniforms(6, 5)
    alone = [
        draw_suffixes(sampler, [prefix], numbers[[index]], PLAIN, ends)[0] for index, prefix in enumerate(prefixes)
    ]
    with metered([sampler.target.model]) as count:
        check_equal(draw_suffixes(bounded(sampler, most), prefixes, numbers, PLAIN, ends), alone)
    assert any(0 in row for each in alone for row in each.tokens)
    # The first pass reads one token of each prefix, which take up to nine further ones; the last token is not read.
    assert most < 30 or count.passes <= 1 + 9 + LENGTH - 1


def test_a_long_prompt_makes_no_group_of_short_ones_smaller() -> None:
    target = SimpleNamespace(max_length=None, pairs_at_once=lambda pair, samples: 100 // len(pair.prefix))
    prompts = [[1] * size for size in (5, 50, 5, 4, 20, 3)]
    assert list(CausalWriter(target, ()).groups(prompts, 4)) == [[5, 3, 0, 2], [4], [1]]


@pytest.mark.parametrize("most", [16, 64, 80, 128])
@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_each_token_takes_the_fewest_passes(name: str, most: int) -> None:
    sampler, prefixes = bounded(sampler_of(name), most), prefixes_of(4, 6)
    sampler.bound(prefixes[0], 16)
    with metered([sampler.target.model]) as count:
        found = draw_suffixes(sampler, prefixes, uniforms(4, length=16), PLAIN)
    # The last token of a suffix is not read.
    rows = [sum(len(np.unique(each.tokens[:, :size], axis=0)) for each in found) for size in range(1, 16)]
    assert count.rows == len(prefixes) + sum(rows)
    assert count.passes == 1 + sum(math.ceil(number / most) for number in rows)


@pytest.mark.parametrize("samples", [100, 1000, 4000])
def test_what_is_known_by_heart_takes_a_pass_a_token_however_many_draws(samples: int) -> None:
    sampler, sharp = bounded(sampler_of(), 64), DecodingConfig(temperature=0.01)
    sampler.bound(prefixes_of(1, 6)[0], LENGTH)
    with metered([sampler.target.model]) as count:
        found = draw_suffixes(sampler, prefixes_of(60, 6), uniforms(60, samples), sharp)
    assert [each.nodes for each in found] == [LENGTH] * 60
    assert count.passes == LENGTH


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
def test_a_state_may_change_its_form(kind: type[Widening]) -> None:
    torch.manual_seed(0)
    model = kind(CharLSTMConfig(vocab_size=400)).eval()
    plain = CharLSTMForCausalLM(CharLSTMConfig(vocab_size=400)).eval()
    plain.load_state_dict(model.state_dict())
    sampler, other = (engine.SuffixSampler(CausalTarget(each, merging())) for each in (model, plain))
    found = draw_suffixes(bounded(sampler, 50), prefixes_of(4, 6), uniforms(4), PLAIN)
    check_equal(found, draw_suffixes(other, prefixes_of(4, 6), uniforms(4), PLAIN))


@pytest.mark.parametrize(
    "name", ["gpt2", "lstm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sliding window", "mamba"))]
)
def test_memory_that_runs_out_is_answered_by_smaller_passes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    expected, sampler = plain_draws(name), bounded(sampler_of(name), 50)
    limit_rows(monkeypatch, CausalTarget, "read_on", 20, place=2)
    found = draw_suffixes(sampler, prefixes_of(4, 6), uniforms(4), PLAIN)
    assert sampler.limit.most in (13, 25)
    check_equal(found, expected)


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


@pytest.mark.parametrize("held", [2, 8])
@pytest.mark.parametrize("name", ["gpt2", "sliding window", "lstm"])
def test_a_draw_ends_at_the_tokens_that_end_texts_and_is_read_no_further(
    monkeypatch: pytest.MonkeyPatch, name: str, held: int
) -> None:
    monkeypatch.setattr(engine, "PASSES_HELD", held)
    sampler, prefixes, numbers, ends = bounded(sampler_of(name), 16), prefixes_of(4, 6), uniforms(4, 12), set(range(90))
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
