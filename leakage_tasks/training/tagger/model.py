"""An untrained NLU tagger over the words, intents and tags of its training rows, and what training leaves undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import log
from leakage_tasks.models.char_tokenizer import UNKNOWN
from leakage_tasks.models.nlu_inputs import nlu_tokenizer
from leakage_tasks.models.nlu_tagger import NLUTagger, NLUTaggerConfig
from leakage_tasks.training.rows import seeded
from leakage_tasks.training.tagger.recipe import NLURecipe
from leakage_tasks.training.word_vectors import WordVectors, read_word_vectors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.data.utterances import Utterance


def fresh_tagger(
    rows: Sequence[Utterance], validation: Sequence[Utterance], recipe: NLURecipe, words: Iterable[str], seed: int
) -> tuple[NLUTagger, PreTrainedTokenizerFast]:
    """An untrained model on the CPU, the same for the same seed, and its tokenizer.

    It knows the words of ``rows`` and those in ``words``, sorted; with a file of vectors also those words of
    ``validation`` that the file has. Words without a vector start at random, as widely spread as the vectors are.
    Intents are those of ``rows``, sorted; tags too, with an ``I-x`` for each ``B-x``, ``O`` first.
    """
    known = {word for row in rows for word in row.words}.union(*(value.split() for value in words))
    vectors = None
    if recipe.embeddings is not None:
        vectors = _vectors(recipe.embeddings, known, {word for row in validation for word in row.words})
        known |= vectors.vectors.keys()
    tokenizer = nlu_tokenizer(sorted(known))
    intents = sorted({row.intent for row in rows})
    config = NLUTaggerConfig(
        vocab_size=len(tokenizer),
        embedding_size=recipe.embedding_size if vectors is None else vectors.size,
        hidden_size=recipe.hidden_size,
        num_hidden_layers=recipe.layers,
        dropout=recipe.dropout,
        tags=tags_of(rows),
        characters="".join(sorted({character for word in known for character in word})) if recipe.characters else "",
        id2label=dict(enumerate(intents)),
        label2id={intent: number for number, intent in enumerate(intents)},
    )
    with seeded(seed, torch.device("cpu")):
        model = NLUTagger(config)
    if vectors is not None:
        _load(model, tokenizer, vectors)
        model.embedding.weight.requires_grad_(not recipe.frozen)
    return model, tokenizer


def tags_of(rows: Sequence[Utterance]) -> list[str]:
    """The tags of ``rows`` and an ``I-x`` for each ``B-x``, sorted, ``O`` before them."""
    seen = {tag for row in rows for tag in row.tags}
    inside = {f"I-{tag[2:]}" for tag in seen if tag.startswith("B-")}
    return ["O", *sorted((seen | inside) - {"O"})]


@torch.no_grad()
def settle_unknown(model: NLUTagger, tokenizer: PreTrainedTokenizerFast) -> None:
    """Give ``<unk>`` the mean of the embeddings of the words.

    Where no word of the training rows is unknown, training leaves the embedding as it was drawn, and what is read in
    place of a new word would be noise.
    """
    weight, unknown = model.embedding.weight, int(tokenizer.get_vocab()[UNKNOWN])
    weight[unknown] = weight[unknown + 1 :].mean(dim=0)


def _vectors(path: str, known: set[str], others: set[str]) -> WordVectors:
    """The file's vectors for ``known`` and ``others``; says how many it has of the former."""
    vectors = read_word_vectors(path, known | others)
    held = len(known & vectors.vectors.keys())
    if not held:
        raise OptionError(
            f"{path}: has none of the vocabulary's {len(known):,} words ({vectors.size} numbers a word): give a file "
            "of the data's language and case"
        )
    if held < len(known):
        log.warning("%s: has %s of the vocabulary's %s words; the others start at random", path, held, len(known))
    return vectors


@torch.no_grad()
def _load(model: NLUTagger, tokenizer: PreTrainedTokenizerFast, vectors: WordVectors) -> None:
    weight, known = model.embedding.weight, tokenizer.get_vocab()
    held = {known[word]: torch.from_numpy(vector) for word, vector in vectors.vectors.items()}
    loaded: Any = torch.stack(list(held.values()))
    weight *= loaded.std(correction=0)
    weight[list(held)] = loaded
