"""Auditing figures of findings: against counting by hand, by simulation, and where they are refused."""

import itertools
import json
import math
import re
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.audit import audit
from leakage_tasks.metrics.guessing import match
from leakage_tasks.stats.epsilon import secret_bound, swap_bound
from leakage_tasks.stats.gaussian_dp import epsilon_of
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.stats.membership import auc_interval, tpr_at_low_fpr

BITS = math.log2(10**6)


def finding(name, bits, planted=True, **fields):
    settings = {"kind": "random", "log2_size": BITS, "method": "exact", "repetitions": int(planted), **fields}
    return Finding(name, "exposure", planted, rank=2 ** (settings["log2_size"] - bits), **settings)


def run(planted, controls, **fields):
    """Findings of these exposures."""
    members = [finding(f"canary-{place}", bits, **fields) for place, bits in enumerate(planted)]
    return members + [finding(f"control-{place}", bits, planted=False) for place, bits in enumerate(controls)]


def figures(findings, delta=0.0):
    return {each.name: each for each in audit(findings, delta)}


scores = st.lists(st.integers(0, 12).map(float), min_size=1, max_size=30)
exposures = st.lists(st.integers(0, 19).map(float), min_size=5, max_size=30)


# -- membership ---------------------------------------------------------------------------------------------


@given(st.floats(0.01, 0.99), st.integers(2, 200), st.integers(2, 200))
def test_the_ends_of_the_auc_s_interval_solve_newcombe_s_equation(value, members, others):
    star = max(members, others) - 1
    for end in auc_interval(value, members, others):
        spread = end * (1 - end) * (1 + star * ((1 - end) / (2 - end) + end / (1 + end))) / (members * others)
        assert (value - end) ** 2 == pytest.approx(stats.norm.ppf(0.975) ** 2 * spread, rel=1e-4, abs=1e-12)


@given(st.integers(2, 200))
def test_the_interval_has_a_length_at_the_ends_and_mirrors(number):
    low, high = auc_interval(1.0, number, number)
    assert high == 1
    assert 0.1 < low < 1
    assert auc_interval(0.0, number, number) == pytest.approx((0, 1 - low))


@pytest.mark.slow
@pytest.mark.parametrize("true", [0.5, 0.75, 0.9])
@pytest.mark.parametrize("shape", ["normal", "exponential", "some"])
@pytest.mark.parametrize(("members", "others"), [(10, 10), (40, 20), (20, 200)])
def test_the_interval_covers_the_true_auc(true, shape, members, others):
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        if shape == "normal":
            a = generator.normal(stats.norm.ppf(true) * math.sqrt(2), 1, members)
            b = generator.normal(0, 1, others)
        elif shape == "exponential":
            # P(A > B) = s / (1 + s) for exponentials of means s and 1.
            a, b = generator.exponential(true / (1 - true), members), generator.exponential(1, others)
        else:
            # Some members are known for sure, the rest not at all.
            known = generator.random(members) < 2 * true - 1
            a, b = np.where(known, 1e3, generator.exponential(1, members)), generator.exponential(1, others)
        low, high = auc_interval(float((a[:, None] > b).mean()), members, others)
        covered += low <= true <= high
    # Of 400 cases, 0.95 spreads by 0.011.
    assert covered / 400 >= 0.92


def tied(others, threshold):
    """Whether the threshold is not the only one of its score, so that places above it are fewer."""
    return others.count(threshold) > 1


@given(scores, st.lists(st.integers(0, 12).map(float), min_size=100, max_size=250))
def test_at_most_one_control_in_a_hundred_is_flagged(members, others):
    (rate, low, high), hits, threshold = tpr_at_low_fpr(members, others)
    # One more of their kind is as likely to take any place among them.
    assert (sum(score > threshold for score in others) + 1) / (len(others) + 1) <= 0.01 or tied(others, threshold)
    assert rate == sum(score > threshold for score in members) / len(members) == hits / len(members)
    assert (low, high) == clopper_pearson(hits, len(members))


def test_the_threshold_is_as_low_as_it_may_be():
    found = tpr_at_low_fpr([98.0, 99.0, 99.5], [float(n) for n in range(100)])
    assert (found.hits, found.threshold) == (1, 99.0)
    found = tpr_at_low_fpr([197.5, 198.0, 199.5], [float(n) for n in range(199 + 1)])
    assert (found.hits, found.threshold) == (1, 198.0)


