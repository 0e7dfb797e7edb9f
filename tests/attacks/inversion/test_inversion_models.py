"""The attack by gradient on a tagger and a text classifier, against brute force over every filling."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.inversion.search import FORMS
from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.models.nlu_inputs import nlu_inputs, nlu_tokenizer
from leakage_tasks.models.nlu_tagger import NLUTagger, NLUTaggerConfig
from leakage_tasks.targets import ClassifierTarget, TaggerTarget
from tests.oracles import WORDS, direct_class_losses, tiny_bert, wordpiece

COLOURS = ("red", "green", "blue", "yellow", "pink")
DIGITS = ("one", "two", "three", "four")
ALPHABETS = {"colours": word_list("colours", COLOURS), "digits": word_list("digits", DIGITS)}
INTENTS, TAGS = ("Call", "Pin", "Colour"), ("O", "B-canary", "I-canary")
TOKENIZER = nlu_tokenizer(["call", "my", "pin", "is", *COLOURS, *DIGITS])


@lru_cache
def tagger(characters: str = "") -> NLUTagger:
    """A small tagger of random weights, large enough for losses to be far apart."""
    torch.manual_seed(1)
    config = NLUTaggerConfig(
        vocab_size=len(TOKENIZER),
        embedding_size=8,
        hidden_size=8,
        tags=TAGS,
        characters=characters,
        id2label=dict(enumerate(INTENTS)),
        label2id={name: place for place, name in enumerate(INTENTS)},
    )
    model = NLUTagger(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return model


def canaries() -> list[Canary]:
    def one(label: str, template: str, secret: str, tags: str) -> Canary:
        names = {"O": "O", "B": "B-canary", "I": "I-canary"}
        own = tuple(names[each] for each in tags)
        return Canary(label, template, tuple(secret.split()), alphabets=ALPHABETS, label=label, tags=own)

    return [
        one("Pin", "my pin is {digits} {digits} {digits}", "two one four", "OOOBII"),
        one("Call", "call {digits} {digits}", "one three", "OBI"),
        one("Colour", "{colours} is {digits} {colours}", "red one pink", "BOOB"),
    ]


def every_loss(one: Canary, model: NLUTagger) -> dict[tuple[str, ...], float]:
    """The model's own loss of each filling in bits, by its own forward pass."""
    fillings = list(one.space.enumerate())
    inputs = nlu_inputs([one.space.fill(filling).split() for filling in fillings], TOKENIZER, model.config)
    tags = torch.tensor([[TAGS.index(tag) for tag in one.tags]])
    label = torch.tensor([INTENTS.index(one.label)])
    with torch.no_grad():
        rows = [{name: part[[row]] for name, part in inputs.items()} for row in range(len(fillings))]
        losses = [float(model(**row, labels=label, tags=tags).loss) / np.log(2) for row in rows]
    return dict(zip(fillings, losses, strict=True))


@lru_cache
def all_losses(characters: str) -> list[dict[tuple[str, ...], float]]:
    """The losses of each canary's fillings."""
    return [every_loss(one, tagger(characters)) for one in canaries()]


def attacked(target: Any, canaries: list[Canary], name: str = "inversion", **given: Any) -> list[Finding]:
    return run_attack(name, target, canaries, goal="extraction", values=given)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("characters", "read"),
    [("abcdefgilnoprtuw", "published"), pytest.param("", "adaptive", marks=pytest.mark.slow)],
)
def test_a_taggers_filling_of_lowest_loss_is_found(form, characters, read):
    given = {"relaxation": form, "characters": read, "steps": 30, "restarts": 12}
    found = attacked(TaggerTarget(tagger(characters), TOKENIZER), canaries(), **given)
    for one, each, losses in zip(canaries(), found, all_losses(characters), strict=True):
        assert each.guesses[0].filling == min(losses, key=lambda filling: losses[filling])
        assert [guess.score for guess in each.guesses] == pytest.approx(
            [losses[guess.filling] for guess in each.guesses], abs=1e-4
        )
        assert each.extra["secret_loss"] == pytest.approx(losses[one.secret], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("characters", "read"), [("", "adaptive"), ("abcdefgilnoprtuw", "published")])
def test_in_half_precision_it_descends_as_in_double(form, dtype, characters, read):
    """Losses in half precision are too coarse to rank the best by: the answer is among the best eighth in float32."""
    model = copy.deepcopy(tagger(characters)).to(dtype)
    given = {"relaxation": form, "characters": read, "steps": 30, "restarts": 12, "arithmetic": "model"}
    found = attacked(TaggerTarget(model, TOKENIZER), canaries(), **given)
    for each, losses in zip(found, all_losses(characters), strict=True):
        assert losses[each.guesses[0].filling] <= sorted(losses.values())[len(losses) // 8]


def test_auto_takes_it_on_taggers():
    assert {each.attack for each in attacked(TaggerTarget(tagger(), TOKENIZER), canaries(), "auto", steps=3)} == {
        "inversion"
    }


def test_on_a_text_classifier_it_is_there_when_asked_for():
    target = ClassifierTarget(tiny_bert(), wordpiece())
    words = {"words": word_list("words", WORDS)}
    one = Canary("c", "the cat sat on {words} {words}", ("red", "mat"), alphabets=words, label="high")
    (found,) = attacked(target, [one], steps=60)
    fillings = list(one.space.enumerate())
    losses = direct_class_losses(tiny_bert(), wordpiece(), [one.space.fill(each) for each in fillings], 2)
    assert found.guesses[0].filling == fillings[int(np.argmin(losses))]
    assert found.guesses[0].score == pytest.approx(min(losses), abs=1e-4)
    assert attacked(target, [one], "auto")[0].attack == "label-search"
