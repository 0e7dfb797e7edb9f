"""Attacks that need nothing but scores of whole texts."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, parse_template
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.targets import CausalTarget
from tests.oracles import brute_rank, merging, tiny_gpt2


class Scores:
    """A target that knows costs only: the number a text ends in, or what it is given."""

    max_length = None

    def __init__(self, cost=None):
        self.cost = cost or (lambda text: float(text.rsplit(" ", 1)[-1]))
        self.asked = 0

    def length(self, text):
        return None

    def log_perplexity(self, texts):
        self.asked += len(texts)
        return np.array([self.cost(text) for text in texts])


def canary(number, digits=3):
    return Canary("c", f"pin {{digits:{digits}}}", tuple(f"{number:0{digits}d}"))


@pytest.mark.parametrize("attack", ["exposure", "rank-sample", "brute-force", "auto"])
def test_a_small_space_is_scored_whole(attack):
    found = run_attack(attack, Scores(), [canary(41)])[0]
    assert (found.rank, found.method, found.log_perplexity) == (42, "exact", 41.0)
    assert [guess.score for guess in found.guesses] == list(range(10))


def test_to_brute_force_every_text_is_a_node_of_its_own():
    target = Scores()
    found = run_attack("brute-force", target, [canary(41)])[0]
    assert (found.extra, found.model_calls, target.asked) == ({"nodes": 1000}, 1000, 1000)
    assert (found.proven, found.place) == (10, None)


def test_brute_force_agrees_with_transformers():
    item = Canary("c", "the pin is {digits:3}.", ("7", "0", "7"))
    found = run_attack("brute-force", CausalTarget(tiny_gpt2(merging()), merging()), [item])[0]
    rank, costs = brute_rank(tiny_gpt2(merging()), merging(), item)
    assert found.rank == rank
    assert found.guesses[0].score == pytest.approx(min(costs), abs=1e-3)


def test_a_large_space_is_sampled_with_the_shares_interval():
    target = Scores()
    found = run_attack("rank-sample", target, [canary(249_999, 6)], budget=2000, seed=4)[0]
    hits, draws = found.extra["hits"], found.extra["draws"]
    assert target.asked == found.model_calls == draws + 1 == 2000
    assert found.rank == pytest.approx(1 + 999_999 * hits / draws)
    assert (found.rank_low, found.rank_high) == pytest.approx(
        tuple(1 + 999_999 * end for end in clopper_pearson(hits, draws))
    )
    assert found.rank_low <= 250_000 <= found.rank_high
    assert found.method == "sampled"


def test_no_hit_is_a_lower_bound():
    found = run_attack("rank-sample", Scores(), [canary(0, 6)], budget=100)[0]
    assert found.method == "lower_bound"
    assert found.rank == pytest.approx(1 + 999_999 * (1 - 0.05 ** (1 / 99)))
    assert found.exposure < 7


def test_the_secret_itself_is_no_hit():
    found = run_attack("rank-sample", Scores(), [canary(0, 4)], budget=9000)[0]
    assert found.extra["hits"] == 0
    assert found.rank_low == 1


def test_costs_that_are_no_numbers_are_refused():
    for attack in ("rank-sample", "brute-force"):
        with pytest.raises(TargetError, match="canary 'c': the model returns no finite log-likelihood: try"):
            run_attack(attack, Scores(lambda text: float("nan")), [canary(3)])
    with pytest.raises(TargetError, match="no finite"):
        run_attack("rank-sample", Scores(lambda text: float("nan")), [canary(3, 6)], budget=50)


def test_spaces_beyond_computing_are_refused():
    with pytest.raises(TargetError, match="more than 2\\^400 fillings"):
        run_attack("rank-sample", Scores(), [canary(3, 200)], budget=50)


def test_ties_count():
    found = run_attack("brute-force", Scores(lambda text: 1.0), [canary(500)])[0]
    assert found.rank == 1000


def test_brute_force_says_what_it_would_take():
    with pytest.raises(OptionError, match="1000000 texts, budget=10: raise budget"):
        run_attack("brute-force", Scores(), [canary(1, 6)], budget=10)


def test_searching_needs_more_than_scores():
    with pytest.raises(TargetError, match="attack=shortest-path needs a model that can extend a batch.*brute-force"):
        run_attack("shortest-path", Scores(), [canary(1)])


def test_samples_come_from_the_whole_space():
    seen = []
    run_attack("rank-sample", Scores(lambda text: seen.append(text) or 1.0), [canary(0, 6)], budget=500)
    space = parse_template("pin {digits:6}")
    assert len({text for text in seen if text[4] in "56789"}) > 150
    assert all(len(text) == len(space.fill(space.at(0))) for text in seen)


HISTOGRAM = {"histogram": 300}


@pytest.mark.parametrize("digits", [3, 6])
def test_a_histogram_leaves_the_rank_as_it_is(digits):
    plain, more = (
        run_attack("rank-sample", Scores(), [canary(499, digits)], budget=2000, values=settings)[0]
        for settings in ({}, HISTOGRAM)
    )
    kept = {name: value for name, value in more.extra.items() if name not in ("costs", "audit_calls")}
    assert dataclasses.replace(more, extra=kept, seconds=0) == dataclasses.replace(plain, seconds=0)


def test_a_histograms_costs_are_those_of_uniform_fillings():
    """The cost is the number itself, so that the costs are a uniform sample of the numbers."""
    target = Scores()
    found = run_attack("rank-sample", target, [canary(499, 6)], budget=200, values={"histogram": 2000})[0]
    costs = found.extra["costs"]
    assert costs == sorted(costs)
    assert stats.kstest(np.array(costs) / 1e6, "uniform").pvalue > 0.01
    assert found.extra["audit_calls"] == len(costs) == 2000
    assert target.asked == found.model_calls + found.extra["audit_calls"]


def test_a_histogram_has_draws_of_its_own():
    """Those that the rank was sampled from would make the plot agree with the rank whatever was drawn."""
    seen = []
    target = Scores(lambda text: seen.append(text) or 1.0)
    run_attack("rank-sample", target, [canary(499, 6)], budget=300, values=HISTOGRAM)
    assert len(set(seen[:300]) & set(seen[300:])) < 10


def test_a_histogram_of_a_small_space_is_all_of_it_once():
    found = run_attack("rank-sample", Scores(), [canary(3, 2)], values=HISTOGRAM)[0]
    assert found.extra["costs"] == list(range(100))


def test_a_histogram_keeps_four_decimals():
    found = run_attack("rank-sample", Scores(lambda text: 1 / 3), [canary(3, 1)], values=HISTOGRAM)[0]
    assert found.extra["costs"] == [0.3333] * 10


def test_no_histogram_is_the_default():
    found = run_attack("rank-sample", Scores(), [canary(3, 2)])[0]
    assert "costs" not in found.extra


def test_a_histogram_below_nothing_is_refused():
    with pytest.raises(OptionError, match="histogram=-1 must be 0 or more: "):
        run_attack("rank-sample", Scores(), [canary(3)], values={"histogram": -1})


def test_a_histogram_of_no_numbers_is_refused():
    odd = Scores(lambda text: float("inf") if text.endswith("7") else 1.0)
    with pytest.raises(TargetError, match="no finite"):
        run_attack("rank-sample", odd, [canary(3, 6)], budget=1, values=HISTOGRAM)


@pytest.mark.parametrize("number", [0, 70, 5000, 250_000, 999_999])
def test_interpolated_exposure_is_tensorflow_privacys(number):
    """Its definition written anew: references and secret sorted together, the place of the secret among them."""
    item = canary(number, 6)
    found = run_attack("rank-sample", Scores(), [item], budget=2000, seed=4)[0]
    drawn = [float("".join(each)) for each in item.space.sample(1999, "4:c") if each != item.secret]
    place = np.argsort(np.argsort([*drawn, number], kind="stable"))[-1] + 1
    assert found.extra["interpolated"] == pytest.approx(np.log2(len(drawn)) - np.log2(place), abs=1e-9)


def test_an_exact_rank_needs_no_interpolation():
    assert "interpolated" not in run_attack("rank-sample", Scores(), [canary(41)])[0].extra


def test_one_score_leaves_nothing_to_interpolate():
    assert "interpolated" not in run_attack("rank-sample", Scores(), [canary(41)], budget=1)[0].extra
