"""The documents of a corpus as token ids, from any data that ``leakage plant`` reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakage_tasks.core.arrays import TokenIds
from leakage_tasks.core.errors import OptionError, PlantingError, Spelling
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.data import Columns
from leakage_tasks.data.hub import hub_shards, is_hub
from leakage_tasks.data.shards import shards_of
from leakage_tasks.pairs.texts import loaded_tokenizer, saved_splits, tokens_of

PROBE = "The 3 quick-brown foxes\n\tsaid: “naïve café”, 12,345.67 — 日本語 <b>x</b> fi."
"""Text whose tokens, with the vocabulary, identify a tokenizer."""


@dataclass(frozen=True)
class IndexSource:
    """A corpus and the options that read it."""

    data: str
    """A file, a folder of files, a folder saved by ``datasets``, or ``hub:owner/name``."""
    tokenizer: str | None
    """Folder or hub name of the tokenizer."""
    text_column: str = "text"
    split: str | None = None
    """The split of a saved folder (default: all) or of a hub data set (default: train)."""


def read_tokenizer_named(corpus: IndexSource, spelling: Spelling) -> Any:
    """Return the tokenizer of a corpus. Raises MissingOption without a name, OptionError if it cannot be loaded."""
    return loaded_tokenizer(corpus.data, corpus.tokenizer, "an index holds tokens", spelling)


def tokenizer_hash(encode: Callable[[str], Sequence[int]], vocabulary: dict[str, int] | None) -> str:
    """Return the SHA-256 of a tokenizer's vocabulary and of the tokens that it gives a fixed text.

    Its settings for padding and truncation change with use and do not count.
    """
    known = sorted((vocabulary or {}).items())
    return hashlib.sha256(json.dumps([known, list(encode(PROBE))]).encode()).hexdigest()


def hash_of_tokenizer(tokenizer: Any) -> str:
    """Return :func:`tokenizer_hash` of a tokenizer of `transformers`."""
    return tokenizer_hash(
        lambda text: tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], tokenizer.get_vocab()
    )


def documents_of(corpus: IndexSource, tokenizer: Any, spelling: Spelling) -> Iterator[Iterable[TokenIds]]:
    """Yield the tokens of each document of a corpus, in pieces, in the order of the data.

    A row is a document; a ``.txt`` file is one document; the turns of a chat are joined by line breaks.

    Args:
        corpus: The corpus.
        tokenizer: Its tokenizer.
        spelling: Spells options in messages.

    Raises:
        OptionError: The data cannot be read.
    """
    try:
        with ExitStack() as stack:
            for path, split in _paths(corpus, stack):
                name = corpus.tokenizer or ""
                yield from tokens_of(path, Columns(corpus.text_column, None, split), tokenizer, name)
    except PlantingError as error:
        raise error.spelled(spelling, OptionError) from None


def _paths(corpus: IndexSource, stack: ExitStack) -> Iterator[tuple[Path, str]]:
    """Yield each file or data set of a corpus with its split."""
    source = Path(corpus.data)
    if is_hub(source):
        wanted = Columns(corpus.text_column, None, corpus.split or "train")
        shards = hub_shards(source, wanted, stack.enter_context(temporary_folder()))
        yield from ((shards.path(name), wanted.split) for name in shards.names)
        return
    found = shards_of(source)
    for name in found.names:
        path = found.path(name)
        splits = saved_splits(path) or ["train"]
        if corpus.split is not None and corpus.split not in splits:
            raise OptionError(f"{path}: no split {corpus.split!r} (it has {', '.join(splits)}): name one of these")
        yield from ((path, split) for split in splits if corpus.split in (None, split))
