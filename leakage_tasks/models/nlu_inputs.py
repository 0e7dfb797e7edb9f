"""Inputs of an NLU tagger: a tokenizer with one token per word, and the characters of each word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leakage_tasks.models.char_tokenizer import UNKNOWN, fast_tokenizer, word_level_backend

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.models.nlu_tagger import NLUTaggerConfig

PADDING = "<pad>"


def nlu_tokenizer(words: Iterable[str], *, max_length: int = 512) -> PreTrainedTokenizerFast:
    """Return a tokenizer with the distinct ``words`` as its vocabulary. White space separates the words of a text.

    Ids: 0 is ``<pad>``, 1 is ``<unk>`` (every other word), then ``words`` in order. Encoding adds no special tokens.
    """
    from tokenizers import pre_tokenizers

    backend = word_level_backend(dict.fromkeys([PADDING, UNKNOWN, *words]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return fast_tokenizer(backend, max_length, pad_token=PADDING, padding_side="right")


def nlu_inputs(
    sentences: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerFast, config: NLUTaggerConfig
) -> dict[str, Any]:
    """Return ``input_ids`` and ``attention_mask`` [sentences, longest] for non-empty lists of words.

    For a model with a character layer also ``characters`` [sentences, longest, longest word], with at most
    ``config.max_word_length`` characters of each word.
    """
    vocabulary = tokenizer.get_vocab()
    unknown = vocabulary[UNKNOWN]
    rows = [torch.tensor([vocabulary.get(word, unknown) for word in words]) for words in sentences]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=config.pad_token_id)
    lengths = torch.tensor([len(words) for words in sentences])
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    inputs = {"input_ids": ids, "attention_mask": mask}
    return inputs | {"characters": _characters(sentences, ids.shape[1], config)} if config.characters else inputs


def _characters(sentences: Sequence[Sequence[str]], length: int, config: NLUTaggerConfig) -> Tensor:
    """Return the ids of the characters: 0 is padding, 1 an unknown character."""
    ids = {character: number for number, character in enumerate(config.characters, 2)}
    longest = min(max(len(word) for words in sentences for word in words), config.max_word_length)
    characters = torch.zeros(len(sentences), length, longest, dtype=torch.long)
    for row, words in enumerate(sentences):
        for column, word in enumerate(words):
            numbers = [ids.get(character, 1) for character in word[:longest]]
            characters[row, column, : len(numbers)] = torch.tensor(numbers)
    return characters
