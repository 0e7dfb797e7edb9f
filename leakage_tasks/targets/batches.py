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
from leakage_tasks.targets.attack_coroutine import submit
from leakage_tasks.targets.batching import Capacity
from leakage_tasks.targets.full_float32 import full_float32
from leakage_tasks.targets.memory import LOGIT_BYTES, MemoryBudget, check_one_row
from leakage_tasks.targets.noise import FACTOR_ONE, FLOOR_BITS, warn_of_slower
from leakage_tasks.targets.pass_rows import MOST_ROWS, TOKENS_ON_CPU, RowLimit, rows_at_once
from leakage_tasks.targets.rounding import in_half_precision, perturbed_rounding
from leakage_tasks.targets.token_ids import token_ids

PADDING_ON_CPU = 0.1
"""Padding on a CPU, at most, as a share of a batch's other tokens."""
FULL_BYTES = 4
"""Bytes of a float32 number."""
PROBED = 4
"""Minimum number of padding tokens, if there is room, that test whether a model reads padding."""
COPIES = 4
"""Copies of a row that measure rounding noise."""

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
        most = min(self.limit.most, max(1, self._memory.most // row))
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
        if not len(rows):
            return np.zeros((0, width))
        more = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        if isinstance(rows, np.ndarray):
            return self._equally_long(rows, forward, more)
        lengths = list(map(len, rows))

        def read(chosen: list[int]) -> FloatArray:
            ids, mask = padded([rows[index] for index in chosen], self.padding)
            return _answer(self.device, ids, mask, forward, [array[chosen] for array in more])

        if self._reads_padding is None and len(set(lengths)) > 1:
            shortest = int(np.argmin(lengths))
            own = [array[[shortest]] for array in more]
            with self.limit.halving(1):
                self._reads_padding = self._padding_counts(rows[shortest], max(lengths), forward, own)
            if self._reads_padding:
                cannot = "texts of different lengths cannot share a forward pass"
                warn_of_slower(self.model, cannot, len(set(lengths)))
        padding = 0.0 if self._reads_padding else self.most_padding
        return self.limit.by_length(lengths, self.batch, read, range(len(rows)), most_padding=padding)

    def _padding_counts(self, row: Sequence[int], longest: int, forward: Forward, arrays: Sequence[Tensor]) -> bool:
        """Return True if padding up to ``longest`` tokens, :data:`PROBED` or more, changes a row's costs by more than
        rounding.

        ``arrays`` ``[1, …]`` are the further inputs of the row.
        """
        wide = max(longest, min(len(row) + PROBED, self.max_length or len(row) + PROBED))
        alone, beside = (
            _answer(self.device, *padded([row], self.padding, least), forward, arrays) for least in (0, wide)
        )
        apart = np.abs(beside - alone).max()
        # Compare by <=, so that NaN counts as a difference.
        if apart <= FLOOR_BITS or not in_half_precision(self.model):
            return not apart <= FLOOR_BITS
        ids, mask = padded([row] * COPIES, self.padding)
        with perturbed_rounding(self.model):
            moved = _answer(self.device, ids, mask, forward, [array[[0] * COPIES] for array in arrays])
        return not apart <= FACTOR_ONE * np.sqrt(np.mean(np.square(moved - alone)))

    def _equally_long(self, rows: IntArray, forward: Forward, arrays: Sequence[Tensor]) -> FloatArray:
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
