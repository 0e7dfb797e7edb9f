"""Beam search against the same in plain Python, and what it misses."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal.beam import beam_search
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.memory import MemoryBudget
from leakage_tasks.targets.tokens import token_paths as layout
from tests.attacks.written_down import DIGITS, at_random, beam, by_cost, canary, target
from tests.oracles import letters, merging, tiny_gpt2


def search(chances, secret="000", budget=20_000, **chosen):
    return run_attack("beam", target(chances), [canary(secret)], budget=budget, values=chosen)[0]


def guesses(found):
    return ["".join(guess.filling) for guess in found.guesses]


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5, 16]), st.floats(0.5, 4.0))
def test_the_guesses_are_those_of_plain_python(seed, width, sharpness):
    chances = at_random(seed, sharpness)
    assert guesses(search(chances, width=width)) == beam(chances, 3, width)


@pytest.mark.parametrize("tokenizer", [letters, merging])
def test_a_beam_as_wide_as_the_space_is_brute_force(tokenizer, monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    one, pin = CausalTarget(tiny_gpt2(tokenizer()), tokenizer()), Canary("c", "the pin is {digits:3}.", tuple("707"))
    found = run_attack("beam", one, [pin], values={"width": 1000})[0]
    every = run_attack("brute-force", one, [pin])[0]
    assert [guess.text for guess in found.guesses] == [guess.text for guess in every.guesses]
    scores = [guess.score for guess in every.guesses]
    assert [guess.score for guess in found.guesses] == pytest.approx(scores, abs=1e-3)


def unlikely_start(held):
    """The cheapest run, 777, begins with a digit dearer than three others."""
    if held == "":
        return {"0": 0.3, "1": 0.3, "2": 0.25, "7": 0.15}
    return {"7": 1.0} if held in ("7", "77") else dict.fromkeys(DIGITS, 0.1)


def test_a_secret_whose_beginning_is_dear_is_lost_to_a_beam_and_found_by_shortest_path():
    assert by_cost(unlikely_start, 3)[0] == "777"
    assert search(unlikely_start, "777", width=3).place is None
    assert search(unlikely_start, "777", width=4).place == 1
    found = run_attack("shortest-path", target(unlikely_start), [canary("777")])[0]
    assert (found.place, found.proven) == (1, 1)


def test_nothing_is_called_proven():
    assert search(at_random(1), width=1000).proven == 0


def test_every_node_kept_is_read_once():
    found = search(at_random(1), width=7)
    assert found.extra == {"nodes": 1 + 7 + 7}
    assert found.model_calls == 15


@pytest.mark.parametrize(("budget", "guesses"), [(40, 0), (60, 10)])
def test_a_spent_budget_gives_what_there_is(budget, guesses):
    """Levels of 1, 10 and then 16 nodes: the sixth, which has the fillings, is reached after 58 of them."""
    found = search(at_random(1), "0" * 6, budget=budget, width=16)
    assert found.model_calls == 1 + budget
    assert len(found.guesses) == guesses


def test_a_wide_beam_in_small_parts_and_little_memory_is_the_same(monkeypatch):
    pin = Canary("c", "the pin is {digits:4}.", tuple("1234"))
    plenty = SearchTree(CausalTarget(tiny_gpt2(letters()), letters()), pin.space)
    expected = [guess.filling for guess in beam_search(plenty, 60, 10**6)]
    monkeypatch.setattr(MemoryBudget, "most", 1)
    scarce = SearchTree(CausalTarget(tiny_gpt2(letters()), letters()), pin.space)
    scarce.rows = lambda depth: 7
    assert [guess.filling for guess in beam_search(scarce, 60, 10**6)] == expected
    assert scarce.nodes == plenty.nodes
    assert scarce.calls == plenty.calls
    assert scarce.again > plenty.again == 0


def test_where_all_cost_the_same_a_beam_is_no_wider_than_asked():
    model = tiny_gpt2.__wrapped__(letters())
    with torch.no_grad():
        model.transformer.wte.weight.zero_()
    pin = Canary("c", "the pin is {digits:4}", tuple("1234"))
    found = run_attack("beam", CausalTarget(model, letters()), [pin], values={"width": 3})[0]
    assert found.extra["nodes"] == 1 + 3 + 3 + 3


def test_a_width_below_one_is_refused():
    with pytest.raises(OptionError, match="width=0 must be 1 or more: number of partial fillings"):
        search(at_random(1), width=0)
