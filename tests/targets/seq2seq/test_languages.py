"""Translation models that begin with a language code or another forced token, against `transformers` alone."""

from __future__ import annotations

import logging
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets import ReadsSource, Seq2SeqTarget
from leakage_tasks.targets.harness.target import HarnessSeq2Seq, as_target
from leakage_tasks.targets.seq2seq.languages import Languages, language_codes, speech
from leakage_tasks.targets.seq2seq.target import TeacherForced
from leakage_tasks.tasks.attack_handler import _target
from tests.oracles import letters, tiny_gpt2
from tests.targets.seq2seq.test_target import TEXTS, ending, tiny
from tests.targets.seq2seq.test_target import direct as unforced
from tests.targets.text_models import Doubled
from tests.translators import KINDS, PAIRS, POSITIONS, code_of, direct, opening_of, random_model, tokenizer_of, trained

SOURCE, TARGET = PAIRS[0]
SECRET = Canary("c", "ann is {digits:2}.", ("4", "0"), source=SOURCE)
FILLED = Canary("f", "ann is {digits:2}.", ("4", "0"), source="von {digits:2}")


@lru_cache
def told(kind: str) -> Any:
    """A random model whose generation config says that it writes English."""
    model = random_model(kind)
    english = code_of(kind, KINDS[kind].english)
    setattr(model.generation_config, "forced_bos_token_id" if KINDS[kind].forces else "decoder_start_token_id", english)
    return model


@lru_cache
def brute(kind: str) -> list[float]:
    """The costs of all of the secret's fillings, in order of index."""
    texts = [SECRET.space.fill(filling) for filling in SECRET.space.enumerate()]
    return [direct(told(kind), tokenizer_of(kind), opening_of(kind), SOURCE, text) for text in texts]


def hf(model: Any, tokenizer: Any, kind: type[HFLM] = HFLM) -> HFLM:
    return kind(pretrained=model, tokenizer=tokenizer, backend="seq2seq", batch_size=2)


