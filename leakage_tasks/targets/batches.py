"""Models that read token rows: batch sizes, padding and maximum lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.attack_thread import submit
from leakage_tasks.targets.batching import Capacity
from leakage_tasks.targets.full_float32 import full_float32
from leakage_tasks.targets.memory import LOGIT_BYTES, MemoryBudget, check_one_row
from leakage_tasks.targets.noise import FACTOR_ONE, FLOOR_BITS, warn_of_slower
from leakage_tasks.targets.pass_rows import MOST_ROWS, TOKENS_ON_CPU, RowLimit, rows_at_once, rows_within_padding
from leakage_tasks.targets.rounding import in_half_precision, perturbed_rounding
from leakage_tasks.targets.token_ids import token_ids

PADDING_ON_CPU = 0.1
"""Padding on a CPU, at most, as a share of a batch's other tokens."""
FULL_BYTES = 4
"""Bytes of a float32 number."""
PROBED = 4
"""Padding tokens, if there is room, after the row that tests whether a model reads padding."""

Rows = IntArray | Sequence[Sequence[int]]
"""Token rows, of one length as an array ``[n, length]``."""
Forward = Callable[..., Tensor]
"""A function of token ids and attention mask ``[n, length]`` and rows of further arrays, with costs ``[n, width]``."""


