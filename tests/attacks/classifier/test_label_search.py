"""Label search against brute force over every filling in plain `transformers`."""

import copy
import json

import numpy as np
import pytest
import torch

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import Alphabet, word_list
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets import CausalTarget, ClassifierTarget
from tests.oracles import WORDS, direct_class_losses, letters, tiny_bert, tiny_gpt2, wordpiece

ALPHABET = {"words": word_list("words", WORDS)}
SIZE = len(WORDS)


def canary(template: str, *secret: str, name: str = "c") -> Canary:
    return Canary(name, template, secret, alphabets=ALPHABET, label="high")


def searched(one: Canary, seed: int = 0, budget: int = 20_000, **settings):
    target = ClassifierTarget(tiny_bert(seed), wordpiece())
    return run_attack("label-search", target, [one], goal="extraction", budget=budget, values=settings)[0]


def probabilities(one: Canary, seed: int = 0) -> np.ndarray:
    texts = [one.space.fill(filling) for filling in one.space.enumerate()]
    return np.exp2(-np.array(direct_class_losses(tiny_bert(seed), wordpiece(), texts, 2)))


@pytest.mark.parametrize("template", ["the cat sat on {words}", "the {words} sat on mat", "{words} runs."])
def test_one_token_is_ranked_among_the_whole_alphabet(template):
    one = canary(template, "tree")
    found, chances = searched(one), probabilities(one)
    assert found.place == sum(chances >= chances[one.space.index(one.secret)] - 1e-9)
    assert [guess.filling for guess in found.guesses] == [one.space.at(int(n)) for n in np.argsort(-chances)[:10]]
    assert found.model_calls == SIZE


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_beam_as_wide_as_the_alphabet_is_brute_force(seed):
    two = canary("the cat sat on {words} {words}", "red", "mat")
    found, chances = searched(two, seed, beam=SIZE), probabilities(two, seed)
    order = np.argsort(-chances)
    assert [guess.filling for guess in found.guesses] == [two.space.at(int(n)) for n in order[:10]]
    assert found.guesses[0].score == pytest.approx(-np.log2(chances.max()), abs=1e-5)


@pytest.mark.parametrize("secret", [("red ", "tree mat "), ("red tree ", "mat "), ("mat ", "red ")])
@pytest.mark.parametrize("beam", [2, 25])
def test_a_filling_with_the_secret_s_text_is_no_guess_before_it(secret, beam):
    """Values of several lengths without text between them: two fillings have the secret's text."""
    values = Alphabet("parts", ("red ", "red tree ", "tree mat ", "mat ", "cat "))
    two = Canary("c", "the cat sat on {parts}{parts}", secret, alphabets={"parts": values}, label="high")
    found, chances, text = searched(two, beam=beam), probabilities(two), two.space.fill(secret)
    others = [n for n, filled in enumerate(two.space.texts()) if filled != text]
    place = 1 + int((chances[others] >= chances[two.space.index(secret)] - 1e-9).sum())
    listed = next((n for n, guess in enumerate(found.guesses, 1) if guess.text == text), None)
    if beam == 25:
        assert found.place == place
        assert all(found.correct) == (place == 1)
    if place <= 10:
        assert (found.place is None) == (listed is None)


def test_slots_apart_are_searched_with_all_the_text_in_the_end():
    two = canary("the {words} sat on {words}.", "red", "mat")
    best = two.space.at(int(np.argmax(probabilities(two))))
    assert searched(two, beam=SIZE).guesses[0].filling == best


def test_the_first_of_two_tokens_is_judged_by_a_text_that_ends_there():
    two = canary("the cat {words} {words}", "red", "mat")
    texts = [f"the cat {word}" for word in WORDS]
    first = int(np.argmin(direct_class_losses(tiny_bert(), wordpiece(), texts, 2)))
    assert searched(two, beam=1).guesses[0].filling[0] == WORDS[first]


@pytest.mark.parametrize("penalty", [0.01, 0.5, 10.0])
def test_the_penalty_is_the_papers(tmp_path, penalty):
    counts = {word: place + 1 for place, word in enumerate(WORDS)}
    (tmp_path / "counts.json").write_text(json.dumps(counts))
    two = canary("the cat sat on {words} {words}", "red", "mat")
    found = searched(two, beam=SIZE, counts=str(tmp_path / "counts.json"), **{"lambda": penalty})
    shares = np.array([counts[word] / sum(counts.values()) for word in WORDS])
    goal = probabilities(two) - penalty * (shares[:, None] + shares[None]).reshape(-1)
    assert [guess.filling for guess in found.guesses[:5]] == [two.space.at(int(n)) for n in np.argsort(-goal)[:5]]


def test_a_tiny_penalty_keeps_the_order_of_nearly_certain_texts(tmp_path):
    (tmp_path / "counts.json").write_text(json.dumps(dict.fromkeys(WORDS, 1)))
    one = canary("the cat sat on {words}", "tree")
    plain = searched(one)
    penalised = searched(one, counts=str(tmp_path / "counts.json"), **{"lambda": 1e-9})
    assert [guess.filling for guess in penalised.guesses] == [guess.filling for guess in plain.guesses]
    assert penalised.place == plain.place


