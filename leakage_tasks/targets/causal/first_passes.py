"""Passes over texts from their first token: those that store the texts, and plain ones that verify faster passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.log import log
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.causal.text_rows import TextRows, TextTable
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.noise import warn_of_slower
from leakage_tasks.targets.rounding import same_logits

CHECKED = 4
"""Number of rows of a pass that are compared with plain passes."""
IN_CACHE = 1 << 20
"""Number of logits normalised at once on a CPU, where rows that fit in its cache take less time; a larger number would
also copy all logits of a long text."""


class Begun(NamedTuple):
    """n texts that were read from their first token.

    ``costs`` ``[length − 1]`` are in bits, for each token after the first; ``logits`` ``[n, V]`` for the next token.
    """

    rows: TextRows
    costs: list[FloatArray]
    logits: Tensor


def token_bits(logits: Tensor, tokens: Tensor) -> FloatArray:
    """Return costs in bits ``[n, k]`` of tokens ``[n, k]``, by the logits ``[n, k, V]`` before each of them."""
    size = tokens.shape[1] or 1
    if logits.device.type == "cpu":
        size = min(size, max(1, IN_CACHE // (len(logits) * logits.shape[-1])))
    parts = zip(logits.split(size, dim=1), tokens.split(size, dim=1), strict=True)
    log_p = [in_float32(part).log_softmax(-1).gather(-1, chosen[..., None])[..., 0] for part, chosen in parts]
    costs: FloatArray = torch.cat(log_p, dim=1).cpu().double().numpy() / -LN2
    return costs


def in_float32(tensor: Tensor) -> Tensor:
    """Return a tensor in float32."""
    return tensor if tensor.dtype == torch.float32 else tensor.float()


class FirstPasses(TextTable):
    """A table of texts, which ``reader`` can read from their first token."""

    def __init__(self, reader: Any) -> None:
        super().__init__(getattr(reader.stepper, "reads_layers_first", False))
        self._reader = reader
        self.cached: bool = reader.cached
        """False if each text is read again from its first token."""
        self.pads: bool | None = None
        """True if texts of several lengths can begin in one pass; None until tried."""

    def begin(self, texts: Sequence[Sequence[int]], sources: Sequence[Any] = (None,)) -> Begun:
        """Read texts from their first token. ``sources`` are the additional input of each text, or of all."""
        sources = list(sources) * (len(texts) // len(sources))
        if len(set(map(len, texts))) == 1:
            return self._first_pass(texts, sources)
        padded = self._padded(texts, sources) if self.cached and self.pads is not False else None
        if padded is not None:
            return padded
        lengths = list(map(len, texts))
        groups = [[n for n, own in enumerate(lengths) if own == length] for length in sorted(set(lengths))]
        parts = [self._first_pass([texts[n] for n in same], [sources[n] for n in same]) for same in groups]
        rows, logits = TextRows.joined([part.rows for part in parts]), torch.cat([part.logits for part in parts])
        costs, back = [row for part in parts for row in part.costs], np.argsort(np.concatenate(groups))
        return Begun(rows[back], [costs[n] for n in back.tolist()], logits[torch.from_numpy(back).to(logits.device)])

    def _padded(self, texts: Sequence[Sequence[int]], sources: Sequence[Any]) -> Begun | None:
        """Read texts of several lengths in one pass; return None if the result is wrong on first use."""
        try:
            result = self._first_pass(texts, sources)
            if self.pads is None:
                shortest = min(range(len(texts)), key=lambda index: len(texts[index]))

                def alone() -> Tensor:
                    return self._first_pass([texts[shortest]], [sources[shortest]]).logits

                self.pads = self._agree(result.logits[shortest : shortest + 1], alone)
        except Exception as error:
            if self.pads or out_of_memory(error):
                raise
            log.debug("texts of several lengths cannot share a pass: %s", type(error).__name__)
            self.pads = False
        if self.pads:
            return result
        lengths = len(set(map(len, texts)))
        warn_of_slower(self._reader.stepper, "texts of different lengths cannot share a forward pass", lengths)
        return None

    def _first_pass(self, texts: Sequence[Sequence[int]], sources: Sequence[Any]) -> Begun:
        """Read texts in one pass. Raises ValueError for several lengths if their states cannot hold padding."""
        reader, lengths = self._reader, np.array([len(text) for text in texts])
        # A causal model's logits do not depend on later tokens, so any token can serve as padding.
        ids = np.array([[*text, *[text[-1]] * (int(lengths.max()) - len(text))] for text in texts])
        tokens = reader.on_device(ids)
        with reader.inference():
            logits, cache = reader.read_first(tokens, sources)
            after = token_bits(logits[:, :-1], tokens[:, 1:])
            last = in_float32(logits[torch.arange(len(texts)), torch.from_numpy(lengths) - 1])
            rows = self.keep(ids, lengths, cache, sources)
        return Begun(rows, [costs[: length - 1] for costs, length in zip(after, lengths.tolist(), strict=True)], last)

    def _is_plain(self, logits: Tensor, rows: IntArray, tokens: IntArray, lengths: IntArray) -> bool:
        """Compare some rows of a pass, the shortest and longest texts among them, with plain passes."""
        before = self.tree.lengths[rows]
        order = np.lexsort((np.arange(len(rows)), lengths, before))
        chosen = order[np.linspace(0, len(rows) - 1, min(CHECKED, len(rows))).round().astype(np.int64)]
        fast, texts = [], []
        for place in np.unique(np.stack([before[chosen], lengths[chosen]], axis=1), axis=0):
            same = chosen[(before[chosen] == place[0]) & (lengths[chosen] == place[1])]
            read = np.array([[*self.tree.read_tokens(rows[n]), *tokens[n, : place[1]].tolist()] for n in same])
            texts.append((read, rows[same], int(place[1])))
            fast.append(logits[torch.from_numpy(same).to(logits.device), : place[1]].flatten(0, 1))
        return self._agree(
            torch.cat(fast), lambda: torch.cat([self._plain_logits(*some).flatten(0, 1) for some in texts])
        )

    def _plain_logits(self, texts: IntArray, rows: IntArray, keep: int) -> Tensor:
        """Return logits ``[n, keep, V]`` after the last tokens of whole texts ``[n, length]``."""
        reader = self._reader
        with reader.inference():
            logits: Tensor = reader.read(reader.on_device(texts), keep, self.sources_of(rows))
            return logits

    def _agree(self, fast: Tensor, plain: Callable[[], Tensor]) -> bool:
        """Return True if logits ``[n, V]`` of a pass equal those that ``plain`` computes, up to rounding."""
        return same_logits(fast, plain(), lambda: self._reader.noise, self._reader.model, plain)
