"""A tokenizer with one token a word, for the word-level models of The Secret Sharer's Section 7.3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from transformers import PreTrainedTokenizerFast

from leakage_tasks.models.char_tokenizer import LINE_START, UNKNOWN, of_lines, word_level

LINE_BREAK = "\n"


def word_tokenizer(
    text: str, most: int = 10_000, *, always: Iterable[str] = (), max_length: int = 2048
) -> PreTrainedTokenizerFast:
    """A tokenizer over the ``most`` commonest words of ``text``; words are what stands between white space.

    Those in ``always`` are known however rare, and come on top: a canary's, say, with all the values of its slots.

    Ids: 0 is ``<s>`` (start of line, end and padding in one), 1 is ``<unk>`` (every other word), 2 the line break, then
    the words of the text, the commonest first (of equally common ones the first in the text), then the rest of
    ``always``. A word that reads
    ``<s>`` or ``<unk>`` is that token. Words are decoded with one space between them and none around a line break,
    so decode(encode(x)) == x for every text of known words that is spaced so.
    """
    from tokenizers import Regex, decoders, pre_tokenizers

    special = [LINE_START, UNKNOWN, LINE_BREAK]
    counted = Counter(word for word in text.split() if word not in special)
    backend = word_level(dict.fromkeys([*special, *(word for word, _ in counted.most_common(most)), *always]))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[^\S\n]+"), behavior="removed"),
            pre_tokenizers.Split(LINE_BREAK, behavior="isolated"),
        ]
    )
    # A WordPiece decoder puts spaces between words; no word begins with its mark of a continuation, white space.
    spaced = decoders.WordPiece(prefix=" ", cleanup=False)
    backend.decoder = decoders.Sequence([spaced, decoders.Fuse(), decoders.Replace(Regex(" ?\n ?"), LINE_BREAK)])
    return of_lines(backend, max_length)
