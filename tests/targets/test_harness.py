"""Which target a harness model gets, and that both kinds agree."""

import math
import types

import pytest
import torch
from lm_eval.api.model import LM
from lm_eval.models.huggingface import HFLM
from peft import PromptTuningConfig, get_peft_model

from leakage_tasks.targets import CausalTarget, PredictsNextToken
from leakage_tasks.targets.harness import HarnessTarget, as_target
from tests.oracles import direct_costs, letters, merging, tiny_gpt2

TEXTS = ["the pin is 1234.", "x 1", "code ab7-z"]


class Scorer(LM):
    """A harness model of another kind: it wraps one and offers the three requests only."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def loglikelihood(self, requests):
        return self.inner.loglikelihood(requests)

    def loglikelihood_rolling(self, requests):
        return self.inner.loglikelihood_rolling(requests)

    def generate_until(self, requests):
        return self.inner.generate_until(requests)


def hf(tokenizer, **settings):
    return HFLM(pretrained=tiny_gpt2(tokenizer), tokenizer=tokenizer, **settings)


def test_hf_gets_the_fast_target_with_the_harness_settings():
    target = as_target(hf(merging(), batch_size=3, max_length=32))
    assert isinstance(target, CausalTarget)
    assert target.cached
    assert target.max_length == 32
    assert target.rows(8) == 3 * 32 // 8


def test_another_model_can_score_but_not_search():
    target = as_target(Scorer(hf(merging())))
    assert isinstance(target, HarnessTarget)
    assert not isinstance(target, PredictsNextToken)


def test_both_kinds_agree_with_a_direct_computation():
    lm = hf(merging(), batch_size=2)
    expected = direct_costs(lm.model, lm.tokenizer, TEXTS)
    assert as_target(lm).log_perplexity(TEXTS) == pytest.approx(expected, abs=1e-3)
    assert HarnessTarget(lm).log_perplexity(TEXTS) == pytest.approx(expected, abs=1e-3)


def test_a_custom_prefix_token_is_honoured():
    lm = hf(letters(), prefix_token_id=9)
    assert as_target(lm).log_perplexity(TEXTS) == pytest.approx(HarnessTarget(lm).log_perplexity(TEXTS), abs=1e-3)


def test_a_cache_that_differs_is_left_aside_aloud(caplog, monkeypatch):
    lm = hf(letters())
    original = type(lm.model).forward

    def forgetful(self, *args, past_key_values=None, **kwargs):
        return original(self, *args, past_key_values=None, **kwargs)

    monkeypatch.setattr(lm._model, "forward", types.MethodType(forgetful, lm._model))
    target = as_target(lm)
    assert isinstance(target, CausalTarget)
    assert not target.cached
    assert "with a cache steps aside" in caplog.text
    assert target.log_perplexity(TEXTS) == pytest.approx(direct_costs(lm.model, lm.tokenizer, TEXTS), abs=1e-3)


def test_a_subclass_that_scores_otherwise_is_taken_at_its_word(caplog):
    class Doubled(HFLM):
        """Its log-likelihoods are not the model's."""

        def _loglikelihood_tokens(self, requests, **kwargs):
            return [(2 * value, greedy) for value, greedy in super()._loglikelihood_tokens(requests, **kwargs)]

    lm = Doubled(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    target = as_target(lm)
    assert isinstance(target, HarnessTarget)
    assert "steps aside" in caplog.text
    expected = [2 * cost for cost in direct_costs(lm.model, lm.tokenizer, TEXTS)]
    assert target.log_perplexity(TEXTS) == pytest.approx(expected, abs=2e-3)


def test_natural_logarithms_become_bits():
    class Fixed(Scorer):
        def loglikelihood(self, requests):
            assert all(request.args[0] == "" for request in requests)
            return [(-math.log(8), False) for _ in requests]

    assert HarnessTarget(Fixed(None)).log_perplexity(["a", "b"]).tolist() == pytest.approx([3.0, 3.0])


def test_a_soft_prompt_is_read_once_and_shortens_the_context():
    tokenizer = letters()
    settings = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=5)
    torch.manual_seed(0)
    model = get_peft_model(tiny_gpt2.__wrapped__(tokenizer), settings).eval()
    lm = HFLM(pretrained=model, tokenizer=tokenizer)
    target = as_target(lm)
    assert isinstance(target, CausalTarget)
    assert target.cached
    assert target.max_length == 64 - 5
    bare = direct_costs(tiny_gpt2(tokenizer), tokenizer, TEXTS)
    expected = []
    for text in TEXTS:
        ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]])
        with torch.no_grad():
            log_p = model(input_ids=ids).logits[0, 5:-1].double().log_softmax(-1)
        expected.append(-float(log_p.gather(-1, ids[0, 1:, None]).sum()) / math.log(2))
    assert target.log_perplexity(TEXTS) == pytest.approx(expected, abs=1e-3)
    assert expected != pytest.approx(bare, abs=0.1)


@pytest.mark.parametrize("private", [True, False])
def test_an_error_over_private_texts_is_logged_by_its_name(private, caplog, monkeypatch):
    def broken(self, texts):
        raise ValueError(f"cannot read {texts[0]!r}")

    monkeypatch.setattr(CausalTarget, "encode", broken)
    as_target(hf(letters()), TEXTS[:2], private)
    assert "steps aside: ValueError" in caplog.text
    assert (TEXTS[0] in caplog.text) != private
