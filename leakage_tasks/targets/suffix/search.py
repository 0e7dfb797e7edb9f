"""Greedy and beam search for suffixes of many prefixes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.devices import double_array, in_double, moved
from leakage_tasks.targets.pass_rows import SMALLER
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.growing_cache import GrowingCache
from leakage_tasks.targets.suffix.sampled_suffixes import PartialDraws, SampledSuffixes
from leakage_tasks.targets.suffix.truncation import check_numbers, own_figures, slices

Found = TypeVar("Found")


def beam_search(
    sampler: SuffixSampler,
    prefixes: Sequence[Sequence[int]],
    length: int,
    width: int,
    on_drawn: Callable[[float], None] | None = None,
) -> list[SampledSuffixes]:
    """Return the ``width`` best suffixes of ``length`` tokens from a beam search after prefixes of one length.

    They are scored by the model's own log-probability, best first, and each counts as one draw; ``width=1`` is greedy
    search. There is no end token: each suffix has all its tokens. ``on_drawn`` is that of
    :class:`~leakage_tasks.targets.protocols.DrawsSuffixes`.
    """

    def run(part: slice) -> list[SampledSuffixes]:
        return _Beams(sampler, prefixes[part], length, width).run(on_drawn)

    return in_parts(sampler, prefixes, length, width, "beams", run)


def in_parts(
    sampler: SuffixSampler,
    prefixes: Sequence[Sequence[int]],
    length: int,
    width: int,
    option: str,
    search: Callable[[slice], list[Found]],
) -> list[Found]:
    """Return the results of ``search`` for parts of the prefixes, whose beams fill a pass.

    Args:
        sampler: The model.
        prefixes: Token ids, all of one length.
        length: Number of tokens to search.
        width: Largest number of beams of a prefix.
        option: The user's option for ``width``, for messages.
        search: Searches after some prefixes and returns one result for each.

    Raises:
        TargetError: The beams of a single prefix do not fit into memory.
    """
    results: list[Found] = []
    remedy = f"pass fewer {option}=, or {SMALLER}" if width > 1 else SMALLER
    with sampler.target.inference():
        while len(results) < len(prefixes):
            bound = sampler.bound(prefixes[0], length)
            rest = len(prefixes) - len(results)
            part = slice(len(results), len(results) + min(rest, max(1, bound // width)))
            rows = (part.stop - part.start) * width
            with sampler.limit.halving(rows, width, remedy):
                results += search(part)
    return results


def selected(live: GrowingCache, rows: Tensor) -> GrowingCache:
    """Return the state with ``rows`` ``[n]`` of ``live``, which is ``live`` itself if these are all rows in order."""
    return live if torch.equal(rows.cpu(), torch.arange(live.rows)) else live.select(rows)


class _Beams:
    """Beams of some prefixes: row p·w + b of ``live`` is beam b of prefix p, with ``w`` beams per prefix so far."""

    def __init__(self, sampler: SuffixSampler, prefixes: Sequence[Sequence[int]], length: int, width: int) -> None:
        self.sampler, self.length, self.width = sampler, length, width
        self.count = len(prefixes)
        self.live: GrowingCache
        self.live, self.logits = sampler.begin(prefixes, length)
        self.path = PartialDraws.empty(self.count, length)
        self.costs = in_double(self.logits.new_zeros(self.count, 1))
        self.nodes = 0

    def run(self, on_drawn: Callable[[float], None] | None) -> list[SampledSuffixes]:
        """Search to the end and return one result per prefix."""
        for step in range(self.length):
            parents, tokens = self._best()
            self._follow(step, parents, tokens)
            if on_drawn is not None:
                on_drawn(self.count / self.length)
            if step < self.length - 1:
                self.logits = self.sampler.go_on(self.live, tokens)
        return [self._result(number) for number in range(self.count)]

    def _best(self) -> tuple[Tensor, Tensor]:
        """Return parent rows and tokens ``[count · w]`` of the lowest-cost continuations; store their costs."""
        beams, vocabulary = self.costs.shape[1], self.logits.shape[1]
        most = min(self.width, vocabulary)
        tops = [part.log_softmax(1).topk(most, dim=1) for part in slices(self.logits)]
        check_numbers(torch.cat([top.values[:, 0] for top in tops]))
        added = -in_double(torch.cat([top.values for top in tops])) / LN2
        tokens = moved(torch.cat([top.indices for top in tops]), added.device).view(self.count, beams * most)
        totals = (self.costs[..., None] + added.view(self.count, beams, most)).view(self.count, -1)
        count = min(self.width, beams * most)
        # Lowest cost first; among equal costs the better parent, then the lower token id.
        order = tokens.argsort(dim=1, stable=True)
        order = order.gather(1, (order // most).argsort(dim=1, stable=True))
        best = order.gather(1, totals.gather(1, order).argsort(dim=1, stable=True)[:, :count])
        self.costs = totals.gather(1, best)
        first = torch.arange(self.count, device=best.device)[:, None] * beams
        parents, chosen = (first + best // most).reshape(-1), tokens.gather(1, best).reshape(-1)
        return moved(parents, self.logits.device), moved(chosen, self.logits.device)

    def _follow(self, step: int, parents: Tensor, tokens: Tensor) -> None:
        bits, entropy, margin = own_figures(self.logits, parents, tokens)
        figures = double_array(torch.stack([bits, bits, entropy, margin]))
        rows: IntArray = parents.cpu().numpy()
        live = selected(self.live, parents)
        if live is not self.live:
            self.live, self.path = live, self.path.select(rows)
        self.path.write(step, np.arange(len(rows)), tokens.cpu().numpy(), figures)
        self.nodes += len(rows) // self.count

    def _result(self, number: int) -> SampledSuffixes:
        width = self.costs.shape[1]
        rows = slice(number * width, (number + 1) * width)
        own, drawn, entropy, margin = self.path.figures[:, rows]
        return SampledSuffixes(self.path.tokens[rows], np.arange(width), own, drawn, entropy, margin, self.nodes)
