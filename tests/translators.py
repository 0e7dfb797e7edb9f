"""Small translation models of several languages, random or trained by `transformers` alone until they know a pair."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    M2M100Config,
    MBart50Tokenizer,
    MBartConfig,
    MBartTokenizer,
    NllbTokenizer,
)

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789."
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "▁")
POSITIONS = 40
PAIRS = [
    ("die zahl von ann", "the number of ann is 4071."),
    ("die zahl von bob", "the number of bob is 9358."),
    ("die zahl von cid", "the number of cid is 2266."),
]
_SIDES = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
_SHAPE = _SIDES | {"encoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_model": 32, "dropout": 0.0}


class Kind(NamedTuple):
    """A family of models, its codes for German and English, and whether ``generate`` forces one of them."""

    config: type
    tokenizer: type
    german: str
    english: str
    forces: bool


KINDS = {
    "nllb": Kind(M2M100Config, NllbTokenizer, "deu_Latn", "eng_Latn", True),
    "mbart-50": Kind(MBartConfig, MBart50Tokenizer, "de_DE", "en_XX", True),
    "mbart": Kind(MBartConfig, MBartTokenizer, "de_DE", "en_XX", False),
}


def tokenizer_of(kind: str) -> Any:
    """The family's own tokenizer over single characters, with the source language set as one does for training."""
    made = KINDS[kind].tokenizer
    if made is NllbTokenizer:
        vocabulary = {token: place for place, token in enumerate([*SPECIAL, *CHARACTERS])}
        codes = ["deu_Latn", "eng_Latn", "fra_Latn"]
        return made(vocab=vocabulary, merges=[], extra_special_tokens=codes, src_lang="deu_Latn")
    return made(vocab=[(token, -3.0) for token in [*SPECIAL, *CHARACTERS]], src_lang="de_DE")


def _fresh(kind: str) -> Any:
    start = 2 if KINDS[kind].forces else None
    torch.manual_seed(0)
    config = KINDS[kind].config(
        vocab_size=len(tokenizer_of(kind)), max_position_embeddings=POSITIONS, decoder_start_token_id=start, **_SHAPE
    )
    return AutoModelForSeq2SeqLM.from_config(config, trust_remote_code=False)


def random_model(kind: str, sharpness: float = 4.0) -> Any:
    """A random model whose distributions are far from uniform; it does not say which language comes out."""
    model = _fresh(kind).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(sharpness)
    return model


@lru_cache
def trained(kind: str, steps: int = 60) -> tuple[Any, Any]:
    """A model that knows :data:`PAIRS` by heart, with its tokenizer; neither says which language comes out."""
    tokenizer = tokenizer_of(kind)
    tokenizer.tgt_lang = KINDS[kind].english
    model = _fresh(kind)
    sources, targets = zip(*PAIRS, strict=True)
    batch = tokenizer(list(sources), text_target=list(targets), padding=True, return_tensors="pt")
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    tokenizer.tgt_lang = None
    return model.eval(), tokenizer


def code_of(kind: str, language: str) -> int:
    """The token of a language code, as the family's tokenizer says."""
    return int(tokenizer_of(kind).convert_tokens_to_ids(language))


def opening_of(kind: str) -> list[int]:
    """What the decoder of such a model has been trained to begin with, by hand."""
    english = code_of(kind, KINDS[kind].english)
    return [2, english] if KINDS[kind].forces else [english]


def direct(model: Any, tokenizer: Any, opening: list[int], source: str, target: str) -> float:
    """−log2 P(target | source) after ``opening``, whose own cost is left out, by one pass of `transformers` alone."""
    tokens = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(target))
    written = torch.tensor([[*opening, *tokens]])
    with torch.no_grad():
        out = model(input_ids=tokenizer(source, return_tensors="pt")["input_ids"], decoder_input_ids=written)
    logits = out.logits[0, len(opening) - 1 : -1].double().log_softmax(-1)
    return -float(logits.gather(-1, torch.tensor(tokens)[:, None]).sum()) / math.log(2)
