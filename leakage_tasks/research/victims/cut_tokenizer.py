"""GPT-2's tokenizer cut down to the tokens that some data use, so that a small model need not carry the other ones."""

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
    """``new_ids`` [GPT-2's vocabulary] gives each old id its new one, −1 where the token was cut away."""

    tokenizer: PreTrainedTokenizerFast
    new_ids: np.ndarray

    def covers(self, ids: np.ndarray) -> np.ndarray:
        """Whether each of ``ids`` (GPT-2's, any shape) is still there."""
        return np.asarray(self.new_ids[ids] >= 0)

    def renumber(self, ids: np.ndarray) -> np.ndarray:
        """``ids`` (GPT-2's, any shape) in the cut vocabulary; OptionError where one was cut away."""
        renumbered = np.asarray(self.new_ids[ids])
        if (renumbered < 0).any():
            lost = int(np.asarray(ids)[renumbered < 0][0])
            raise OptionError(f"token {lost} was cut away: make the tokenizer from data that hold it")
        return renumbered


def cut_tokenizer(folder: str | Path, arrays: Iterable[np.ndarray]) -> CutTokenizer:
    """A byte-level BPE of the tokens in ``arrays`` (GPT-2's ids), of those they are merged from, and of all bytes.

    ``folder`` holds GPT-2's ``vocab.json`` and ``merges.txt``. Ids are renumbered without gaps, in GPT-2's order.
    A text whose GPT-2 tokens are all there is cut up as GPT-2 cuts it: each token has one merge, all those that led to
    it are kept in their order, and what is left out could only have come later. Any other text is cut into smaller
    pieces, single bytes at worst. Raises LeakageError where the files cannot be read, OptionError on an id beyond them.
    """
    vocabulary, merges = read_gpt2(folder)
    words = {number: token for token, number in vocabulary.items()}
    wanted = sorted({int(number) for array in arrays for number in np.unique(array)})
    if beyond := [number for number in wanted if number not in words]:
        raise OptionError(f"token {beyond[0]} is beyond GPT-2's vocabulary of {len(words)}: give GPT-2's token ids")
    kept = _with_ancestors({words[number] for number in wanted}, merges)
    kept |= {END, *(token for token in vocabulary if len(token) == 1)}
    order = sorted(kept, key=vocabulary.__getitem__)
    new_ids = np.full(max(words) + 1, -1, dtype=np.int64)
    new_ids[[vocabulary[token] for token in order]] = np.arange(len(order))
    left = [merge for merge in merges if "".join(merge) in kept]
    return CutTokenizer(byte_level_tokenizer({token: place for place, token in enumerate(order)}, left), new_ids)


def gpt2_tokenizer(folder: str | Path) -> PreTrainedTokenizerFast:
    """GPT-2's whole tokenizer, from ``vocab.json`` and ``merges.txt`` in ``folder``; LeakageError without them."""
    return byte_level_tokenizer(*read_gpt2(folder))


def byte_level_tokenizer(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> PreTrainedTokenizerFast:
    """A tokenizer that splits texts as GPT-2 does and merges bytes by ``merges``, the earlier first.

    ``<|endoftext|>``, which ``vocabulary`` must hold, starts, ends and pads.
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
    """Token → id, and the merges in order, from ``vocab.json`` and ``merges.txt``.

    Raises LeakageError where they cannot be read, are none of GPT-2's kind, or do not belong together.
    """
    names = Path(folder) / "vocab.json", Path(folder) / "merges.txt"
    try:
        vocabulary: dict[str, int] = parse_json(names[0].read_text(encoding="utf-8"))
        lines = names[1].read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise LeakageError(
            f"{folder}: GPT-2's tokenizer cannot be read ({error}): put its vocab.json and merges.txt there"
        ) from None
    _check_vocabulary(names[0], vocabulary)
    merges = list(_merges(names[1], lines))
    for merge in merges:
        if not {*merge, "".join(merge)} <= vocabulary.keys():
            raise LeakageError(f"{names[1]}: merges {merge!r}, which {names[0].name} lacks: give GPT-2's files")
    return vocabulary, merges


def _check_vocabulary(path: Path, vocabulary: Any) -> None:
    """Raise LeakageError for anything but tokens with ids from 0 without gaps, the end's among them."""
    tokens = vocabulary if isinstance(vocabulary, dict) else {}
    whole = all(type(number) is int for number in tokens.values())
    if END not in tokens or not whole or sorted(tokens.values()) != list(range(len(tokens))):
        raise LeakageError(f"{path}: no tokens numbered from 0, {END} among them: give GPT-2's file")


def _merges(path: Path, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise LeakageError(f"{path}, line {number}: expected two tokens with a space between: give GPT-2's file")
        yield parts[0], parts[1]


def _with_ancestors(tokens: set[str], merges: Iterable[tuple[str, str]]) -> set[str]:
    """``tokens`` and, all the way down, the two parts each is merged from."""
    parts = {"".join(merge): merge for merge in merges}
    kept: set[str] = set()
    waiting = list(tokens)
    while waiting:
        token = waiting.pop()
        if token not in kept:
            kept.add(token)
            waiting += parts.get(token, ())
    return kept
