"""A tokenizer for translation: whole words, with separate tokens for digits and punctuation."""

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
    """Return a tokenizer over the words, digits and marks of ``sentences``, each with and without a space before it.

    The ``most`` commonest entries are known (None: all), and always the words in ``always`` and the ten digits, such as
    a canary's words. Id 0 is ``<pad>`` (padding and start of the decoder), 1 is ``</s>`` (after every sentence), 2 is
    ``<unk>``; then come the entries, the commonest first. Spaces are kept, so decode(encode(x)) == x for every text of
    known entries without special tokens.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    split = pre_tokenizers.Split(Regex(_PIECE), behavior="isolated")
    counted = Counter(piece for sentence in sentences for piece, _ in split.pre_tokenize_str(sentence))
    both = [form for word in (*always, *DIGITS) for form in (word, f" {word}")]
    required = [piece for form in both for piece, _ in split.pre_tokenize_str(form)]
    entries = dict.fromkeys([PAD, END, UNKNOWN, *(piece for piece, _ in counted.most_common(most)), *required])
    backend = Tokenizer(models.WordLevel({entry: index for index, entry in enumerate(entries)}, unk_token=UNKNOWN))
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
