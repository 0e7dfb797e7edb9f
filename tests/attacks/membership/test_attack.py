"""Membership attacks on a stand-in model that counts what it reads."""

from __future__ import annotations

import numpy as np
import pytest

from leakage_tasks.attacks.membership.attack import AT_ONCE, Inputs, is_long_enough, score_texts
from leakage_tasks.attacks.membership.registry import MEMBERSHIP_ATTACKS, in_order
from leakage_tasks.attacks.membership.request import MembershipRequest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets.protocols import CutText, ReadsTexts, TextFigures

WITHOUT_PASSES = "loss:zlib:min-k:min-k++:dc-pdd"


class Reader:
    """A model of letters whose log-probabilities are made up; it keeps the texts that it reads."""

    gives_tokens = gives_distributions = takes_context = True
    max_length, vocabulary = 100, 128

    def __init__(self):
        self.asked = []

    def cut(self, texts, tokens):
        return [CutText(text[:tokens], tuple(map(ord, text[:tokens]))) for text in texts]

    def read(self, texts):
        self.asked += [text.text for text in texts]
        return [self.figures(text.tokens) for text in texts]

    def figures(self, tokens):
        logs = -0.1 - np.array(tokens) % 7 / 3.0
        return TextFigures(float(logs.sum()), logs, logs - 1.0, np.full(len(logs), 2.0))

    def totals_after(self, context, texts):
        self.asked += [context.text + text.text for text in texts]
        return np.array([1.5 * self.figures(text.tokens).total for text in texts])


def same(text, number, seed):
    return [text] * number


def scored(attacks, texts, **options):
    reader = Reader()
    assert isinstance(reader, ReadsTexts)
    request = MembershipRequest(attacks=attacks, **options)
    inputs = Inputs(
        [Reader()], CutText("shots ", (1, 2)), np.full(128, 1 / 128), lambda text, number, seed: [text] * number
    )
    cut = reader.cut(texts, request.tokens)
    return score_texts(reader, cut, request.chosen(), request, inputs), reader.asked


def test_attacks_without_further_passes_read_each_text_once():
    texts = [f"text number {number}" for number in range(300)]
    scores, asked = scored(WITHOUT_PASSES, texts)
    assert sorted(asked) == sorted(texts)
    assert all(set(found) == set(WITHOUT_PASSES.split(":")) for found in scores)


@pytest.mark.parametrize(("attack", "passes"), [("lowercase", 1), ("recall", 1), ("neighbourhood", 3), ("ratio", 0)])
def test_each_further_pass_is_declared(attack, passes):
    texts = ["One text", "Another text"]
    _, asked = scored(attack, texts, neighbour_number=3)
    assert len(asked) == (1 + passes) * len(texts)
    assert MEMBERSHIP_ATTACKS[attack].passes


def test_no_score_has_another_sign_than_membership():
    """A text that the model gives a higher likelihood in every respect scores higher in every attack."""

    class Surer(Reader):
        def figures(self, tokens):
            found = super().figures(tokens)
            surer = self.shift + found.log_probabilities
            return TextFigures(float(surer.sum()), surer, found.means, found.deviations)

    texts = ["Some Text of Letters"]
    request = MembershipRequest(attacks="loss:zlib:min-k:min-k++:dc-pdd:ratio", clip=1.0)
    inputs = Inputs([Reader()], None, np.full(128, 1 / 128))
    found = []
    for shift in (0.0, 0.05):
        reader = Surer()
        reader.shift = shift
        found += score_texts(reader, reader.cut(texts, 50), request.chosen(), request, inputs)
    assert all(found[1][name] > found[0][name] for name in found[0])
    assert len(found[0]) == 6


def test_a_text_needs_a_token_in_its_lowest_share():
    tokens, whole = MembershipRequest(attacks="min-k", k=29), MembershipRequest(attacks="loss")
    assert not is_long_enough(3, tokens.chosen(), tokens)
    assert is_long_enough(4, tokens.chosen(), tokens)
    assert is_long_enough(100, tokens.chosen(), MembershipRequest(attacks="min-k", k=1))
    assert is_long_enough(1, whole.chosen(), whole)
    assert not is_long_enough(0, whole.chosen(), whole)
    scores, asked = scored("min-k", ["abcd", "", "abcdefgh"], k=20)
    assert [bool(found) for found in scores] == [False, False, True]
    assert asked == ["abcdefgh"]


def test_a_text_that_the_model_excludes_has_no_score():
    class Excluding(Reader):
        def figures(self, tokens):
            found = super().figures(tokens)
            return found if 120 not in tokens else TextFigures(-np.inf, *[found.log_probabilities] * 3)

    reader = Excluding()
    request = MembershipRequest(attacks="loss:min-k")
    scores = score_texts(reader, reader.cut(["a b c d e", "a b x d e"], 9), request.chosen(), request, Inputs())
    assert [set(found) for found in scores] == [{"loss", "min-k"}, set()]


def test_texts_whose_scores_become_known_together_are_reported_together():
    reader, request, parts = Reader(), MembershipRequest(attacks="min-k"), []
    texts = reader.cut(["", *["long text"] * (AT_ONCE + 1), "a"], 9)
    scores = score_texts(reader, texts, request.chosen(), request, Inputs(), lambda part: parts.append(dict(part)))
    assert [len(part) for part in parts] == [2, AT_ONCE, 1]
    assert {index: found for part in parts for index, found in part.items()} == dict(enumerate(scores))


def test_auto_takes_what_needs_no_input_that_is_not_given():
    assert {attack.name for attack in MembershipRequest().chosen()}.isdisjoint({"recall", "neighbourhood"})
    assert "recall" in {attack.name for attack in MembershipRequest(shots=3).chosen()}
    assert "neighbourhood" in {attack.name for attack in MembershipRequest(neighbours="words").chosen()}
    assert len(MembershipRequest(attacks="all").chosen()) == len(list(in_order())) == 9


@pytest.mark.parametrize(
    ("attacks", "message"),
    [
        ("loss:mink", "attacks has 'mink', no membership attack: use .*; did you mean 'min-k'?"),
        ("loss:loss", "names an attack twice"),
        ("auto:loss", "attacks has 'auto'"),
    ],
)
def test_unknown_attacks_are_an_error(attacks, message):
    with pytest.raises(OptionError, match=message):
        MembershipRequest(attacks=attacks)
