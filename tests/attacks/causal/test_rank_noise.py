"""Intervals of ranks under rounding noise, against brute force at both ends of the secret's cost."""

import json

import numpy as np
import pytest
import torch

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal.proposals import model_mixture
from leakage_tasks.attacks.causal.rank_draws import RankDraws, draw, interval_of
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import SecretPath
from leakage_tasks.attacks.causal.thinned_tree import thinned_count
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.finding import finding_from_json
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.noise import Noise
from tests.oracles import brute_rank, letters, tiny_gpt2
from tests.targets.large_logits import large_logits

TEMPLATE = "the pin is {digits:3}."
NOISE = Noise(0.4)
AFTER_PREFIX, WHOLE = 4, 15
"""Tokens of single characters: three digits and the full stop; the whole text."""


NONE = RankDraws(np.zeros(100), np.ones(100), 0, 10.0)


class Noisy(CausalTarget):
    """A model in float32 that states a noise, so that every figure is known."""

    recorded_noise = NOISE


def target():
    return Noisy(tiny_gpt2(letters()), letters())


def counts(canary, margin):
    """The rank of a secret that costs a margin less, of the secret itself, and of one that costs a margin more."""
    _, costs = brute_rank(tiny_gpt2(letters()), letters(), canary)
    own = costs[canary.space.index(canary.secret)]
    low, rank, high = (sum(cost <= own + shift + 1e-4 for cost in costs) for shift in (-margin, 0.0, margin))
    return [low + 1, rank, high]


@pytest.mark.parametrize("secret", ["707", "120", "999"])
@pytest.mark.parametrize(("attack", "tokens"), [("exposure", AFTER_PREFIX), ("rank-sample", WHOLE)])
def test_an_exact_rank_has_the_interval_that_brute_force_gives(attack, tokens, secret):
    canary = Canary("c", TEMPLATE, tuple(secret))
    settings = {"method": "exact"} if attack == "exposure" else {}
    found = run_attack(attack, target(), [canary], values=settings)[0]
    low, rank, high = counts(canary, NOISE.margin(tokens))
    assert (found.rank_low, found.rank, found.rank_high, found.method) == (low, rank, high, "exact")


def test_in_float32_an_exact_rank_has_no_interval():
    found = run_attack("exposure", CausalTarget(tiny_gpt2(letters()), letters()), [Canary("c", TEMPLATE, ("7",) * 3)])[
        0
    ]
    assert (found.rank_low, found.rank_high, found.noise_bits) == (None, None, None)


def explored(secret="707"):
    canary = Canary("c", TEMPLATE, tuple(secret))
    explorer = SearchTree(target(), canary.space)
    return canary, SecretPath(explorer, explorer.path_of(canary.secret)).ranked(0.8)


def test_draws_of_a_secret_a_margin_lower_and_higher_are_unbiased():
    canary, secret = explored()
    made = draw(secret, 6000, "0", model_mixture())
    low, rank, high = counts(canary, 0.8)
    fewest, most = (end.others.mean() for end in made.ends)
    assert (1 + made.others.mean(), 1 + fewest, 1 + most) == pytest.approx((rank, low, high), rel=0.1)


def test_a_secret_that_no_draw_costs_a_margin_less_than_may_rank_first():
    made = RankDraws(np.ones(100), np.ones(100), 1, 10.0, (NONE, RankDraws(np.full(100, 3.0), np.ones(100), 3, 10.0)))
    low, high = interval_of(made)
    assert (low, high) == (1.0, pytest.approx(4.0, rel=0.05))


def test_a_thinned_tree_counts_at_both_ends():
    canary, secret = explored()
    made = [thinned_count(secret, secret.lookahead(), 900, str(n)) for n in range(40)]
    low, rank, high = counts(canary, 0.8)
    found = [
        np.mean([1 + part.others.mean() for part in parts])
        for parts in (made, [each.ends[0] for each in made], [each.ends[1] for each in made])
    ]
    assert found == pytest.approx([rank, low, high], rel=0.1)


@pytest.mark.slow
def test_estimated_intervals_hold_the_ranks_at_both_ends():
    canaries = make_canaries("the pin of {unique} is {digits:3}.", 24, seed=3)
    model = tiny_gpt2(letters())
    found = run_attack("exposure", target(), canaries, budget=600, values={"method": "estimated"})
    held = []
    for canary, finding in zip(canaries, found, strict=True):
        _, costs = brute_rank(model, letters(), canary)
        own, margin = costs[canary.space.index(canary.secret)], NOISE.margin(AFTER_PREFIX)
        low, high = (sum(cost <= own + shift for cost in costs) for shift in (-margin, margin))
        held.append(finding.rank_low <= low + 1 and finding.rank_high >= high)
    assert np.mean(held) >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_ranks_in_16_bits_have_intervals_that_hold_those_in_float32(dtype):
    canaries = make_canaries("the pin of {unique} is {digits:3}.", 30, seed=1)
    half, full = (CausalTarget(large_logits(each), letters()) for each in (dtype, torch.float32))
    exact = {"method": "exact"}
    true = [found.rank for found in run_attack("exposure", full, canaries, values=exact)]
    found = run_attack("exposure", half, canaries, values=exact)
    ends = [(each.rank_low or each.rank, each.rank_high or each.rank) for each in found]
    assert np.mean([low <= rank <= high for rank, (low, high) in zip(true, ends, strict=True)]) >= 0.9
    assert all(each.noise_bits == pytest.approx(half.noise.of(len(each.guesses[0].text))) for each in found)


def test_the_noise_is_in_the_finding_s_json():
    found = run_attack("exposure", target(), [Canary("c", TEMPLATE, ("7", "0", "7"))])[0]
    assert json.loads(found.to_json())["noise_bits"] == pytest.approx(NOISE.of(WHOLE))
    assert finding_from_json(found.to_json()) == found


def test_the_noise_of_a_natural_secret_is_withheld_as_it_grows_with_its_tokens():
    natural = Canary("c", TEMPLATE, ("7", "0", "7"), kind="natural", repetitions=1)
    assert coarsened(run_attack("exposure", target(), [natural])[0]).noise_bits is None
