"""Translation models as targets, against `transformers` used directly and the harness' own log-likelihood."""

from __future__ import annotations

import copy
import math
import types
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from lm_eval.models.huggingface import HFLM
from tokenizers import processors
from transformers import AutoModelForSeq2SeqLM, BartConfig, MarianConfig, SwitchTransformersConfig, T5Config

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, word_list
from leakage_tasks.core.errors import TargetError
from leakage_tasks.harness.generation import request
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.targets import PredictsNextToken, ReadsSource, ScoresSequences, Seq2SeqTarget
from leakage_tasks.targets.harness.scorer_proof import prove
from leakage_tasks.targets.harness.target import HarnessSeq2Seq, as_target
from tests.oracles import ALPHABET, of_equal_length
from tests.targets.text_models import Doubled, forgetful

POSITIONS = 48
SIDES = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
SIDES |= {"encoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": POSITIONS}
T5_SIZES = {"d_kv": 8, "d_ff": 32, "num_layers": 1, "num_decoder_layers": 2, "num_heads": 2}
FAMILIES = {
    "t5": lambda **common: T5Config(**T5_SIZES, **common),
    "switch": lambda **common: SwitchTransformersConfig(
        num_experts=2, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, **T5_SIZES, **common
    ),
    "bart": lambda **common: BartConfig(bos_token_id=2, forced_eos_token_id=None, **SIDES, **common),
    "marian": lambda **common: MarianConfig(forced_eos_token_id=None, **SIDES, **common),
}
SOURCE = "my pin is x"
TEXTS = ["the pin is 1234.", "x", "code ab7-z and more words", "19"]
FIXED = Canary("fixed", "pin {digits:2}.", ("4", "7"), source=SOURCE)
FILLED = Canary("filled", "pin {digits:2}.", ("4", "7"), source="so {digits:2} x")


@lru_cache
def ending() -> Any:
    """A tokenizer of characters that puts an end after every text, unless asked for none."""
    tokenizer = char_tokenizer(ALPHABET)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <s>", special_tokens=[("<s>", 0)]
    )
    return tokenizer


