"""A tokenizer with one token per word, for the word-level models of The Secret Sharer, Section 7.3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from transformers import PreTrainedTokenizerFast

from leakage_tasks.models.char_tokenizer import LINE_START, UNKNOWN, line_tokenizer, word_level_backend

LINE_BREAK = "\n"


def word_tokenizer(
    text: str, most: int = 10_000, *, always: Iterable[str] = (), max_length: int = 2048
) -> PreTrainedTokenizerFast:
    """Return a tokenizer over the ``most`` most frequent words of ``text``, separated by white space.

    Ids: 0 is ``<s>`` (start of line, end of line and padding), 1 is ``<unk>`` (every other word), 2 the line break,
    then the words of the text by decreasing frequency (ties in order of appearance), then the remaining words of
    ``always``. The words ``<s>`` and ``<unk>`` are encoded as these tokens. Decoding puts one space between words and
    no space around a line break, so decode(encode(x)) == x for every text of known words with this spacing.

    Args:
        text: The text whose words are counted.
        most: Number of most frequent words in the vocabulary.
        always: Words that are added to the vocabulary regardless of frequency, such as a canary's words and the values
            of its slots.
        max_length: The tokenizer's ``model_max_length``.

    Returns:
        The tokenizer.
    """
    from tokenizers import Regex, decoders, pre_tokenizers

    special = [LINE_START, UNKNOWN, LINE_BREAK]
    counted = Counter(word for word in text.split() if word not in special)
    backend = word_level_backend(dict.fromkeys([*special, *(word for word, _ in counted.most_common(most)), *always]))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[^\S\n]+"), behavior="removed"),
            pre_tokenizers.Split(LINE_BREAK, behavior="isolated"),
        ]
    )
    # A WordPiece decoder puts spaces between words. Its prefix of continuations is a space, which no word begins with.
    spaced = decoders.WordPiece(prefix=" ", cleanup=False)
    backend.decoder = decoders.Sequence([spaced, decoders.Fuse(), decoders.Replace(Regex(" ?\n ?"), LINE_BREAK)])
    return line_tokenizer(backend, max_length)
