"""A WordPiece tokenizer of BERT's kind, trained on a text at hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from transformers import BertTokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_wordpiece(
    texts: Iterable[str], *, vocabulary: int = 8_000, words: Iterable[str] = (), lowercase: bool = False
) -> BertTokenizer:
    """A BERT tokenizer of ``vocabulary`` entries at most, learnt from ``texts``; cased unless ``lowercase``.

    ``words`` become whole tokens whatever the texts say. The same texts and words give the same vocabulary, in the
    same order. Raises OptionError on a word that the pre-tokenizer would take apart and on a vocabulary too
    small for the special tokens, the characters and the words.
    """
    from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer
    from transformers import BertTokenizer

    learner = BertWordPieceTokenizer(lowercase=lowercase)

    def pieces(text: str) -> list[str]:
        return [piece for piece, _ in learner.pre_tokenizer.pre_tokenize_str(learner.normalize(text))]

    texts, kept = list(texts), list(dict.fromkeys(words))
    for word in kept:
        if pieces(word) != [word]:
            raise OptionError(f"word {word!r} cannot be one token of this tokenizer: give single words in its case")
    characters = sorted({character for text in (*texts, *kept) for piece in pieces(text) for character in piece})
    # The trainer numbers ``##`` characters in the order of a hash table that differs from run to run, and breaks ties
    # between merges by number: naming them as special tokens gives them numbers of ours.
    fixed = [*SPECIAL, *(f"##{character}" for character in characters)]
    fewest = len(fixed) + len(characters) + len(kept)
    if vocabulary < fewest:
        raise OptionError(f"vocabulary is {vocabulary}: these texts and words need {fewest} at least")
    learner.train_from_iterator(
        iter(texts),
        vocab_size=vocabulary,
        min_frequency=0,
        limit_alphabet=len(characters),
        initial_alphabet=characters,
        special_tokens=list(fixed),
        show_progress=False,
    )
    numbers = learner.get_vocab()
    learnt = sorted(numbers, key=numbers.__getitem__)
    # The trainer merges the commonest pieces first, so what it added last is what makes way for the words.
    missing = [word for word in kept if word not in learnt[: vocabulary - len(kept)]]
    entries = dict.fromkeys([*learnt[: vocabulary - len(missing)], *missing])
    return BertTokenizer(vocab={entry: place for place, entry in enumerate(entries)}, do_lower_case=lowercase)