# -- figures of findings ------------------------------------------------------------------------------------


def test_all_figures_of_a_run_by_hand():
    found = figures(run([19.0] * 18 + [0.0, 0.0], [1.0] * 19 + [19.9], repetitions=3))
    assert found["auc"].value == pytest.approx(18 * 19 / 400)
    assert found["tpr_at_1_fpr"].refused == (
        "requires 100 controls, and a planted canary of their kind and |R|: 20 planted, 20 controls"
    )
    matched = match(run([19.0] * 18 + [0.0, 0.0], [1.0] * 19 + [19.9]))
    assert (matched.coins, len(matched.surest)) == (20, 20)
    assert 17 <= matched.right <= 18
    assert found["epsilon"].value == swap_bound(matched.right, 20, 20)
    assert found["epsilon"].best == swap_bound(20, 20, 20)
    assert found["epsilon_row"].value == swap_bound(matched.right, 20, 20, rows=6)
    assert found["epsilon_secret"].value == 0
    assert found["epsilon_secret"].best == pytest.approx(secret_bound(20, 20, math.log(10**6 - 40)))


def test_delta_lowers_the_bounds_that_know_it():
    findings = run([19.0] * 50, [1.0] * 50)
    with_delta, without = figures(findings, 1e-3), figures(findings)
    for name in ("epsilon", "epsilon_row"):
        assert 0 < with_delta[name].value < without[name].value
        assert with_delta[name].best < without[name].best
    assert with_delta["epsilon_secret"] == without["epsilon_secret"]


@given(exposures, exposures, st.permutations(range(60)))
def test_the_order_of_canaries_changes_nothing(planted, controls, order):
    findings = run(planted, controls)
    shuffled = [findings[place] for place in order if place < len(findings)]
    assert audit(shuffled, 1e-5) == audit(findings, 1e-5)


def test_an_id_may_be_any_text():
    findings = [replace(each, canary=each.canary + "\ud800") for each in run([9.0] * 3, [1.0] * 3)]
    assert match(findings).coins == 3


@given(exposures, exposures)
def test_figures_are_numbers_within_their_limits(planted, controls):
    for figure in audit(run(planted, controls)):
        if figure.refused is not None:
            assert (figure.value, figure.low, figure.high, figure.best) == (None,) * 4
        elif figure.lower_bound:
            assert 0 <= figure.value <= figure.best
            assert figure.low is figure.high is None
        else:
            assert 0 <= figure.low <= figure.value <= figure.high <= 1 == figure.best


def test_who_is_paired_with_whom_does_not_depend_on_exposures():
    """Turn all exposures round, and every guess that was right is wrong."""
    some = run([float(n) for n in range(10)], [n + 0.5 for n in range(10)])
    turned = [replace(each, rank=2**BITS * 2.0**-20 / each.rank) for each in some]
    assert match(turned).right == 10 - match(some).right


def test_equal_exposures_are_no_guess():
    matched = match(run([3.0] * 6, [3.0] * 6))
    assert (matched.coins, matched.surest, matched.right) == (6, (), 0)
    assert figures(run([3.0] * 6, [3.0] * 6))["epsilon"].basis == "0 of 0 pairs guessed correctly, 6 tied"
    assert figures(run([3.0] * 6, [3.0] * 6))["epsilon"].value == 0


def test_canaries_meet_controls_of_their_kind_and_size_only():
    natural = [finding(f"n-{n}", 19.0, kind="natural") for n in range(9)]
    large = [finding(f"l-{n}", 19.0, log2_size=40.0) for n in range(9)]
    found = figures([*run([1.0] * 5, [2.0] * 5), *natural, *large])
    assert found["auc"].value == 0
    assert found["auc"].basis == "5 planted, 5 controls"
    assert found["epsilon"].basis == "0 of 5 pairs guessed correctly"


def test_kinds_that_differ_without_a_leak_are_not_told_apart_by_their_mix():
    natural = [finding(f"n-{n}", 10.0, kind="natural", planted=n < 10) for n in range(15)]
    drawn = [finding(f"r-{n}", 1.0, planted=n < 5) for n in range(105)]
    found = figures([*natural, *drawn])
    assert found["auc"].value == 0.5
    assert found["auc"].basis == "5 planted, 100 controls"


