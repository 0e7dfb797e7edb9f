"""Scorers that are dead, rounded, cut off, per token or stale, each inside the real harness; and one that is alive."""

import logging
import math
import zlib
from itertools import pairwise

import numpy as np
import pytest
import torch
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.harness.scorer_proof import SENTENCES, prove
from leakage_tasks.targets.harness.target import as_target
from tests.oracles import letters
from tests.targets.large_logits import large_logits
from tests.tasks.test_canary_tasks import evaluate

PIN = Canary("c", "The pin of the box is {digits:4}.", ("1", "2", "3", "4"))
KNOWN = {pair for sentence in SENTENCES for pair in pairwise(sentence.split())}


class Scores(LM):
    """Knows which words follow each other, and has an opinion of every three characters; ``fault`` spoils its sums."""

    def __init__(self, fault=lambda nats, text, place: nats):
        super().__init__()
        self.fault = fault

    def nats(self, text):
        costs = (
            1.5 + zlib.crc32(text[max(0, end - 3) : end].encode()) % 10**6 / 10**6 for end in range(1, len(text) + 1)
        )
        return sum(costs) - sum(pair in KNOWN for pair in pairwise(text.split()))

    def loglikelihood(self, requests):
        texts = [request.args[1] for request in requests]
        return [(-self.fault(self.nats(text), text, place), False) for place, text in enumerate(texts)]

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    def generate_until(self, requests):
        return ["" for _ in requests]


def stale():
    """Answers by the place of a text in what is asked, as it was answered first."""
    kept = {}
    return lambda nats, text, place: kept.setdefault(place, nats)


@pytest.fixture(autouse=True)
def _warnings_anew():
    warn_once.cache_clear()


@pytest.fixture
def manifest(tmp_path):
    write_manifest(make_canaries("The pin of {unique} is {digits:3}.", 2, controls=2), tmp_path / "canaries.jsonl")
    return {"canaries": str(tmp_path / "canaries.jsonl")}


FAULTS = {
    "dead": (lambda nats, text, place: 0.0, "all of 56 texts one log-likelihood (-0 bits)"),
    "no number": (
        lambda nats, text, place: float("nan"),
        "for 56 of 56 texts the model gives no finite log-likelihood",
    ),
    "above 0": (lambda nats, text, place: nats - 60, "a log-likelihood above 0"),
    "rounded to hundreds": (
        lambda nats, text, place: round(nats, -2),
        "random fillings of one template have equal costs",
    ),
    "cut off": (lambda nats, text, place: min(nats, 90.0), "sentences cost more with another sentence appended"),
    "per token": (
        lambda nats, text, place: nats / len(text),
        "sentences cost more with another sentence appended",
    ),
    "stale": (stale(), "two scores of one text differ"),
    "cached by its beginning": (
        lambda nats, text, place: Scores().nats(text[:12]),
        "32 of 32 random fillings of one template have equal costs",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("task", ["canary_exposure", "canary_extraction"])
def test_a_faulty_scorer_is_an_error_in_one_line(name, task, manifest):
    fault, words = FAULTS[name]
    attack = {} if task == "canary_exposure" else {"attack": "brute-force"}
    with pytest.raises(TargetError) as caught:
        evaluate(Scores(fault), [task], {**manifest, **attack})
    assert words in str(caught.value)


class Rounding(CausalTarget):
    """A model in bfloat16 that answers as other kernels would: off by ``times`` its own noise, each time anew."""

    times = 1.0

    def log_perplexity(self, texts):
        numbers = self.__dict__.setdefault("numbers", np.random.default_rng(0))
        lengths = np.array([self.length(text) for text in texts])
        noise = self.times * np.clip(numbers.normal(size=len(texts)), -2, 2)
        return super().log_perplexity(texts) + noise * self.noise.token_bits * np.sqrt(lengths)


def rounding(times):
    target = Rounding(large_logits(torch.bfloat16, 8.0), letters())
    target.times = times
    return target


def test_a_model_in_16_bits_may_contradict_itself_by_its_own_noise():
    prove(rounding(1.0), [PIN])


def test_a_model_in_16_bits_is_refused_where_its_precision_does_not_explain_it():
    with pytest.raises(TargetError, match="two scores of one text differ .* load it with dtype=float32"):
        prove(rounding(8.0), [PIN])


def test_a_model_in_float32_has_no_rounding_that_explains_a_contradiction():
    """Such as dropout that is still on: it varies by less than fillings differ, and by more than 2 % of a cost."""

    class Dropout(CausalTarget):
        def log_perplexity(self, texts):
            numbers = self.__dict__.setdefault("numbers", np.random.default_rng(0))
            return super().log_perplexity(texts) * (1 + 0.05 * numbers.normal(size=len(texts)))

    with pytest.raises(TargetError, match="check for a cache .* and for active dropout"):
        prove(Dropout(large_logits(), letters()), [PIN])


def jitter(bits):
    """A server whose answers vary by so many bits with the batch that a text meets."""
    numbers = np.random.default_rng(0)
    return lambda nats, text, place: nats + math.log(2) * bits * numbers.normal()


def test_a_server_that_varies_less_than_fillings_differ_states_its_noise():
    target = as_target(Scores(jitter(0.6)))
    prove(target, [PIN])
    assert target.recorded_noise.text_bits == pytest.approx(0.6 * math.sqrt(2), rel=0.5)


def test_a_server_that_varies_as_much_as_fillings_differ_is_refused():
    with pytest.raises(TargetError, match="two scores of one text differ"):
        prove(as_target(Scores(jitter(6.0))), [PIN])


def test_a_live_scorer_is_not_spoken_of(manifest, caplog):
    with caplog.at_level(logging.INFO):
        evaluate(Scores(), ["canary_exposure"], manifest)
    assert not [each for each in caplog.messages if "shuffled" in each or "fillings" in each]


def test_a_finely_rounded_scorer_is_warned_of(manifest, caplog):
    evaluate(Scores(lambda nats, text, place: round(nats, 1)), ["canary_exposure"], manifest)
    assert [each for each in caplog.messages if "typical of rounded scores" in each]


def test_random_weights_are_warned_of(manifest, caplog):
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(letters()), n_layer=1, n_embd=16, n_head=2, n_positions=256))
    evaluate(HFLM(pretrained=model, tokenizer=letters()), ["canary_exposure"], manifest)
    assert [each for each in caplog.messages if "weights may be random" in each]


