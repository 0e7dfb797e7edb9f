"""Models that read token rows: how many rows at once, padded to one length, and how long they may be."""

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
from leakage_tasks.targets import scheduler
from leakage_tasks.targets.full_float32 import full_float32
from leakage_tasks.targets.memory import LOGIT_BYTES, MOST_ROWS, RowLimit, least_padding
from leakage_tasks.targets.memory_budget import MemoryBudget, check_one_row
from leakage_tasks.targets.noise import FACTOR_ONE, FLOOR_BITS, warn_of_slower
from leakage_tasks.targets.rounding import in_half_precision, rounded_otherwise
from leakage_tasks.targets.token_ids import token_ids

TOKENS_ON_CPU = 1 << 11
"""Token positions a batch may hold by default."""
TOKENS_ELSEWHERE = 1 << 17
PADDING_ON_CPU = 0.1
FULL_BYTES = 4
"""Of a number in float32."""
PROBED = 4
"""Padding tokens, if there is room for so many, that tell whether a model reads them."""

Rows = IntArray | Sequence[Sequence[int]]
"""Token rows, of one length as an array ``[n, length]``."""
Ask = Callable[..., Tensor]
"""Answers token ids and attention mask ``[n, length]``, and what stands beside each row, with a ``[n, width]``."""


