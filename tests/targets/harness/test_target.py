"""Which target a harness model gets, and that both kinds agree."""

import copy
import math

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from peft import PromptTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM, BertConfig, GPT2Config, GPT2LMHeadModel, XLMConfig, XLNetConfig

from leakage_tasks.core.errors import TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets import CausalTarget, PredictsNextToken
from leakage_tasks.targets.harness.float32_sums import float32_sums
from leakage_tasks.targets.harness.target import HarnessTarget, as_target
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.tasks.suffix.suffix_handler import suffix_target
from tests.oracles import direct_costs, letters, merging, tiny_gpt2
from tests.targets.seq2seq.test_target import tiny
from tests.targets.text_models import Doubled, TextOnly, direct_bits, forgetful

TEXTS = ["the pin is 1234.", "x 1", "code ab7-z"]


def hf(tokenizer, **settings):
    return HFLM(pretrained=tiny_gpt2(tokenizer), tokenizer=tokenizer, **settings)


def test_hf_gets_the_fast_target_with_the_harness_settings():
    target = as_target(hf(merging(), batch_size=3, max_length=32))
    assert isinstance(target, CausalTarget)
    assert target.cached
    assert target.max_length == 32
    assert target.rows(8) == 3 * 32 // 8


def test_another_model_can_score_but_not_search():
    target = as_target(TextOnly(hf(merging())))
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
    lm = forgetful(hf(letters()), monkeypatch)
    target = as_target(lm)
    assert isinstance(target, CausalTarget)
    assert not target.cached
    assert "with a cache is off" in caplog.text
    assert target.log_perplexity(TEXTS) == pytest.approx(direct_costs(lm.model, lm.tokenizer, TEXTS), abs=1e-3)


def test_a_model_without_a_cache_says_what_happens_instead(caplog):
    class Forgetful(type(tiny_gpt2(letters()))):
        """It returns no cache."""

        def forward(self, *args, **kwargs):
            found = super().forward(*args, **kwargs)
            found.past_key_values = None
            return found

    model = Forgetful(tiny_gpt2(letters()).config).eval()
    model.load_state_dict(tiny_gpt2(letters()).state_dict())
    target = as_target(HFLM(pretrained=model, tokenizer=letters()))
    assert (type(target), target.cached) == (CausalTarget, False)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "lm_eval.leakage"]
    assert line == (
        "HFLM: fast scoring with a cache is off: the model returns no cache to continue from; every text is read from "
        "its first token instead, with equal results, but up to 47 times as slowly: lower budget=… if it takes too long"
    )
    assert target.log_perplexity(TEXTS) == pytest.approx(direct_costs(model, letters(), TEXTS), abs=1e-3)


def endless():
    """A tokenizer without BOS and EOS."""
    tokenizer = copy.deepcopy(letters())
    tokenizer.bos_token = tokenizer.eos_token = None
    return tokenizer


def test_a_tokenizer_without_a_first_token_is_one_line_with_a_remedy_that_works(caplog):
    model = tiny_gpt2(letters())
    with pytest.raises(TargetError, match="neither a BOS nor an EOS token, .*: pass prefix_token_id=N in --model_args"):
        as_target(HFLM(pretrained=model, tokenizer=endless()))
    assert "fast scoring" not in caplog.text
    lm = HFLM(pretrained=model, tokenizer=endless(), prefix_token_id=letters().bos_token_id)
    assert as_target(lm).log_perplexity(TEXTS) == pytest.approx(direct_costs(model, letters(), TEXTS), abs=1e-3)


@pytest.mark.parametrize("model", [lambda: tiny_gpt2(letters()), lambda: tiny("t5")])
def test_a_model_saved_without_its_tokenizer_is_one_line(model, tmp_path):
    """transformers makes up a tokenizer that reads every text as nothing, or as unknown tokens."""
    model().save_pretrained(tmp_path)
    lm = HFLM(pretrained=str(tmp_path), device="cpu")
    with pytest.raises(TargetError, match="its files are missing: save the tokenizer .* with tokenizer=NAME in --"):
        as_target(lm)


def test_suffixes_need_no_first_token(caplog):
    model, pair = tiny_gpt2(letters()), Pair(0, (5, 6, 7, 8), (9, 10, 11))
    target = suffix_target(HFLM(pretrained=model, tokenizer=endless()), [pair])
    (scored,) = target.score([pair.prefix], [pair.suffix], DecodingConfig())
    assert scored.own.sum() == pytest.approx(direct_bits(model, pair.prefix, pair.suffix), abs=1e-4)
    assert "fast scoring" not in caplog.text


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
AHEAD = {
    "xlnet": lambda size: XLNetConfig(vocab_size=size, d_model=16, n_layer=2, n_head=2, d_inner=32),
    "bert": lambda size: BertConfig(vocab_size=size, max_position_embeddings=64, **SMALL),
    "xlm": lambda size: XLMConfig(vocab_size=size, emb_dim=16, n_layers=2, n_heads=2, max_position_embeddings=64),
}


