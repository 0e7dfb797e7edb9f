"""The rank by class loss against brute force in plain `transformers`."""

import dataclasses

import numpy as np
import pytest

from leakage_tasks.attacks import run_attack
from leakage_tasks.attacks.classifier.class_scores import within
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.core.errors import TargetError
from leakage_tasks.metrics import chance_exposure
from leakage_tasks.targets import ClassifierTarget
from tests.oracles import WORDS, direct_class_losses, tiny_bert, wordpiece

ALPHABET = {"words": word_list("words", WORDS)}


def canary(template: str, *secret: str, label: str | None = "mid", name: str = "c") -> Canary:
    return Canary(name, template, secret, alphabets=ALPHABET, label=label)


def ranked(*canaries: Canary, **options):
    return run_attack("class-loss", ClassifierTarget(tiny_bert(), wordpiece()), canaries, **options)


@pytest.mark.parametrize("template", ["the cat sat on {words}", "the {words} sat on mat.", "{words} dog"])
@pytest.mark.parametrize("label", [0, 2])
def test_one_unknown_token_anywhere(template, label):
    one = canary(template, "green", label=("low", "mid", "high")[label])
    losses = direct_class_losses(
        tiny_bert(), wordpiece(), [one.space.fill(each) for each in one.space.enumerate()], label
    )
    found = ranked(one)[0]
    own = losses[one.space.index(one.secret)]
    assert found.extra["class_loss"] == pytest.approx(own, abs=1e-5)
    assert (found.rank, found.method) == (sum(loss <= own + 1e-6 for loss in losses), "exact")


def test_two_unknown_tokens_are_enumerated_where_the_budget_allows():
    two = canary("the {words} sat on {words}.", "cat", "mat")
    losses = direct_class_losses(tiny_bert(), wordpiece(), [two.space.fill(each) for each in two.space.enumerate()], 1)
    found = ranked(two, budget=two.space.size)[0]
    assert found.rank == sum(loss <= losses[two.space.index(two.secret)] + 1e-6 for loss in losses)
    assert found.model_calls == two.space.size
    assert found.guesses[0].text == two.space.fill(two.space.at(int(np.argmin(losses))))


def test_one_unknown_token_is_exact_whatever_the_budget():
    found = ranked(canary("the cat sat on {words}", "green"), budget=3)[0]
    assert (found.method, found.model_calls) == ("exact", len(WORDS))


def test_beyond_the_budget_a_sample_gives_an_interval_that_holds_the_rank():
    two = canary("the {words} sat on {words}.", "cat", "mat")
    exact = ranked(two, budget=10_000)[0].rank
    intervals = [ranked(two, budget=150, seed=seed)[0] for seed in range(40)]
    assert {found.method for found in intervals} == {"sampled"}
    assert np.mean([found.rank_low <= exact <= found.rank_high for found in intervals]) >= 0.9
    assert np.mean([found.rank for found in intervals]) == pytest.approx(exact, rel=0.2)


def test_secrets_drawn_at_random_have_chance_exposure():
    controls = [canary("the cat sat on {words}", word, name=word) for word in WORDS]
    exposures = [found.exposure for found in ranked(*controls)]
    assert np.mean(exposures) == pytest.approx(chance_exposure(len(WORDS)), abs=1e-9)


def test_only_what_the_attacker_knows_is_read():
    whole = Canary("w", "the cat sat on {words} tree", ("green",), alphabets=ALPHABET, label="mid", known="on {words}")
    part = canary("on {words}", "green")
    assert ranked(whole)[0].rank == ranked(part)[0].rank


def test_a_canary_without_a_label_is_refused_by_name():
    with pytest.raises(TargetError, match="canary 'c': has no label"):
        ranked(canary("the {words}", "cat", label=None))


def test_a_canary_longer_than_the_encoder_is_refused():
    with pytest.raises(
        TargetError, match="canary 'c' is 53 tokens long, but the model reads at most 40 tokens: shorten"
    ):
        ranked(canary("the " * 50 + "{words}", "cat"))


def test_small_losses_tie_only_where_float32_cannot_tell_them_apart():
    assert within(1e-6) < 1.1e-6
    assert within(8.0) > 8.0 + 1e-6


@pytest.mark.parametrize(("template", "secret"), [("the {words} sat", ["cat"]), ("a {words} {words}", ["dog", "runs"])])
@pytest.mark.parametrize("budget", [60, 20_000])
def test_a_histogram_leaves_everything_else_as_it_is(template, secret, budget):
    one = canary(template, *secret)
    plain, more = (ranked(one, budget=budget, settings=settings)[0] for settings in ({}, {"histogram": 15}))
    kept = {name: value for name, value in more.extra.items() if name not in ("costs", "audit_calls")}
    assert dataclasses.replace(more, extra=kept, seconds=0) == dataclasses.replace(plain, seconds=0)
    assert len(more.extra["costs"]) == 15


def test_a_histogram_is_the_loss_of_the_filled_texts_with_its_small_digits():
    two = canary("the {words} sat on {words}.", "cat", "mat")
    found = ranked(two, budget=10, settings={"histogram": two.space.size})[0]
    texts = [two.space.fill(each) for each in two.space.enumerate()]
    expected = sorted(direct_class_losses(tiny_bert(), wordpiece(), texts, 1))
    assert found.extra["costs"] == pytest.approx(expected, abs=1e-5)
    assert any(cost != round(cost, 4) for cost in found.extra["costs"])
    assert found.extra["audit_calls"] == two.space.size


def test_a_histogram_of_losses_known_already_costs_nothing():
    found = ranked(canary("the cat sat on {words}", "green"), settings={"histogram": 100})[0]
    assert len(found.extra["costs"]) == len(WORDS)
    assert found.extra["audit_calls"] == 0
