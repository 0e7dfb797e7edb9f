"""Words as an NLU tagger reads them: a tokenizer with one token a word, and each word's characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leakage_tasks.models.char_tokenizer import UNKNOWN, fast_tokenizer, word_level

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.models.nlu_tagger import NLUTaggerConfig

PADDING = "<pad>"


def nlu_tokenizer(words: Iterable[str], *, max_length: int = 512) -> PreTrainedTokenizerFast:
    """A tokenizer over ``words``, each once; words of a text are what stands between white space.

    Ids: 0 is ``<pad>``, 1 is ``<unk>`` (every other word), then ``words`` in their order. No token is added.
    """
    from tokenizers import pre_tokenizers

    backend = word_level(dict.fromkeys([PADDING, UNKNOWN, *words]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return fast_tokenizer(backend, max_length, pad_token=PADDING, padding_side="right")


def nlu_inputs(
    sentences: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerFast, config: NLUTaggerConfig
) -> dict[str, Any]:
    """``input_ids`` and ``attention_mask`` [sentences, longest] of lists of words, none of them empty.

    With a character layer also ``characters`` [sentences, longest, longest word], of no more than
    ``config.max_word_length`` characters a word.
    """
    known = tokenizer.get_vocab()
    unknown = known[UNKNOWN]
    rows = [torch.tensor([known.get(word, unknown) for word in words]) for words in sentences]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=config.pad_token_id)
    lengths = torch.tensor([len(words) for words in sentences])
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    found = {"input_ids": ids, "attention_mask": mask}
    return found | {"characters": _characters(sentences, ids.shape[1], config)} if config.characters else found


def _characters(sentences: Sequence[Sequence[str]], length: int, config: NLUTaggerConfig) -> Tensor:
    """Numbers of the characters, 0 for none and 1 for one that is not known."""
    place = {character: number for number, character in enumerate(config.characters, 2)}
    longest = min(max(len(word) for words in sentences for word in words), config.max_word_length)
    found = torch.zeros(len(sentences), length, longest, dtype=torch.long)
    for row, words in enumerate(sentences):
        for column, word in enumerate(words):
            numbers = [place.get(character, 1) for character in word[:longest]]
            found[row, column, : len(numbers)] = torch.tensor(numbers)
    return found