@pytest.mark.parametrize("settings", [{}, {"max_length": 64}], ids=["own length", "length given"])
@pytest.mark.parametrize("name", AHEAD)
def test_a_model_that_reads_ahead_is_declined_in_one_line(name, settings, caplog):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AHEAD[name](len(letters()))).eval()
    words = f"^{type(model).__name__} reads later tokens before .*: use a model that predicts the next token$"
    with pytest.raises(TargetError, match=words):
        as_target(HFLM(pretrained=model, tokenizer=letters(), **settings))
    assert "fast scoring" not in caplog.text


def test_a_model_that_overflows_in_float16_says_so_in_one_line():
    model = copy.deepcopy(tiny_gpt2(letters()))
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(1e5)
    words = r"^GPT2LMHeadModel gives probabilities that are not numbers \(NaN\): load it with dtype=float32 "
    with pytest.raises(TargetError, match=words):
        as_target(HFLM(pretrained=model.half(), tokenizer=letters(), device="cpu"))


def test_a_decoder_of_berts_kind_is_searched():
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(letters()), max_position_embeddings=64, is_decoder=True, **SMALL)
    model = AutoModelForCausalLM.from_config(config).eval()
    target = as_target(HFLM(pretrained=model, tokenizer=letters()))
    assert isinstance(target, CausalTarget)
    assert target.log_perplexity(TEXTS) == pytest.approx(direct_costs(model, letters(), TEXTS), abs=1e-3)


def test_a_length_that_is_none_is_one_line_with_a_remedy_that_works(monkeypatch):
    model = tiny_gpt2.__wrapped__(letters())
    model.config.n_positions = -1
    with pytest.raises(TargetError, match="a maximum of -1 tokens, .*: pass max_length=N in --model_args"):
        as_target(HFLM(pretrained=model, tokenizer=letters()))
    assert as_target(HFLM(pretrained=model, tokenizer=letters(), max_length=64)).max_length == 64


def test_the_harness_default_batch_leaves_the_number_of_rows_to_the_target():
    default, explicit = (as_target(hf(merging(), **given)) for given in ({}, {"batch_size": 2}))
    assert default.rows(16) > 100
    assert explicit.rows(16) == 2 * 64 // 16
    assert default.log_perplexity(TEXTS) == pytest.approx(explicit.log_perplexity(TEXTS), abs=1e-4)


def test_a_subclass_that_scores_otherwise_is_taken_at_its_word(caplog):
    lm = Doubled(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    target = as_target(lm)
    assert isinstance(target, HarnessTarget)
    assert "cache is off" in caplog.text
    expected = [2 * cost for cost in direct_costs(lm.model, lm.tokenizer, TEXTS)]
    assert target.log_perplexity(TEXTS) == pytest.approx(expected, abs=2e-3)


def in_bfloat16(length):
    """A random model in bfloat16, and a text of ``length`` characters, each a token."""
    torch.manual_seed(0)
    vocabulary = {"vocab_size": len(letters()), "bos_token_id": letters().bos_token_id}
    config = GPT2Config(**vocabulary, n_layer=2, n_embd=32, n_head=2, n_positions=length + 1)
    model = GPT2LMHeadModel(config).eval().bfloat16()
    return HFLM(pretrained=model, tokenizer=letters()), ("the pin " * length)[:length]


def test_a_long_text_in_16_bits_keeps_the_fast_target():
    lm, text = in_bfloat16(500)
    target = as_target(lm, [text, text[:-1] + "1"])
    assert isinstance(target, CausalTarget)
    assert target.cached


def test_the_harness_sums_a_long_text_in_float32():
    lm, text = in_bfloat16(500)
    expected = direct_costs(lm.model, lm.tokenizer, [text])
    assert HarnessTarget(lm).log_perplexity([text]) == pytest.approx(expected, abs=0.01)
    assert lm.softmax_dtype is None


def test_the_harness_keeps_a_more_precise_type_of_its_user():
    lm, _ = in_bfloat16(8)
    lm.softmax_dtype = torch.float64
    with float32_sums(lm):
        assert lm.softmax_dtype == torch.float64


def test_natural_logarithms_become_bits():
    class Fixed(TextOnly):
        def loglikelihood(self, requests):
            assert all(request.args[0] == "" for request in requests)
            return [(-math.log(8), False) for _ in requests]

    assert HarnessTarget(Fixed(hf(letters()))).log_perplexity(["a", "b"]).tolist() == pytest.approx([3.0, 3.0])


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
    assert "is off: ValueError" in caplog.text
    assert (TEXTS[0] in caplog.text) != private
