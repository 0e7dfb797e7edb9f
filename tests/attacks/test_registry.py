"""Choosing attacks, and what is refused before any model is asked."""

import dataclasses

import numpy as np
import pytest

from leakage_tasks.attacks import ATTACKS, run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.errors import OptionError, TargetError
from leakage_tasks.targets import CausalTarget
from tests.attacks.test_scoring import Scores
from tests.oracles import letters, tiny_gpt2

CANARY = Canary("c-1", "pin {digits:2}", ("1", "2"))


def test_auto_searches_where_it_can():
    target = CausalTarget(tiny_gpt2(letters()), letters())
    assert run_attack("auto", target, [CANARY], goal="extraction")[0].attack == "shortest-path"
    assert run_attack("auto", target, [CANARY], goal="exposure")[0].attack == "exposure"


def test_auto_never_picks_less_than_it_could():
    order = sorted(ATTACKS.values(), key=lambda attack: attack.auto)
    exposing = [attack.name for attack in order if attack.goal == "exposure"]
    extracting = [attack.name for attack in order if attack.goal == "extraction"]
    assert [name for name in exposing if name in ("exposure", "sampled")] == ["exposure", "sampled"]
    text = ("shortest-path", "brute-force", "greedy", "beam", "sampling")
    assert [name for name in extracting if name in text] == list(text)
    assert [name for name in extracting if name not in text] == ["mix-and-match", "label-search"]


def test_an_unknown_attack_names_the_known_ones():
    with pytest.raises(OptionError, match="attack='magic' is unknown: use auto, .*shortest-path"):
        run_attack("magic", Scores(), [CANARY])


def test_a_model_that_offers_nothing_is_refused():
    with pytest.raises(TargetError, match="offers nothing"):
        run_attack("auto", object(), [CANARY])


@pytest.mark.parametrize("budget", [0, -5])
def test_a_budget_below_one_is_refused(budget):
    with pytest.raises(OptionError, match=f"budget={budget} must be 1 or more"):
        run_attack("auto", Scores(), [CANARY], budget=budget)


def test_a_canary_longer_than_the_context_is_refused_before_any_attack():
    canary = Canary("long", "a" * 80 + " {digits:2}", ("1", "2"))
    target = CausalTarget(tiny_gpt2(letters()), letters())
    with pytest.raises(TargetError, match="canary 'long' is 83 tokens long, the model reads 64"):
        run_attack("exposure", target, [CANARY, canary])


def test_a_tokenizer_that_fails_names_the_canary():
    canary = Canary("odd", "été {digits:9}", tuple("123456789"))
    with pytest.raises(TargetError, match="canary 'odd': the tokenizer"):
        run_attack("exposure", CausalTarget(tiny_gpt2(letters()), letters()), [canary])


TRANSLATED = Canary("t-1", "pin {digits:2}", ("1", "2"), source="pino")


def test_a_source_sentence_on_a_model_that_reads_none_is_refused():
    with pytest.raises(TargetError, match="canary 't-1' has a source sentence, .*backend=seq2seq.*without --source"):
        run_attack("auto", Scores(), [CANARY, TRANSLATED])


def test_a_model_that_reads_a_source_wants_one_of_every_canary():
    with pytest.raises(TargetError, match="canary 'c-1' has no source sentence, .*leakage canaries --source"):
        run_attack("auto", Reader(), [TRANSLATED, CANARY])


def test_each_canary_is_attacked_after_its_own_source():
    reader = Reader()
    other = dataclasses.replace(TRANSLATED, id="t-2", source="uno")
    assert [found.rank for found in run_attack("sampled", reader, [TRANSLATED, other])] == [13, 100 - 12]
    assert reader.read == ["pino", "uno"]


class Reader:
    """Reads a source; after ``uno`` it costs least what costs most after any other."""

    def __init__(self):
        self.read = []

    def given(self, canary):
        self.read.append(canary.source_text)
        return Numbers(-1 if canary.source_text == "uno" else 1)


class Numbers(Scores):
    """A text costs the number it ends in."""

    def __init__(self, sign):
        super().__init__()
        self.sign = sign

    def log_perplexity(self, texts):
        return np.array([200 + self.sign * int(text.split()[-1]) for text in texts], dtype=float)
