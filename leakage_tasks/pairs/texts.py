"""Pairs from text: the tokens of every text, cut into windows of a prefix and a suffix.

A long text is tokenized in blocks; its tokens equal the tokens of the whole text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.core.arrays import IntArray, TokenIds
from leakage_tasks.core.errors import MissingOption, OptionError, SpaceError, Spelling, in_metadata
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.data import Columns, format_of
from leakage_tasks.pairs.pair import RawPairs, splits_named
from leakage_tasks.pairs.rendering import Rendering, rendered_rows

LENGTH = 50
"""Default number of tokens of a prefix and of a suffix, as in the Training Data Extraction Challenge."""
BATCH_TEXTS, BATCH_CHARACTERS = 1024, 1 << 20
Encode = Callable[[str], tuple[IntArray, IntArray]]
"""A function from a text to its token ids and the character at which each token starts, both of shape ``[n]``."""
SEAM = 4096
_PLAIN = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}


def read_texts(
    path: Path,
    prefix: int,
    suffix: int,
    tokenizer: str | None,
    column: str,
    stride: int | None = None,
    rendering: Rendering | None = None,
) -> list[RawPairs]:
    """Cut texts into windows of ``prefix`` + ``suffix`` tokens.

    Without ``stride``, windows are consecutive, and duplicates and incomplete windows are left out. With it, a window
    begins every ``stride`` tokens, the last window ends where its text ends, and duplicates are kept, so that the
    windows cover their text.

    Texts are tokenized without special tokens around them. A ``.txt`` file is one text; the turns of a chat are joined
    by line breaks to one text, or rendered.

    Args:
        path: The data.
        prefix: The number of tokens of a prefix.
        suffix: The number of tokens of a suffix.
        tokenizer: The folder or hub name of a tokenizer.
        column: The text column.
        stride: The number of tokens between the first tokens of two windows.
        rendering: The chat template that renders the rows, which are then conversations.

    Returns:
        The pairs of each split of the data.

    Raises:
        OptionError: If the tokenizer is missing or unusable, all texts are too short, or a row cannot be rendered.
        PlantingError: If the data cannot be read.
    """
    format_of(path)
    loaded = loaded_tokenizer(path, tokenizer)
    names = saved_splits(path)
    splits = splits_named(names, path) if names else {"train": None}
    seen: set[bytes] = set()
    parts: list[RawPairs] = []
    texts = 0
    for name, split in splits.items():
        tokens = tokens_of(path, Columns(column, None, name), loaded, str(tokenizer), rendering)
        width = prefix + suffix
        cut = _windows(tokens, width, seen) if stride is None else sliding_windows(tokens, width, stride)
        where = _where(path, name if names else None)
        parts.append(
            RawPairs(
                split, cut.tokens[:, :prefix], cut.tokens[:, prefix:], where, None, cut.documents + texts, cut.offsets
            )
        )
        texts += cut.texts
    if not any(map(len, parts)):
        raise OptionError(
            f"{path}: holds no text of {prefix + suffix} tokens, prefix_length={prefix} and suffix_length={suffix} "
            "together: lower the lengths, or give longer texts"
        )
    return parts


def loaded_tokenizer(
    data: str | Path,
    tokenizer: str | None,
    problem: str = "text is cut into pairs by tokens",
    spelling: Spelling = in_metadata,
) -> Any:
    """Load the tokenizer that cuts ``data``.

    Raises OptionError if it is missing or cannot be loaded. Then ``problem`` is the reason in the message, and
    ``spelling`` spells the option.
    """
    if tokenizer is None:
        raise MissingOption(
            subject=str(data),
            problem=problem,
            remedy="pass {} (folder or hub name)",
            option="tokenizer",
            spelling=spelling,
        )
    try:
        return load_tokenizer(tokenizer)
    except SpaceError as error:
        raise OptionError(str(error)) from None


def _where(path: Path, split: str | None) -> Any:
    prefix = f"{path}: " if split is None else f"{path} ({split}): "
    return lambda row: f"{prefix}window {row} (from 0)"


def saved_splits(path: Path) -> list[str]:
    """Return the splits of a folder that ``datasets`` saved with several splits, or an empty list."""
    listing = path / "dataset_dict.json"
    if not listing.is_file():
        return []
    try:
        return [str(name) for name in parse_json(read_text(listing))["splits"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise OptionError(f"{listing}: does not list the folder's splits: save it again with 'datasets'") from None


def tokens_of(
    path: Path, wanted: Columns, tokenizer: Any, name: str, rendering: Rendering | None = None
) -> Iterator[Iterable[TokenIds]]:
    """Yield the tokens of every text, in pieces; ``rendering`` renders the rows, which are then conversations."""
    reader = format_of(path)
    layout = reader.survey(path, wanted)
    texts: Iterator[str] = map("\n".join, reader.texts(path, layout, wanted))
    if rendering is not None:
        texts = rendered_rows(reader, path, layout, wanted, rendering)
    if not reader.running:
        yield from (([tokens]) for tokens in tokenize(tokenizer, texts))
        return
    if not tokenizer.is_fast:
        raise OptionError(f"tokenizer={name}: cannot map tokens to characters: use one with a tokenizer.json")
    yield running_tokens(located(tokenizer), texts)


def located(tokenizer: Any) -> Encode:
    """Return the function from a text to its token ids without special tokens, and the character of each."""

    def encode(text: str) -> tuple[IntArray, IntArray]:
        encoding = tokenizer(text, **_PLAIN, return_offsets_mapping=True)
        offsets = np.array(encoding["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        return np.array(encoding["input_ids"], dtype=np.int64), offsets[:, 0]

    return encode


def tokenize(tokenizer: Any, texts: Iterable[str]) -> Iterator[TokenIds]:
    """Yield the token ids of each text, ``[n]``, without special tokens."""
    batch: list[str] = []
    characters = 0

    def encoded() -> Iterator[TokenIds]:
        for tokens in tokenizer(batch, **_PLAIN)["input_ids"] if batch else ():
            yield np.array(tokens, dtype=np.int64)

    for text in texts:
        batch.append(text)
        characters += len(text)
        if len(batch) == BATCH_TEXTS or characters > BATCH_CHARACTERS:
            yield from encoded()
            batch, characters = [], 0
    yield from encoded()


class _Windows(NamedTuple):
    """Windows of texts, ``[n, width]``, with each window's text and its first token's number in it, ``[n]``.

    ``texts`` is the number of texts.
    """

    tokens: TokenIds
    documents: IntArray
    offsets: IntArray
    texts: int


def _windows(texts: Iterable[Iterable[TokenIds]], width: int, seen: set[bytes]) -> _Windows:
    """Return the new windows of each text and add them to ``seen``."""
    chunks = [np.zeros((0, width), dtype=np.int32)]
    places: list[tuple[int, int]] = []
    number = -1
    for number, pieces in enumerate(texts):
        rest, done = np.zeros(0, dtype=np.int32), 0
        for piece in pieces:
            rest = np.concatenate([rest, piece.astype(np.int32)])
            whole = len(rest) // width
            windows, rest = rest[: whole * width].reshape(whole, width), rest[whole * width :]
            new = [index for index, window in enumerate(windows) if is_new(window.tobytes(), seen)]
            chunks.append(windows[new])
            places += [(number, done + index * width) for index in new]
            done += whole * width
    located = np.array(places, dtype=np.int64).reshape(-1, 2)
    return _Windows(np.concatenate(chunks), located[:, 0], located[:, 1], number + 1)


def sliding_windows(texts: Iterable[Iterable[TokenIds]], width: int, stride: int) -> _Windows:
    """Return a window every ``stride`` tokens of each text, and the window at its end if the text goes on after them.

    Each text comes in pieces.
    """
    chunks = [np.zeros((0, width), dtype=np.int32)]
    places: list[tuple[int, int]] = []
    number = -1
    for number, pieces in enumerate(texts):
        # ``rest`` holds the tokens from position ``first`` on that a later window may need.
        rest, first, following = np.zeros(0, dtype=np.int32), 0, 0
        for piece in pieces:
            rest = np.concatenate([rest, piece.astype(np.int32)])
            starts = np.arange(following, first + len(rest) - width + 1, stride)
            if len(starts):
                chunks.append(sliding_window_view(rest, width)[starts - first].copy())
                places += [(number, int(start)) for start in starts]
                following = int(starts[-1]) + stride
            kept = max(0, min(following - first, len(rest) - width))
            rest, first = rest[kept:], first + kept
        end = first + len(rest) - width
        if end >= 0 and (following == 0 or following - stride < end):
            chunks.append(rest[-width:][None])
            places.append((number, end))
    located = np.array(places, dtype=np.int64).reshape(-1, 2)
    return _Windows(np.concatenate(chunks), located[:, 0], located[:, 1], number + 1)


def is_new(window: bytes, seen: set[bytes]) -> bool:
    """Return True for the first occurrence of a window's bytes; ``seen`` holds the digests of earlier windows."""
    digest = hashlib.blake2b(window, digest_size=16).digest()
    before = len(seen)
    seen.add(digest)
    return len(seen) > before


