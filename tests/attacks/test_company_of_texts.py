"""Attacks that ask for whole texts advance together on every kind of target; each comes to what it comes to alone."""

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.planning.meter import metered, modules_of
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.classifier.generators import GeneratingTarget, MaskedGenerator
from leakage_tasks.targets.classifier.target import ClassifierTarget
from leakage_tasks.targets.harness.target import HarnessTarget
from leakage_tasks.targets.masked.target import load_masked
from leakage_tasks.targets.seq2seq.target import Seq2SeqTarget
from leakage_tasks.targets.tagger.target import TaggerTarget
from tests.encoders import WORDS, classifier_of, save_base
from tests.encoders import wordpiece as encoder_words
from tests.oracles import letters, tiny_gpt2
from tests.taggers import pin, tiny_tagger, words_tokenizer
from tests.targets.causal.models import model_of
from tests.translators import random_model, tokenizer_of

BATCH = 16
PINS = make_canaries("pin of {unique} is {digits:2}.", 4, controls=2, seed=1)
PINS_OF_ONE = make_canaries("pin {unique} is {digits:1}.", 4, controls=3)


@dataclasses.dataclass(frozen=True)
class Case:
    """A target and what attacks it; ``model`` has the module whose passes count."""

    made: Callable[[], tuple[Any, Any]]
    canaries: Sequence[Canary]
    attack: str
    goal: Any
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


def harness(model: Any) -> tuple[Any, Any]:
    lm = HFLM(pretrained=model, tokenizer=letters(), batch_size=BATCH, device="cpu")
    return HarnessTarget(lm), lm


def plain_gpt2() -> tuple[Any, Any]:
    return harness(tiny_gpt2(letters()))


def plain_lstm() -> tuple[Any, Any]:
    return harness(model_of("lstm"))


def causal() -> tuple[Any, Any]:
    return itself(CausalTarget(tiny_gpt2(letters()), letters()))


def causal_lstm() -> tuple[Any, Any]:
    return itself(CausalTarget(model_of("lstm"), letters()))


ALPHABETS = {"word": word_list("word", WORDS[:9])}
SHAPES = ("{word} light {word}", "money {word} voice", "paper {word} train horse {word} winter")


def canaries(shapes: Sequence[str], values: Sequence[str], **more: Any) -> list[Canary]:
    """Five canaries of different lengths."""
    found = []
    for n in range(5):
        shape = shapes[n % len(shapes)]
        secret = tuple(values[(2 * n + k) % len(values)] for k in range(shape.count("{")))
        found.append(Canary(f"c{n}", shape, secret, **more))
    return found


WORDY = canaries(SHAPES, WORDS[:9], alphabets=ALPHABETS, label="LABEL_1")
TAGGED = [
    pin(*"12"[: n % 2 + 1], name=f"p{n}", **({"tags": None, "label": "CallIntent"} if n == 3 else {})) for n in range(5)
]


@lru_cache
def folder() -> Path:
    return save_base(Path(tempfile.mkdtemp()))


def itself(target: Any) -> tuple[Any, Any]:
    return target, target


def masked() -> tuple[Any, Any]:
    return itself(load_masked(str(folder()), batch_size=2))


def classifier() -> tuple[Any, Any]:
    return itself(ClassifierTarget(classifier_of(folder()), encoder_words(), batch_size=2))


def generating() -> tuple[Any, Any]:
    target, generator = classifier()[0], MaskedGenerator(masked()[0])
    return itself(GeneratingTarget(target, generator))


def tagger() -> tuple[Any, Any]:
    return itself(TaggerTarget(tiny_tagger(), words_tokenizer(), batch_size=2))


@dataclasses.dataclass(frozen=True)
class Holder:
    """What has the module whose passes count."""

    model: Any


def translation() -> tuple[Any, Any]:
    target = Seq2SeqTarget(random_model("nllb"), tokenizer_of("nllb"), batch_size=16)
    return target, Holder(target.model)


def translated(*sources: str) -> list[Canary]:
    made = [Canary(f"t{n}", "the number is {digits:2}.", (str(n), str(9 - n))) for n in range(6)]
    return [dataclasses.replace(each, source=sources[n % len(sources)]) for n, each in enumerate(made)]


CASES = {
    "gpt2 through the harness, exposure": Case(plain_gpt2, PINS, "exposure", "exposure"),
    "gpt2 through the harness, sampled": Case(plain_gpt2, PINS, "rank-sample", "exposure", {"histogram": 5}),
    "lstm through the harness, greedy": Case(plain_lstm, PINS, "greedy", "extraction"),
    "causal, sampled": Case(causal, PINS, "rank-sample", "exposure", {"histogram": 5}),
    "causal, brute force": Case(causal, PINS_OF_ONE, "brute-force", "extraction"),
    "causal lstm, sampled": Case(causal_lstm, PINS, "rank-sample", "exposure"),
    "classifier, class loss": Case(classifier, WORDY, "class-loss", "exposure"),
    "classifier, label search": Case(classifier, WORDY, "label-search", "extraction", {"beam": 3}),
    "generator, mix and match": Case(generating, WORDY, "mix-and-match", "extraction", {"beam": 2}),
    "masked, exposure": Case(masked, WORDY, "exposure", "exposure"),
    "masked, sampled": Case(masked, WORDY, "rank-sample", "exposure", {"histogram": 5}),
    "masked, brute force": Case(masked, WORDY[1::3], "brute-force", "extraction"),
    "tagger, class loss": Case(tagger, TAGGED, "class-loss", "exposure"),
    "tagger, label search": Case(tagger, TAGGED, "label-search", "extraction", {"beam": 3}),
    "translation of few sources, exposure": Case(
        translation, translated("die zahl von ann", "die zahl"), "exposure", "exposure"
    ),
    "translation of few sources, shortest path": Case(
        translation, translated("die zahl von ann", "die zahl"), "shortest-path", "extraction"
    ),
    "translation of the secret itself": Case(
        translation, translated("die zahl {digits:2}", "die zahl {digits:2} von ann"), "rank-sample", "exposure"
    ),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def run(case: Case, groups: Sequence[Sequence[Canary]], before: Sequence[Canary] = ()) -> tuple[list[Finding], Any]:
    """Findings of the groups, and what they read after an attack ``before``, which finds out about the model."""
    target, holder = case.made()

    def attacked(group: Sequence[Canary]) -> list[Finding]:
        return run_attack(case.attack, target, group, goal=case.goal, budget=40, values=case.settings)

    attacked(before)
    with metered(modules_of(holder)) as count:
        found = [each for group in groups for each in attacked(group)]
    return found, count


def assert_equal(one: Finding, other: Finding) -> None:
    mine, theirs = dataclasses.asdict(one), dataclasses.asdict(other)
    for name in mine:
        if name == "seconds":
            continue
        assert _alike(mine[name], theirs[name]), (name, mine[name], theirs[name])


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float):
        return bool(np.isclose(one, other, atol=1e-4, rtol=1e-5))
    return bool(one == other)


@each_case
def test_company_and_order_change_no_figure_passes_are_shared_and_rows_are_no_more(case):
    alone, apart = run(case, [[canary] for canary in case.canaries], before=case.canaries)
    met, together = run(case, [case.canaries], before=case.canaries)
    back, _ = run(case, [case.canaries[::-1]])
    for one, two, three in zip(alone, met, back[::-1], strict=True):
        assert_equal(one, two)
        assert_equal(one, three)
    assert together.rows <= 1.02 * apart.rows
    assert together.passes < apart.passes
