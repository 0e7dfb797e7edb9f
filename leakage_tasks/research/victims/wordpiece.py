"""A WordPiece tokenizer like BERT's, trained on local text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from transformers import BertTokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_wordpiece(texts: Iterable[str], *, vocabulary: int = 8_000, words: Iterable[str] = ()) -> BertTokenizer:
    """Train a BERT tokenizer of at most ``vocabulary`` entries on ``texts``, with upper and lower case.

    ``words`` become whole tokens in any case. Equal texts and words give equal vocabularies, in equal order. Raises
    OptionError for a word that the pre-tokenizer would split, and for a vocabulary too small for the special tokens,
    the characters and the words.
    """
    from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer
    from transformers import BertTokenizer

    learner = BertWordPieceTokenizer(lowercase=False)

    def pieces(text: str) -> list[str]:
        return [piece for piece, _ in learner.pre_tokenizer.pre_tokenize_str(learner.normalize(text))]

    texts, required = list(texts), list(dict.fromkeys(words))
    for word in required:
        if pieces(word) != [word]:
            raise OptionError(f"word {word!r} cannot be one token of this tokenizer: use single words")
    characters = sorted({character for text in (*texts, *required) for piece in pieces(text) for character in piece})
    # The trainer numbers ``##`` characters in the order of a hash table, which differs from run to run, and breaks ties
    # between merges by number. As special tokens they get fixed numbers.
    fixed = [*SPECIAL, *(f"##{character}" for character in characters)]
    fewest = len(fixed) + len(characters) + len(required)
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
    # The trainer merges the commonest pieces first, so the words replace the last pieces.
    missing = [word for word in required if word not in learnt[: vocabulary - len(required)]]
    entries = dict.fromkeys([*learnt[: vocabulary - len(missing)], *missing])
    return BertTokenizer(vocab={entry: index for index, entry in enumerate(entries)}, do_lower_case=False)
