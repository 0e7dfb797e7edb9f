"""What suffix extraction asks of a causal model: prefixes read once, many rows gone on with, within its memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.memory import LOGIT_BYTES, RowLimit
from leakage_tasks.targets.memory_budget import check_one_row
from leakage_tasks.targets.suffix.growing_cache import GrowingCache, NoCache, growing_cache

MOST_ROWS = {"cpu": 1024}
MOST_ROWS_ELSEWHERE = 8192


class SuffixSampler:
    """The model of a :class:`CausalTarget`, with the rows it may hold at once.

    ``limit`` shrinks where memory runs out. Prefixes are token ids and are read as they are, after ``before`` (such
    as a BOS token) where that is given, and after the soft prompt, if there is one.
    """

    def __init__(self, target: CausalTarget, before: Sequence[int] = ()) -> None:
        self.target = target
        self.before = list(before)
        self.vocabulary = int(target.model.config.get_text_config().vocab_size)
        self.max_length = target.max_length - len(self.before)
        self.limit = RowLimit(MOST_ROWS.get(target.device.type, MOST_ROWS_ELSEWHERE))
        self._row_bytes: dict[tuple[int, int], int] = {}

    def bound(self, prefix: Sequence[int], more: int) -> int:
        """Rows that a pass may have of prefixes as long as ``prefix`` with ``more`` tokens to come, one at least."""
        size = self._row_size(prefix, more)
        affordable = self.target.states.rows // size
        return max(1, min(self.limit.most, self.asked(len(prefix) + more), affordable))

    def room(self, prefix: Sequence[int], more: int) -> int:
        """Rows of such prefixes that may be held at once: those of a pass, and those that it is to go back to."""
        return self.target.states.whole // self._row_size(prefix, more)

    def _row_size(self, prefix: Sequence[int], more: int) -> int:
        """Bytes of a row at its full length. Raises OptionError where there is no memory for one."""
        lengths = len(prefix), more
        if lengths not in self._row_bytes:
            with self.limit.halving(1), self.target.inference():
                live, logits = self.begin([prefix], more)
                self._row_bytes[lengths] = live.row_bytes + LOGIT_BYTES * logits.shape[1]
            check_one_row(self._row_bytes[lengths])
        return self._row_bytes[lengths]

    def asked(self, length: int) -> int:
        """Rows of ``length`` tokens that the user's batch size comes to; the harness' own default of 1 asks nothing."""
        size = self.target.batch_size or 1
        return max(1, size * self.target.max_length // length) if size > 1 else self.limit.most

    def begin(self, prefixes: Sequence[Sequence[int]], more: int) -> tuple[GrowingCache, Tensor]:
        """Read prefixes of one length, with room for ``more`` tokens: their state and logits ``[prefixes, V]``."""
        tokens = self.tensor([[*self.before, *prefix] for prefix in prefixes])
        logits, cache = self.target.read(tokens, 1)
        live = growing_cache(cache, tokens.shape[1], more) if self.target.cached else NoCache(tokens)
        return live, logits[:, -1]

    def go_on(self, live: GrowingCache, tokens: Tensor) -> Tensor:
        """Append ``tokens`` ``[rows]``: logits ``[rows, V]`` after them."""
        return self.read_more(live, tokens[:, None])[:, -1]

    def read_more(self, live: GrowingCache, tokens: Tensor) -> Tensor:
        """Append ``tokens`` ``[rows, k]``: logits ``[rows, k, V]`` after each."""
        if isinstance(live, NoCache):
            grown = torch.cat([live.tokens, tokens], dim=1)
            logits = self.target.read(grown, tokens.shape[1])[0]
            live.tokens = grown
            return logits
        # Recurrent models may take several tokens at once for the beginning of a text.
        parts = [tokens] if live.many_tokens else tokens.split(1, dim=1)
        found = []
        for part in parts:
            logits, cache = self.target.read_on(live.feed(), part)
            live.took(cache)
            found.append(logits)
        return found[0] if len(found) == 1 else torch.cat(found, dim=1)

    def tensor(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Token rows of one length, on the model's device."""
        return torch.tensor(rows, dtype=torch.long, device=self.target.device)
