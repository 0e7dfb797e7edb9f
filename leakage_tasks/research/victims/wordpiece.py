"""A WordPiece tokenizer of BERT's kind, trained on a text at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    from transformers import BertTokenizer

    blank = BertTokenizer(do_lower_case=lowercase)
    texts = list(texts)
    kept = _single_words(blank, words)
    characters = _characters(blank, [*texts, *kept])
    fixed = [*SPECIAL, *(f"##{character}" for character in characters)]
    fewest = len(fixed) + len(characters) + len(kept)
    if vocabulary < fewest:
        raise OptionError(f"vocabulary is {vocabulary}: these texts and words need {fewest} at least")
    learnt = _learn(blank, texts, fixed, characters, vocabulary)
    # The trainer merges the commonest pieces first, so what it added last is what makes way for the words.
    missing = [word for word in kept if word not in learnt[: vocabulary - len(kept)]]
    entries = dict.fromkeys([*learnt[: vocabulary - len(missing)], *missing])
    return BertTokenizer(vocab={entry: place for place, entry in enumerate(entries)}, do_lower_case=lowercase)


def _learn(
    blank: BertTokenizer, texts: Sequence[str], fixed: Sequence[str], characters: Sequence[str], vocabulary: int
) -> list[str]:
    """The learnt vocabulary in order: ``fixed``, ``characters``, then longer pieces as they were merged.

    The trainer numbers ``##`` characters in the order of a hash table that differs from run to run, and breaks ties
    between merges by number: naming them as special tokens gives them numbers of ours.
    """
    from tokenizers import Tokenizer, models, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = blank.backend_tokenizer.normalizer
    tokenizer.pre_tokenizer = blank.backend_tokenizer.pre_tokenizer
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=list(fixed),
        initial_alphabet=list(characters),
        limit_alphabet=len(characters),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    learnt: dict[str, int] = tokenizer.get_vocab()
    return sorted(learnt, key=lambda entry: learnt[entry])


def _single_words(blank: BertTokenizer, words: Iterable[str]) -> list[str]:
    kept = list(dict.fromkeys(words))
    for word in kept:
        if _pieces(blank, word) != [word]:
            raise OptionError(f"word {word!r} cannot be one token of this tokenizer: give single words in its case")
    return kept


def _characters(blank: BertTokenizer, texts: Iterable[str]) -> list[str]:
    return sorted({character for text in texts for piece in _pieces(blank, text) for character in piece})


def _pieces(blank: BertTokenizer, text: str) -> list[str]:
    backend = blank.backend_tokenizer
    return [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))]
