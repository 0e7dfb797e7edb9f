"""Draws from the model against the distribution they are to follow."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from scipy import stats

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.tokens import token_paths as layout
from tests.attacks.causal.test_beam import guesses
from tests.attacks.visits import visits_of
from tests.attacks.written_down import DIGITS, at_random, by_cost, canary, cost, target
from tests.oracles import brute_rank, letters, merging, tiny_gpt2


def sample(chances, secret="00", budget=20_000, seed=0, **chosen):
    return run_attack("sample-tokens", target(chances), [canary(secret)], budget=budget, seed=seed, values=chosen)[0]


def drawn(explorer, numbers, seed="s"):
    """The filling each draw came to."""
    found = {}
    for visit in visits_of(explorer, numbers, seed):
        rows = explorer.child_paths(visit.nodes, visit.taken)
        ends = explorer.paths.ends(visit.taken.states)
        texts = explorer.paths.fillings(visit.taken.states[ends], rows[ends])
        ended = zip(rows[ends].tolist(), texts, strict=True)
        paths = {tuple(path): filling for path, fillings in ended for filling in fillings}
        for goer, place in zip(visit.goers.tolist(), visit.taken_row.tolist(), strict=True):
            if tuple(rows[place]) in paths:
                found[goer] = "".join(paths[tuple(rows[place])])
    return [found.get(number) for number in range(len(numbers))]


@pytest.mark.parametrize("seed", [1, 2])
def test_fillings_come_as_often_as_the_model_finds_them_likely(seed):
    chances = at_random(seed, 1.0)
    counts = Counter(drawn(SearchTree(target(chances), canary("00").space), range(20_000)))
    expected = {text: 20_000 * 2 ** -cost(chances, text) for text in by_cost(chances, 2)}
    common = [text for text, number in expected.items() if number >= 5]
    rest = 20_000 - sum(expected[text] for text in common)
    seen = [counts[text] for text in common]
    tested = stats.chisquare([*seen, 20_000 - sum(seen)], [*(expected[text] for text in common), rest])
    assert tested.pvalue > 1e-3


def test_template_characters_are_forced_and_only_the_alphabet_is_drawn():
    """The chances of a digit are the model's among digits alone, whatever else it would rather write."""
    tokenizer, pin = letters(), Canary("c", "a {digits:1}-b{digits:1}.", ("1", "2"))
    model = tiny_gpt2(tokenizer)
    counts = Counter(drawn(SearchTree(CausalTarget(model, tokenizer), pin.space), range(5000)))
    chances = {}
    for first in DIGITS:
        _, costs = brute_rank(model, tokenizer, Canary("c", "a {digits:1}", (first,)))
        chances[first] = 2.0 ** -costs[int(first)] / sum(2.0**-each for each in costs)
    heads = Counter(text[0] for text in counts.elements())
    tested = stats.chisquare([heads[digit] for digit in DIGITS], [5000 * chances[digit] for digit in DIGITS])
    assert tested.pvalue > 1e-3
    assert sum(counts.values()) == 5000


def test_the_guesses_are_the_cheapest_of_those_drawn():
    chances = at_random(5)
    found = sample(chances, draws=40)
    seen = set(drawn(SearchTree(target(chances), canary("00").space), range(40), "0:c"))
    assert guesses(found) == sorted(seen, key=lambda text: cost(chances, text))[:10]
    assert (found.extra["draws"], found.proven) == (40, 0)


def test_found_at_counts_draws_from_one():
    chances = at_random(5)
    all_drawn = drawn(SearchTree(target(chances), canary("00").space), range(500), "0:c")
    secret = all_drawn[17]
    first = all_drawn.index(secret) + 1
    assert sample(chances, secret, draws=500).extra["found_at"] == first
    assert sample(chances, secret, draws=first).place is not None
    if first > 1:
        assert sample(chances, secret, draws=first - 1).extra["found_at"] is None


def test_a_draw_depends_on_its_own_number_alone():
    explorer = SearchTree(target(at_random(6)), canary("000").space)
    together = drawn(explorer, range(300))
    assert drawn(explorer, range(100)) == together[:100]
    assert drawn(explorer, range(100, 300)) == together[100:]
    for rows in (1, 7):
        explorer.rows = lambda depth, rows=rows: rows
        assert drawn(explorer, range(300)) == together


