"""What an attack takes of a model, in words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from leakage_tasks.attacks import ATTACKS, run_attack
from leakage_tasks.attacks import access as words
from leakage_tasks.canaries import make_canaries
from leakage_tasks.targets import CausalTarget, ClassifierTarget, TaggerTarget
from leakage_tasks.targets.protocols import ProposesValues
from tests.oracles import letters, tiny_bert, tiny_gpt2, wordpiece
from tests.taggers import pin, tiny_tagger, words_tokenizer


class Proposing:
    """A target that proposes values by a generator of that name."""

    def __init__(self, name: str) -> None:
        self.generator_name = name

    def propose(self, space: object, heads: object, slot: int) -> list[object]:
        return []


@pytest.mark.parametrize(
    ("attack", "goal", "expected"),
    [("exposure", "exposure", words.NEXT_TOKEN), ("rank-sample", "exposure", words.LIKELIHOOD)],
)
def test_a_finding_says_what_its_attack_took(attack: str, goal: str, expected: str):
    target = CausalTarget(tiny_gpt2(letters()), letters())
    (found,) = run_attack(attack, target, make_canaries("it is {digits:2}.", 1), goal=goal, budget=100)
    assert found.access == expected


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        ("frankenstein", f"{words.WEIGHTS}, for candidates"),
        ("exhaustive", words.LABELS),
        ("causal:model", f"{words.LABELS}, {words.SECOND}"),
    ],
)
def test_where_candidates_come_from_decides_what_they_take(generator: str, expected: str):
    assert ATTACKS["mix-and-match"].access([ProposesValues], Proposing(generator), {}) == expected


def test_a_shortlist_by_gradient_takes_the_weights():
    found = ATTACKS["label-search"].access((), SimpleNamespace(), {"shortlist": 50})
    assert found.startswith(words.WEIGHTS)


def test_a_second_classifier_to_calibrate_by_is_named():
    found = ATTACKS["mix-and-match"].access([ProposesValues], Proposing("exhaustive"), {"signal": "calibrated"})
    assert found == f"{words.LABELS}, {words.REFERENCE}"


def test_taggers_answer_with_tags_too_and_text_classifiers_with_classes():
    tagger, classifier = TaggerTarget(tiny_tagger(), words_tokenizer()), ClassifierTarget(tiny_bert(), wordpiece())
    access = ATTACKS["class-loss"].access
    assert access((), tagger.tagged(pin("7")), {}) == words.LABELS_AND_TAGS
    assert access((), classifier, {}) == words.LABELS


def test_every_attack_takes_something_that_has_words():
    by_protocol = [each for each in ATTACKS.without_plugins().values() if each.access is words.access_by_protocol]
    assert by_protocol
    assert {need for attack in by_protocol for need in attack.needs} <= words._TAKES.keys()
