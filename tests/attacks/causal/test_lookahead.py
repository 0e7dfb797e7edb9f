"""What a lookahead expects, and what draws that go by it are worth, on models whose every rank is known."""

import math

import numpy as np
import pytest

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal import secret_path
from leakage_tasks.attacks.causal.completions import (
    FEWEST,
    MOST,
    Completions,
    JoinedCompletions,
    Steps,
    StepTable,
    bins_for,
    completions_of,
    ends_of,
)
from leakage_tasks.attacks.causal.proposals import EXPLORING, adaptive_mixture
from leakage_tasks.attacks.causal.rank_draws import draw
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import SecretPath
from leakage_tasks.canaries import Canary
from tests.attacks.made_up import MODELS, MadeUp, Ranks
from tests.attacks.visits import visits_of

BINS = 256


def taught(target, canary, pilot=200):
    """An explorer, the secret's path, the bound, and a lookahead that saw so many draws without a bound."""
    explorer = SearchTree(target, canary.attack_space)
    secret = SecretPath(explorer, explorer.path_of(canary.secret)).ranked()
    lookahead = secret.lookahead()
    for visit in visits_of(explorer, range(pilot), "teach", mixture=EXPLORING):
        lookahead.learn_from(explorer, visit.nodes, visit.at)
    lookahead.settle()
    return secret, lookahead


