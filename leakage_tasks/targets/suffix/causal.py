"""What suffix extraction asks of a causal model: prefixes read once, many rows gone on with, within its memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.targets.batches import TOKENS_ON_CPU
from leakage_tasks.targets.causal.cache import attention_only, join, of_rows
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.causal.token_by_token import worth_of_a_pass
from leakage_tasks.targets.memory import LOGIT_BYTES, RowLimit
from leakage_tasks.targets.memory_budget import check_one_row
from leakage_tasks.targets.noise import warn_of_slower
from leakage_tasks.targets.suffix.growing_attention import AttentionCache
from leakage_tasks.targets.suffix.growing_cache import ALL, GrowingCache, MixingCache, StateChangesForm
from leakage_tasks.targets.suffix.growing_whole import NoCache, WholeStateCache
from leakage_tasks.targets.suffix.roomy_layer import RoomyLayer

MOST_ROWS = {"cpu": 1024}
MOST_ROWS_ELSEWHERE = 8192
PASSES_HELD = 8
"""Passes' worth of rows that are held between passes: so many that hardly one of them is not full."""
MOST_PARTED = 16
"""How often a batch may be parted, each part waiting for the one made of it, as more prefixes are taken on."""


@dataclass(frozen=True)
class Room:
    """How many rows one pass may have (``most``), and for how many there is memory between passes (``all``)."""

    most: int
    all: int

    @property
    def held(self) -> int:
        """Rows that one batch may grow to. Where it is parted, the parts that wait are held besides."""
        return self.most * max(1, min(PASSES_HELD, self.all // (2 * self.most)))

    def prefixes(self, samples: int) -> int:
        """After how many prefixes to draw ``samples`` times at once, as long as nothing is known of their draws.

        A pass' worth, as if all were alike; fewer where memory would not do if all differed: a batch that is parted so
        often is twice as large each time.
        """
        parted = min(max(self.all // self.held - 1, 1), MOST_PARTED)
        return max(1, min(self.most, (self.held << parted) // samples))


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
        self.tokens = TOKENS_ON_CPU
        """Tokens of whole texts that a pass has at most on a CPU."""
        # A CPU takes longer to copy rows into one batch than a pass more costs it.
        self.mixing = target.device.type != "cpu"
        """Whether to read rows of two lengths in one pass where that can be done."""
        self.goes_on_by_tokens: bool | None = None
        """Whether the model reads one token at a time after a state, not several; None until it is seen."""
        self._row_bytes: dict[int, tuple[int, int]] = {}
        """Of a prefix of so many tokens, and of each token after it."""

    def bound(self, prefix: Sequence[int], more: int) -> int:
        """Rows of such a prefix and ``more`` tokens to come that memory allows in a pass, one at least."""
        row = self._bytes_held(prefix, more) + LOGIT_BYTES * self.vocabulary
        return max(1, min(self.limit.most, self.asked(len(prefix) + more), self.target.states.rows // row))

    def room(self, prefix: Sequence[int], more: int) -> Room:
        """What passes and memory hold of such rows."""
        return Room(self.bound(prefix, more), self.target.states.most // max(self._bytes_held(prefix, more), 1))

    def _bytes_held(self, prefix: Sequence[int], more: int) -> int:
        """What one row takes between passes, found out once for each length of a prefix."""
        if len(prefix) not in self._row_bytes:
            with self.limit.halving(1), self.target.inference():
                live = self.begin([prefix], more)[0]
                self._row_bytes[len(prefix)] = live.row_bytes(0), live.row_bytes(1) - live.row_bytes(0)
        first, each = self._row_bytes[len(prefix)]
        check_one_row(first + more * each + LOGIT_BYTES * self.vocabulary)
        return first + more * each

    def asked(self, length: int) -> int:
        """Rows of ``length`` tokens that the user's batch size comes to; the harness' own default of 1 asks nothing."""
        size = self.target.batch_size or 1
        return max(1, size * self.target.max_length // length) if size > 1 else self.limit.most

    def begin(
        self, prefixes: Sequence[Sequence[int]], more: int, at_once: int | None = None
    ) -> tuple[GrowingCache, Tensor]:
        """Read prefixes of one length, ``at_once`` a pass, with room for ``more`` tokens.

        Returns their state and logits ``[prefixes, V]``.
        """
        tokens = self.tensor([[*self.before, *prefix] for prefix in prefixes])
        logits, caches = zip(*(self.target.read(part, 1) for part in tokens.split(at_once or len(tokens))), strict=True)
        live = _growing(caches, tokens.shape[1], more) if self.target.cached else NoCache(tokens)
        self.goes_on_by_tokens = not live.many_tokens
        return live, torch.cat(logits)[:, -1]

    def go_on(self, live: GrowingCache, tokens: Tensor, rows: slice = ALL) -> Tensor:
        """Append ``tokens`` ``[n]`` to n of the rows: logits ``[n, V]`` after them."""
        return self.read_more(live, tokens[:, None], rows)[:, -1]

    def mixes(self, live: GrowingCache) -> TypeGuard[MixingCache]:
        """Whether rows of two lengths may share a pass, as far as is known."""
        return self.mixing and live.mixes(self.target.passes.mixes_lengths)

    @contextlib.contextmanager
    def lengths_apart(self) -> Iterator[None]:
        """Leave the block early where the model's state turns out not to be of one form for rows of two lengths.

        They are read apart from then on. It is for a block in a loop that goes on until all is done.
        """
        try:
            yield
        except StateChangesForm:
            self.mixing = False
            warn_of_slower(self.target.model, "rows of two lengths cannot share a pass", 2)

    def go_on_together(self, live: MixingCache, tokens: Sequence[Tensor], parts: Sequence[slice]) -> list[Tensor]:
        """Append ``tokens`` ``[n]`` to the n rows of each part, which are of equal length, in one pass for all parts.

        Returns logits ``[n, V]`` after the rows of each.
        """
        fed = [token[:, None] for token in tokens]
        logits, grown = self.target.passes.step(live.states(parts), fed)
        live.grew(parts, grown)
        return logits

    def better_whole(self, prefixes: Sequence[Sequence[int]], texts: int, longest: int) -> bool:
        """Whether so many texts of up to ``longest`` tokens after ``prefixes`` had better be read with their prefixes.

        Otherwise the prefixes are read first, in a pass of their own, and then the texts, for which a model that goes
        on by single tokens takes a pass for each token. The tokens that saves have to be worth the passes it adds.
        """
        if not self.target.cached:
            return True
        if self.goes_on_by_tokens is None:
            self._bytes_held(prefixes[0], longest)
        passes = 1
        if self.goes_on_by_tokens:
            passes += (longest - 2) * math.ceil(texts / self.bound(prefixes[0], longest))
        saved = (texts - len(prefixes)) * (len(self.before) + len(prefixes[0]))
        return saved <= passes * worth_of_a_pass(self.target)

    def read_more(self, live: GrowingCache, tokens: Tensor, rows: slice = ALL) -> Tensor:
        """Append ``tokens`` ``[n, k]`` to n of the rows: logits ``[n, k, V]`` after each. Of some rows k is 1."""
        if isinstance(live, NoCache):
            grown = torch.cat([live.feed(rows), tokens], dim=1)
            logits = self.target.read(grown, tokens.shape[1])[0]
            live.took(grown)
            return logits
        # Recurrent models may take several tokens at once for the beginning of a text.
        parts = [tokens] if live.many_tokens else tokens.split(1, dim=1)
        found = []
        for part in parts:
            logits, cache = self.target.read_on(live.feed(rows), part)
            live.took(cache)
            found.append(logits)
        return found[0] if len(found) == 1 else torch.cat(found, dim=1)

    def tensor(self, rows: Any) -> Tensor:
        """Whole numbers, such as token rows of one length, on the model's device."""
        return torch.tensor(rows, dtype=torch.long, device=self.target.device)


def _growing(caches: Sequence[Any], length: int, more: int) -> GrowingCache:
    """The state of texts of ``length`` tokens from what the model returned for some and then for the others.

    ``more`` tokens are still to come.
    """
    whole = join([of_rows(cache) for cache in caches])
    if not attention_only(caches[0]):
        return WholeStateCache(whole, length)
    rows, _, read, _ = whole.tensors[0].shape
    pairs = zip(whole.tensors[::2], whole.tensors[1::2], strict=True)
    layers = [RoomyLayer(keys, values, read + more) for keys, values in pairs]
    return AttentionCache(whole.shell, layers, np.full(rows, read))