def test_a_model_without_scores_is_left_to_the_attacks(manifest):
    class Writes(Scores):
        def loglikelihood(self, requests):
            raise NotImplementedError

    results = evaluate(Writes(), ["canary_extraction"], {**manifest, "attack": "greedy"})
    assert results["results"]["canary_extraction"]["extracted_x1,none"] == 0


class Labels:
    """A classifier whose probability of one of two labels is what a function of the text says."""

    labels, max_length = ("a", "b"), None

    def __init__(self, probability):
        self.probability = probability

    def length(self, text):
        return len(text)

    def place_of(self, label):
        return self.labels.index(label)

    def encode(self, texts):
        return [list(text.encode()) for text in texts]

    def rows(self, space):
        raise NotImplementedError

    def label_costs(self, rows):
        share = np.array([self.probability(bytes(row)) for row in rows])
        return -np.log2(np.stack([share, 1 - share], axis=1))


CLASS = Canary("c", "{digits:3}", ("1", "2", "3"), label="a")


def test_a_classifier_that_says_the_same_of_everything_is_an_error():
    with pytest.raises(TargetError, match="all of 40 texts one label probability"):
        prove(Labels(lambda text: 0.25), [CLASS])


def test_a_classifier_whose_fillings_tie_is_warned_of(caplog):
    prove(Labels(lambda text: 0.5 if len(text) < 4 else 0.25), [CLASS])
    assert "32 of 32 random fillings" in caplog.text
    assert "proves no safety" in caplog.text


@pytest.mark.parametrize("share", [lambda number: number, lambda number: 1 - number / 10**6], ids=["usual", "certain"])
def test_a_classifier_that_tells_texts_apart_is_not_spoken_of(share, caplog):
    """All losses of a certain one are below 0.00001 bits, and attacks rank them by their ratios."""
    prove(Labels(lambda text: share((zlib.crc32(text) % 10**6 + 1) / (10**6 + 2))), [CLASS])
    assert not caplog.messages
