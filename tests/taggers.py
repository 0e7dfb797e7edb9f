"""Small NLU taggers, and what a text costs them by torch alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from leakage_tasks.canaries import Canary
from leakage_tasks.canaries.alphabets import word_list
from leakage_tasks.models.nlu_inputs import nlu_inputs, nlu_tokenizer
from leakage_tasks.models.nlu_tagger import NLUTagger, NLUTaggerConfig

DIGITS = tuple("0123456789")
COLOURS = ("red", "green", "lilac", "blue")
WORDS = ("my", "pin", "code", "is", "call", "color", "the", "to", "please", *DIGITS, *COLOURS)
INTENTS = ("PinIntent", "CallIntent", "ColorIntent")
TAGS = ("O", "B-canary", "I-canary", "B-name")
ALPHABETS = {"colour": word_list("colour", list(COLOURS))}


@lru_cache
def words_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of :data:`WORDS`."""
    return nlu_tokenizer(WORDS, max_length=24)


@lru_cache
def tiny_tagger(characters: bool = False, seed: int = 0) -> NLUTagger:
    """A random tagger of two layers whose probabilities are far from uniform."""
    torch.manual_seed(seed)
    config = NLUTaggerConfig(
        vocab_size=len(words_tokenizer()),
        embedding_size=10,
        hidden_size=6,
        tags=TAGS,
        characters="".join(sorted(set("".join(WORDS)))) if characters else "",
        character_size=5,
        character_filters=4,
        max_position_embeddings=24,
        id2label=dict(enumerate(INTENTS)),
        label2id={intent: number for number, intent in enumerate(INTENTS)},
    )
    model = NLUTagger(config).eval()
    # Again, so that the weights do not depend on how many numbers a fresh model draws.
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "crf" in name or weight.dim() > 1:
                weight.normal_(std=0.7)
        model.embedding.weight[0] = 0.0
        if model.character_layer is not None:
            model.character_layer.embedding.weight[0] = 0.0
    return model


def pin(*secret: str, **fields: Any) -> Canary:
    """A canary of a pin of as many digits as ``secret`` has, with intent and tags."""
    template = "my pin code is" + " {digits}" * len(secret)
    tags = ("O", "O", "O", "O", "B-canary", *["I-canary"] * (len(secret) - 1))
    settings = {"label": "PinIntent", "tags": tags, **fields}
    return Canary(settings.pop("name", "pin"), settings.pop("template", template), secret, **settings)


def direct_bits(model: NLUTagger, tokenizer: Any, text: str, intent: str, tags: Sequence[str] | None = None) -> float:
    """−log2 P(intent, tags | text) of one text; the CRF's sum goes over every sequence of tags there is."""
    inputs = nlu_inputs([text.split()], tokenizer, model.config)
    with torch.no_grad():
        found = model(**inputs)
    nats = -float(found.logits[0].double().log_softmax(-1)[INTENTS.index(intent)])
    if tags is not None:
        nats += tag_nats(model.crf, found.emissions[0].double(), [TAGS.index(tag) for tag in tags])
    return nats / math.log(2)


def tag_nats(crf: Any, emissions: torch.Tensor, tags: Sequence[int]) -> float:
    """−ln of the share that one sequence of tags has of the scores of all, written out."""
    length, number = emissions.shape
    every = torch.tensor(list(itertools.product(range(number), repeat=length)))
    scores = crf.start_transitions.detach().double()[every[:, 0]] + crf.end_transitions.detach().double()[every[:, -1]]
    scores = scores + emissions[torch.arange(length), every].sum(1)
    for place in range(1, length):
        scores = scores + crf.transitions.detach().double()[every[:, place - 1], every[:, place]]
    own = (every == torch.tensor(tags)).all(1)
    return float(scores.logsumexp(0) - scores[own][0])