class RowModel:
    """A model with its tokenizer, asked about token rows of any lengths, as many at once as it can take.

    A model that reads the padding like any other token (FNet, ConvBERT) is asked about rows of one length at a time.
    ``batch_size`` counts rows of full length (``max_length``); None leaves the number to the kind of device, which is
    to hold ``tokens`` of them where it is a CPU. ``padding`` is the token that stands after shorter rows, ``most_rows``
    how many rows the model may ever be asked about at once.
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
        """Share of a batch's own tokens that there may be of padding; what is cut off instead makes one more pass."""
        self._reads_padding: bool | None = None
        self._heads = getattr(model.config, "num_attention_heads", 0)
        self._token_bytes = _token_bytes(model)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each text, with the special tokens the model was trained with."""
        return token_ids(self.tokenizer, texts, special=True)

    def length(self, text: str) -> int:
        """Tokens of a text, special ones included."""
        return len(self.encode([text])[0])

    def batch(self, length: int) -> int:
        """How many rows of ``length`` tokens one forward pass takes."""
        row = self.row_bytes(length)
        check_one_row(row)
        most = min(self.limit.most, max(1, self._memory.batch // row))
        return rows_at_once(self.device, length, self._batch_size, self.max_length, most, self._tokens)

    def row_bytes(self, length: int) -> int:
        """About what a row of ``length`` tokens takes in a pass: activations of one layer, attention and logits."""
        return max(length * (self._token_bytes + FULL_BYTES * self._heads * length), 1)

    def row_costs(self, rows: Rows, width: int, ask: Ask, *beside: IntArray) -> FloatArray:
        """What ``ask`` answers to token ids and attention mask ``[n, length]``, ``[n, width]``, for all rows.

        ``beside`` are arrays ``[rows, …]`` of which ``ask`` is given the part that belongs to its rows, as tensors.
        Attacks that give the same ``ask`` (one function, or one target's method) have their rows read together; where
        arrays are not of one width, the narrower are filled up with −1. Raises TargetError for a row that is too long.
        """
        longest = max(map(len, rows), default=0)
        check_fits(longest, self.max_length)

        def many(asked: Sequence[tuple[Rows, Sequence[IntArray]]]) -> list[FloatArray]:
            each = [own for own, _ in asked]
            more = [_stacked(column) for column in zip(*(own for _, own in asked), strict=True)]
            return np.split(self._read_rows(joined(each), width, ask, more), np.cumsum(list(map(len, each)))[:-1])

        return scheduler.submit(
            (ask, width, len(beside)), many, (rows, beside), self.share(len(rows), longest), len(rows)
        )

    def share(self, rows: int, length: int) -> float:
        """What a question of so many rows is of those that attacks ask together."""
        return scheduler.share_of_whole_texts(rows, self.batch(length))

    def _read_rows(self, rows: Rows, width: int, ask: Ask, beside: Sequence[IntArray]) -> FloatArray:
        more = [torch.from_numpy(np.ascontiguousarray(each)) for each in beside]
        if isinstance(rows, np.ndarray):
            return self._equally_long(rows, width, ask, more)
        found = np.zeros((len(rows), width))
        left = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        known: list[int] = []
        while left:
            chosen = self._next(rows, left, bool(known))
            check_fits(len(rows[chosen[-1]]), self.max_length)
            mixed = len(rows[chosen[0]]) < len(rows[chosen[-1]])
            proving = mixed and self._reads_padding is None
            with self.limit.halving(len(chosen)):
                read = chosen + known if proving else chosen
                ids, mask = padded([rows[place] for place in read], self.padding, self._room(rows[read[-1]], proving))
                answers = _answer(self.device, ids, mask, ask, [each[read] for each in more])
                if proving:
                    beside_known = [each[known * len(read)] for each in more]
                    same = self._same_as_alone(answers[len(chosen) :], found[known], rows[known[0]], ask, beside_known)
                    self._reads_padding = not same
                    if not same:
                        lengths = len({len(rows[place]) for place in left})
                        warn_of_slower(self.model, "texts of several lengths cannot share a pass", lengths)
                if not (mixed and self._reads_padding):
                    found[chosen], left = answers[: len(chosen)], left[len(chosen) :]
                    # The shortest row of all has been read without padding: it tells whether a model reads that.
                    known = known or chosen[:1]
        return found

    def _same_as_alone(
        self, padded_answers: FloatArray, alone: FloatArray, row: Sequence[int], ask: Ask, beside: Sequence[Tensor]
    ) -> bool:
        """Return whether a padded row's answers ``[1, width]`` are those without padding, but for rounding.

        ``beside`` is what belongs to each of as many copies of the row as the noise is measured with.
        """
        apart = np.abs(padded_answers - alone).max()
        # Not "apart > bits": NaN agrees with nothing.
        if apart <= FLOOR_BITS or not in_half_precision(self.model):
            return bool(apart <= FLOOR_BITS)
        ids, mask = padded([row] * (len(beside[0]) if beside else PROBED), self.padding)
        with rounded_otherwise(self.model):
            moved = _answer(self.device, ids, mask, ask, beside)
        return bool(apart <= FACTOR_ONE * np.sqrt(np.mean(np.square(moved - alone))))

    def _next(self, rows: Rows, left: Sequence[int], known: bool) -> list[int]:
        """Which of the rows ``left``, shortest first, are read next: of one length where padding is or may be read.

        A batch that tells whether it is has a row more, which must be ``known``.
        """
        # A batch is as wide as its last row, so it is sized by a row it may not reach: never too large.
        ahead = left[min(self.batch(len(rows[left[0]])), len(left)) - 1]
        chosen = list(left[: self.batch(len(rows[ahead]))])
        alike = [place for place in chosen if len(rows[place]) == len(rows[chosen[0]])]
        if self._reads_padding or (self._reads_padding is None and not known):
            return alike
        if self._reads_padding is None and len(alike) < len(chosen):
            chosen = chosen[: max(1, self.batch(len(rows[ahead])) - 1)]
        return chosen[: least_padding([len(rows[place]) for place in chosen], self.most_padding)]

    def _room(self, row: Sequence[int], proving: bool) -> int:
        """How wide a batch must be, at the least, for ``row`` to tell whether padding after it changes its answer."""
        return min(len(row) + PROBED, self.max_length or len(row) + PROBED) if proving else 0

    def _equally_long(self, rows: IntArray, width: int, ask: Ask, beside: Sequence[Tensor]) -> FloatArray:
        if not len(rows):
            return np.zeros((0, width))
        check_fits(rows.shape[1], self.max_length)
        ids = torch.from_numpy(np.ascontiguousarray(rows))
        mask = torch.ones_like(ids)

        def ask_part(part: slice) -> FloatArray:
            return _answer(self.device, ids[part], mask[part], ask, [each[part] for each in beside])

        return np.concatenate(self.limit.parts(len(ids), ask_part, self.batch(rows.shape[1])))


def _token_bytes(model: Any) -> int:
    """About what a token takes in a pass without gradients: activations of one layer, and its logits if it has any."""
    config = model.config
    width = getattr(config, "hidden_size", 0)
    inner = getattr(config, "intermediate_size", None) or 4 * width
    embeddings = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    logits = 0 if embeddings is None else LOGIT_BYTES * config.vocab_size
    return FULL_BYTES * (8 * width + 2 * inner) + logits


def check_fits(length: int, room: int | None) -> None:
    """Raise TargetError for a text of more tokens than the model has room for."""
    if room is not None and length > room:
        raise TargetError(f"a text of {length} tokens does not fit the model's {room}: shorten it")


def _answer(device: torch.device, ids: Tensor, mask: Tensor, ask: Ask, beside: Sequence[Tensor]) -> FloatArray:
    with torch.inference_mode(), full_float32(device):
        return ask(ids, mask, *beside).cpu().numpy()


def rows_at_once(
    device: torch.device,
    length: int,
    batch_size: int | None,
    max_length: int | None,
    most: int,
    on_cpu: int = TOKENS_ON_CPU,
) -> int:
    """How many rows of ``length`` tokens one forward pass takes, ``most`` at the most.

    ``batch_size`` counts rows of full length (``max_length``); None leaves the number to the kind of device, a CPU of
    which holds ``on_cpu`` tokens.
    """
    tokens = on_cpu if device.type == "cpu" else TOKENS_ELSEWHERE
    if batch_size is not None:
        tokens = batch_size * (max_length or length)
    return max(1, min(tokens // max(length, 1), most))


def texts_at_once(asked: int | str | None) -> int | None:
    """A number of texts; None, which lets the target choose, for ``auto``, ``auto:N`` and the harness' default of 1."""
    if asked is None or str(asked) == "1" or str(asked).startswith("auto"):
        return None
    if not str(asked).isdecimal() or int(asked) < 1:
        raise OptionError(f"batch_size={asked!r}: expected a number from 1, or auto")
    return int(asked)


def padded(rows: Sequence[Sequence[int]], padding: int, least: int = 0) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask of rows of any lengths, both ``[rows, longest or least]``, padded on the right."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64)
    real = np.arange(max(least, lengths.max())) < lengths[:, None]
    ids = np.full(real.shape, padding, dtype=np.int64)
    ids[real] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    return torch.from_numpy(ids), torch.from_numpy(real.astype(np.int64))


def joined(several: Sequence[Rows]) -> Rows:
    """The rows of all, one after the other."""
    if len(several) == 1:
        return several[0]
    arrays = [rows for rows in several if isinstance(rows, np.ndarray)]
    if len(arrays) == len(several) and len({rows.shape[1] for rows in arrays}) == 1:
        return np.concatenate(arrays)
    return [row for rows in several for row in rows]


def _stacked(several: Sequence[IntArray]) -> IntArray:
    """Arrays ``[n, …]`` one above the other, those of fewer columns filled up with −1."""
    if several[0].ndim == 1 or len(several) == 1:
        return np.concatenate(several)
    width = max(each.shape[1] for each in several)
    return np.concatenate([np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=-1) for each in several])


def row_bits(logits: Tensor, tokens: Tensor, mask: Tensor) -> FloatArray:
    """Costs in bits ``[n]`` of rows of ``tokens`` ``[n, length]`` by ``logits`` ``[n, length, V]``, where masked 1."""
    costs = logits.logsumexp(-1) - logits.gather(-1, tokens[..., None])[..., 0]
    return ((costs * mask).cpu().double().sum(1) / LN2).numpy()


def room_of(model: Any, tokenizer: Any) -> int | None:
    """Tokens a model can read, special ones included; None where neither it nor its tokenizer says."""
    embeddings = getattr(model.config, "max_position_embeddings", None) or getattr(model.config, "n_positions", None)
    # RoBERTa's kind counts positions from after the padding token's number.
    table = next((m for name, m in model.named_modules() if name.endswith("position_embeddings")), None)
    unused = getattr(table, "padding_idx", None)
    lost = 0 if unused is None else int(unused) + 1
    room = embeddings - lost if embeddings else None
    own = getattr(tokenizer, "model_max_length", None)
    # XLNet's kind says -1 for any number.
    known = [size for size in (room, own) if size and 0 < size < 10**9]
    return min(known) if known else None
