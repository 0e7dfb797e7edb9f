"""Pairs whose draws are alike share passes, and each comes to what it comes to alone."""

import random

import pytest

from leakage_tasks.attacks.suffix.attack import attack_pairs
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.pairs import Pair
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import CausalSuffixes
from tests.oracles import letters, tiny_gpt2

ROWS, LENGTH, DRAWS = 32, 5, 16
ORDER = SuffixRequest(scheme=DecodingConfig(), samples=DRAWS)


def pairs(number):
    stream = random.Random(0)
    tokens = [[stream.randrange(4, len(letters())) for _ in range(6 + LENGTH)] for _ in range(number)]
    return [Pair(place, tuple(row[:6]), tuple(row[6:])) for place, row in enumerate(tokens)]


def run(groups, sharpness):
    model = tiny_gpt2(letters(), sharpness=sharpness)
    target = CausalSuffixes(CausalTarget(model, letters()))
    target.sampler.limit.most = ROWS
    with metered([model]) as count:
        return [each for group in groups for each in attack_pairs(target, group, ORDER)], count


@pytest.mark.parametrize("sharpness", [4.0, 30.0])
def test_company_changes_no_figure(sharpness):
    some = pairs(40)
    met, _ = run([some], sharpness)
    alone, _ = run([[pair] for pair in some], sharpness)
    for one, other in zip(met, alone, strict=True):
        assert (one.pair, one.nodes, one.model_calls) == (other.pair, other.nodes, other.model_calls)
        assert one.views.keys() == other.views.keys()
        for name, view in one.views.items():
            theirs = other.views[name]
            assert (view.distinct, view.reachable) == (theirs.distinct, theirs.reachable)
            assert view.own_bits == pytest.approx(theirs.own_bits, abs=1e-4)
            assert view.p_z_bits == (None if theirs.p_z_bits is None else pytest.approx(theirs.p_z_bits, abs=1e-4))


def test_prefixes_whose_draws_are_alike_fill_the_passes():
    number = 160
    _, count = run([pairs(number)], 30.0)
    assert count.passes <= 3 * max(LENGTH, count.rows / ROWS)
