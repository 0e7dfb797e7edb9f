"""Many pairs share passes, and each comes to what it comes to alone."""

import random
from dataclasses import replace

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
REQUEST = SuffixRequest(scheme=DecodingConfig(), samples=DRAWS)


def pairs(number):
    stream = random.Random(0)
    tokens = [[stream.randrange(4, len(letters())) for _ in range(6 + LENGTH)] for _ in range(number)]
    return [Pair(place, tuple(row[:6]), tuple(row[6:])) for place, row in enumerate(tokens)]


def run(groups, sharpness):
    model = tiny_gpt2(letters(), sharpness=sharpness)
    target = CausalSuffixes(CausalTarget(model, letters()))
    # As on a GPU.
    target.sampler.limit.most = ROWS
    # What is found out about a model the first time is no pair's.
    attack_pairs(target, pairs(1), replace(REQUEST, samples=4 * ROWS))
    with metered([model]) as count:
        return [each for group in groups for each in attack_pairs(target, group, REQUEST)], count


@pytest.mark.parametrize("sharpness", [pytest.param(4.0, marks=pytest.mark.slow), 30.0])
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


@pytest.mark.slow
@pytest.mark.parametrize(("number", "not_full"), [(4, 3), (7, 3), (12, 3), (160, 0)])
@pytest.mark.parametrize("sharpness", [4.0, 30.0], ids=["draws that differ", "draws that are alike"])
def test_passes_are_full_and_rows_are_no_more(sharpness, number, not_full):
    """Of few pairs but for the last pass of draws, that of lower-cased ones, and that of true suffixes."""
    some = pairs(number)
    _, met = run([some], sharpness)
    _, alone = run([[pair] for pair in some], sharpness)
    # To read a prefix, each further token but the last, and the true suffix.
    depth = LENGTH + 1
    assert met.rows <= 1.02 * alone.rows
    assert met.passes <= 1.2 * max(depth, alone.rows / ROWS) + not_full


def test_a_second_model_reads_no_draw_twice():
    second = CausalSuffixes(CausalTarget(tiny_gpt2(letters(), seed=7), letters()))
    asked, costs_after = [], second.costs_after

    def noted(prefixes, continuations):
        asked.extend(zip(map(tuple, prefixes), map(tuple, continuations), strict=True))
        return costs_after(prefixes, continuations)

    second.costs_after = noted
    target = CausalSuffixes(CausalTarget(tiny_gpt2(letters()), letters()))
    attack_pairs(target, pairs(3), replace(REQUEST, prefix_lengths=(4, 6)), compared_with=second)
    assert len(asked) == len(set(asked)) > 0
