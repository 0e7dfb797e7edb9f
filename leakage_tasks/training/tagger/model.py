"""Creation of an NLU tagger from its training rows, and the embedding of unknown words."""

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
    """Create an untrained model on the CPU and its tokenizer.

    The vocabulary contains the words of ``rows`` and ``words``, sorted; if ``recipe`` names word vectors, also the
    words of ``validation`` in that file. Embeddings of words without a vector are random, with the standard deviation
    of the vectors. The model has the intents and tags of ``rows``, see :func:`tags_of`.

    Args:
        rows: The training rows.
        validation: The validation rows.
        recipe: Sizes and options of the model.
        words: Additional texts whose words the model must know.
        seed: Random seed of the weights.

    Returns:
        The model and its tokenizer.
    """
    vocabulary = {word for row in rows for word in row.words}.union(*(value.split() for value in words))
    vectors = None
    if recipe.embeddings is not None:
        vectors = _vectors(recipe.embeddings, vocabulary, {word for row in validation for word in row.words})
        vocabulary |= vectors.vectors.keys()
    tokenizer = nlu_tokenizer(sorted(vocabulary))
    intents = sorted({row.intent for row in rows})
    config = NLUTaggerConfig(
        vocab_size=len(tokenizer),
        embedding_size=recipe.embedding_size if vectors is None else vectors.size,
        hidden_size=recipe.hidden_size,
        num_hidden_layers=recipe.layers,
        dropout=recipe.dropout,
        tags=tags_of(rows),
        characters="".join(sorted({character for word in vocabulary for character in word}))
        if recipe.characters
        else "",
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
    """Return ``O`` and the sorted tags of ``rows``, with an ``I-x`` for each ``B-x``."""
    seen = {tag for row in rows for tag in row.tags}
    inside = {f"I-{tag[2:]}" for tag in seen if tag.startswith("B-")}
    return ["O", *sorted((seen | inside) - {"O"})]


@torch.no_grad()
def set_unknown_embedding(model: NLUTagger, tokenizer: PreTrainedTokenizerFast) -> None:
    """Set the embedding of ``<unk>`` to the mean of the words' embeddings.

    If no word of the training rows is unknown, the embedding is not trained, and new words would be read as noise.
    """
    weight, unknown = model.embedding.weight, int(tokenizer.get_vocab()[UNKNOWN])
    weight[unknown] = weight[unknown + 1 :].mean(dim=0)


def _vectors(path: str, known: set[str], others: set[str]) -> WordVectors:
    """Read the vectors of ``known`` and ``others`` from a file. Warn if it lacks words of ``known``."""
    vectors = read_word_vectors(path, known | others)
    count = len(known & vectors.vectors.keys())
    if not count:
        raise OptionError(
            f"{path}: has no word of the vocabulary's {len(known):,} words ({vectors.size} numbers a word): give a "
            "file in the language and case of the data"
        )
    if count < len(known):
        log.warning("%s: has %s of the vocabulary's %s words; the others start at random", path, count, len(known))
    return vectors


@torch.no_grad()
def _load(model: NLUTagger, tokenizer: PreTrainedTokenizerFast, vectors: WordVectors) -> None:
    weight, vocabulary = model.embedding.weight, tokenizer.get_vocab()
    by_id = {vocabulary[word]: torch.from_numpy(vector) for word, vector in vectors.vectors.items()}
    loaded: Any = torch.stack(list(by_id.values()))
    weight *= loaded.std(correction=0)
    weight[list(by_id)] = loaded
