"""A tokenizer with one token a character, and nothing lost on the way there and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

LINE_START = "<s>"
UNKNOWN = "<unk>"


def char_tokenizer(alphabet: Iterable[str], *, max_length: int = 2048) -> PreTrainedTokenizerFast:
    """A tokenizer over the characters in ``alphabet`` (any text will do; each character counts once).

    Ids: 0 is ``<s>`` (start of line, end and padding in one), 1 is ``<unk>`` (every other character), then
    the alphabet in code point order. Special tokens are never added, and never found in text either: a
    text with the three characters ``<s>`` in it is those three characters, so decode(encode(x)) == x for
    every text over the alphabet.
    """
    from tokenizers import Regex, decoders, pre_tokenizers

    backend = word_level([LINE_START, UNKNOWN, *sorted(set(alphabet))])
    # [\s\S] and not a dot: a line break is a character like any other here.
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return of_lines(backend, max_length)


def word_level(entries: Iterable[str]) -> Tokenizer:
    """A tokenizer of the library beneath with these entries, numbered in order; ``<unk>`` stands for every other."""
    from tokenizers import Tokenizer, models

    return Tokenizer(models.WordLevel({entry: place for place, entry in enumerate(entries)}, unk_token=UNKNOWN))


def of_lines(backend: Tokenizer, max_length: int) -> PreTrainedTokenizerFast:
    """``backend`` for a causal model: ``<s>`` starts and ends a line and pads it on the left, and none is added."""
    marks = dict.fromkeys(("bos_token", "eos_token", "pad_token"), LINE_START)
    return fast_tokenizer(backend, max_length, padding_side="left", **marks)


def fast_tokenizer(backend: Tokenizer, max_length: int, **special: str) -> PreTrainedTokenizerFast:
    """``backend`` as transformers' tokenizer: special tokens are never added, nor found in text."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token=UNKNOWN,
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        **special,
    )
