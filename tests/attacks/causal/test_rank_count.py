"""Exact counts of several canaries at once, against brute force and against each count alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from leakage_tasks.attacks.causal.forest import Forest
from leakage_tasks.attacks.causal.rank_count import _counts, _Request
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import SecretPath
from leakage_tasks.canaries import Canary
from leakage_tasks.targets import CausalTarget
from tests.oracles import brute_rank, letters, merging, tiny_gpt2

SECRETS = ("707", "120", "999", "000", "345")
EVERY, PLENTY, FEW = range(len(SECRETS)), 10**6, 40


class Counted(NamedTuple):
    """What is counted for a secret, without the costs of guesses, which rounding may change; ``is_over`` without it."""

    is_over: bool
    calls: int
    numbers: tuple[int, ...] = ()
    cheapest: tuple[Any, ...] = ()


def canary(secret: str) -> Canary:
    return Canary(secret, "the pin is {digits:3}.", tuple(secret))


def counted(
    tokenizer: Any, which: Sequence[int], budgets: Sequence[int], with_path: bool = True, freed: Sequence[int] = ()
) -> list[Counted]:
    """Count for some secrets together, with these budgets; the states of some paths are ``freed`` before."""
    target = CausalTarget(tiny_gpt2(tokenizer), tokenizer)
    requests = [_request(target, SECRETS[n], budgets[n], with_path, n in freed) for n in which]
    explorers = [request.secret.explorer for request in requests]
    found = []
    for count, explorer in zip(_counts(Forest(explorers), requests), explorers, strict=True):
        if count is None:
            found.append(Counted(True, explorer.calls))
            continue
        numbers = count.fewest, count.others, count.most
        found.append(Counted(False, explorer.calls, numbers, tuple(guess.filling for guess in count.cheapest)))
    return found


def _request(target: CausalTarget, secret: str, budget: int, with_path: bool, freed: bool) -> _Request:
    explorer = SearchTree(target, canary(secret).space)
    path = SecretPath(explorer, explorer.paths.path(tuple(secret)))
    for level in path._levels if freed else ():
        level.memory = None
    return _Request(path.ranked(0.01), explorer.calls + budget, path if with_path else None)


def alone(tokenizer: Any, budgets: Sequence[int], with_path: bool = True) -> list[Counted]:
    return [one for n in EVERY for one in counted(tokenizer, [n], budgets, with_path)]


@pytest.mark.parametrize("tokenizer", [letters, merging])
@pytest.mark.parametrize("with_path", [True, False])
def test_counts_of_several_canaries_are_those_of_brute_force_and_of_each_alone(tokenizer: Any, with_path: bool) -> None:
    budgets = [PLENTY] * len(SECRETS)
    together = counted(tokenizer(), EVERY, budgets, with_path)
    assert together == alone(tokenizer(), budgets, with_path)
    for secret, found in zip(SECRETS, together, strict=True):
        rank, costs = brute_rank(tiny_gpt2(tokenizer()), tokenizer(), canary(secret))
        fewest, others, most = found.numbers
        assert fewest <= others == rank - 1 <= most
        assert canary(secret).space.index(found.cheapest[0]) == costs.index(min(costs))


def test_a_count_that_reaches_its_limit_changes_no_other() -> None:
    budgets = [PLENTY, FEW, PLENTY, FEW, PLENTY]
    together = counted(letters(), EVERY, budgets)
    assert together == alone(letters(), budgets)
    assert [found.is_over for found in together] == [budget == FEW for budget in budgets]


def test_paths_whose_states_were_freed_are_counted_beside_others() -> None:
    budgets = [PLENTY] * len(SECRETS)
    assert counted(letters(), EVERY, budgets, freed=(1, 3)) == counted(letters(), EVERY, budgets)
