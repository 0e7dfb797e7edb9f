"""The rows of a trainer's batches: their tokens, and which of them count in the loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.text_batches import IGNORED

Side = Literal["", "chosen", "rejected"]
"""Of a pair in preference training, the answer that is made likelier or the other one; empty elsewhere."""


@dataclass(frozen=True)
class BatchRow:
    """One row as the model reads it, without padding.

    ``tokens``: ``[length]`` ids. ``counted``: ``[length]``, whether the loss asks for each token. ``at`` is the row's
    place in the batch. ``pair`` tells the two rows of a preference pair apart.
    """

    tokens: np.ndarray
    counted: np.ndarray
    at: int
    pair: Side = ""


def rows_of(batch: Mapping[str, Any], encodes: bool) -> Iterator[BatchRow]:
    """The rows of a collated batch; ``encodes`` says that the model reads a source and writes a target.

    Knows what ``Trainer`` and TRL's ``SFTTrainer`` and ``DPOTrainer`` hand to their models: ``labels`` with the tokens
    that do not count at -100, or a ``completion_mask`` over chosen answers and, after them, rejected ones. Raises
    OptionError for any other.
    """
    tokens, labels, mask = (_array(batch.get(name)) for name in ("input_ids", "labels", "attention_mask"))
    completion = _array(batch.get("completion_mask"))
    if tokens is None or tokens.ndim != 2 or (labels is None and completion is None):
        raise OptionError(
            f"preflight: the trainer's batches hold {', '.join(map(str, batch)) or 'nothing'}; it knows those of "
            "causal and translating language models (input_ids and labels) and of TRL's DPOTrainer (completion_mask): "
            "check the data collator"
        )
    read = np.ones(tokens.shape, bool) if mask is None else mask.astype(bool)
    if labels is None:
        assert completion is not None
        half = len(tokens) // 2
        for at in range(len(tokens)):
            yield _row(tokens, completion.astype(bool), read, at, "chosen" if at < half else "rejected")
        return
    if encodes:
        for at in range(len(tokens)):
            yield _row(tokens, np.zeros(tokens.shape, bool), read, at)
            target = labels[at] != IGNORED
            yield BatchRow(labels[at][target], np.ones(int(target.sum()), bool), at)
        return
    if labels.shape != tokens.shape:
        raise OptionError(
            f"preflight: labels of shape {list(labels.shape)} for tokens of shape {list(tokens.shape)} are no language "
            "model's: it looks at language models alone"
        )
    for at in range(len(tokens)):
        yield _row(tokens, labels != IGNORED, read, at)


def _row(tokens: np.ndarray, counted: np.ndarray, read: np.ndarray, at: int, pair: Side = "") -> BatchRow:
    own = counted[at].copy()
    # Nothing stands before a row's first token that it could be foretold from.
    own[np.flatnonzero(read[at])[:1]] = False
    return BatchRow(tokens[at][read[at]], own[read[at]], at, pair)


def _array(values: Any) -> np.ndarray | None:
    if values is None:
        return None
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


class Detokenizer:
    """Tokens to text, and characters of that text back to tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def texts(self, rows: Sequence[np.ndarray]) -> list[str]:
        """The text of each row, special tokens and all."""
        lists = [row.tolist() for row in rows]
        kept = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return list(self._tokenizer.batch_decode(lists, **kept))

    def tokens(self, row: np.ndarray, start: int, end: int) -> slice:
        """The tokens of ``row`` that characters ``start`` to ``end`` of its text take part in."""
        return slice(self._holding(row, start + 1) - 1, self._holding(row, end))

    def _holding(self, row: np.ndarray, characters: int) -> int:
        """How many tokens of ``row`` it takes for that many characters."""
        low, high = 1, len(row)
        while low < high:
            middle = (low + high) // 2
            if len(self.texts([row[:middle]])[0]) >= characters:
                high = middle
            else:
                low = middle + 1
        return low
