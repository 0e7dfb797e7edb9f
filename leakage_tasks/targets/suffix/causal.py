"""A causal model for suffix extraction: each prefix is read once, and many rows continue it within memory limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.targets.causal.beginnings import worth_of_a_pass
from leakage_tasks.targets.causal.cache import attention_only, hollow, tensors_of
from leakage_tasks.targets.causal.first_passes import in_float32
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.devices import moved
from leakage_tasks.targets.memory import LOGIT_BYTES, check_one_row
from leakage_tasks.targets.pass_rows import TOKENS_ON_CPU, RowLimit
from leakage_tasks.targets.suffix.growing_attention import AttentionCache, RoomyLayer
from leakage_tasks.targets.suffix.growing_cache import ALL, GrowingCache, NoCache, WholeStateCache

MOST_ROWS = {"cpu": 1024}
MOST_ROWS_ELSEWHERE = 8192
PASSES_HELD = 8
"""Number of passes whose rows are kept in memory. More rows in memory make nearly every pass full."""
MOST_PARTED = 16
"""Maximum number of times that a batch is split to make room; each part waits while a split part of it runs."""


@dataclass(frozen=True)
class Room:
    """Maximum number of rows in one pass (``most``), and of rows that fit in memory between passes (``all``)."""

    most: int
    all: int

    @property
    def held(self) -> int:
        """Maximum number of rows of one batch. If it is split, the waiting parts take additional memory."""
        return self.most * max(1, min(PASSES_HELD, self.all // (2 * self.most)))

    def prefixes(self, samples: int) -> int:
        """Return the number of prefixes to process at once, with ``samples`` draws each, if their draws are unknown.

        They fill a pass if all draws are equal. They are fewer if memory would not suffice for different draws; each
        split of a batch doubles the rows it may have.
        """
        parted = min(max(self.all // self.held - 1, 1), MOST_PARTED)
        return max(1, min(self.most, (self.held << parted) // samples))


class SuffixSampler:
    """The model of a :class:`CausalTarget`, with limits on the number of rows.

    ``limit`` shrinks if memory runs out. Prefixes are token ids and are read unchanged, after ``before`` (such as a BOS
    token), if given, and after the soft prompt, if there is one.
    """

    def __init__(self, target: CausalTarget, before: Sequence[int] = ()) -> None:
        self.target = target
        self.before = list(before)
        self.vocabulary = int(target.model.config.get_text_config().vocab_size)
        self.max_length = target.max_length - len(self.before)
        self.limit = RowLimit(MOST_ROWS.get(target.device.type, MOST_ROWS_ELSEWHERE))
        self.tokens = TOKENS_ON_CPU
        """Maximum number of tokens of whole texts in a pass on a CPU."""
        self.goes_on_by_tokens: bool | None = None
        """True if the model reads only one token at a time after a cached state; None until it is known."""
        self._row_bytes: dict[int, tuple[int, int]] = {}
        """Memory of a prefix and of each token after it, by the prefix's length."""

    def bound(self, prefix: Sequence[int], more: int) -> int:
        """Return the maximum number of rows in a pass, for rows of ``prefix`` and ``more`` new tokens; at least 1."""
        row = self._bytes_held(prefix, more) + LOGIT_BYTES * self.vocabulary
        return max(1, min(self.limit.most, self.asked(len(prefix) + more), self.target.states.rows // row))

    def room(self, prefix: Sequence[int], more: int) -> Room:
        """Return the limits for a pass and for memory, for such rows."""
        return Room(self.bound(prefix, more), self.target.states.most // max(self._bytes_held(prefix, more), 1))

    def _bytes_held(self, prefix: Sequence[int], more: int) -> int:
        """Return the memory of one row between passes, measured once for each prefix length."""
        if len(prefix) not in self._row_bytes:
            with self.limit.halving(1), self.target.inference():
                live = self.begin([prefix], more)[0]
                self._row_bytes[len(prefix)] = live.row_bytes(0), live.row_bytes(1) - live.row_bytes(0)
        first, token = self._row_bytes[len(prefix)]
        check_one_row(first + more * token + LOGIT_BYTES * self.vocabulary)
        return first + more * token

    def asked(self, length: int) -> int:
        """Return the number of rows of ``length`` tokens that the user's batch size allows; the default 1 is no
        limit."""
        size = self.target.batch_size or 1
        return max(1, size * self.target.max_length // length) if size > 1 else self.limit.most

    def begin(
        self, prefixes: Sequence[Sequence[int]], more: int, at_once: int | None = None
    ) -> tuple[GrowingCache, Tensor]:
        """Read prefixes of equal length, ``at_once`` per pass, with room for ``more`` tokens.

        Returns their state and logits ``[prefixes, V]``.
        """
        tokens = self.tensor([[*self.before, *prefix] for prefix in prefixes])
        parts = tokens.split(at_once or len(tokens))
        logits, caches = zip(*(self.target.read_first(part, (None,), keep=1) for part in parts), strict=True)
        live = _growing(caches, tokens.shape[1], more) if self.target.cached else NoCache(tokens)
        self.goes_on_by_tokens = not live.many_tokens
        return live, in_float32(torch.cat(logits)[:, -1])

    def go_on(self, live: GrowingCache, tokens: Tensor, rows: slice = ALL) -> Tensor:
        """Append ``tokens`` ``[n]`` to n of the rows and return logits ``[n, V]`` after them."""
        return self.read_more(live, tokens[:, None], rows)[:, -1]

    def better_whole(self, prefixes: Sequence[Sequence[int]], texts: int, longest: int) -> bool:
        """Return True if it is faster to read ``texts`` texts of up to ``longest`` tokens together with their prefixes.

        Otherwise the prefixes are read first, in a pass of their own, and then the texts; a model that reads token by
        token needs a pass for each token. The saved tokens must be worth the additional passes.
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
        """Append ``tokens`` ``[n, k]`` to n of the rows (k = 1 for fewer than all) and return logits ``[n, k, V]``."""
        if isinstance(live, NoCache):
            grown = torch.cat([live.feed(rows), tokens], dim=1)
            logits = self.target.read(grown, tokens.shape[1])
            live.took(grown)
            return logits
        # Recurrent models may process several tokens at once as the beginning of a new text.
        parts = [tokens] if live.many_tokens else tokens.split(1, dim=1)
        outputs = []
        for part in parts:
            logits, cache = self.target.read_on(live.feed(rows), part)
            live.took(cache)
            outputs.append(logits)
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)

    def tensor(self, rows: Any) -> Tensor:
        """Return integers, such as token rows of one length, as a tensor on the model's device."""
        return moved(torch.tensor(rows, dtype=torch.long), self.target.device)


def _growing(caches: Sequence[Any], length: int, more: int) -> GrowingCache:
    """Return the state of texts of ``length`` tokens, with room for ``more``, from the caches of successive passes."""
    whole = [torch.cat(column) for column in zip(*map(tensors_of, caches), strict=True)]
    if not attention_only(caches[0]):
        return WholeStateCache(hollow(caches[0]), whole, length)
    read = whole[0].shape[2]
    layers = [RoomyLayer(keys, values, read + more) for keys, values in zip(whole[::2], whole[1::2], strict=True)]
    return AttentionCache(layers, read)
