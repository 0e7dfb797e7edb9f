"""A masked language model asked for the logits at one place of each of many token rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.errors import TargetError
from leakage_tasks.targets.batches import padded, rows_at_once
from leakage_tasks.targets.classifier import LN2
from leakage_tasks.targets.classifier_config import room_of
from leakage_tasks.targets.memory import RowLimit
from leakage_tasks.targets.protocols import FloatArray, IntArray

ROWS = 1024
"""Most rows of logits over the vocabulary held at once."""


Query = tuple[list[int], list[int]]
"""A text's tokens, and the places of those asked about."""


class MaskedModel:
    """A masked language model with its tokenizer.

    Logits are normalised in float64 whatever the model's precision. ``batch_size`` counts texts of full length.
    Raises TargetError for a tokenizer without mask token.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        device: torch.device | str | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
    ) -> None:
        if tokenizer.mask_token_id is None:
            raise TargetError(
                f"the tokenizer of this {model.config.model_type} model has no mask token, so it has no masks to fill: "
                "give it its mask_token, or take candidates from generator=causal:MODEL or generator=exhaustive"
            )
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.device = torch.device(device if device is not None else model.device)
        self.max_length = max_length or room_of(model, tokenizer)
        self._batch_size = batch_size
        self._limit = RowLimit(ROWS)
        self._pad = next(n for n in (tokenizer.pad_token_id, model.config.pad_token_id, 0) if n is not None)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each text, with the special tokens the model was trained with."""
        return self.tokenizer(list(texts), verbose=False)["input_ids"] if texts else []

    def logits(self, rows: Sequence[Sequence[int]], columns: IntArray) -> Iterator[tuple[list[int], Tensor]]:
        """For each row its logits at the place ``columns`` ``[n]`` says, batch by batch.

        Yields the numbers of some rows and their logits ``[batch, vocabulary]``, float64. Raises TargetError, before
        anything is read, for a row too long.
        """
        longest = max(map(len, rows), default=0)
        if self.max_length is not None and longest > self.max_length:
            raise TargetError(f"a text of {longest} tokens does not fit the model's {self.max_length}: shorten it")
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
        first = 0
        while first < len(order):
            batch = order[first : first + self._batch(len(rows[order[first]]))]
            found = None
            with self._limit.halving(len(batch)):
                found = self._read([rows[place] for place in batch], torch.from_numpy(columns[batch]))
            if found is not None:
                yield batch, found
                first += len(batch)

    def pseudo_log_likelihoods(self, queries: Sequence[Query]) -> list[tuple[float, bool]]:
        """For each row and the places asked about in it: the sum of their tokens' log-probabilities in nats.

        Each token is masked in turn, all others of the row are there (Salazar et al. 2020). The second value says
        whether each of the tokens is the likeliest of the vocabulary at its place.
        """
        asked = [(query, column) for query, (_, columns) in enumerate(queries) for column in columns]
        rows = [list(queries[query][0]) for query, _ in asked]
        own = np.array([row[column] for row, (_, column) in zip(rows, asked, strict=True)], dtype=np.int64)
        for row, (_, column) in zip(rows, asked, strict=True):
            row[column] = self.tokenizer.mask_token_id
        sums, greedy = np.zeros(len(queries)), np.ones(len(queries), dtype=bool)
        for batch, logits in self.logits(rows, np.array([column for _, column in asked], dtype=np.int64)):
            tokens = torch.from_numpy(own[batch]).to(logits.device)
            found = logits.log_softmax(-1).gather(-1, tokens[:, None])[:, 0].cpu().numpy()
            best = (logits.argmax(-1) == tokens).cpu().numpy()
            for place, value, is_best in zip(batch, found, best, strict=True):
                sums[asked[place][0]] += value
                greedy[asked[place][0]] &= is_best
        return list(zip(sums.tolist(), greedy.tolist(), strict=True))

    def continuation(self, context: str, continuation: str) -> Query:
        """Both texts' tokens, asking about those of the continuation; one that both share is the continuation's."""
        ids, special, ends = self._cut(context + continuation)
        return ids, [place for place, end in enumerate(ends) if not special[place] and end > len(context)]

    def pieces(self, text: str) -> Iterator[Query]:
        """A text's tokens, asking about all, in as many rows as it takes, each between the text's special tokens."""
        ids, special, _ = self._cut(text)
        own = [place for place, is_special in enumerate(special) if not is_special]
        if not own:
            return
        first, last = own[0], own[-1] + 1
        room = max(1, (self.max_length or len(ids)) - len(ids) + last - first)
        for start in range(first, last, room):
            part = ids[start : min(start + room, last)]
            yield [*ids[:first], *part, *ids[last:]], list(range(first, first + len(part)))

    def _cut(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """A text's tokens, which of them are special, and after how many of its characters each ends."""
        if not self.tokenizer.is_fast:
            raise TargetError("this tokenizer does not say which characters its tokens stand for: use its fast kind")
        found = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
        return found["input_ids"], found["special_tokens_mask"], [end for _, end in found["offset_mapping"]]

    def _batch(self, length: int) -> int:
        return rows_at_once(self.device, length, self._batch_size, self.max_length, self._limit.most)

    def _read(self, rows: Sequence[Sequence[int]], columns: Tensor) -> Tensor:
        ids, mask = padded(rows, self._pad)
        columns = columns.to(self.device)
        with torch.inference_mode(), _only_at(self.model, columns):
            logits = self.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device)).logits
            whole = logits.shape[1] == ids.shape[1] and ids.shape[1] > 1
            picked = logits[torch.arange(len(rows), device=logits.device), columns] if whole else logits[:, 0]
            return picked.double()


@contextlib.contextmanager
def _only_at(model: Any, columns: Tensor) -> Iterator[None]:
    """Have the output matrix multiply one place of each row: it is most of a small model's work.

    Models whose last step is not that matrix do it everywhere.
    """
    matrix = model.get_output_embeddings()
    if not isinstance(matrix, torch.nn.Linear) or len(matrix.weight) != model.config.vocab_size:
        yield
        return

    def pick(_: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        hidden = inputs[0]
        return (hidden[torch.arange(len(hidden), device=hidden.device), columns][:, None],)

    hook = matrix.register_forward_pre_hook(pick)
    try:
        yield
    finally:
        hook.remove()


def to_bits(log_probabilities: Tensor) -> FloatArray:
    """Costs in bits from natural logs."""
    return (log_probabilities.cpu().double() / -LN2).numpy()