def running_tokens(encode: Encode, blocks: Iterable[str], seam: int = SEAM) -> Iterator[IntArray]:
    """Yield the token ids of the text that ``blocks`` form, in pieces.

    Each block is tokenized together with the last ``seam`` characters before it. The old tokenization is used up to the
    middle of this overlap, the new one from there on. Both must agree around the middle, token by token; otherwise the
    two blocks are tokenized together. The result equals the tokenization of the whole text unless a token depends on
    characters further away.
    """
    text, first = "", 0
    ids = starts = np.zeros(0, dtype=np.int64)
    for block in blocks:
        context = text[-seam:]
        encoding = encode(context + block)
        meeting = _common_token((ids, starts - (len(text) - len(context))), encoding, len(context))
        if meeting is None:
            resumed = starts[first] if first < len(starts) else 0
            text += block
            ids, starts = encode(text) if context else encoding
            first = int(np.searchsorted(starts, resumed))
            continue
        yield ids[first : meeting[0]]
        text, (ids, starts), first = context + block, encoding, meeting[1]
    yield ids[first:]


def _common_token(old: tuple[IntArray, IntArray], new: tuple[IntArray, IntArray], seam: int) -> tuple[int, int] | None:
    """Return the index of a common token in each of two tokenizations, or None if they differ.

    Both tokens start at one character, and all tokens in the middle half of the overlap are equal.
    """
    ends = (seam // 4, seam - seam // 4)
    (old_from, old_to), (new_from, new_to) = (np.searchsorted(starts, ends) for _, starts in (old, new))
    if old_from == old_to or any(
        not np.array_equal(left[old_from:old_to], right[new_from:new_to]) for left, right in zip(old, new, strict=True)
    ):
        return None
    return int(old_from), int(new_from)
