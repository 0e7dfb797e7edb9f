"""Pairs for a model to memorize: the public pairs with a reduced vocabulary, or pieces of Python's help."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.research.victims.cut_tokenizer import END, byte_level_tokenizer, cut_tokenizer
from leakage_tasks.training.rows import check_sizes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAIR_FILES = "train_prefix.npy", "train_suffix.npy"
_SMALLEST_VOCABULARY = 257
"""All bytes and ``<|endoftext|>``."""


@dataclass(frozen=True)
class PairCorpus:
    """Prefixes [pairs, prefix length] and their suffixes [pairs, suffix length], as ids of ``tokenizer``.

    All prefixes differ, and all suffixes differ. ``filler`` [rows, any length] is other text of this kind that can
    precede a pair; no row has a pair's prefix or suffix at a pair's position.
    """

    prefixes: np.ndarray
    suffixes: np.ndarray
    tokenizer: PreTrainedTokenizerFast
    filler: np.ndarray

    def __len__(self) -> int:
        return len(self.prefixes)

    def save(self, folder: str | Path) -> None:
        """Write the pairs to ``folder`` in the public format: ``train_prefix.npy`` and ``train_suffix.npy``, uint16.

        An older folder is replaced completely. Raises LeakageError if it cannot be written, OptionError for a
        vocabulary beyond 65,536.
        """
        if len(self.tokenizer) > 1 << 16:
            raise OptionError(f"a vocabulary of {len(self.tokenizer)} does not fit uint16: use 65536 tokens or fewer")
        with replacing(folder) as temporary:
            temporary.mkdir()
            for name, rows in zip(PAIR_FILES, (self.prefixes, self.suffixes), strict=True):
                np.save(temporary / name, rows.astype(np.uint16), allow_pickle=False)


def public_pairs(count: int, seed: int = 0, data: str | Path | None = None) -> PairCorpus:
    """Return ``count`` of the 15,000 public pairs of 50 + 50 tokens, drawn at random, with a reduced vocabulary.

    ``data`` is the folder with ``lm_extraction/`` and ``gpt2/``, by default LEAKAGE_DATA. At most one of several pairs
    with a common prefix or suffix is drawn. GPT-2's vocabulary is reduced to the drawn pairs. The filler is all other
    pairs that this vocabulary covers (about a third); as they come from one collection of web pages, a filler may
    overlap a drawn pair. Raises LeakageError if the data are missing, OptionError if there are fewer pairs.
    """
    check_sizes(count=count)
    data_folder = data or os.environ.get("LEAKAGE_DATA")
    if not data_folder:
        raise LeakageError("the public pairs are missing: set LEAKAGE_DATA to a folder with lm_extraction/ and gpt2/")
    folder = Path(data_folder)
    prefixes, suffixes = (_public_rows(folder / "lm_extraction" / name) for name in PAIR_FILES)
    distinct = _distinct(prefixes, suffixes)
    if count > len(distinct):
        raise OptionError(
            f"count is {count}: there are {len(distinct)} different public pairs; use that number or fewer"
        )
    chosen = np.random.default_rng([seed, count]).choice(distinct, count, replace=False)
    cut = cut_tokenizer(folder / "gpt2", (prefixes[chosen], suffixes[chosen]))
    rest = np.concatenate([prefixes, suffixes], axis=1)[_others(prefixes, suffixes, chosen)]
    return PairCorpus(
        cut.renumber(prefixes[chosen]),
        cut.renumber(suffixes[chosen]),
        cut.tokenizer,
        cut.renumber(rest[cut.covers(rest).all(axis=1)]),
    )


def own_pairs(
    count: int, prefix_length: int = 50, suffix_length: int = 50, vocabulary: int = 1_000, seed: int = 0
) -> PairCorpus:
    """Return ``count`` pieces of Python's help text as pairs, with a byte-level BPE of ``vocabulary`` tokens.

    The BPE is learnt from the text, which is cut into pieces of ``prefix_length + suffix_length`` tokens. Pairs are
    drawn from them at random; the other pieces are the filler. Equal Python versions and arguments give equal pairs.
    Raises OptionError for a vocabulary smaller than the bytes, or for more pairs than half the pieces.
    """
    from leakage_tasks.research.victims.corpus import pydoc_topics

    check_sizes(count=count, prefix_length=prefix_length, suffix_length=suffix_length)
    text = pydoc_topics(held_out=0.0).training
    tokenizer = train_byte_level(text, vocabulary)
    ids = np.array(tokenizer.encode(text, verbose=False), dtype=np.int64)
    length = prefix_length + suffix_length
    pieces = ids[: len(ids) // length * length].reshape(-1, length)
    prefixes, suffixes = pieces[:, :prefix_length], pieces[:, prefix_length:]
    distinct = _distinct(prefixes, suffixes)
    if count > len(distinct) // 2:
        raise OptionError(
            f"count is {count}: the help text yields {len(distinct) // 2} pairs of {length} tokens at most"
        )
    chosen = np.random.default_rng([seed, count]).choice(distinct, count, replace=False)
    return PairCorpus(prefixes[chosen], suffixes[chosen], tokenizer, pieces[_others(prefixes, suffixes, chosen)])


def train_byte_level(text: str, vocabulary: int) -> PreTrainedTokenizerFast:
    """Learn a byte-level BPE of at most ``vocabulary`` tokens from ``text``; equal texts give equal tokenizers.

    Raises OptionError for a vocabulary smaller than the bytes and ``<|endoftext|>``.
    """
    from tokenizers.implementations.byte_level_bpe import ByteLevelBPETokenizer

    if vocabulary < _SMALLEST_VOCABULARY:
        raise OptionError(f"vocabulary is {vocabulary}: use {_SMALLEST_VOCABULARY} or more, which covers every byte")
    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator(iter([text]), vocabulary, min_frequency=0, show_progress=False, special_tokens=[END])
    state = json.loads(learner.to_str())["model"]
    return byte_level_tokenizer(state["vocab"], [(left, right) for left, right in state["merges"]])


def _distinct(prefixes: np.ndarray, suffixes: np.ndarray) -> np.ndarray:
    """Return the rows that are the first with their prefix and with their suffix, in order."""
    first, second = (np.unique(rows, axis=0, return_index=True)[1] for rows in (prefixes, suffixes))
    return np.intersect1d(first, second)


def _others(prefixes: np.ndarray, suffixes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return [rows] True for each row that shares neither prefix nor suffix with a chosen row."""
    free = np.ones(len(prefixes), dtype=bool)
    for rows in (prefixes, suffixes):
        kind = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        free &= ~np.isin(kind, kind[chosen])
    return free


def _public_rows(path: Path) -> np.ndarray:
    try:
        rows = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LeakageError(
            f"{path}: the public pairs cannot be read ({error}): set LEAKAGE_DATA to a folder with lm_extraction/ in it"
        ) from None
    return rows.astype(np.int64)