@pytest.mark.parametrize("bias", [12.0, -12.0])
def test_places_stay_apart_where_every_probability_is_close_to_one_or_nought(tmp_path, bias):
    (tmp_path / "counts.json").write_text(json.dumps(dict.fromkeys(WORDS, 1)))
    model = copy.deepcopy(tiny_bert())
    with torch.no_grad():
        model.classifier.bias[2] += bias
    target = ClassifierTarget(model, wordpiece())
    for word in ("tree", "red", "pin"):
        one = canary("the cat sat on {words}", word)
        given = [{}, {"lambda": 0.01, "counts": str(tmp_path / "counts.json")}]
        plain, penalised = (
            run_attack("label-search", target, [one], goal="extraction", values=each)[0] for each in given
        )
        assert penalised.place == plain.place


def test_a_beam_narrower_than_k_leaves_success_at_k_open():
    two = canary("the cat sat on {words} {words}", "red", "mat")
    assert searched(two, beam=7).extra["ranked"] == 7
    assert searched(canary("the cat sat on {words}", "red"), beam=7).extra["ranked"] == SIZE


def test_the_secrets_place_in_the_beam():
    two = canary("the cat sat on {words} {words}", "red", "mat")
    best = searched(two, beam=SIZE).guesses[2].filling
    assert searched(canary(two.template, *best), beam=SIZE).place == 3


def test_a_shortlist_scores_so_many_values_and_no_more():
    one = canary("the cat sat on {words}", "tree")
    found = searched(one, shortlist=5)
    assert found.model_calls == 5 + 2 * SIZE
    assert searched(one, shortlist=5, shortlist_at="mean").model_calls == 5 + 2
    assert found.extra["shortlist"] == 5


def test_an_audit_tells_what_the_shortlist_kept():
    one = canary("the cat sat on {words}", "tree")
    kept = [searched(one, shortlist=size, audit=True) for size in (5, 10, 15)]
    exact = {guess.filling for guess in searched(one).guesses}
    for found in kept:
        shares = found.extra["shortlist_kept"]
        assert shares == [len({guess.filling for guess in found.guesses} & exact) / 10]
        assert found.extra["audit_calls"] == SIZE - found.extra["shortlist"]
        assert found.model_calls == found.extra["shortlist"] + 2 * SIZE


def test_a_shortlist_of_everything_changes_nothing():
    two = canary("the cat sat on {words} {words}", "red", "mat")
    assert searched(two, shortlist=SIZE).guesses == searched(two).guesses


def test_where_the_budget_is_short_the_gradient_decides_what_is_scored():
    two = canary("the cat sat on {words} {words}", "red", "mat")
    found = searched(two, beam=5, budget=75)
    assert found.extra["shortlist"] == 75 // 5 - 2
    assert found.model_calls == SIZE + 5 * (13 + 2)


def test_a_budget_too_small_for_the_beam_says_what_to_change():
    two = canary("the cat sat on {words} {words}", "red", "mat")
    with pytest.raises(OptionError, match="leaves 0 values to try after each of 20 fillings: raise budget=…, or lower"):
        searched(two, beam=SIZE, budget=2 * SIZE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam=0 must be 1 or more"),
        ({"lambda": -1.0}, "lambda=-1.0 must be 0.0 or more"),
        ({"shortlist_at": "zero"}, "shortlist_at='zero' is unknown: use points, mean, mask"),
        ({"signal": "calibrated"}, "needs a reference classifier"),
        ({"candidates": 3}, "attack=label-search has no option 'candidates'"),
    ],
)
def test_settings_that_cannot_be_used(settings, message):
    with pytest.raises(OptionError, match=message):
        searched(canary("the cat sat on {words}", "tree"), **settings)


def test_values_of_several_tokens_cannot_be_shortlisted():
    one = Canary("c", "the {p}", ("cats",), alphabets={"p": word_list("p", ["cats", "dog", "90"])}, label="high")
    with pytest.raises(TargetError, match="canary 'c': shortlist=… needs values of one token each"):
        searched(one, shortlist=2)


def test_a_model_without_labels_names_those_that_have_some():
    target = CausalTarget(tiny_gpt2(letters()), letters())
    with pytest.raises(
        TargetError,
        match="needs a model that can compute the probabilities of a text's classes.*classifier-scorer",
    ):
        run_attack("label-search", target, [Canary("c", "pin {digits:2}", ("1", "2"))], goal="extraction")


def test_calibration_takes_the_references_loss_off():
    one = canary("the cat sat on {words}", "tree")
    target = ClassifierTarget(tiny_bert(), wordpiece(), reference=ClassifierTarget(tiny_bert(5), wordpiece()))
    found = run_attack("label-search", target, [one], goal="extraction", values={"signal": "calibrated"})[0]
    texts = [one.space.fill(filling) for filling in one.space.enumerate()]
    own, others = (np.array(direct_class_losses(tiny_bert(seed), wordpiece(), texts, 2)) for seed in (0, 5))
    assert found.guesses[0].filling == one.space.at(int(np.argmin(own - others)))
    assert found.guesses[0].score == pytest.approx((own - others).min(), abs=1e-5)
