"""Costs of given suffixes against direct forward passes."""

import numpy as np
import pytest

from leakage_tasks.planning.meter import metered
from leakage_tasks.targets.causal import beginnings
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.drawing import draw_suffixes
from leakage_tasks.targets.suffix.scores import costs_after, score_suffixes
from tests.targets.suffix.test_decoding_config import warped
from tests.targets.suffix_oracle import ARCHITECTURES, bits_of, direct_logits, prefixes_of, sampler_of

SCHEMES = [DecodingConfig(), DecodingConfig(top_p=1.0, temperature=1.0), DecodingConfig(top_k=20, top_p=0.95)]


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_costs_are_those_of_a_direct_pass(name, scheme):
    sampler, prefixes, suffixes = sampler_of(name), prefixes_of(5, 6), prefixes_of(5, 7, seed=1)
    greedy = draw_suffixes(sampler, prefixes[:2], np.zeros((2, 1, 7)), DecodingConfig(temperature=0.01))
    suffixes[:2] = [each.tokens[0].tolist() for each in greedy]
    for prefix, suffix, found in zip(
        prefixes, suffixes, score_suffixes(sampler, prefixes, suffixes, scheme), strict=True
    ):
        logits = direct_logits(sampler.target.model, prefix, [suffix])
        assert found.own == pytest.approx(bits_of(logits, [suffix])[0], abs=1e-4)
        expected = bits_of(warped(logits[0], scheme)[None], [suffix])[0]
        assert np.array_equal(np.isinf(found.drawn), np.isinf(expected))
        finite = np.isfinite(expected)
        assert found.drawn[finite] == pytest.approx(expected[finite], abs=1e-4)


def test_greedy_decoding_draws_its_own_suffix_for_certain_and_no_other():
    sampler, (prefix,) = sampler_of(), prefixes_of(1, 6)
    own = draw_suffixes(sampler, [prefix], np.zeros((1, 1, 5)), DecodingConfig(temperature=0.01))[0].tokens[0].tolist()
    other = [*own[:-1], (own[-1] + 1) % 400]
    found = score_suffixes(sampler, [prefix, prefix], [own, other], DecodingConfig(decoding="greedy"))
    assert [float(each.drawn.sum()) for each in found] == [0.0, np.inf]
    assert score_suffixes(sampler, [prefix], [own], DecodingConfig(decoding="beam"))[0].drawn is None


@pytest.mark.parametrize("a_pass", [0, beginnings.PASS_ON_CPU], ids=["by tokens", "whole"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "sliding window", "mamba", "lstm"])
def test_continuations_of_any_length_after_prefixes(monkeypatch, name, a_pass):
    """Of models that go on by single tokens both ways, by what a pass is worth."""
    monkeypatch.setattr(beginnings, "PASS_ON_CPU", a_pass)
    sampler, some = sampler_of(name), prefixes_of(3, 6)
    continuations = [each[: 1 + place % 7] for place, each in enumerate(prefixes_of(12, 7, seed=2))]
    prefixes = [some[place % 5 % 3] for place in range(12)]
    for prefix, each, found in zip(prefixes, continuations, costs_after(sampler, prefixes, continuations), strict=True):
        expected = bits_of(direct_logits(sampler.target.model, prefix, [each]), [each])[0]
        assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("a_pass", "rows"), [(23, [2, 6]), (24, [6])])
def test_a_prefix_that_several_continue_is_read_once_where_that_saves_more_than_a_pass_is_worth(
    monkeypatch, a_pass, rows
):
    """Four texts more than prefixes of six tokens: the prefixes and then the texts, or the texts with them."""
    monkeypatch.setattr(beginnings, "PASS_ON_CPU", a_pass)
    sampler, some = sampler_of(), prefixes_of(2, 6)
    # One prefix tells what a row takes of memory.
    sampler.bound(some[0], 4)
    with metered([sampler.target.model]) as count:
        costs_after(sampler, some * 3, prefixes_of(6, 4))
    assert (count.passes, count.rows) == (len(rows), sum(rows))


@pytest.mark.parametrize(("a_pass", "passes"), [(1, 1 + 6), (100, 1)])
def test_single_tokens_are_read_where_they_save_more_than_their_passes_are_worth(monkeypatch, a_pass, passes):
    """Twelve texts of seven tokens after six: six passes after the prefixes' own, or one of all texts."""
    monkeypatch.setattr(beginnings, "PASS_ON_CPU", a_pass)
    sampler, some = sampler_of("lstm"), prefixes_of(3, 6)
    sampler.bound(some[0], 7)
    with metered([sampler.target.model]) as count:
        costs_after(sampler, some * 4, prefixes_of(12, 7, seed=2))
    assert count.passes == passes


def test_an_empty_prefix_after_what_goes_before_all():
    sampler = sampler_of()
    sampler.before = [7]
    found = costs_after(sampler, [[], []], [[3, 4], [5, 6, 8]])
    for each, own in zip(found, ([3, 4], [5, 6, 8]), strict=True):
        assert each == pytest.approx(bits_of(direct_logits(sampler.target.model, [7], [own]), [own])[0], abs=1e-4)
