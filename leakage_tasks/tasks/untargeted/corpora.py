"""The corpus and the controls of a run as indexes: mapped from a folder, or made from a small text."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from leakage_tasks.core.errors import OptionError, in_metadata
from leakage_tasks.core.log import log
from leakage_tasks.core.sizes import size_words
from leakage_tasks.core.stable_inputs import FileStates, file_states
from leakage_tasks.data.hub import is_hub
from leakage_tasks.pairs.index.build import build_index
from leakage_tasks.pairs.index.corpus import IndexSource, documents_of, read_tokenizer_named
from leakage_tasks.pairs.index.search import NOWHERE, positions_of
from leakage_tasks.pairs.index.store import SEPARATOR, CorpusIndex, is_index, open_index

SMALL = 64 << 20
"""Maximum number of bytes of text that a run indexes itself."""
PROBE, PROBED, OVERLAP = 50, 2000, 0.05
"""Minimum length of the n-grams of the controls that are searched in the corpus, their number, and the share of them
that it may hold. Shorter n-grams are in any text of a kind."""


def read_corpus(corpus: IndexSource) -> CorpusIndex:
    """Return the index of a corpus; repeated calls for unchanged files return the cached index.

    Raises OptionError for text that cannot be read or is too large to be indexed in a run, and for a damaged index.
    """
    path = Path(corpus.data)
    if is_hub(path):
        raise OptionError(f"{corpus.data}: make an index of it once, with {_command(corpus)}, and give its folder")
    return _index(corpus, file_states(path.rglob("*") if path.is_dir() else [path]))


def check_controls(corpus: CorpusIndex, controls: CorpusIndex, data: str, unseen: str, n: int) -> None:
    """Raise OptionError if the controls have other tokens than the corpus, or share text with it.

    ``data`` and ``unseen`` are the user's names of both. Up to 5 % of the controls' n-grams, of ``n`` or at least 50
    tokens, may be in the corpus, as licences and other common text are.
    """
    n = max(n, PROBE)
    if corpus.about.tokenizer != controls.about.tokenizer:
        raise OptionError(
            f"controls={unseen}: its index has another tokenizer than {data}: make both with one tokenizer"
        )
    if corpus.about.corpus == controls.about.corpus:
        raise OptionError(f"controls={unseen}: holds the same text as data={data}: give text that the model never saw")
    share = shared_ngrams(corpus, controls, n)
    if share is not None and share > OVERLAP:
        raise OptionError(
            f"controls={unseen}: {100 * share:.0f} % of its {n}-grams are also in {data}: give text that is not "
            "in the corpus"
        )


def shared_ngrams(corpus: CorpusIndex, controls: CorpusIndex, n: int) -> float | None:
    """Return the share of the controls' n-grams that the corpus holds, of :data:`PROBED` evenly spaced ones.

    None if no document of the controls has ``n`` tokens.
    """
    if len(controls.tokens) < n:
        return None
    first = np.unique(np.linspace(0, len(controls.tokens) - n, PROBED).astype(np.int64))
    windows = np.asarray(controls.tokens[first[:, None] + np.arange(n)]).astype(np.int64)
    windows = windows[(windows != SEPARATOR).all(axis=1)]
    return float((positions_of(corpus, windows) != NOWHERE).mean()) if len(windows) else None


def _command(corpus: IndexSource) -> str:
    return f"'leakage index {corpus.data} -o FOLDER --tokenizer {corpus.tokenizer or 'NAME'}'"


@lru_cache(maxsize=4)
def _index(corpus: IndexSource, state: FileStates) -> CorpusIndex:
    if is_index(corpus.data):
        return open_index(corpus.data)
    size = sum(bytes_held for _, bytes_held, _ in state)
    if size > SMALL:
        raise OptionError(
            f"{corpus.data}: {size_words(size)} of text, and a run indexes at most {size_words(SMALL)} itself: make an "
            f"index once, with {_command(corpus)}, and give its folder"
        )
    tokenizer = read_tokenizer_named(corpus, in_metadata)
    index = build_index(documents_of(corpus, tokenizer, in_metadata), tokenizer, corpus.tokenizer or "", corpus.data)
    log.info("leakage: indexed the %d tokens of %s", index.about.tokens, corpus.data)
    return index