@given(st.lists(st.sampled_from([1.0, 3.0, 8.0, 19.0]), min_size=5, max_size=60), st.data())
def test_first_guesses_are_the_surest_and_every_number_of_them_halves(members, data):
    others = data.draw(st.lists(st.sampled_from([1.0, 3.0, 8.0]), min_size=len(members), max_size=len(members)))
    guesses = match(run(members, others))
    assert guesses.right <= len(guesses.surest) <= guesses.coins == len(members)
    numbers = guesses.numbers
    assert numbers[0] == len(guesses.surest)
    assert all(later == former // 2 >= 5 for former, later in itertools.pairwise(numbers))


def test_a_bound_of_the_surest_guesses_finds_a_leak_that_few_canaries_show():
    """Ten canaries of a hundred are memorized; the order of the others is chance."""
    rest = [float(n % 7) for n in range(90)]
    found = figures(run([19.0] * 10 + rest, [float(n * 5 % 7) for n in range(100)]))
    assert found["epsilon_surest"].value > found["epsilon"].value
    assert "numbers of guesses" in found["epsilon_surest"].basis
    assert f"'{found['epsilon'].title}'" in found["epsilon_surest"].words


def test_bounds_of_one_relation_stand_together_the_tightest_first():
    found = [each for each in audit(run([19.0] * 40, [1.0] * 40), 1e-5) if each.name.startswith("epsilon")]
    names = [each.name for each in found]
    assert names[3:] == ["epsilon_row", "epsilon_secret", "epsilon_independent"]
    assert names[0] == "epsilon_gaussian"
    assert found[0].value > found[1].value > found[2].value > 0
    assert all(0 < each.value <= each.best for each in found if each.value)


def test_without_delta_a_gaussian_bound_says_what_it_needs():
    found = figures(run([19.0] * 40, [1.0] * 40))
    for name in ("epsilon_gaussian", "epsilon_independent"):
        assert found[name].value is None
        assert found[name].refused.startswith("needs δ above 0: score with --delta")


def coins(planted, excluded):
    return [replace(each, coin=True) for each in run(planted, excluded)]


def test_coins_give_bounds_for_a_canary_added_or_removed():
    found = figures(coins([19.0] * 20, [1.0] * 20), 1e-5)
    assert found["epsilon_inclusion"].basis == "20 of 20 canaries guessed correctly"
    assert found["epsilon_inclusion"].value == pytest.approx(swap_bound(20, 20, 40, 1e-5))
    assert found["epsilon_inclusion_row"].value == pytest.approx(swap_bound(20, 20, 40, 1e-5, 1))
    assert "epsilon_inclusion" not in figures(run([19.0] * 20, [1.0] * 20))


def test_controls_without_a_coin_are_no_part_of_the_audit_by_coins():
    findings = coins([19.0] * 20, [1.0] * 20) + [finding(f"more-{n}", 19.0, planted=False) for n in range(50)]
    assert figures(findings)["epsilon_inclusion"].basis == "20 of 20 canaries guessed correctly"


@pytest.mark.slow
def test_bounds_of_a_simulated_audit_by_coins_are_seldom_above_the_true_epsilon():
    """Each canary adds its own Gaussian mechanism: with μ = 1 the training is 1-GDP."""
    names = ("epsilon_inclusion", "epsilon_inclusion_surest", "epsilon_inclusion_gaussian")
    generator, mu, delta, above = np.random.default_rng(4), 1.0, 1e-3, Counter()
    for _ in range(200):
        included = generator.random(60) < 0.5
        bits = np.clip(9 + generator.normal(included * mu, 1), 0, 19)
        found = figures(coins(bits[included], bits[~included]), delta)
        above.update(name for name in names if found[name].value > epsilon_of(mu, delta))
    assert {name: n for name, n in above.items() if n / 200 > 0.05 + 2 * math.sqrt(0.05 * 0.95 / 200)} == {}


# -- secrets ------------------------------------------------------------------------------------------------


def test_only_proven_first_places_count_for_secrets():
    findings = [finding("a", BITS), finding("b", BITS, method="estimated"), finding("c", 3.0), finding("d", BITS)]
    found = figures(findings)["epsilon_secret"]
    assert found.basis == "2 of 4 secrets proven to have rank 1"
    assert found.value == pytest.approx(secret_bound(2, 4, math.log(10**6 - 4)))


def test_a_first_place_within_rounding_noise_is_not_proven():
    findings = [finding("a", BITS), finding("b", BITS, rank_low=1.0, rank_high=3.0), finding("c", 3.0)]
    assert figures(findings)["epsilon_secret"].basis == "1 of 3 secrets proven to have rank 1"


def test_the_space_of_most_canaries_decides_for_secrets():
    size = math.log2(1000)
    small = [finding(f"b-{n}", size, log2_size=size) for n in range(2)]
    found = figures([finding("a", BITS), *small])["epsilon_secret"]
    assert found.value == pytest.approx(secret_bound(2, 2, math.log(1000 - 2)))


def test_a_space_beyond_floats_is_no_trouble():
    assert figures([finding("a", 400.0, log2_size=400.0)])["epsilon_secret"].value == pytest.approx(
        math.log(0.05 / 0.95) + 400 * math.log(2)
    )


# -- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("findings", "name", "reason"),
    [
        (run([1.0] * 4, [1.0] * 8), "auc", "requires 5 planted canaries and 5 controls .*: 4 planted, 8 controls"),
        (run([1.0] * 9, [1.0] * 99), "tpr_at_1_fpr", "requires 100 controls, .*: 9 planted, 99 controls"),
        (run([1.0] * 4, [1.0] * 8), "epsilon", r"needs 5 pairs .* at δ = 0: found 4$"),
        (run([1.0] * 4, [1.0] * 8), "epsilon_row", r"needs 5 pairs .* at δ = 0: found 4$"),
        (run([1.0], [], method="estimated"), "epsilon_secret", "needs an exact rank"),
        (run([], [1.0] * 8), "epsilon_secret", "needs an exact rank"),
        ([finding("a", 3.0, log2_size=math.log2(10))], "epsilon_secret", "1 of 10 fillings"),
        ([finding("a", 0.0, log2_size=0.0)], "epsilon_secret", "1 of 1 fillings"),
        ([], "auc", "0 planted, 0 controls"),
    ],
)
def test_too_little_is_refused_by_number(findings, name, reason):
    found = figures(findings)[name]
    assert found.value is None
    assert re.search(reason, found.refused)


