"""The sampling engine: draws many suffixes after many prefixes from a causal model.

A prefix is read once. Draws with equal tokens so far share one row of the batch; when they diverge, the row's state is
copied. Rows of many prefixes advance step by step, in passes of similar size. If there are too many rows for memory,
they are processed part by part.
A draw ends at a token that ends texts, if such tokens are given; its row is then read no further.
Prefixes may differ in length: the batch begins with as many tokens as the shortest prefix has, and the other tokens of
longer prefixes are taken step by step in place of drawn ones. So prompts of many lengths need no padding and share
their passes.
Each draw has its own stream of uniform numbers, converted to tokens by the inverse of the distribution function. This
splits a row's draws like a multinomial, and makes the first k of K draws equal to a run with k draws.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.devices import double_array, moved, on_device
from leakage_tasks.targets.suffix.causal import Room, SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.front import Chosen, DrawFront
from leakage_tasks.targets.suffix.sampled_suffixes import PartialDraws, SampledSuffixes
from leakage_tasks.targets.suffix.truncation import Cut, check_numbers, cut, draw, own_figures

GROWTH = 4
"""Maximum factor by which the number of prefixes grows from one batch to the next."""


def draw_suffixes(
    sampler: SuffixSampler,
    prefixes: Sequence[Sequence[int]],
    uniforms: FloatArray,
    scheme: DecodingConfig,
    ends: Collection[int] = (),
    on_drawn: Callable[[float], None] | None = None,
) -> list[SampledSuffixes]:
    """Draw suffixes after prefixes, with ``uniforms`` ``[prefixes, K, L]`` in [0, 1).

    A draw does not depend on the batch or on other prefixes, except for rounding in the model. After the first of the
    tokens ``ends`` it holds zeros. ``on_drawn`` is that of :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`.
    """
    _, samples, length = uniforms.shape
    results: list[SampledSuffixes] = []
    last: list[SampledSuffixes] = []
    with sampler.target.inference():
        while len(results) < len(prefixes):
            room = sampler.room(max(prefixes[len(results) :], key=len), length)
            rows = sum(len(suffixes.tokens) for suffixes in last)
            # Take more prefixes if the last draws shared most of their rows.
            at_once = max(room.prefixes(samples), min(GROWTH * len(last), len(last) * room.held // max(rows, 1)))
            part = slice(len(results), len(results) + at_once)
            with sampler.limit.halving(min(room.most, len(prefixes[part]) * samples)):
                last = _Drawing(sampler, scheme, prefixes[part], uniforms[part], room, ends, on_drawn).run()
                results += last
    return results


class _Drawing:
    """One batch of prefixes and the suffixes drawn after them."""

    def __init__(
        self,
        sampler: SuffixSampler,
        scheme: DecodingConfig,
        prefixes: Sequence[Sequence[int]],
        uniforms: FloatArray,
        room: Room,
        ends: Collection[int],
        on_drawn: Callable[[float], None] | None,
    ) -> None:
        self.sampler, self.scheme, self.on_drawn = sampler, scheme, on_drawn
        self.ends = np.array(sorted(ends), dtype=np.int64)
        self.most, self.held, self.room = room.most, room.held, room.all
        self.device = sampler.target.device
        self.count, self.samples, self.length = uniforms.shape
        self.uniforms = uniforms.reshape(-1, self.length)
        shortest = min(map(len, prefixes))
        self.beginnings = [prefix[:shortest] for prefix in prefixes]
        self.given = np.array([len(prefix) - shortest for prefix in prefixes])
        """Number of each prefix's tokens that are read step by step."""
        self.rest = np.zeros((self.count, self.given.max()), dtype=np.int64)
        for row, prefix in zip(self.rest, prefixes, strict=True):
            row[: len(prefix) - shortest] = prefix[shortest:]
        self.nodes = np.zeros(len(self.uniforms), dtype=np.int64)
        self.finished: list[tuple[PartialDraws, IntArray, IntArray]] = []

    def run(self) -> list[SampledSuffixes]:
        """Draw all suffixes and return one result per prefix."""
        self._draw(*self._begin(), self.room)
        row_of = np.empty(len(self.uniforms), dtype=np.int64)
        offset = 0
        for path, draws, which in self.finished:
            row_of[draws] = which + offset
            offset += len(path.tokens)
        tokens = np.concatenate([path.tokens for path, _, _ in self.finished])
        figures = np.concatenate([path.figures for path, _, _ in self.finished], axis=1)
        parts = zip(np.split(row_of, self.count), np.split(self.nodes, self.count), self.given, strict=True)
        results = []
        for rows, nodes, given in parts:
            drawn = slice(given, given + self.length)
            results.append(_result(rows, tokens[:, drawn], figures[:, :, drawn], int(nodes.sum() - given)))
        return results

    def _begin(self) -> tuple[DrawFront, Chosen]:
        """Return a front of the beginnings of the prefixes, and the next tokens of all draws."""
        steps = self.length + self.rest.shape[1]
        live, logits = self.sampler.begin(self.beginnings, steps, self.most)
        draws, path = np.arange(len(self.uniforms)), PartialDraws.empty(self.count, steps)
        front = DrawFront(live, path, draws, draws // self.samples, step=-1)
        return front, self._choose(front, slice(0, self.count), logits)

    def _draw(self, front: DrawFront, chosen: Chosen, room: int) -> None:
        """Draw all remaining tokens, beginning with those just ``chosen``; memory has ``room`` for rows.

        A front that is processed in parts is kept for its next part; they share the remaining room.
        """
        held = self._held(room)
        while True:
            chosen = self._finish(front, chosen)
            if front.done:
                return
            if front.live.rows + chosen.more > held:
                break
            if not ((len(self.ends) or self.given.any()) and front.compact(chosen)):
                front.follow(chosen, held)
            chosen = self._read(front)
        room -= front.live.rows
        for part in front.split(chosen, self._held(room)):
            self._draw(part, self._read(part), room)
            # Free its memory before the next part is created.
            del part

    def _finish(self, front: DrawFront, chosen: Chosen) -> Chosen:
        """Store the suffixes that end with a token of ``chosen`` and return the other tokens."""
        draw_of = np.empty(len(chosen.tokens), dtype=np.int64)
        draw_of[chosen.which] = front.draws[chosen.draws]
        drawn = front.step + 1 - self.given[draw_of // self.samples]
        ended = (drawn == self.length - 1) | (np.isin(chosen.tokens, self.ends) & (drawn >= 0))
        if ended.any():
            self.finished.append(front.finish(chosen.take(ended)))
        return chosen.take(~ended)

    def _held(self, room: int) -> int:
        """Return the maximum number of rows of a front: half of the room, since its parts need some of it."""
        return max(1, min(self.held, room // 2))

    def _read(self, front: DrawFront) -> Chosen:
        """Read the last tokens of all rows in passes of similar size, and choose new tokens for their draws."""
        choices, size = [], evenly(front.live.rows, self.most)
        for first in range(0, front.live.rows, size):
            rows = slice(first, min(first + size, front.live.rows))
            logits = self.sampler.go_on(front.live, moved(front.last_tokens(rows), self.device), rows)
            choices.append(self._choose(front, rows, logits))
        return Chosen.join(choices)

    def _choose(self, front: DrawFront, rows: slice, logits: Tensor) -> Chosen:
        """Choose next tokens for the draws of ``rows`` from these rows' logits ``[n, V]``."""
        draws = front.of_rows(rows)
        if not len(draws):
            return Chosen.none()
        own, truncated = front.row_of[draws] - rows.start, cut(logits, self.scheme)
        ids, step = front.draws[draws], front.step + 1
        given = self.given[ids // self.samples]
        drawn = draw(truncated, own, self.uniforms[ids, np.maximum(step - given, 0)]).cpu().numpy()
        if (fixed := step < given).any():
            drawn[fixed] = self.rest[ids[fixed] // self.samples, step]
        if self.on_drawn is not None:
            self.on_drawn(len(draws) / (self.samples * self.length))
        pairs, one_of, which = np.unique(own * logits.shape[1] + drawn, return_index=True, return_inverse=True)
        # Each row's position is counted for one of its draws, and so for that draw's prefix.
        self.nodes[ids[one_of]] += 1
        parents, tokens = np.divmod(pairs, logits.shape[1])
        figures = _figures(logits, truncated, parents, tokens)
        return Chosen(draws, which.reshape(-1), parents + rows.start, tokens, figures)


def evenly(rows: int, most: int) -> int:
    """Return the size of parts of similar size, with at most ``most`` rows each, in the smallest number of parts."""
    return -(-rows // -(-rows // most))


def _figures(logits: Tensor, kept: Cut, parents: IntArray, tokens: IntArray) -> FloatArray:
    """Return own cost, cost under the scheme, entropy and margin ``[4, n]`` of each token after its parent row."""
    rows, chosen = (on_device(array, logits.device) for array in (parents, tokens))
    own, entropy, margin = own_figures(logits, rows, chosen)
    by_scheme = (kept.log_total[rows] - (logits[rows, chosen] - kept.most[rows]) / kept.temperature) / LN2
    figures = double_array(torch.stack([own, by_scheme, entropy, margin]))
    check_numbers(figures)
    return figures


def _result(rows: IntArray, tokens: IntArray, figures: FloatArray, nodes: int) -> SampledSuffixes:
    """Return the draws of one prefix; ``rows`` ``[K]`` are the indices of their suffixes among all suffixes."""
    distinct, first, which = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    indices = distinct[order]
    own, drawn, entropy, margin = figures[:, indices]
    return SampledSuffixes(tokens[indices], np.argsort(order)[which.reshape(-1)], own, drawn, entropy, margin, nodes)
