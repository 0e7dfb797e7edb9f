"""Best-first search that ends when the secret's place among ten is certain, against brute force and the full proof."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.causal import shortest_path
from leakage_tasks.attacks.causal.shortest_path import BEAM, NARROW
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.metrics.extraction import extracted, success_at
from leakage_tasks.targets import CausalTarget
from tests.attacks.causal.test_beam import guesses
from tests.attacks.written_down import DIGITS, at_random, by_cost, canary, target
from tests.attacks.written_down import beam as narrow_beam
from tests.oracles import letters, merging, tiny_gpt2

NINE = "271828182"


def search(chances, secret, budget=20_000, **chosen):
    return run_attack("shortest-path", target(chances), [canary(secret)], budget=budget, values=chosen)[0]


def memorized(secret, chance):
    """A model that continues the secret with this chance at each digit, and knows nothing else."""

    def chances(held):
        if len(held) == len(secret) or not secret.startswith(held):
            return dict.fromkeys(DIGITS, 0.1)
        others = dict.fromkeys(DIGITS, (1 - chance) / 9)
        return others | {secret[len(held)]: chance}

    return chances


@pytest.mark.slow
@pytest.mark.parametrize("whole", [256, 0])
@settings(max_examples=20)
@given(
    st.integers(0, 10**6),
    st.one_of(st.integers(0, 12), st.integers(0, 999)),
    st.sampled_from([1, 3, 128]),
    st.floats(0.5, 4.0),
)
def test_the_place_of_the_secret_is_brute_forces(whole, seed, rank, batch, sharpness):
    chances = at_random(seed, sharpness)
    order = by_cost(chances, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortest_path, "WHOLE", whole)
        found = search(chances, order[rank], batch=batch)
    assert found.place == (rank + 1 if rank < 10 else None)
    assert all(found.correct) == (rank == 0)
    assert guesses(found)[: found.proven] == order[: found.proven]
    assert found.proven > rank or rank >= 10
    assert found.extra["place_settled"]


def steps(held):
    """Costs of 1, 2 or 4 bits, each of several digits: many fillings tie."""
    return dict.fromkeys("37", 0.25) | dict.fromkeys("01245689", 0.0625)


def level(held):
    """All fillings tie."""
    return dict.fromkeys(DIGITS, 0.1)


@pytest.mark.parametrize("chances", [pytest.param(steps, marks=pytest.mark.slow), level, at_random(7)])
def test_every_filling_gets_the_place_that_a_full_proof_gives_it(chances):
    canaries = [replace(canary(f"{number:02d}"), id=str(number)) for number in range(100)]
    settled, proven = (
        run_attack("shortest-path", target(chances), canaries, values={"stopping": how})
        for how in ("settled", "proven")
    )
    assert [(found.place, all(found.correct)) for found in settled] == [
        (found.place, all(found.correct)) for found in proven
    ]
    assert sum(found.place is not None for found in settled) == 10


@pytest.mark.parametrize("tokenizer", [letters, merging])
@pytest.mark.parametrize("template", ["the pin is {digits:2}.", "{digits:2} ok", "x{digits:2}{two:2}"])
def test_figures_are_those_of_the_full_proof_for_every_tokenizer(tokenizer, template):
    """The second tokenizer merges digits, so fillings of one template have different numbers of tokens."""
    alphabets = {"two": Alphabet("two", ("a", "b"))} if "two" in template else {}
    space = Canary("c", template, ("0", "0", *("aa" if alphabets else "")), alphabets=alphabets).space
    fillings = space.sample(5, "secrets")
    model = CausalTarget(tiny_gpt2(tokenizer()), tokenizer())
    cheapest = run_attack(
        "shortest-path",
        model,
        [Canary("c", template, fillings[0], alphabets=alphabets)],
        values={"stopping": "proven"},
    )[0]
    secrets = [*fillings, *(guess.filling for guess in cheapest.guesses)]
    canaries = [Canary(str(n), template, secret, alphabets=alphabets) for n, secret in enumerate(secrets)]
    settled, proven = (
        run_attack("shortest-path", model, canaries, values={"stopping": how}) for how in ("settled", "proven")
    )
    for one, other in zip(settled, proven, strict=True):
        assert (extracted(one), success_at(10, one), one.place) == (
            extracted(other),
            success_at(10, other),
            other.place,
        )
        assert one.extra["place_settled"]
    assert sum(success_at(10, found) for found in settled) >= 10


def test_the_guesses_on_an_unknown_secret_of_a_small_space_are_brute_forces():
    """A beam search compares fillings of as many tokens, and misses some where digits merge."""
    model = CausalTarget(tiny_gpt2(merging()), merging())
    templates = [f"{letter} pin is {{digits:2}}." for letter in "abcdefgh"]
    dearest = []
    for number, template in enumerate(templates):
        space = Canary("c", template, ("0", "0")).space
        fillings = list(space.enumerate())
        costs = model.log_perplexity([space.fill(filling) for filling in fillings])
        order = sorted(range(100), key=lambda index: costs[index])
        dearest.append(Canary(str(number), template, fillings[order[-1]]))
        found = run_attack("shortest-path", model, [dearest[-1]])[0]
        assert [space.index(guess.filling) for guess in found.guesses] == order[:10]
        assert (found.proven, found.place) == (10, None)
    beams = run_attack("beam", model, dearest)
    proven = run_attack("shortest-path", model, dearest, values={"stopping": "proven"})
    assert [found.guesses for found in beams] != [found.guesses for found in proven]


@pytest.mark.parametrize("chance", [0.8, 0.9, 0.999])
def test_a_memorized_secret_takes_a_row_per_token(chance):
    found = search(memorized(NINE, chance), NINE)
    assert (guesses(found)[0], found.place, found.proven) == (NINE, 1, 1)
    assert found.model_calls == len(NINE)


def test_an_unknown_secret_takes_a_narrow_beam_and_its_own_path():
    chances = at_random(11, 1.0)
    found = search(chances, NINE)
    beam = run_attack("beam", target(chances), [canary(NINE)], values={"width": NARROW})[0]
    assert found.guesses == beam.guesses
    assert (found.place, found.proven) == (None, 0)
    assert found.model_calls == beam.model_calls + len(NINE) - 1 <= 52


def test_text_after_the_slot_takes_no_guess_from_a_narrow_beam():
    chances, secret = at_random(11, 1.0), "271828"
    found = run_attack("shortest-path", target(chances), [Canary("c", "x{digits:6} ok", tuple(secret))])[0]
    assert guesses(found) == narrow_beam(chances, 6, NARROW)
    assert found.model_calls == 1 + 5 * NARROW + 3 * 10 + len(secret) + 2


@pytest.mark.parametrize("budget", range(24, 60, 5))
def test_a_narrow_beam_that_the_budget_ends_stays_within_it(budget):
    made = Canary("c", "x{digits:6} ok", tuple("271828"))
    (found,) = run_attack("shortest-path", target(at_random(11, 1.0)), [made], budget=budget)
    assert found.model_calls <= budget + 1


def wrong_start(secret, held):
    """A model that begins with one of five digits, none of which starts the secret that it has memorized."""
    if not held:
        return dict.fromkeys("12345", 0.199) | dict.fromkeys("67890", 0.001)
    if len(held) < len(secret) and secret.startswith(held):
        return dict.fromkeys(DIGITS, 0.001) | {secret[len(held)]: 0.991}
    return dict.fromkeys(DIGITS, 0.1)


def test_a_wide_beam_follows_where_the_narrow_one_does_not_settle_it():
    secret = "718281"
    narrow, wide = (
        run_attack("beam", target(partial(wrong_start, secret)), [canary(secret)], values={"width": width})[0]
        for width in (NARROW, BEAM)
    )
    found = search(partial(wrong_start, secret), secret)
    assert (narrow.place, found.place, all(found.correct)) == (None, 1, True)
    assert found.model_calls > narrow.model_calls + wide.model_calls
    cut = search(partial(wrong_start, secret), secret, budget=narrow.model_calls + 10)
    assert set(cut.guesses) >= set(narrow.guesses)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(0, 9))
def test_without_a_beam_the_guesses_are_those_up_to_the_secret(seed, rank):
    """A search without knowledge of the secret finds the same fillings before it finds the secret."""
    order = by_cost(at_random(seed, 4.0), 3)
    found = search(at_random(seed, 4.0), order[rank])
    if found.proven == len(found.guesses):
        assert guesses(found) == order[: rank + 1]
    else:
        assert guesses(found)[: rank + 1] == order[: rank + 1]


def far_neighbours(held):
    """A secret that starts with an unlikely digit, after which its nine neighbours are as likely as it is."""
    return {"0": 0.001} | dict.fromkeys(DIGITS[1:], 0.111) if held == "" else dict.fromkeys(DIGITS, 0.1)


def test_no_guess_is_seen_from_the_secrets_own_path():
    assert not any(guess.startswith("0") for guess in guesses(search(far_neighbours, "012")))


def test_too_small_a_budget_to_read_the_secret_is_spent_on_the_search():
    few, all_of_it = (search(at_random(5), "0" * 6, budget=5, stopping=how) for how in ("settled", "proven"))
    assert (few.guesses, few.model_calls) == (all_of_it.guesses, all_of_it.model_calls)
    assert not few.extra["place_settled"]


@pytest.mark.parametrize("budget", [30, 60, 100, 150, 20_000])
def test_a_natural_secrets_finding_tells_no_more_than_whether_it_is_among_ten(budget):
    chances, secrets = memorized("314159", 0.7), ["314159", "314150", "314109", "000000", "271828"]
    natural = [replace(canary(secret), id=secret, kind="natural", salt="s") for secret in secrets]
    public = [coarsened(found) for found in run_attack("shortest-path", target(chances), natural, budget=budget)]
    enough = budget >= 58
    assert {replace(found, canary="", place=None).to_json() for found in public} == {
        replace(public[0], canary="", place=None).to_json()
    }
    assert public[0].extra == {"ranked": 10 if enough else 0}
    assert (public[0].place, public[-1].place) == (10 if enough else None, None)