def test_a_delta_that_hides_everything_is_named():
    assert "no number of guesses" in figures(run([19.0] * 50, [1.0] * 50), delta=0.05)["epsilon"].refused


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(OptionError, match="delta is .*: give a number of at least 0 and less than 1"):
        audit([], delta)


def test_figures_are_json_able():
    json.dumps([asdict(each) for each in audit(run([19.0] * 9, [1.0] * 9))], allow_nan=False)


@pytest.mark.parametrize("controls", [100, 199, 250])
def test_what_no_model_saw_is_flagged_with_a_chance_of_one_percent_at_most(controls):
    generator, runs = np.random.default_rng(5), 4000
    flagged = [
        tpr_at_low_fpr([float(generator.random())], generator.random(controls).tolist()).hits for _ in range(runs)
    ]
    assert sum(flagged) / runs <= 0.01 + 3 * math.sqrt(0.01 / runs)


def test_copies_of_supporting_canaries_are_rows_of_a_swap():
    alone, beside = (figures(run([19.0] * 9, [1.0] * 9, supporting=extra)) for extra in (0, 19))
    assert "up to 2 rows per swap" in alone["epsilon_row"].basis
    assert "up to 40 rows per swap" in beside["epsilon_row"].basis
    assert beside["epsilon_row"].value == pytest.approx(alone["epsilon_row"].value / 20)


def test_the_canary_with_most_copies_decides_what_a_swap_changes():
    findings = [finding(f"c-{n}", 19.0, repetitions=n + 1) for n in range(6)]
    controls = [finding(f"d-{n}", 1.0, planted=False) for n in range(6)]
    assert "up to 12 rows per swap" in figures([*findings, *controls])["epsilon_row"].basis


def test_one_small_space_does_not_take_the_bound_on_secrets_away():
    large = run([19.0] * 5, [1.0] * 5)
    small = finding("small", 0.0, log2_size=1.0)
    first = [replace(each, rank=1.0) if each.planted else each for each in large]
    assert figures([*first, small])["epsilon_secret"] == figures(first)["epsilon_secret"]
