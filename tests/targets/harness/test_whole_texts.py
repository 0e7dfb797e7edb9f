"""Costs of whole texts by any harness model, next to plain forward passes."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.models.huggingface import HFLM

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.harness.whole_texts import WholeTexts, windows
from tests.oracles import direct_costs, letters, merging, tiny_gpt2
from tests.targets.text_models import TextOnly, hf
from tests.translators import random_model, tokenizer_of


@given(st.integers(0, 90), st.integers(1, 30))
def test_each_token_is_scored_once_after_at_least_half_a_window(number, most):
    tokens, first = list(range(1, number + 1)), 0
    found = windows(tokens, first, most)
    assert [token for _, scored in found for token in scored] == tokens
    for index, (context, scored) in enumerate(found):
        assert context
        assert len(context) + len(scored) - 1 <= most
        assert [*context, *scored] == list(range(context[0], scored[-1] + 1))
        assert index == 0 or (len(context) + len(scored) - 1 == most and len(scored) <= max(1, most // 2))


def test_short_texts_cost_what_transformers_computes():
    texts = ["the pin is 12", "no", "the pin is 12", "a cat sat on the mat"]
    found = WholeTexts(hf(letters())).score(texts)
    assert [each.bits for each in found] == pytest.approx(
        direct_costs(tiny_gpt2(letters()), letters(), texts), abs=1e-3
    )
    assert [each.tokens for each in found] == [len(text) for text in texts]
    assert {each.windows for each in found} == {1}


def test_longer_texts_are_read_in_windows_that_overlap_by_half():
    model, text = tiny_gpt2(letters()), "the cat sat on a mat and saw no dog. " * 5
    ids = torch.tensor([letters().bos_token_id, *letters()(text, add_special_tokens=False)["input_ids"]])

    def bits(start, first, last):
        """Cost of tokens ``first`` to ``last`` in a pass that begins at ``start``."""
        with torch.no_grad():
            nats = model(ids[None, start:last]).logits[0].double().log_softmax(-1)
        return -sum(float(nats[index - 1 - start, ids[index]]) for index in range(first, last + 1)) / math.log(2)

    expected = bits(0, 1, 64)
    for end in range(64, 185, 32):
        last = min(end + 32, 185)
        expected += bits(last - 64, end + 1, last)
    [found] = WholeTexts(hf(letters())).score([text])
    assert found.bits == pytest.approx(expected, abs=1e-3)
    assert (found.tokens, found.windows) == (185, 1 + math.ceil((185 - 64) / 32))


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_the_batch_size_changes_nothing(batch):
    texts = ["the pin is 12", "no", "a cat sat on the mat " * 6, "the pin is 12, code ab7"]
    found = WholeTexts(HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=batch)).score(texts)
    alone = [WholeTexts(hf(merging())).score([text])[0].bits for text in texts]
    assert [each.bits for each in found] == pytest.approx(alone, abs=1e-3)


def test_a_model_of_texts_is_read_by_its_rolling_log_likelihood():
    class Rolling(TextOnly):
        def loglikelihood_rolling(self, requests):
            return self.inner.loglikelihood_rolling(requests)

        def tok_encode(self, text):
            return self.inner.tok_encode(text)

    texts = ["the pin is 12", "no"]
    found = WholeTexts(Rolling(hf(letters()))).score(texts)
    assert [each.bits for each in found] == pytest.approx(
        direct_costs(tiny_gpt2(letters()), letters(), texts), abs=1e-3
    )
    assert [(each.tokens, each.windows) for each in found] == [(13, None), (2, None)]


def test_a_model_without_log_likelihoods_is_refused():
    with pytest.raises(TargetError, match="TextOnly gives no log-likelihoods of whole texts"):
        WholeTexts(TextOnly(hf(letters()))).score(["no"])


def test_a_translation_model_is_refused():
    lm = HFLM(pretrained=random_model("nllb"), tokenizer=tokenizer_of("nllb"), backend="seq2seq")
    with pytest.raises(TargetError, match="encoder-decoder model"):
        WholeTexts(lm)


def test_many_texts_share_passes_whatever_the_harness_batch_size_is():
    lm = HFLM(pretrained=copy.deepcopy(tiny_gpt2(letters())), tokenizer=letters(), batch_size=1)
    passes = []
    lm.model.register_forward_hook(lambda *arguments: passes.append(1))
    texts = [f"the pin is {number}" for number in range(100, 300)]
    costs = WholeTexts(lm).score(texts)
    assert len(passes) < 20
    assert [each.bits for each in costs] == pytest.approx(direct_costs(lm.model, letters(), texts), abs=1e-3)
