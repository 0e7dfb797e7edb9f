"""A lossless tokenizer with one token per character."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

LINE_START = "<s>"
UNKNOWN = "<unk>"


def char_tokenizer(alphabet: Iterable[str], *, max_length: int = 2048) -> PreTrainedTokenizerFast:
    """Return a tokenizer over the distinct characters of ``alphabet``, which may be any text.

    Ids: 0 is ``<s>`` (start of line, end of line and padding), 1 is ``<unk>`` (every other character), then the
    alphabet in code point order. Special tokens are never added to a text nor recognized in it: the text ``<s>`` is
    encoded as three characters. So decode(encode(x)) == x for every text over the alphabet.
    """
    from tokenizers import Regex, decoders, pre_tokenizers

    backend = word_level_backend([LINE_START, UNKNOWN, *sorted(set(alphabet))])
    # [\s\S] instead of a dot: a line break is an ordinary character.
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return line_tokenizer(backend, max_length)


def word_level_backend(entries: Iterable[str]) -> Tokenizer:
    """Return a tokenizer of the `tokenizers` library with these entries in order; other words become ``<unk>``."""
    from tokenizers import Tokenizer, models

    return Tokenizer(models.WordLevel({entry: index for index, entry in enumerate(entries)}, unk_token=UNKNOWN))


def line_tokenizer(backend: Tokenizer, max_length: int) -> PreTrainedTokenizerFast:
    """Wrap ``backend`` for a causal model: ``<s>`` is the start, end and left padding of a line, never added."""
    marks = dict.fromkeys(("bos_token", "eos_token", "pad_token"), LINE_START)
    return fast_tokenizer(backend, max_length, padding_side="left", **marks)


def fast_tokenizer(backend: Tokenizer, max_length: int, **special: str) -> PreTrainedTokenizerFast:
    """Wrap ``backend`` as a tokenizer of transformers. Special tokens are never added nor recognized in text."""
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
