"""When best-first search ends: with proof, or by the paper's rule; against the same rules in plain Python."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets import CausalTarget
from tests.attacks.causal.test_beam import guesses
from tests.attacks.written_down import DIGITS, at_random, batched_dijkstra, by_cost, canary, cost, target
from tests.oracles import brute_rank, merging, tiny_gpt2


def search(chances, secret="000", budget=20_000, **chosen):
    values = {"stopping": "proven", **chosen}
    return run_attack("shortest-path", target(chances), [canary(secret)], budget=budget, values=values)[0]


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([1, 3, 128]), st.floats(0.5, 4.0))
def test_the_proven_guesses_are_brute_forces(seed, batch, sharpness):
    chances = at_random(seed, sharpness)
    found = search(chances, batch=batch)
    assert guesses(found) == by_cost(chances, 3)[:10]
    assert found.proven == 10


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 7, 64]), st.floats(0.5, 4.0))
def test_the_papers_rule_takes_what_it_takes_in_plain_python(seed, batch, sharpness):
    chances = at_random(seed, sharpness)
    found = search(chances, stopping="paper", batch=batch)
    best, iterations, first = batched_dijkstra(chances, 3, batch)
    assert guesses(found) == best
    assert (found.extra["iterations"], found.extra["first_leaf_iteration"]) == (iterations, first)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 7, 64]))
def test_what_the_papers_rule_calls_proven_is_the_best_of_all(seed, batch):
    chances = at_random(seed)
    found = search(chances, stopping="paper", batch=batch)
    assert guesses(found)[: found.proven] == by_cost(chances, 3)[: found.proven]
    assert found.proven >= (batch == 1)


def detour(held):
    """The cheapest run, 2000, branches off where eight others cost a little less, and nothing after them does."""
    if held == "":
        return {"0": 0.34, "1": 0.335, "2": 0.325}
    if held == "2":
        return {"0": 0.11} | dict.fromkeys("12345678", 0.89 / 8)
    return {"0": 1.0} if held in ("0", "00", "1", "10", "20", "200") else dict.fromkeys(DIGITS, 0.1)


def test_the_papers_rule_can_miss_the_best_which_the_proof_does_not():
    assert by_cost(detour, 4)[0] == "2000"
    missed = search(detour, "2000", stopping="paper", batch=2)
    assert missed.place is None
    assert missed.guesses[0].score > cost(detour, "2000") + 0.05
    assert missed.proven == 0
    assert (search(detour, "2000", batch=2).place, search(detour, "2000", batch=2).proven) == (1, 10)


def test_one_node_at_a_time_reads_no_more_than_dijkstra_would():
    """Each node costs no more than the tenth run: Dijkstra's algorithm takes just those before it is done."""
    chances = at_random(3)
    tenth = cost(chances, by_cost(chances, 3)[9])
    nodes = [d + e for d in ["", *DIGITS] for e in ["", *DIGITS] if len(d + e) == len(d) + len(e)]
    needed = sum(cost(chances, held) <= tenth for held in set(nodes))
    found = search(chances, batch=1)
    beam = run_attack("beam", target(chances), [canary("000")])[0].extra["nodes"]
    assert found.extra["nodes"] <= needed + beam - 1


def test_nodes_are_counted_as_they_are_priced():
    """Root, then all ten, then as many as fit: a batch larger than the tree prices each node once."""
    found = search(at_random(5), stopping="paper", batch=1000)
    assert found.extra == {"nodes": 111, "iterations": 4, "first_leaf_iteration": 4}
    assert found.model_calls == 111


def test_a_spent_budget_ends_the_papers_rule_too():
    found = search(at_random(5), "000000", budget=50, stopping="paper", batch=8)
    assert found.model_calls == 51
    assert found.extra["first_leaf_iteration"] is None
    assert found.guesses == ()


@pytest.mark.parametrize("stopping", ["proven", "paper"])
def test_a_space_of_fewer_than_ten_is_searched_whole(stopping):
    tokenizer = merging()
    few = Canary("c", "the pin is {two:2}.", ("1", "2"), alphabets={"two": Alphabet("two", ("1", "2"))})
    found = run_attack(
        "shortest-path", CausalTarget(tiny_gpt2(tokenizer), tokenizer), [few], values={"stopping": stopping}
    )[0]
    _, costs = brute_rank(tiny_gpt2(tokenizer), tokenizer, few)
    assert [guess.score for guess in found.guesses] == pytest.approx(sorted(costs), abs=1e-3)
    assert found.proven == 4


@pytest.mark.parametrize(("name", "value"), [("stopping", "soon"), ("batch", 0)])
def test_a_setting_that_cannot_be_is_refused(name, value):
    with pytest.raises(OptionError, match=f"{name}="):
        search(at_random(0), **{name: value})
