"""Best-first search that proves its guesses, against sorting every filling's cost."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.tokens import token_paths as layout
from tests.oracles import brute_rank, letters, merging, tiny_gpt2


def search(tokenizer, canary, **settings):
    target = CausalTarget(tiny_gpt2(tokenizer), tokenizer)
    return run_attack("shortest-path", target, [canary], values={"stopping": "proven"}, **settings)[0]


def best_ten(tokenizer, canary):
    _, costs = brute_rank(tiny_gpt2(tokenizer), tokenizer, canary)
    order = sorted(range(len(costs)), key=costs.__getitem__)[:10]
    return [canary.space.at(place) for place in order], [costs[place] for place in order]


@pytest.mark.parametrize("tokenizer", [letters, merging])
@pytest.mark.parametrize(
    ("template", "secret"), [("the pin is {digits:3}.", "707"), ("{digits:2}{letters:1}", "12a"), ("x{digits:1}", "3")]
)
def test_the_ten_best_are_found_and_proven(template, secret, tokenizer):
    canary = Canary("c", template, tuple(secret))
    found = search(tokenizer(), canary)
    fillings, costs = best_ten(tokenizer(), canary)
    assert [guess.filling for guess in found.guesses] == fillings
    assert [guess.score for guess in found.guesses] == pytest.approx(costs, abs=1e-3)
    assert found.proven == len(fillings)
    assert found.guesses[0].text == canary.space.fill(fillings[0])


def test_the_walk_of_the_vocabulary_finds_the_same(monkeypatch):
    monkeypatch.setattr(layout, "ENUMERATE", 0)
    test_the_ten_best_are_found_and_proven("the pin is {digits:3}.", "707", merging)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([letters, merging]), st.text("abT -", max_size=5), st.text("ab.-", max_size=3))
def test_any_template_yields_its_cheapest_filling(tokenizer, before, after):
    canary = Canary("c", f"{before}{{digits}}{{letters}}{after}", ("0", "a"))
    _, costs = brute_rank(tiny_gpt2(tokenizer()), tokenizer(), canary)
    assert search(tokenizer(), canary).guesses[0].score == pytest.approx(min(costs), abs=1e-3)


def test_the_secret_is_marked_where_it_stands():
    tokenizer = letters()
    fillings, _ = best_ten(tokenizer, Canary("c", "the pin is {digits:3}.", ("0", "0", "0")))
    best = search(tokenizer, Canary("c", "the pin is {digits:3}.", fillings[0]))
    assert (best.place, best.correct) == (1, (True, True, True))
    third = search(tokenizer, Canary("c", "the pin is {digits:3}.", fillings[2]))
    assert third.place == 3
    assert third.correct == tuple(a == b for a, b in zip(fillings[0], fillings[2], strict=True))


def test_a_spent_budget_gives_the_best_so_far_unproven():
    canary = Canary("c", "the pin is {digits:6}.", tuple("123456"))
    found = search(letters(), canary, budget=100)
    assert found.model_calls <= 100 + 128
    assert len(found.guesses) == 10
    assert found.proven < 10


def test_a_beam_is_no_wider_than_asked_where_all_cost_the_same():
    model = tiny_gpt2.__wrapped__(letters())
    with torch.no_grad():
        model.transformer.wte.weight.zero_()
    canary = Canary("c", "the pin is {digits:6}.", tuple("123456"))
    found = run_attack("shortest-path", CausalTarget(model, letters()), [canary], budget=2000)[0]
    assert len(found.guesses) == 10
    assert found.model_calls <= 2000 + 128


def test_a_budget_too_small_for_any_guess_counts_as_a_failure():
    canary = Canary("c", "the pin is {digits:9}.", tuple("123456789"))
    found = search(letters(), canary, budget=3)
    assert found.guesses == ()
    assert found.correct == (False,) * 9


def test_it_reads_far_fewer_sequences_than_there_are_fillings_once_one_stands_out():
    tokenizer = letters()
    sharp = tiny_gpt2(tokenizer, seed=1, sharpness=40.0)
    canary = Canary("c", "the pin is {digits:9}.", tuple("123456789"))
    found = run_attack("shortest-path", CausalTarget(sharp, tokenizer), [canary], values={"stopping": "proven"})[0]
    assert found.proven >= 1
    assert found.model_calls < 20_000