def test_a_model_that_knows_a_pair_gives_it_away_after_its_language() -> None:
    model, tokenizer = trained("nllb")
    english = Languages(target="eng_Latn")
    lm = hf(model, tokenizer)
    secret = Canary("c", TARGET.replace("4071", "{digits:4}"), tuple("4071"), source=SOURCE)
    (before,) = HarnessSeq2Seq(lm).given(secret).log_perplexity([TARGET])
    (after,) = as_target(lm, [TARGET, PAIRS[1][1]], languages=english).given(secret).log_perplexity([TARGET])
    assert before > 10 > 6 > after
    assert after == pytest.approx(direct(model, tokenizer, opening_of("nllb"), SOURCE, TARGET), abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_costs_are_those_after_what_the_decoder_begins_with(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = tokenizer_of(kind)
    with caplog.at_level(logging.INFO, "lm_eval.leakage"):
        target = as_target(hf(told(kind), tokenizer))
    assert isinstance(target, Seq2SeqTarget)
    assert target.cached
    words = " ".join(tokenizer.convert_ids_to_tokens(opening_of(kind)))
    said = [record.getMessage() for record in caplog.records if record.name == "lm_eval.leakage"]
    assert said == [f"leakage: the decoder reads '{words}' before each target sentence; its cost is not counted"]
    texts = [target for _, target in PAIRS]
    expected = [direct(told(kind), tokenizer, opening_of(kind), SOURCE, text) for text in texts]
    assert target.after(SOURCE).log_perplexity(texts) == pytest.approx(expected, abs=1e-3)
    slow = TeacherForced(target).given(SECRET)
    assert slow.log_perplexity(texts) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("kind", "cached"), [*((kind, True) for kind in KINDS), ("nllb", False)])
def test_exposure_and_search_are_exact(kind: str, cached: bool) -> None:
    target, costs = Seq2SeqTarget(told(kind), tokenizer_of(kind), cached=cached), brute(kind)
    own = costs[SECRET.space.index(SECRET.secret)]
    (found,) = run_attack("exposure", target, [SECRET])
    assert (found.method, found.rank) == ("exact", sum(cost <= own + 1e-4 for cost in costs))
    (best,) = run_attack("shortest-path", target, [SECRET], goal="extraction", values={"stopping": "proven"})
    assert [guess.score for guess in best.guesses] == pytest.approx(sorted(costs)[:10], abs=1e-3)
    assert best.guesses[0].filling == SECRET.space.at(int(np.argmin(costs)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_holds_the_secret(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    target = Seq2SeqTarget(told(kind), tokenizer, batch_size=3)
    fillings = FILLED.space.sample(7, 0)
    found = target.given(FILLED).log_perplexity([FILLED.space.fill(each) for each in fillings])
    opening = opening_of(kind)
    expected = [
        direct(told(kind), tokenizer, opening, FILLED.source_of(each) or "", FILLED.space.fill(each))
        for each in fillings
    ]
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_named_languages_are_read_and_written(kind: str) -> None:
    german, english = KINDS[kind].german, KINDS[kind].english
    tokenizer = tokenizer_of(kind)
    target = as_target(hf(told(kind), tokenizer), languages=Languages(source=english, target=german))
    opening = [*opening_of(kind)[:-1], code_of(kind, german)]
    assert list(target.opening) == opening
    other = tokenizer_of(kind)
    other.src_lang = english
    expected = direct(told(kind), other, opening, SOURCE, TARGET)
    assert target.after(SOURCE).log_perplexity([TARGET]) == pytest.approx([expected], abs=1e-3)
    assert (tokenizer.src_lang, tokenizer.tgt_lang) == (german, None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizers_own_target_language_is_taken_last(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    tokenizer.tgt_lang = KINDS[kind].english
    assert list(speech(random_model(kind), tokenizer, Languages()).opening) == opening_of(kind)
    tokenizer.tgt_lang = KINDS[kind].german
    assert list(speech(told(kind), tokenizer, Languages()).opening) == opening_of(kind)


def test_a_forced_token_that_is_no_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny("bart").generation_config, "forced_bos_token_id", 5)
    target = as_target(hf(tiny("bart"), ending()))
    assert target.opening == (1, 5)
    tokens = [[5, *ending()(text, add_special_tokens=False)["input_ids"]] for text in TEXTS]
    whole = unforced(tiny("bart"), [(SOURCE[:9], ending().decode(row)) for row in tokens])
    first = unforced(tiny("bart"), [(SOURCE[:9], ending().decode([5]))])[0]
    # The text with the token less the token alone.
    expected = [cost - first for cost in whole]
    assert target.after(SOURCE[:9]).log_perplexity(TEXTS) == pytest.approx(expected, abs=1e-3)


def test_the_room_for_a_text_is_less_by_what_is_forced() -> None:
    target = Seq2SeqTarget(told("mbart-50"), tokenizer_of("mbart-50")).after("von")
    fits = "a" * (POSITIONS - 2)
    assert np.isfinite(target.log_perplexity([fits])).all()
    assert target.length(fits) == POSITIONS - 1  # a mark of the word's beginning is a token
    with pytest.raises(
        TargetError, match=f"a text of {POSITIONS} tokens does not fit the model's maximum of {POSITIONS - 1}"
    ):
        target.log_perplexity([f"{fits}a"])


def test_a_fast_way_that_differs_gives_way_to_plain_passes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(decoder: Any, input_ids: Any, **told: Any) -> Any:
        raise RuntimeError("no encoder output is taken")

    monkeypatch.setattr("leakage_tasks.targets.seq2seq.decoder.Decoder.forward", forgetful)
    target = as_target(hf(told("nllb"), tokenizer_of("nllb")))
    assert isinstance(target, TeacherForced)
    assert isinstance(target, ReadsSource)
    assert "without a cache is off: RuntimeError: no encoder output is taken" in caplog.text
    expected = direct(told("nllb"), tokenizer_of("nllb"), opening_of("nllb"), SOURCE, "ann is 40.")
    scorer = target.given(SECRET)
    assert scorer.log_perplexity(["ann is 40."]) == pytest.approx([expected], abs=1e-3)
    with pytest.raises(TargetError, match="does not fit the model's"):
        scorer.log_perplexity(["a" * POSITIONS])


def test_a_subclass_that_scores_otherwise_is_taken_at_its_word_aloud(caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(as_target(hf(told("nllb"), tokenizer_of("nllb"), Doubled)), HarnessSeq2Seq)
    assert "Doubled uses its own scoring function, in which the decoder cannot begin with" in caplog.text


def test_a_language_that_nothing_says_is_missed_aloud(caplog: pytest.LogCaptureFixture) -> None:
    target = as_target(hf(random_model("nllb"), tokenizer_of("nllb")))
    assert target.opening == (2,)
    assert "pass --metadata target_language=…" in caplog.text


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("nllb", "eng", "use eng_Latn … (3 in all)"),
        ("mbart-50", "qq", "use af_ZA, ar_AR, "),
        ("nllb", "</s>", "use deu_Latn, eng_Latn, fra_Latn"),
    ],
)
def test_a_code_the_tokenizer_lacks(side: str, kind: str, code: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        as_target(hf(told(kind), tokenizer_of(kind)), languages=Languages(**{side: code}))
    start = f"{side}_language={code!r}: the model's tokenizer has no such language: {message}"
    assert str(caught.value).startswith(start)


def test_a_tokenizer_without_languages() -> None:
    with pytest.raises(TargetError, match="target_language='de': the model's tokenizer has no language codes: leave"):
        as_target(hf(tiny("bart"), ending()), languages=Languages(target="de"))


def test_a_model_that_does_not_translate_takes_no_languages() -> None:
    lm = HFLM(pretrained=tiny_gpt2(letters()), tokenizer=letters())
    with pytest.raises(TargetError, match="source_language and target_language are for translation models"):
        _target(lm, [SECRET], Languages(target="de"))


def test_codes_whose_tokens_are_spelled_otherwise() -> None:
    # As M2M100's own tokenizer has them: the code is 'de', its token '__de__'.
    tokenizer = SimpleNamespace(src_lang="en", unk_token_id=3, lang_code_to_id={"de": 7, "en": 8, "xx": 3})
    assert language_codes(tokenizer) == {"de": 7, "en": 8}
    model = SimpleNamespace(config=SimpleNamespace(decoder_start_token_id=2))
    tokenizer.tgt_lang = None
    found = speech(model, tokenizer, Languages("en", "de"))
    assert (found.opening, found.tokenizer.tgt_lang, tokenizer.tgt_lang) == ((2, 7), "de", None)