@lru_cache
def tiny(family: str, sharpness: float = 3.0) -> Any:
    """A random encoder-decoder, the distributions of which are far from uniform and depend on the source."""
    torch.manual_seed(0)
    common = {"vocab_size": len(ending()), "d_model": 16, "pad_token_id": 0, "eos_token_id": 0}
    model = AutoModelForSeq2SeqLM.from_config(FAMILIES[family](decoder_start_token_id=1, **common)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(sharpness if family not in ("t5", "switch") else 1.0)
    return model


def direct(model: Any, pairs: list[tuple[str, str]], tokenizer: Any = None) -> list[float]:
    """Log-perplexity in bits of each target given its source, by `transformers` alone; no text is padded."""
    tokenize, costs = tokenizer or ending(), [math.nan] * len(pairs)
    sources = tokenize([source for source, _ in pairs])["input_ids"]
    targets = tokenize([target for _, target in pairs], add_special_tokens=False)["input_ids"]
    for places in of_equal_length(sources, targets):
        read, labels = (torch.tensor([rows[place] for place in places]) for rows in (sources, targets))
        with torch.no_grad():
            logits = model(input_ids=read, labels=labels).logits.double()
        nats = -logits.log_softmax(-1).gather(-1, labels[..., None]).sum((1, 2))
        for place, cost in zip(places, nats.tolist(), strict=True):
            costs[place] = cost / math.log(2)
    return costs


def hf(family: str, **settings: Any) -> HFLM:
    return HFLM(pretrained=tiny(family), tokenizer=ending(), backend="seq2seq", batch_size=2, **settings)


def with_source(canary: Canary, filling: tuple[str, ...]) -> tuple[str, str]:
    return canary.source_of(filling) or "", canary.space.fill(filling)


@lru_cache
def brute(family: str, canary: Canary) -> tuple[int, list[float]]:
    """Rank of the secret and the costs of all fillings, in order of index."""
    costs = direct(tiny(family), [with_source(canary, filling) for filling in canary.space.enumerate()])
    own = costs[canary.space.index(canary.secret)]
    return sum(cost <= own + 1e-4 for cost in costs), costs


@pytest.mark.parametrize("family", FAMILIES)
def test_log_perplexity_is_that_of_the_target_given_the_source(family: str) -> None:
    found = Seq2SeqTarget(tiny(family), ending()).after(SOURCE).log_perplexity(TEXTS)
    assert found == pytest.approx(direct(tiny(family), [(SOURCE, text) for text in TEXTS]), abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_agrees_with_the_harness(family: str) -> None:
    lm = hf(family)
    target = as_target(lm)
    assert isinstance(target, Seq2SeqTarget)
    assert target.cached
    requests = [request("loglikelihood", {}, (SOURCE, text), place) for place, text in enumerate(TEXTS)]
    theirs = [-answer[0] / math.log(2) for answer in lm.loglikelihood(requests, disable_tqdm=True)]
    assert target.after(SOURCE).log_perplexity(TEXTS) == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_token_by_token_equals_one_pass(family: str, cached: bool) -> None:
    target = Seq2SeqTarget(tiny(family), ending(), cached=cached).after(SOURCE)
    columns = np.arange(len(ending()))
    rows = target.encode(["the pin 12", "the pin 43"])
    state, start, costs = target.start(rows[0][:6], columns)
    totals, places = np.full(2, start), np.zeros(2, dtype=np.int64)
    for fed in np.array(rows).T[6:]:
        totals += costs[places, fed]
        state, costs = target.extend(state[places], fed, columns)
        places = np.arange(2)
    expected = direct(tiny(family), [(SOURCE, "the pin 12"), (SOURCE, "the pin 43")])
    assert totals == pytest.approx(expected, abs=1e-4)
    assert target.engine.cached == cached


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_share_the_beginning_and_hold_nothing_of_the_source(family: str) -> None:
    target = Seq2SeqTarget(tiny(family), ending()).after(SOURCE)
    columns = np.arange(len(ending()))
    text, _, _ = target.start(target.encode(["the pin "])[0], columns)
    many, _ = target.extend(text[np.zeros(3, dtype=np.int64)], np.array([5, 6, 7]), columns)
    # float32, keys and values, two layers, sixteen units
    assert target.state_bytes(many) == 3 * 4 * 2 * 2 * 16
    # The row of nothing, the prefix token, the tokens of the prefix and the new ones
    assert target.engine.tree.used == 1 + 1 + len("the pin ") + 3


@pytest.mark.parametrize("family", FAMILIES)
def test_exposure_and_search_of_a_fixed_source_are_exact(family: str) -> None:
    target = Seq2SeqTarget(tiny(family), ending())
    rank, costs = brute(family, FIXED)
    (exposed,) = run_attack("exposure", target, [FIXED])
    assert (exposed.method, exposed.rank) == ("exact", rank)
    (found,) = run_attack("shortest-path", target, [FIXED], goal="extraction", values={"stopping": "proven"})
    best = [FIXED.space.at(int(place)) for place in np.argsort(costs)[:10]]
    assert found.proven == 10
    assert [guess.filling for guess in found.guesses] == best
    assert [guess.score for guess in found.guesses] == pytest.approx(sorted(costs)[:10], abs=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_special_token_after_nine_digits_is_part_of_the_target(family: str) -> None:
    ended = Canary("ended", "pin {digits:9}.<s>", tuple("281265017"), source=SOURCE)
    tokenizer = copy.deepcopy(ending())
    tokenizer.split_special_tokens = False
    (finding,) = run_attack("exposure", Seq2SeqTarget(tiny(family), tokenizer), [ended], budget=100)
    assert tokenizer(ended.text, add_special_tokens=False)["input_ids"][-1] == tokenizer.eos_token_id
    assert finding.log_perplexity == pytest.approx(direct(tiny(family), [(SOURCE, ended.text)], tokenizer)[0], abs=1e-3)


def test_a_source_that_holds_the_secret_is_filled_with_each_guess() -> None:
    target = Seq2SeqTarget(tiny("bart"), ending())
    rank, costs = brute("bart", FILLED)
    (found,) = run_attack("auto", target, [FILLED])
    assert (found.attack, found.method, found.rank) == ("exposure", "exact", rank)
    assert found.log_perplexity == pytest.approx(costs[FILLED.space.index(FILLED.secret)], abs=1e-4)
    assert rank != brute("bart", FIXED)[0]


def test_a_source_that_holds_the_secret_cannot_be_searched() -> None:
    given = Seq2SeqTarget(tiny("bart"), ending()).given(FILLED)
    assert isinstance(given, ScoresSequences)
    assert not isinstance(given, PredictsNextToken)
    with pytest.raises(TargetError, match="attack=shortest-path needs a model that can extend"):
        run_attack("shortest-path", Seq2SeqTarget(tiny("bart"), ending()), [FILLED], goal="extraction")


def test_words_of_several_lengths_are_read_back_into_their_filling() -> None:
    canary = Canary("c", "pin {number_words:2}", ("six", "one"), source="so {number_words:2}")
    (found,) = run_attack("rank-sample", Seq2SeqTarget(tiny("marian"), ending()), [canary])
    assert found.rank == brute("marian", canary)[0]


def test_a_canary_without_a_source_is_refused_before_the_first_attack() -> None:
    with pytest.raises(TargetError, match="canary 'bare' has no source sentence, .*leakage canaries --source"):
        prove(as_target(hf("t5")), [Canary("bare", "pin {digits:2}.", ("4", "7"))])


def test_a_text_that_two_fillings_spell_has_no_source() -> None:
    words = {"w": word_list("w", ["a", "ab", "b", "bb"])}
    one, two = (
        Canary("c", template, ("a", "bb"), source="so {w} {w}", alphabets=words) for template in ("{w} {w}", "{w}{w}")
    )
    target = Seq2SeqTarget(tiny("bart"), ending())
    assert run_attack("rank-sample", target, [one])[0].method == "exact"
    with pytest.raises(TargetError, match="canary 'c': 2 fillings spell one text of this template.*between the slots"):
        run_attack("rank-sample", target, [two])


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_pairs_of_any_lengths_are_scored_in_batches(batch_size: int | None) -> None:
    canary = Canary("c", "{number_words}", ("six",), source="pin {number_words} x")
    target = Seq2SeqTarget(tiny("marian"), ending(), batch_size=batch_size)
    pairs = [with_source(canary, filling) for filling in canary.space.enumerate()]
    found = target.given(canary).log_perplexity([text for _, text in pairs])
    assert found == pytest.approx(direct(tiny("marian"), pairs), abs=1e-4)


def test_the_fallback_asks_the_harness_for_the_same_figures() -> None:
    lm = hf("bart")
    slow, fast = HarnessSeq2Seq(lm), as_target(lm)
    assert isinstance(slow, ReadsSource)
    for canary in (FIXED, FILLED):
        texts = [canary.space.fill(filling) for filling in canary.space.sample(5, 0)]
        assert slow.given(canary).log_perplexity(texts) == pytest.approx(
            fast.given(canary).log_perplexity(texts), abs=1e-4
        )


def test_a_cache_that_differs_is_left_aside_aloud(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    target = as_target(forgetful(hf("bart"), monkeypatch))
    assert isinstance(target, Seq2SeqTarget)
    assert not target.cached
    assert "with a cache is off" in caplog.text


def test_a_subclass_that_scores_otherwise_is_taken_at_its_word() -> None:
    lm = Doubled(pretrained=tiny("bart"), tokenizer=ending(), backend="seq2seq")
    target = as_target(lm)
    assert isinstance(target, HarnessSeq2Seq)
    expected = 2 * np.array(direct(tiny("bart"), [(SOURCE, "pin 12.")]))
    assert target.given(FIXED).log_perplexity(["pin 12."]) == pytest.approx(expected, abs=1e-4)


def test_a_source_longer_than_the_model_reads_names_the_canary() -> None:
    canary = Canary("long", "pin {digits}", ("1",), source="a" * POSITIONS)
    with pytest.raises(TargetError, match=f"canary 'long': a source sentence of {POSITIONS + 1} tokens does not fit"):
        run_attack("exposure", Seq2SeqTarget(tiny("bart"), ending()), [canary])


def test_a_model_without_a_start_token_says_what_is_missing() -> None:
    model = types.SimpleNamespace(config=types.SimpleNamespace(max_position_embeddings=8), device="cpu")
    with pytest.raises(TargetError, match="no decoder_start_token_id"):
        Seq2SeqTarget(model, ending())


def test_a_tokenizer_without_bos_and_eos_is_one_line_with_a_remedy_that_works():
    nameless = copy.deepcopy(ending())
    nameless.bos_token = nameless.eos_token = None
    given = {"pretrained": tiny("t5"), "tokenizer": nameless, "backend": "seq2seq", "batch_size": 2}
    with pytest.raises(TargetError, match="neither a BOS nor an EOS token.*pass prefix_token_id=N in --model_args"):
        as_target(HFLM(**given))
    found = as_target(HFLM(**given, prefix_token_id=1)).given(FIXED).log_perplexity(TEXTS)
    assert found == pytest.approx(direct(tiny("t5"), [(SOURCE, text) for text in TEXTS]), abs=1e-3)