class RowModel:
    """A model with its tokenizer, which reads token rows of any lengths in batches of suitable size.

    A model that reads padding like any other token (FNet, ConvBERT) gets batches of rows of equal length.
    ``batch_size`` counts rows of full length (``max_length``). If it is None, the kind of device decides; a batch on a
    CPU then has up to ``tokens`` tokens. ``padding`` is the token appended to shorter rows, ``most_rows`` the maximum
    number of rows in a batch.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        padding: int,
        *,
        device: torch.device | str | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        tokens: int = TOKENS_ON_CPU,
        most_rows: int = MOST_ROWS,
    ) -> None:
        self.model = model.eval()
        self.tokenizer, self.padding = tokenizer, padding
        self.device = torch.device(device if device is not None else model.device)
        self.max_length = max_length or room_of(model, tokenizer)
        self._batch_size, self._tokens = batch_size, tokens
        self.limit, self._memory = RowLimit(most_rows), MemoryBudget(self.device)
        self.most_padding = PADDING_ON_CPU if self.device.type == "cpu" else math.inf
        """Maximum padding as a share of a batch's other tokens; rows that would exceed it go into another batch."""
        self._reads_padding: bool | None = None
        self._heads = getattr(model.config, "num_attention_heads", 0)
        self._token_bytes = _token_bytes(model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, with the special tokens that the model was trained with."""
        return token_ids(self.tokenizer, texts, special=True)

    def length(self, text: str) -> int:
        """Return the number of tokens of a text, special tokens included."""
        return len(self.encode([text])[0])

    def batch(self, length: int) -> int:
        """Return the number of rows of ``length`` tokens in one forward pass."""
        row = self.row_bytes(length)
        check_one_row(row)
        most = min(self.limit.most, max(1, self._memory.batch // row))
        return rows_at_once(self.device, length, self._batch_size, self.max_length, most, self._tokens)

    def row_bytes(self, length: int) -> int:
        """Estimate the bytes of a row of ``length`` tokens in a pass: one layer's activations, attention and logits."""
        return max(length * (self._token_bytes + FULL_BYTES * self._heads * length), 1)

    def row_costs(self, rows: Rows, width: int, forward: Forward, *arrays: IntArray) -> FloatArray:
        """Return the outputs ``[n, width]`` of ``forward`` for all rows.

        Attacks that pass an equal ``forward`` (one function, or one target's method) share batches. Arrays of several
        widths are then filled up with −1.

        Args:
            rows: token rows of any lengths.
            width: number of outputs for each row.
            forward: a function of token ids and attention mask ``[n, length]`` and of the rows of ``arrays``.
            *arrays: further inputs ``[rows, …]``; ``forward`` gets the rows of its batch as tensors.

        Raises:
            TargetError: a row is longer than the model can read.
        """
        longest = max(map(len, rows), default=0)
        check_fits(longest, self.max_length)

        def answer_all(requests: Sequence[tuple[Rows, Sequence[IntArray]]]) -> list[FloatArray]:
            parts = [part for part, _ in requests]
            more = [_stacked(column) for column in zip(*(inputs for _, inputs in requests), strict=True)]
            costs = self._read_rows(join_rows(parts), width, forward, more)
            return np.split(costs, np.cumsum(list(map(len, parts)))[:-1])

        kind = (forward, width, len(arrays))
        return submit(kind, answer_all, (rows, arrays), len(rows), self.capacity(longest))

    def capacity(self, length: int) -> Capacity:
        """Return the capacity of a pass for rows of ``length`` tokens."""
        return Capacity.of_whole_texts(self.batch(length))

    def _read_rows(self, rows: Rows, width: int, forward: Forward, arrays: Sequence[IntArray]) -> FloatArray:
        more = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        if isinstance(rows, np.ndarray):
            return self._equally_long(rows, width, forward, more)
        costs = np.zeros((len(rows), width))
        left = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        known: list[int] = []
        while left:
            chosen = self._next(rows, left, bool(known))
            check_fits(len(rows[chosen[-1]]), self.max_length)
            mixed = len(rows[chosen[0]]) < len(rows[chosen[-1]])
            proving = mixed and self._reads_padding is None
            with self.limit.halving(len(chosen)):
                read = chosen + known if proving else chosen
                ids, mask = padded([rows[index] for index in read], self.padding, self._room(rows[read[-1]], proving))
                answers = _answer(self.device, ids, mask, forward, [array[read] for array in more])
                if proving:
                    arrays_known = [array[known * len(read)] for array in more]
                    same = self._same_as_alone(
                        answers[len(chosen) :], costs[known], rows[known[0]], forward, arrays_known
                    )
                    self._reads_padding = not same
                    if not same:
                        lengths = len({len(rows[index]) for index in left})
                        warn_of_slower(self.model, "texts of different lengths cannot share a forward pass", lengths)
                if not (mixed and self._reads_padding):
                    costs[chosen], left = answers[: len(chosen)], left[len(chosen) :]
                    # The shortest row has been read without padding and is the reference for the test of padding.
                    known = known or chosen[:1]
        return costs

    def _same_as_alone(
        self,
        padded_answers: FloatArray,
        alone: FloatArray,
        row: Sequence[int],
        forward: Forward,
        arrays: Sequence[Tensor],
    ) -> bool:
        """Return True if a row's costs ``[1, width]`` with and without padding differ only by rounding.

        ``arrays`` are the further inputs of copies of the row; the number of copies is the number of rows that measure
        noise.
        """
        apart = np.abs(padded_answers - alone).max()
        # Compare by <=, so that NaN counts as a difference.
        if apart <= FLOOR_BITS or not in_half_precision(self.model):
            return bool(apart <= FLOOR_BITS)
        ids, mask = padded([row] * (len(arrays[0]) if arrays else PROBED), self.padding)
        with perturbed_rounding(self.model):
            moved = _answer(self.device, ids, mask, forward, arrays)
        return bool(apart <= FACTOR_ONE * np.sqrt(np.mean(np.square(moved - alone))))

    def _next(self, rows: Rows, left: Sequence[int], known: bool) -> list[int]:
        """Return the indices of the next batch from the rows ``left``, shortest first.

        The rows have equal length if the model reads padding, or if this is not tested yet and no row is ``known``. A
        batch that tests it leaves room for one more row, the ``known`` one.
        """
        # A batch is as wide as its longest row, so its size is computed from a row that is at least as long.
        ahead = left[min(self.batch(len(rows[left[0]])), len(left)) - 1]
        chosen = list(left[: self.batch(len(rows[ahead]))])
        equally_long = [index for index in chosen if len(rows[index]) == len(rows[chosen[0]])]
        if self._reads_padding or (self._reads_padding is None and not known):
            return equally_long
        if self._reads_padding is None and len(equally_long) < len(chosen):
            chosen = chosen[: max(1, self.batch(len(rows[ahead])) - 1)]
        return chosen[: rows_within_padding([len(rows[index]) for index in chosen], self.most_padding)]

    def _room(self, row: Sequence[int], proving: bool) -> int:
        """Return the minimum width of a batch in which ``row`` has padding if the batch tests the effect of padding,
        else 0."""
        return min(len(row) + PROBED, self.max_length or len(row) + PROBED) if proving else 0

    def _equally_long(self, rows: IntArray, width: int, forward: Forward, arrays: Sequence[Tensor]) -> FloatArray:
        if not len(rows):
            return np.zeros((0, width))
        check_fits(rows.shape[1], self.max_length)
        ids = torch.from_numpy(np.ascontiguousarray(rows))
        mask = torch.ones_like(ids)

        def compute(part: slice) -> FloatArray:
            return _answer(self.device, ids[part], mask[part], forward, [array[part] for array in arrays])

        return np.concatenate(self.limit.parts(len(ids), compute, self.batch(rows.shape[1])))


def _token_bytes(model: Any) -> int:
    """Estimate the bytes of a token in a pass without gradients: activations of one layer, and logits if any."""
    config = model.config
    width = getattr(config, "hidden_size", 0)
    inner = getattr(config, "intermediate_size", None) or 4 * width
    embeddings = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    logits = 0 if embeddings is None else LOGIT_BYTES * config.vocab_size
    return FULL_BYTES * (8 * width + 2 * inner) + logits


def check_fits(length: int, room: int | None) -> None:
    """Raise TargetError if a text has more tokens than the model can read."""
    if room is not None and length > room:
        raise TargetError(f"a text of {length} tokens does not fit the model's maximum of {room}: shorten it")


def _answer(device: torch.device, ids: Tensor, mask: Tensor, forward: Forward, arrays: Sequence[Tensor]) -> FloatArray:
    with torch.inference_mode(), full_float32(device):
        return forward(ids, mask, *arrays).cpu().numpy()


def texts_at_once(batch_size: int | str | None) -> int | None:
    """Return a batch size in texts; None (the target chooses) for ``auto``, ``auto:N`` and 1, the harness' default."""
    if batch_size is None or str(batch_size) == "1" or str(batch_size).startswith("auto"):
        return None
    if not str(batch_size).isdecimal() or int(batch_size) < 1:
        raise OptionError(f"batch_size={batch_size!r}: expected a number from 1, or auto")
    return int(batch_size)


def padded(rows: Sequence[Sequence[int]], padding: int, least: int = 0) -> tuple[Tensor, Tensor]:
    """Return token ids and attention mask ``[rows, max(longest, least)]`` of rows, padded on the right."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64)
    real = np.arange(max(least, lengths.max())) < lengths[:, None]
    ids = np.full(real.shape, padding, dtype=np.int64)
    ids[real] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    return torch.from_numpy(ids), torch.from_numpy(real.astype(np.int64))


def join_rows(several: Sequence[Rows]) -> Rows:
    """Return all rows in order, as an array if every part is one and their lengths are equal."""
    if len(several) == 1:
        return several[0]
    arrays = [rows for rows in several if isinstance(rows, np.ndarray)]
    if len(arrays) == len(several) and len({rows.shape[1] for rows in arrays}) == 1:
        return np.concatenate(arrays)
    return [row for rows in several for row in rows]


def _stacked(several: Sequence[IntArray]) -> IntArray:
    """Return arrays ``[n, …]`` stacked along the first axis; narrower arrays are filled up with −1."""
    if several[0].ndim == 1 or len(several) == 1:
        return np.concatenate(several)
    width = max(array.shape[1] for array in several)
    return np.concatenate(
        [np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=-1) for array in several]
    )


def row_bits(logits: Tensor, tokens: Tensor, mask: Tensor) -> FloatArray:
    """Return costs in bits ``[n]`` of rows of tokens by ``logits`` ``[n, length, V]``, summed where ``mask`` is 1."""
    costs = logits.logsumexp(-1) - logits.gather(-1, tokens[..., None])[..., 0]
    return ((costs * mask).cpu().double().sum(1) / LN2).numpy()


def room_of(model: Any, tokenizer: Any) -> int | None:
    """Return the number of tokens that a model can read, special tokens included; None if it is not stated."""
    embeddings = getattr(model.config, "max_position_embeddings", None) or getattr(model.config, "n_positions", None)
    # RoBERTa's family counts positions from the padding token's id + 1.
    table = next((m for name, m in model.named_modules() if name.endswith("position_embeddings")), None)
    unused = getattr(table, "padding_idx", None)
    lost = 0 if unused is None else int(unused) + 1
    room = embeddings - lost if embeddings else None
    limit = getattr(tokenizer, "model_max_length", None)
    # XLNet's family states -1 for any number.
    known = [size for size in (room, limit) if size and 0 < size < 10**9]
    return min(known) if known else None