@pytest.mark.parametrize("model", ["independent", "Markov"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_where_only_the_last_token_matters_draws_weigh_about_the_same(model, share):
    target = MadeUp(model, 9)
    canary, rank = Ranks(target).near(share * 9 * math.log2(10), "c", np.random.default_rng(0))
    secret, lookahead = taught(target, canary)
    found = draw(secret, 320, "s", adaptive_mixture(lookahead))
    assert found.others.mean() == pytest.approx(rank - 1, rel=0.2)
    # Nine draws in sixteen go by it, and all but those weigh next to nothing.
    assert found.effective > 320 * 9 / 16 * 0.6


def test_what_is_learnt_after_settling_changes_no_draw():
    target = MadeUp("Markov", 6)
    canary, _ = Ranks(target).near(10, "c", np.random.default_rng(0))
    secret, lookahead = taught(target, canary)
    before = draw(secret, 64, "s", adaptive_mixture(lookahead))
    after = draw(secret, 64, "s", adaptive_mixture(lookahead), lookahead)
    assert np.array_equal(before.others, after.others)


@pytest.mark.parametrize("model", MODELS)
def test_expectations_in_single_precision_are_those_in_double_precision(model, monkeypatch):
    target = MadeUp(model, 9)
    canary, _ = Ranks(target).near(15, "c", np.random.default_rng(0))
    secret, single = taught(target, canary)
    monkeypatch.setattr("leakage_tasks.attacks.causal.lookahead.LARGEST_SINGLE", 0)
    _, double = taught(target, canary)
    root = secret.explorer.root
    children = secret.explorer.children(root)
    bounds = np.linspace(0, secret.highest, 50)
    numbers = [[known.expected(children, bound) for bound in bounds] for known in (single, double)]
    assert numbers[0] == pytest.approx(np.array(numbers[1]), rel=1e-5)
    assert max(map(np.max, numbers)) > 1


def test_last_digits_of_costs_change_no_estimate():
    """As between two batch sizes: noise of 1e-6 bits on every cost."""
    target = MadeUp("heavy-tailed", 9)
    canary, _ = Ranks(target).near(15, "c", np.random.default_rng(0))
    plain = run_attack("exposure", target, [canary], values={"method": "estimated"})[0]
    target._costs = target._costs + np.random.default_rng(1).uniform(0, 1e-6, target._costs.shape)
    noisy = run_attack("exposure", target, [canary], values={"method": "estimated"})[0]
    assert noisy.model_calls == plain.model_calls
    assert noisy.exposure == pytest.approx(plain.exposure, abs=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_ranks_by_dynamic_programming_are_those_of_brute_force(model):
    """The made-up models' own oracle: every filling of four digits, by cost."""
    target = MadeUp(model, 4)
    costs = target.log_perplexity([f"{n:04d}" for n in range(10_000)])
    ranks, stream = Ranks(target), np.random.default_rng(0)
    for log2_rank in (0, 3, 7, 11, 13):
        canary, rank = ranks.near(log2_rank, "c", stream)
        own = costs[int("".join(canary.secret))]
        assert rank == (costs <= own + 1e-9).sum()
    canary, rank = ranks.random("c", stream)
    assert rank == (costs <= costs[int("".join(canary.secret))] + 1e-9).sum()


def test_a_mixture_gives_each_proposal_its_own_chances():
    target = MadeUp("Markov", 4)
    canary, _ = Ranks(target).near(6, "c", np.random.default_rng(0))
    secret, lookahead = taught(target, canary)
    explorer, bound = secret.explorer, secret.bound
    mixture = adaptive_mixture(lookahead)
    for visit in visits_of(explorer, range(40), "s", bound=bound, mixture=mixture):
        for number, proposal in enumerate(mixture.proposals):
            alone = proposal.chances(explorer, visit.nodes, visit.children, bound)
            assert np.array_equal(visit.chance[:, number], alone)


def test_nodes_that_are_learned_from_in_two_parts_or_in_one_give_the_same_expectations():
    target = MadeUp("Markov", 5)
    canary, _ = Ranks(target).near(8, "c", np.random.default_rng(0))
    secret, whole = taught(target, canary, pilot=60)
    explorer, bound = secret.explorer, secret.bound
    halves = secret.lookahead()
    for visit in visits_of(explorer, range(60), "teach", mixture=EXPLORING):
        observed = halves.observed(visit.nodes, explorer.children(visit.nodes))
        for part in (visit.who < 20, visit.who >= 20):
            halves.learn(observed, visit.at[part])
    halves.settle()
    children = explorer.children(explorer.root)
    assert halves.expected(children, bound) == pytest.approx(whole.expected(children, bound), rel=1e-12)


@pytest.mark.parametrize(("cheapest", "usual"), [(0, 255), (30, 50), (200, 255), (254, 255)])
@pytest.mark.parametrize("most", [3, 60, 256])
def test_completions_are_weighted_sums_of_interpolated_numbers(cheapest, usual, most):
    """The oracle interpolates the numbers below each child at the cost that is left, for all columns."""
    stream, trees, tokens, children = np.random.default_rng(0), 2, 3, 40
    pools = trees * tokens
    below = np.sort(stream.random((pools, BINS)), axis=1)
    below[:, :cheapest], below[:, usual:] = 0, below[:, usual - 1 : usual]
    parents, last = stream.integers(0, pools, children), stream.integers(0, tokens, children)
    bins, weights = stream.random(children) * most, stream.random(children)
    expected, ends = np.zeros((2, pools, BINS))
    for parent, token, cost, weight in zip(parents, last, bins, weights, strict=True):
        numbers = [0.0, *below[parent // tokens * tokens + token]]
        expected[parent] += weight * np.interp(np.arange(BINS) - cost, np.arange(-1, BINS), numbers)
        ends[parent] += weight * np.interp(np.arange(BINS) - cost, [-1, 0], [0.0, 1.0])
    whole = Completions(-1, np.concatenate([np.zeros((pools, 1)), below], axis=1))
    known = Completions(cheapest - 1, whole.columns(cheapest - 1, usual + 1))

    def table(pairs, number):
        steps = Steps.of(pairs, bins)
        return StepTable.of(Steps(steps.cells, steps.weights * np.repeat(weights, 2)), number)

    pairs = parents * tokens + last
    for steps in (table(pairs, pools * tokens), StepTable.of(table(pairs, pools * tokens).steps(), pools * tokens)):
        assert completions_of(steps, known, tokens, BINS).columns(0, BINS) == pytest.approx(expected, rel=1e-9)
    made = ends_of(table(parents, pools), BINS)
    assert made.columns(0, BINS) == pytest.approx(ends, rel=1e-9)
    positions, rows = stream.random(50) * BINS, stream.integers(0, pools, 50)
    at = [
        np.interp(position, np.arange(BINS), ends[row])
        for position, row in zip(positions.clip(0, 255), rows, strict=True)
    ]
    assert made.at(rows, positions.clip(0, 255)) == pytest.approx(at, rel=1e-9)
    joined = JoinedCompletions([Completions(-1, np.zeros((pools, 2))), made])
    assert joined.at(rows + pools, positions.clip(0, 255)) == pytest.approx(at, rel=1e-9)
    assert not joined.at(rows, positions).any()


@pytest.mark.parametrize(
    ("bound", "spread", "bins"),
    [(24, 2, FEWEST), (60, 2, 512), (24, 0.2, 512), (60, 0.2, MOST), (60, 0, MOST), (0, 0, FEWEST), (200, 12, 256)],
)
def test_bins_are_at_most_a_third_of_a_token_cost_and_a_fifth_of_a_bit_wide_unless_costs_vary_much(bound, spread, bins):
    assert bins_for(bound, spread) == bins


def test_numbers_that_are_cut_to_fewer_bins_are_those_computed_with_fewer():
    stream = np.random.default_rng(0)
    steps = StepTable.of(Steps.of(stream.integers(0, 3, 200), stream.random(200) * 300), 3)
    cut, own = ends_of(steps, MOST).of(slice(1, 3), BINS), ends_of(steps, BINS)
    rows, positions = stream.integers(0, 2, 100), stream.random(100) * 400
    assert cut.at(rows, positions) == pytest.approx(own.at(rows + 1, positions))


def test_intervals_hold_if_all_tokens_cost_nearly_the_same():
    """Random secrets, as of controls; the true ranks are counted by dynamic programming."""
    target = MadeUp("nearly equal", 6)
    ranks, stream = Ranks(target), np.random.default_rng(0)
    true, found = [], []
    for number in range(100):
        canary, rank = ranks.random(str(number), stream)
        true.append(rank)
        found += run_attack("exposure", target, [canary], values={"method": "estimated"})
    held = [one.rank_low <= rank <= one.rank_high for one, rank in zip(found, true, strict=True)]
    ratios = np.array([one.rank for one in found]) / true
    assert sum(held) >= 95
    assert abs(ratios.mean() - 1) <= 3 * ratios.std() / 10


def spread_of(target, canary):
    explorer = SearchTree(target, canary.attack_space)
    return SecretPath(explorer, explorer.path_of(canary.secret)).ranked().spread


def test_the_spread_is_that_of_costs_beside_the_secrets_path():
    target = MadeUp("Markov", 6)
    canary, _ = Ranks(target).near(10, "c", np.random.default_rng(0))
    path = list(map(int, "".join(canary.secret)))
    costs = np.sort(target._costs[np.arange(len(path)), [0, *path[:-1]]], axis=1)
    assert spread_of(target, canary) == pytest.approx(math.sqrt(np.mean(((costs[:, 7] - costs[:, 2]) / 1.349) ** 2)))


def test_one_likely_token_does_not_change_the_spread_of_all_others():
    target = MadeUp("Markov", 9)
    target._costs = math.log2(10) + 0.1 * np.random.default_rng(0).standard_normal(target._costs.shape)
    canary = Canary("c", "{digits:9}", tuple("314159265"))
    usual = spread_of(target, canary)
    target._costs[:, :, 7] = 0.01
    assert spread_of(target, canary) == pytest.approx(usual, rel=0.5)


def test_more_bins_save_rows_if_all_tokens_cost_nearly_the_same(monkeypatch):
    """The costs are like those of a model that only knows that digits follow."""
    target = MadeUp("Markov", 9)
    target._costs = math.log2(10) + 0.1 * np.random.default_rng(0).standard_normal(target._costs.shape)
    canaries = [Canary(str(n), "{digits:9}", tuple(f"{n * 7919**2 % 10**9:09d}")) for n in range(1, 13)]

    def rows():
        return sum(finding.model_calls for finding in run_attack("exposure", target, canaries, budget=5000))

    usual = rows()
    monkeypatch.setattr(secret_path, "bins_for", lambda bound, spread: FEWEST)
    assert usual < 0.8 * rows()
