"""GPT-2's tokenizer reduced to the tokens of some data, so that small models need a smaller vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.inputs import parse_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

END = "<|endoftext|>"


@dataclass(frozen=True)
class CutTokenizer:
    """A reduced tokenizer. ``new_ids`` [GPT-2's vocabulary] maps old ids to new ids, −1 for removed tokens."""

    tokenizer: PreTrainedTokenizerFast
    new_ids: np.ndarray

    def covers(self, ids: np.ndarray) -> np.ndarray:
        """Return True for each of ``ids`` (GPT-2's, any shape) that was not removed."""
        return np.asarray(self.new_ids[ids] >= 0)

    def renumber(self, ids: np.ndarray) -> np.ndarray:
        """Return ``ids`` (GPT-2's, any shape) in the reduced vocabulary. Raises OptionError if one was removed."""
        renumbered = np.asarray(self.new_ids[ids])
        if (renumbered < 0).any():
            lost = int(np.asarray(ids)[renumbered < 0][0])
            raise OptionError(f"token {lost} was removed: build the tokenizer from data that contain it")
        return renumbered


def cut_tokenizer(folder: str | Path, arrays: Iterable[np.ndarray]) -> CutTokenizer:
    """Return a byte-level BPE of the tokens in ``arrays`` (GPT-2's ids), of their parts, and of all bytes.

    ``folder`` contains GPT-2's ``vocab.json`` and ``merges.txt``. Ids are renumbered without gaps, in GPT-2's order. A
    text of remaining tokens is split as GPT-2 splits it: each token has one merge, all merges that lead to it remain in
    order, and removed merges could only apply later. Other texts are split into smaller pieces, single bytes at worst.
    Raises LeakageError if the files cannot be read, OptionError for an id beyond them.
    """
    vocabulary, merges = read_gpt2(folder)
    words = {number: token for token, number in vocabulary.items()}
    needed = sorted({int(number) for array in arrays for number in np.unique(array)})
    if beyond := [number for number in needed if number not in words]:
        raise OptionError(f"token {beyond[0]} is beyond GPT-2's vocabulary of {len(words)}: use GPT-2's token ids")
    tokens = _with_ancestors({words[number] for number in needed}, merges)
    tokens |= {END, *(token for token in vocabulary if len(token) == 1)}
    order = sorted(tokens, key=vocabulary.__getitem__)
    new_ids = np.full(max(words) + 1, -1, dtype=np.int64)
    new_ids[[vocabulary[token] for token in order]] = np.arange(len(order))
    remaining_merges = [merge for merge in merges if "".join(merge) in tokens]
    return CutTokenizer(
        byte_level_tokenizer({token: index for index, token in enumerate(order)}, remaining_merges), new_ids
    )


def gpt2_tokenizer(folder: str | Path) -> PreTrainedTokenizerFast:
    """Return GPT-2's complete tokenizer from ``vocab.json`` and ``merges.txt`` in ``folder``.

    Raises LeakageError without them.
    """
    return byte_level_tokenizer(*read_gpt2(folder))


def byte_level_tokenizer(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> PreTrainedTokenizerFast:
    """Return a tokenizer that splits texts as GPT-2 does and merges bytes by ``merges``, the first ones first.

    ``<|endoftext|>``, which must be in ``vocabulary``, starts, ends and pads.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE(vocab=dict(vocabulary), merges=list(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        clean_up_tokenization_spaces=False,
    )


def read_gpt2(folder: str | Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the ids by token and the ordered merges from ``vocab.json`` and ``merges.txt``.

    Raises LeakageError if they cannot be read, have another format, or do not belong together.
    """
    names = Path(folder) / "vocab.json", Path(folder) / "merges.txt"
    try:
        vocabulary: dict[str, int] = parse_json(names[0].read_text(encoding="utf-8"))
        lines = names[1].read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise LeakageError(
            f"{folder}: GPT-2's tokenizer cannot be read ({error}): copy its vocab.json and merges.txt there"
        ) from None
    _check_vocabulary(names[0], vocabulary)
    merges = list(_merges(names[1], lines))
    for merge in merges:
        if not {*merge, "".join(merge)} <= vocabulary.keys():
            raise LeakageError(f"{names[1]}: merges {merge!r}, which {names[0].name} lacks: use GPT-2's files")
    return vocabulary, merges


def _check_vocabulary(path: Path, vocabulary: Any) -> None:
    """Raise LeakageError unless tokens have ids from 0 without gaps and include the end token."""
    tokens = vocabulary if isinstance(vocabulary, dict) else {}
    whole = all(type(number) is int for number in tokens.values())
    if END not in tokens or not whole or sorted(tokens.values()) != list(range(len(tokens))):
        raise LeakageError(f"{path}: expected tokens numbered from 0, including {END}: use GPT-2's file")


def _merges(path: Path, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise LeakageError(f"{path}, line {number}: expected two tokens separated by a space: use GPT-2's file")
        yield parts[0], parts[1]


def _with_ancestors(tokens: set[str], merges: Iterable[tuple[str, str]]) -> set[str]:
    """Return ``tokens`` and, recursively, the two parts that each token is merged from."""
    parts = {"".join(merge): merge for merge in merges}
    complete: set[str] = set()
    pending = list(tokens)
    while pending:
        token = pending.pop()
        if token not in complete:
            complete.add(token)
            pending += parts.get(token, ())
    return complete
