"""The memory that a plan tells, counted a second way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from transformers import BertConfig, BertForSequenceClassification

from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.canaries import make_canaries
from leakage_tasks.planning.memory import memory_of
from leakage_tasks.targets import ClassifierTarget, Seq2SeqTarget
from tests.oracles import wordpiece
from tests.targets.seq2seq.test_target import FIXED, SOURCE, ending, tiny

LAYERS, WIDTH, NUMBER = 2, 16, 4
LOGIT = 12


def test_a_pass_of_a_translation_model_holds_the_source_of_each_row() -> None:
    target = Seq2SeqTarget(tiny("t5"), ending(), batch_size=10).given(FIXED)
    found = memory_of(AttackRequest(target, FIXED, 100, "seed"), SimpleNamespace(model=tiny("t5")), 10)
    paths, of_a_layer = target.paths(FIXED.attack_space), 2 * WIDTH * NUMBER
    # The keys and values of the new token and of the source, in each layer.
    own = (1 + len(ending()(SOURCE)["input_ids"])) * LAYERS * of_a_layer
    # Those of one layer are copied for all tokens before, once by the pass and once by attention.
    copied = (len(paths.prefix) + paths.longest) * 2 * of_a_layer
    assert found.batch == 10 * (own + copied + LOGIT * len(ending()))


@pytest.mark.parametrize("heads", [2, 4])
def test_a_pass_of_a_classifier_holds_the_activations_of_a_layer(heads: int) -> None:
    width, inner, rows = 16, 24, 10
    size = {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": 3, "num_attention_heads": heads}
    model = BertForSequenceClassification(BertConfig(vocab_size=len(wordpiece()), pad_token_id=0, **size))
    (canary,) = make_canaries("the pin is {digit_words:2}", 1, controls=0, label="LABEL_1")
    target = ClassifierTarget(model, wordpiece())
    found = memory_of(AttackRequest(target, canary, 100, "seed"), SimpleNamespace(model=model), rows)
    length = len(wordpiece()(canary.text)["input_ids"])
    assert found.batch == NUMBER * rows * length * (8 * width + 2 * inner + heads * length)
    assert found.kept == 0
