"""Models for :mod:`benchmarks.together` that are not causal: random weights, texts of several lengths."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from torch import nn
from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

from benchmarks.small_models import ENDS, fix_rows, random_model
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.models.nlu_tagger import NLUTagger, NLUTaggerConfig
from leakage_tasks.planning.meter import modules_of
from leakage_tasks.targets.classifier.target import ClassifierTarget
from leakage_tasks.targets.harness.target import HarnessTarget
from leakage_tasks.targets.masked.target import MaskedTarget
from leakage_tasks.targets.seq2seq.target import Seq2SeqTarget
from leakage_tasks.targets.tagger.target import TaggerTarget
from tests.oracles import letters, wordpiece
from tests.taggers import INTENTS, TAGS, words_tokenizer

WIDTH, LAYERS, POSITIONS = 128, 4, 64
SENTENCES = ("the pin is {}", "the small house number is {} on a mat", "pin {} is the red fast dog tree on the big mat")
EXPOSURE, EXTRACTION = "exposure", "extraction"
BERT: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": len(wordpiece()),
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 4 * WIDTH,
    "max_position_embeddings": POSITIONS,
    "num_labels": 3,
    "pad_token_id": 0,
}
SPECIAL = {"vocab_size": len(letters()), "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 0}


@dataclasses.dataclass(frozen=True)
class Setup:
    """Canaries, a factory of targets, the modules whose passes are counted, and the attacks."""

    canaries: Sequence[Canary]
    fresh: Callable[[], Any]
    modules: Sequence[nn.Module]
    attacks: Sequence[tuple[str, Any]]
    rows: int
    """Maximum number of rows of a pass, for the longest texts."""


def _worded(number: int, secret: str, **more: Any) -> list[Canary]:
    """Make canaries of three lengths."""
    shapes = [sentence.format(secret) for sentence in SENTENCES]
    made = [make_canaries(shapes[n % 3], 1, controls=0, seed=n)[0] for n in range(number)]
    return [dataclasses.replace(canary, id=f"c{n}", **more) for n, canary in enumerate(made)]


def _token_rows(target: Callable[[int | None], Any], canaries: Sequence[Canary], attacks: Any, rows: int) -> Setup:
    """Set up a model of token rows; with ``rows`` 0 the device determines the batch size."""
    longest = max(target(None).length(canary.text) for canary in canaries)
    size = max(1, rows * longest // POSITIONS) if rows else None
    made = target(size)

    def fresh() -> Any:
        fresh_target = target(size)
        if rows:
            # As on a GPU, whose time depends on the number of passes and not on padding.
            fresh_target.most_padding = math.inf
        return fresh_target

    return Setup(canaries, fresh, modules_of(made), attacks, made.batch(longest))


def classifier(number: int, rows: int) -> Setup:
    """Set up a BERT classifier."""
    model = random_model(**BERT, auto=AutoModelForSequenceClassification)
    attacks = [("class-loss", EXPOSURE), ("label-search", EXTRACTION)]
    canaries = _worded(number, "{digit_words:2}", label="LABEL_1")
    return _token_rows(lambda size: ClassifierTarget(model, wordpiece(), batch_size=size), canaries, attacks, rows)


def masked(number: int, rows: int) -> Setup:
    """Set up a masked BERT."""
    model = random_model(**BERT, auto=AutoModelForMaskedLM)
    attacks = [("exposure", EXPOSURE), ("brute-force", EXTRACTION)]
    canaries = _worded(number, "{digit_words:2}")
    return _token_rows(lambda size: MaskedTarget(model, wordpiece(), batch_size=size), canaries, attacks, rows)


def tagger(number: int, rows: int) -> Setup:
    """Set up an NLU tagger."""
    sizes = {"vocab_size": len(words_tokenizer()), "embedding_size": WIDTH, "hidden_size": WIDTH}
    names = {"id2label": dict(enumerate(INTENTS)), "label2id": {name: n for n, name in enumerate(INTENTS)}}
    model = NLUTagger(NLUTaggerConfig(tags=TAGS, max_position_embeddings=POSITIONS, **sizes, **names)).eval()
    canaries = []
    for n, canary in enumerate(_worded(number, "{digits} {digits}", label=INTENTS[0])):
        tags = ["B-canary" if word.isdigit() else "O" for word in canary.text.split()]
        canaries.append(dataclasses.replace(canary, id=f"c{n}", tags=tuple(tags)))
    attacks = [("class-loss", EXPOSURE), ("label-search", EXTRACTION)]
    return _token_rows(lambda size: TaggerTarget(model, words_tokenizer(), batch_size=size), canaries, attacks, rows)


def harness(number: int, rows: int) -> Setup:
    """Set up a GPT-2 that is used only through the harness' requests."""
    size = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": 4, "n_positions": 128}
    model = random_model("gpt2", vocab_size=len(letters()), **size, **ENDS)
    lm = HFLM(pretrained=model, tokenizer=letters(), batch_size=rows or 1, device="cpu")
    canaries = make_canaries("the pin of {unique} is {digits:2}.", number, controls=0)
    attacks = [("rank-sample", EXPOSURE), ("greedy", EXTRACTION)]
    return Setup(canaries, lambda: HarnessTarget(lm), modules_of(lm), attacks, rows or 1)


def t5(number: int, rows: int) -> Setup:
    """Set up a T5, which has relative positions."""
    size = {"d_model": WIDTH, "d_ff": 4 * WIDTH, "d_kv": 32, "num_layers": 2, "num_heads": 4}
    return _translator(random_model("t5", AutoModelForSeq2SeqLM, **size, **SPECIAL), number, rows)


def bart(number: int, rows: int) -> Setup:
    """Set up a BART, which has absolute positions."""
    sides = {f"{side}_ffn_dim": 4 * WIDTH for side in ("encoder", "decoder")}
    sides |= {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
    size = {"d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 2 * POSITIONS}
    return _translator(random_model("bart", AutoModelForSeq2SeqLM, **size, **sides, **SPECIAL), number, rows)


def _translator(model: Any, number: int, rows: int) -> Setup:
    """Set up a translation model; source sentences and beginnings of canaries differ in length."""
    made = [
        make_canaries(f"the {'red ' * (n % 3)}pin of {{unique}} is {{digits:4}}.", 1, controls=0, seed=n)[0]
        for n in range(number)
    ]
    names = make_canaries("{unique} {digits:1}", number, controls=0, seed=1)
    canaries = [
        dataclasses.replace(canary, id=f"c{n}", source="pin " + name.text)
        for n, (canary, name) in enumerate(zip(made, names, strict=True))
    ]

    def fresh() -> Seq2SeqTarget:
        target = Seq2SeqTarget(model, letters(), device=torch.device("cpu"))
        fix_rows(target, rows)
        # As on a GPU, whose time depends on the number of passes and not on padding.
        target.most_padding = math.inf
        return target

    attacks = [("exposure", EXPOSURE), ("shortest-path", EXTRACTION)]
    return Setup(canaries, fresh, [model, model.get_encoder()], attacks, rows)


OTHER = {"classifier": classifier, "masked": masked, "tagger": tagger, "harness": harness, "t5": t5, "bart": bart}
