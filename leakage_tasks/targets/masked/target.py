"""A masked language model as a target: predictions at one position of each of many token rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.attack_coroutine import submit
from leakage_tasks.targets.batches import RowModel, check_fits, padded, room_of
from leakage_tasks.targets.devices import in_double, moved
from leakage_tasks.targets.full_float32 import full_float32
from leakage_tasks.targets.loading import ModelSource, check_max_length
from leakage_tasks.targets.masked.rows import MaskedRows, Query, batched_copies, varying_positions

ROWS = 1024
"""Maximum number of rows of logits over the vocabulary in memory."""


class MaskedTarget(RowModel):
    """A `transformers` masked language model that scores texts and fills masks.

    Implements ``ScoresSequences``, ``ScoresUpTo`` and ``FillsMasks``. The cost of a text is the sum over its tokens of
    −log2 P(token | all others), with only that token masked: the pseudo-log-likelihood of Salazar et al. 2020 ("Masked
    Language Model Scoring", Equation 1) in bits, with the sign changed. A word of several tokens is masked token by
    token. The special tokens that the tokenizer adds around a text are read, but not scored.

    Logits are normalised in double precision for every precision of the model. ``settings`` are arguments of
    :class:`~leakage_tasks.targets.batches.RowModel`. Raises TargetError for a tokenizer without mask token.
    """

    def __init__(self, model: Any, tokenizer: Any, **settings: Any) -> None:
        if tokenizer.mask_token_id is None:
            raise TargetError(
                f"the tokenizer of this {model.config.model_type} model has no mask token, so no mask can be filled: "
                "set its mask_token, or take candidates from generator=causal:MODEL or generator=exhaustive"
            )
        known = tokenizer.pad_token_id, getattr(model.config, "pad_token_id", None), 0
        padding = next(number for number in known if number is not None)
        super().__init__(model, tokenizer, padding, most_rows=ROWS, **settings)

    def log_perplexity(self, texts: Sequence[str]) -> FloatArray:
        """Return the pseudo-log-perplexity of each text in bits, shape ``[len(texts)]``.

        Raises TargetError for a text that is too long or contains a mask, and for different texts with equal tokens.
        """
        return self._bits(self._whole(texts))

    def log_perplexity_up_to(self, texts: Sequence[str], most: float, cheapest: int = 0) -> FloatArray:
        """Return ``log_perplexity``, exact up to ``most`` bits and for the ``cheapest`` texts of lowest cost.

        Tokens that vary between the texts are scored first: texts share their masked rows, and the cost of a filling's
        slots alone often exceeds ``most``. Raises TargetError as :meth:`log_perplexity`.
        """
        whole = self._whole(texts)
        varying = varying_positions(whole)
        bits = self._bits([(ids, places) for (ids, _), places in zip(whole, varying, strict=True)])
        settled = np.zeros(len(bits), dtype=bool)

        def settle(some: NDArray[np.bool_]) -> None:
            left = np.flatnonzero(some & ~settled)
            bits[left] += self._bits([(whole[n][0], sorted(set(whole[n][1]) - set(varying[n]))) for n in left])
            settled[left] = True

        ahead = np.argsort(bits, kind="stable")[:cheapest]
        settle(np.isin(np.arange(len(bits)), ahead))
        settle(bits <= max([most, *bits[ahead]]))
        return bits

    def logits(self, rows: Sequence[Sequence[int]], columns: IntArray) -> Iterator[tuple[list[int], Tensor]]:
        """Yield the logits of each row at its column in ``columns`` ``[n]``, batch by batch.

        An item is the indices of some rows and their logits ``[batch, vocabulary]``, in double precision. Raises
        TargetError for a row that is too long, before any row is read.
        """
        check_fits(max(map(len, rows), default=0), self.max_length)
        order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
        first = 0
        while first < len(order):
            batch = order[first : first + self.batch(len(rows[order[first]]))]
            logits_here = None
            with self.limit.halving(len(batch)):
                ids, mask = padded([rows[index] for index in batch], self.padding)
                logits_here = self._read(ids, mask, torch.from_numpy(columns[batch]))
            if logits_here is not None:
                yield batch, logits_here
                first += len(batch)

    def pseudo_log_likelihoods(self, queries: Sequence[Query]) -> list[tuple[float, bool]]:
        """Return, for each query, the sum of log-probabilities in nats and whether each token is the likeliest.

        A query is a row's tokens and some positions in it. The token at each position is masked in turn, with all other
        tokens of the row present (Salazar et al. 2020). Equal masked rows of several texts are read once. Raises
        TargetError for a row that is too long, before any row is read.
        """
        masked, costs, likeliest = self._answers(queries)
        missed = masked.sums(1.0 - likeliest)
        return list(zip((-masked.sums(costs) * LN2).tolist(), (missed == 0).tolist(), strict=True))

    def continuation(self, context: str, continuation: str) -> Query:
        """Return the tokens of both texts with the positions of the continuation; a shared token belongs to it."""
        ids, special, ends = self._cut(context + continuation)
        return ids, [index for index, end in enumerate(ends) if not special[index] and end > len(context)]

    def pieces(self, text: str) -> Iterator[Query]:
        """Yield queries for all of a text's tokens, in rows that fit the model, each with the text's special tokens."""
        ids, special, _ = self._cut(text)
        ordinary = [index for index, is_special in enumerate(special) if not is_special]
        if not ordinary:
            return
        first, last = ordinary[0], ordinary[-1] + 1
        room = max(1, (self.max_length or len(ids)) - len(ids) + last - first)
        for start in range(first, last, room):
            part = ids[start : min(start + room, last)]
            yield [*ids[:first], *part, *ids[last:]], list(range(first, first + len(part)))

    def _bits(self, queries: Sequence[Query]) -> FloatArray:
        masked, costs, _ = self._answers(queries)
        return masked.sums(costs)

    def _whole(self, texts: Sequence[str]) -> list[Query]:
        """Return the tokens of each text with the positions of all but special tokens."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), return_special_tokens_mask=True, verbose=False)
        rows = encoded["input_ids"]
        if any(self.tokenizer.mask_token_id in row for row in rows):
            raise TargetError(f"a text holds the model's mask token, {self.tokenizer.mask_token!r}: remove it")
        if len(set(map(tuple, rows))) < len(set(texts)):
            raise TargetError(
                "the tokenizer gives two of the texts equal tokens, so they cannot be distinguished: use a space whose "
                "values the tokenizer distinguishes"
            )
        special = encoded["special_tokens_mask"]
        return [
            (ids, [n for n, around in enumerate(mask) if not around]) for ids, mask in zip(rows, special, strict=True)
        ]

    def _cut(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """Return a text's tokens, a mask of its special tokens, and the end of each token in characters."""
        if not self.tokenizer.is_fast:
            raise TargetError("this tokenizer does not report its tokens' characters: use its fast version")
        encoded = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
        return encoded["input_ids"], encoded["special_tokens_mask"], [end for _, end in encoded["offset_mapping"]]

    def _answers(self, queries: Sequence[Query]) -> tuple[MaskedRows, FloatArray, NDArray[np.bool_]]:
        """Return the masked rows, the bits of each queried token ``[queried]``, and whether it is the likeliest."""
        check_fits(max((len(ids) for ids, _ in queries), default=0), self.max_length)
        masked = MaskedRows(queries, self.tokenizer.mask_token_id)
        capacity = self.capacity(max((len(ids) for ids, _ in queries), default=1))
        return masked, *submit(("masked", id(self)), self._answer_all, masked, len(masked), capacity)

    def _answer_all(self, several: Sequence[MaskedRows]) -> list[tuple[FloatArray, NDArray[np.bool_]]]:
        ends = np.cumsum([len(masked.query) for masked in several])
        costs, likeliest = np.zeros(ends[-1]), np.zeros(ends[-1], dtype=bool)
        for rows, columns, tokens, queried in batched_copies(several):
            answers = self.row_costs(rows, tokens.shape[1] + 1, self._token_costs, columns, tokens)
            costs[queried], likeliest[queried] = answers[:, :-1], answers[:, -1:] == tokens
        return list(zip(np.split(costs, ends[:-1]), np.split(likeliest, ends[:-1]), strict=True))

    def _token_costs(self, ids: Tensor, mask: Tensor, columns: Tensor, tokens: Tensor) -> Tensor:
        """Return bits of ``tokens`` ``[n, width]`` at the columns and the likeliest token, shape ``[n, width + 1]``."""
        logits = self._read(ids, mask, columns)
        bits = logits.log_softmax(-1).gather(-1, moved(tokens, logits.device)) / -LN2
        return torch.cat([bits, logits.argmax(-1)[:, None]], dim=1)

    def _read(self, ids: Tensor, mask: Tensor, columns: Tensor) -> Tensor:
        """Return logits ``[n, vocabulary]`` at one column of each row, in double precision."""
        columns = moved(columns, self.device)
        with torch.inference_mode(), full_float32(self.device), _only_at(self.model, columns):
            logits = self.model(input_ids=moved(ids, self.device), attention_mask=moved(mask, self.device)).logits
            if logits.shape[1] < ids.shape[1]:
                return in_double(logits[:, 0])
            # Perceiver has logits for all positions that it could read.
            return in_double(logits[torch.arange(len(ids), device=logits.device), columns])


@contextlib.contextmanager
def _only_at(model: Any, columns: Tensor) -> Iterator[None]:
    """Compute the output matrix product at one position of each row only: it is most of a small model's work.

    Models whose last step is another module compute it at all positions.
    """
    matrix = model.get_output_embeddings()
    if not isinstance(matrix, torch.nn.Linear) or len(matrix.weight) != model.config.vocab_size:
        yield
        return

    def pick(_: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        hidden = inputs[0]
        return (hidden[torch.arange(len(hidden), device=hidden.device), columns][:, None],)

    with matrix.register_forward_pre_hook(pick):
        yield


def load_masked(pretrained: Any, *, max_length: int | None = None, **loading: Any) -> MaskedTarget:
    """Load a masked language model and its tokenizer, by folder, hub name or as objects, as a target.

    ``loading`` are arguments of :class:`~leakage_tasks.targets.loading.ModelSource`; ``batch_size`` counts masked rows
    of full length. Raises TargetError for a model that cannot be loaded or has no trained masked-language head, and for
    a tokenizer that does not fit or has no mask token; OptionError for an unsuitable argument.
    """
    from transformers import AutoModelForMaskedLM

    source = ModelSource(pretrained, **loading)
    tokenizer = source.read_tokenizer()
    unfit = "masked language model: use --model hf for a causal model, or give a masked model such as BERT"
    model, missing = source.read_model(AutoModelForMaskedLM, unfit)
    if missing:
        remedy = (
            "give a model saved with its head (for ELECTRA the generator); --model classifier-scorer is for text "
            "classifiers"
        )
        raise source.untrained("masked-language head", missing[0], remedy)
    _check_mask(tokenizer, source)
    source.check_vocabulary(model, tokenizer)
    check_max_length(max_length, room_of(model, None))
    return source.target_of(MaskedTarget, model, tokenizer, max_length=max_length)


def _check_mask(tokenizer: Any, source: ModelSource) -> None:
    if tokenizer.mask_token_id is None:
        named = source.tokenizer is None or isinstance(source.tokenizer, str | Path)
        raise TargetError(
            f"{source.tokenizer_name if named else type(tokenizer).__name__}: the tokenizer has no mask token: set its "
            "mask_token, or pass the tokenizer that the model was trained with as tokenizer=…"
        )