def test_equal_beginnings_are_read_once():
    chances = at_random(7)
    texts = drawn(SearchTree(target(chances), canary("000").space), range(200), "0:c")
    nodes = {text[:length] for text in texts for length in range(3)}
    found = sample(chances, "000", draws=200)
    assert (found.extra["nodes"], found.model_calls) == (len(nodes), len(nodes))


@pytest.mark.parametrize("draws", [1000, 10**9])
def test_the_budget_bounds_the_sequences_scored(draws):
    found = sample(at_random(8), "000000", budget=60, draws=draws)
    assert found.model_calls <= 61
    assert 12 <= found.extra["draws"] < 1000


def test_until_found_goes_on_to_the_secret():
    chances = at_random(9)
    secret = by_cost(chances, 2)[40]
    found = sample(chances, secret, draws=5, until="found")
    spent = sample(chances, secret, draws=found.extra["draws"])
    assert found.extra["found_at"] == spent.extra["found_at"]
    assert found.extra["draws"] - 5 < found.extra["found_at"] <= found.extra["draws"]
    assert guesses(found) == guesses(spent)


def test_until_found_ends_with_the_budget():
    never = lambda held: {"0": 1.0}  # noqa: E731
    found = sample(never, "777777", draws=10, until="found", budget=100)
    assert (found.extra["found_at"], found.model_calls <= 101) == (None, True)
    assert guesses(found) == ["000000"]


def test_until_found_ends_where_draws_cost_nothing(monkeypatch):
    monkeypatch.setattr("leakage_tasks.attacks.causal.sampling.MOST_DRAWS", 300)
    found = sample(lambda held: {"0": 1.0}, "7", draws=100, until="found")
    assert (found.extra["draws"], found.model_calls) == (300, 1)


@pytest.mark.parametrize("laid_out", ["enumerated", "walked"])
def test_tokenizers_that_merge_are_drawn_from_too(laid_out, monkeypatch):
    if laid_out == "walked":
        monkeypatch.setattr(layout, "ENUMERATE", 0)
    pin = Canary("c", "the pin is {digits:2}.", tuple("70"))
    found = run_attack("sample-tokens", CausalTarget(tiny_gpt2(merging()), merging()), [pin], values={"draws": 5000})[0]
    _, costs = brute_rank(tiny_gpt2(merging()), merging(), pin)
    assert [guess.score for guess in found.guesses][0] == pytest.approx(min(costs), abs=1e-3)
    assert len({guess.filling for guess in found.guesses}) == len(found.guesses)


def test_a_filling_that_another_begins_with_can_be_drawn():
    """Where a draw may stop or go on, it has come past the shorter filling and finds that too."""
    word = Alphabet("word", ("a", "ab"))
    one = Canary("c", "x {word}", ("a",), alphabets={"word": word})
    found = run_attack("sample-tokens", CausalTarget(tiny_gpt2(letters()), letters()), [one], values={"draws": 50})[0]
    assert {guess.filling for guess in found.guesses} == {("a",), ("ab",)}
    assert found.extra["found_at"] == 1


@pytest.mark.parametrize(("name", "value"), [("draws", 0), ("until", "never")])
def test_a_setting_that_cannot_be_is_refused(name, value):
    with pytest.raises(OptionError, match=f"{name}="):
        sample(at_random(1), **{name: value})


@pytest.mark.parametrize("budget", [100, 300, 1500])
def test_draws_longer_than_the_secret_stay_within_the_budget(budget):
    stream = random.Random(0)
    others = {"".join(stream.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(300)}
    names = Alphabet("names", ("al", *sorted(others)))
    one = Canary("c", "name {names}", ("al",), alphabets={"names": names})
    found = run_attack("sample-tokens", CausalTarget(tiny_gpt2(letters()), letters()), [one], budget=budget)[0]
    assert budget - 8 < found.model_calls <= budget + 1
    assert found.extra["draws"] > 0


@pytest.mark.parametrize("laid_out", ["enumerated", "walked"])
def test_a_budget_below_one_draw_does_not_look_safe(laid_out, monkeypatch):
    if laid_out == "walked":
        monkeypatch.setattr(layout, "ENUMERATE", 0)
    with pytest.raises(OptionError, match="canary 'c': budget=2 is too small for one draw: raise it to 3"):
        sample(at_random(1), "1234", budget=2)
    assert sample(at_random(1), "1234", budget=3).extra["draws"] == 1
