"""Texts read by models that score only whole texts."""

from __future__ import annotations

import math

import pytest

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.harness.target import HarnessTarget
from leakage_tasks.targets.harness.text_reader import HarnessTextReader
from leakage_tasks.targets.protocols import ReadsTexts
from tests.oracles import letters, tiny_gpt2
from tests.targets.text_models import TextOnly, direct_bits, hf

TEXTS = ["the red dog", "", "my pin is 12"]


def ids(text):
    return letters()(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("before", [None, "no cat."])
def test_totals_are_log_likelihoods_after_the_text_before(before):
    lm = TextOnly(hf(letters()))
    reader = HarnessTextReader(lm, HarnessTarget(lm), before)
    assert isinstance(reader, ReadsTexts)
    assert not reader.gives_tokens
    assert not reader.gives_distributions
    texts = reader.cut(TEXTS, 9)
    assert [text.text for text in texts] == ["the red d", "", "my pin is"]
    start = [letters().bos_token_id] if before is None else ids(before)
    for text, figures in zip(texts, reader.read(texts), strict=True):
        assert figures.log_probabilities is None
        expected = -math.log(2) * direct_bits(tiny_gpt2(letters()), start, text.tokens) if text.tokens else 0
        assert figures.total == pytest.approx(expected, abs=1e-4)
    context = reader.cut(["two cats.\n\n"], 20)[0]
    filled = [text for text in texts if text.tokens]
    for text, total in zip(filled, reader.totals_after(context, filled), strict=True):
        known = ids((before or "") + context.text)
        expected = -math.log(2) * direct_bits(tiny_gpt2(letters()), known, text.tokens)
        assert total == pytest.approx(expected, abs=1e-4)


def test_a_model_without_a_tokenizer_needs_the_name_of_one(tmp_path):
    lm = TextOnly(hf(letters()))
    lm.tokenizer = None
    with pytest.raises(TargetError, match="does not report its tokenizer: name the model's tokenizer with --metadata"):
        HarnessTextReader(lm, HarnessTarget(lm))
    letters().save_pretrained(tmp_path)
    reader = HarnessTextReader(lm, HarnessTarget(lm), tokenizer=str(tmp_path))
    assert reader.cut(["the dog"], 3)[0].text == "the"


def test_a_model_that_scores_no_text_after_another_refuses_a_chat_template():
    class Alone:
        max_length = 10

        def length(self, text):
            return None

        def log_perplexity(self, texts):
            raise AssertionError

    with pytest.raises(TargetError, match="scores a text without a text before it: leave the flag out"):
        HarnessTextReader(TextOnly(hf(letters())), Alone(), "before")
