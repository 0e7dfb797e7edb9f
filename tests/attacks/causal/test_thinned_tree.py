"""Ranks from a thinned tree, against counts of all fillings: of a model that half knows a number."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.causal.rank_draws import RankDraws
from leakage_tasks.attacks.causal.rank_estimate import RankEstimate
from leakage_tasks.attacks.causal.search_tree import SearchTree, within
from leakage_tasks.attacks.causal.secret_path import RankedSecret, SecretPath
from leakage_tasks.attacks.causal.thinned_tree import ThinnedCount, thin, thinned_count
from leakage_tasks.canaries import Canary
from tests.attacks.made_up import DIGITS, UNIT, MadeUp
from tests.attacks.text_array import text_array

LENGTH, KNOWN = 6, "314159"
BUDGET = 1200


class HalfKnown(MadeUp):
    """Digits cost as in another model, but for one number: who has written it with no more than one mistake goes on so.

    States are whole texts, since costs depend on all that came before.
    """

    def __init__(self) -> None:
        super().__init__("independent", LENGTH)
        self._number = np.array([int(digit) for digit in KNOWN])

    def following(self, texts: np.ndarray) -> np.ndarray:
        """Costs of the digits after texts ``[n, k]``, ``[n, 10]``."""
        place = texts.shape[1]
        costs = np.repeat(self._costs[place, :1], len(texts), axis=0)
        near = (texts != self._number[:place]).sum(axis=1) <= 1 if place > 1 else np.zeros(len(texts), dtype=bool)
        costs[near] += 3
        costs[near, self._number[place]] = 2 * UNIT
        return costs

    def log_perplexity(self, texts: Any) -> np.ndarray:
        return self.costs(np.array([[int(character) for character in text] for text in texts]))

    def costs(self, digits: np.ndarray) -> np.ndarray:
        """Costs of whole numbers with these digits ``[n, LENGTH]``."""
        places = range(LENGTH)
        return sum(self.following(digits[:, :at])[np.arange(len(digits)), digits[:, at]] for at in places)  # type: ignore[return-value]

    def start(self, prefix: Any, columns: np.ndarray) -> tuple[Any, float, np.ndarray]:
        nothing = np.zeros((1, 0), dtype=np.int64)
        return text_array(nothing), 0.0, self.following(nothing)[:, columns]

    def extend(self, texts: Any, tokens: np.ndarray, columns: Any) -> tuple[Any, np.ndarray]:
        texts = np.concatenate([np.asarray(texts), tokens[:, None]], axis=1)
        after = self.following(texts)[:, columns] if texts.shape[1] < LENGTH else np.zeros((len(texts), len(columns)))
        return text_array(texts), after


@cache
def all_costs() -> np.ndarray:
    """Of every number, in order."""
    return HalfKnown().costs(np.indices((DIGITS,) * LENGTH).reshape(LENGTH, -1).T)


def canary(number: str) -> Canary:
    return Canary(number, f"{{digits:{LENGTH}}}", tuple(number))


def rank_of(number: str) -> int:
    return int((all_costs() <= within(all_costs()[int(number)])).sum())


def numbers(count: int) -> list[str]:
    """Numbers with up to three digits other than those of the one that is known."""
    random, found = np.random.default_rng(0), []
    for turn in range(count):
        digits = list(KNOWN)
        for place in random.choice(LENGTH, turn % 4, replace=False):
            digits[place] = str(random.integers(DIGITS))
        found.append("".join(digits))
    return found


def counted(number: str, seed: str, calls: int = BUDGET, rows: int | None = None) -> ThinnedCount:
    """Others as cheap as a number, by a tree that goes by nothing learnt."""
    explorer = SearchTree(HalfKnown(), canary(number).attack_space)
    if rows is not None:
        explorer.rows = lambda depth: rows  # type: ignore[method-assign]
    secret = SecretPath(explorer, explorer.path_of(tuple(number))).ranked()
    found = thinned_count(secret, secret.lookahead(), calls, seed)
    assert found is not None
    assert explorer.calls <= calls + LENGTH + 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", ["314158", "314999", "271828"])
def test_counts_are_right_in_the_mean(number: str) -> None:
    found = np.concatenate([counted(number, str(seed)).others for seed in range(40)])
    error = found.std(ddof=1) / math.sqrt(len(found))
    assert found.mean() == pytest.approx(rank_of(number) - 1, abs=4 * error)


@pytest.mark.slow
def test_a_tree_that_keeps_all_counts_exactly() -> None:
    found = counted("314158", "0", calls=16 * DIGITS**LENGTH)
    assert set(found.others) == {rank_of("314158") - 1}
    assert found.seen == rank_of("314158") - 1


@pytest.mark.parametrize("rows", [1, 7])
def test_the_batch_changes_nothing(rows: int) -> None:
    assert np.allclose(counted("314999", "0", rows=rows).others, counted("314999", "0").others, rtol=1e-9)


def test_too_few_calls_count_nothing() -> None:
    explorer = SearchTree(HalfKnown(), canary(KNOWN).attack_space)
    secret = RankedSecret(explorer, explorer.path_of(tuple(KNOWN)), 20.0)
    assert thinned_count(secret, secret.lookahead(), 60, "0") is None


def estimated(number: str, seed: int) -> Finding:
    settings = {"method": "estimated"}
    return run_attack("exposure", HalfKnown(), [canary(number)], budget=BUDGET, seed=seed, values=settings)[0]


@cache
def estimates() -> list[tuple[int, Finding]]:
    """True rank and what was found, of numbers that are hard to draw."""
    return [(rank_of(number), estimated(number, seed)) for seed, number in enumerate(numbers(80))]


@pytest.mark.slow
def test_what_a_model_half_knows_is_estimated_rather_than_bounded() -> None:
    methods = [found.method for _, found in estimates()]
    assert methods.count("lower_bound") <= 0.1 * len(methods)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_where_no_draw_meets_anything_the_tree_is_thinned() -> None:
    explorer = SearchTree(HalfKnown(), canary("314158").attack_space)
    secret = SecretPath(explorer, explorer.path_of(tuple("314158"))).ranked()
    estimate = RankEstimate(secret, "0", BUDGET, 0.25)
    nothing = RankDraws(np.zeros(64), np.ones(64), 0, 1e6)
    estimate.make_draws = lambda *_, **__: nothing  # type: ignore[method-assign]
    found = estimate.result()
    assert found is not None
    assert "repetitions" in found["extra"]


@pytest.mark.parametrize(("precision", "spent"), [(3.0, (0, 12_000)), (0.01, (40_000, 60_000))])
def test_a_large_budget_is_spent_where_a_part_of_it_is_not_enough(precision: float, spent: tuple[int, int]) -> None:
    number = "314999"
    explorer = SearchTree(HalfKnown(), canary(number).attack_space)
    secret = SecretPath(explorer, explorer.path_of(tuple(number))).ranked()
    estimate = RankEstimate(secret, "0", 60_000, precision)
    nothing = RankDraws(np.zeros(64), np.ones(64), 0, 1e6)
    estimate.make_draws = lambda *_, **__: nothing  # type: ignore[method-assign]
    found = estimate.result()
    assert found is not None
    assert found["rank_low"] <= rank_of(number) <= found["rank_high"]
    assert spent[0] <= explorer.calls <= spent[1]


def test_intervals_hold_the_rank() -> None:
    held = [found.rank_low * (1 - 1e-9) <= rank <= found.rank_high * (1 + 1e-9) for rank, found in estimates()]
    assert stats.binomtest(sum(held), len(held), 0.95, alternative="less").pvalue > 0.01


def test_estimates_are_near() -> None:
    apart = [abs(math.log2(found.rank / rank)) for rank, found in estimates() if found.method == "estimated"]
    assert np.median(apart) < 0.5


def test_repetitions_that_are_all_alike_are_not_taken_for_certain() -> None:
    low, high = ThinnedCount(np.full(16, 100.0), 64, 7).interval()
    assert low == 100
    assert high > 110


def test_what_was_met_is_the_least_there_is() -> None:
    assert ThinnedCount(np.r_[np.zeros(15), 1600.0], 64, 90).interval()[0] == 90


@pytest.mark.parametrize("kept", [1, 5, 49])
def test_rows_are_kept_as_often_as_said(kept: int) -> None:
    matters = np.random.default_rng(1).dirichlet(np.full(50, 0.3))
    times, chances = np.zeros(50), np.zeros(50)
    starts = (np.arange(4000) + 0.5) / 4000
    for start in starts:
        rows, chance = thin(matters, kept, float(start))
        assert abs(len(rows) - kept) <= 1
        times[rows] += 1
        chances[rows] = chance
    assert np.allclose(times[times > 0] / len(starts), chances[times > 0], atol=2e-3)
    assert chances.sum() == pytest.approx(kept, abs=0.01)


def test_few_rows_are_all_kept() -> None:
    rows, chance = thin(np.array([0.5, 0.2, 0.3]), 3, 0.5)
    assert (rows.tolist(), chance.tolist()) == ([0, 1, 2], [1, 1, 1])
