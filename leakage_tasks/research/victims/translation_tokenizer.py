"""A tokenizer for translation: whole words, with every digit and every mark a token of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
DIGITS = "0123456789"
_PIECE = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]|\s"


def translation_tokenizer(
    sentences: Iterable[str], *, most: int | None = None, always: Iterable[str] = (), max_length: int = 128
) -> PreTrainedTokenizerFast:
    """A tokenizer over the words, digits and marks of ``sentences``, each with the space before it or without.

    The ``most`` commonest are known (None: all). Those in ``always``, and the ten digits, are known however rare, with
    a space before them and without: a canary's words, say. Ids: 0 is ``<pad>`` (padding, and what a decoder begins
    with), 1 is ``</s>`` (put after every sentence), 2 is ``<unk>`` (everything else), then the entries, the commonest
    first. No space is lost, so decode(encode(x)) == x for every text of known entries, special tokens left out.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    split = pre_tokenizers.Split(Regex(_PIECE), behavior="isolated")
    counted = Counter(piece for sentence in sentences for piece, _ in split.pre_tokenize_str(sentence))
    both = [form for word in (*always, *DIGITS) for form in (word, f" {word}")]
    asked = [piece for form in both for piece, _ in split.pre_tokenize_str(form)]
    entries = dict.fromkeys([PAD, END, UNKNOWN, *(piece for piece, _ in counted.most_common(most)), *asked])
    backend = Tokenizer(models.WordLevel({entry: place for place, entry in enumerate(entries)}, unk_token=UNKNOWN))
    backend.pre_tokenizer = split
    backend.decoder = decoders.Fuse()
    backend.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
    )
