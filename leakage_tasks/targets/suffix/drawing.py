"""The sampling engine: many suffixes of many prefixes at once, from a causal model.

A prefix is read once. Draws that are still identical are one row of the batch; where they part, the row's state is
copied. Each draw has its own stream of uniform numbers, turned into tokens by the inverse of the distribution function,
which splits a row's draws as a multinomial does and makes the first k of K draws those of a run with k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.growing_cache import GrowingCache
from leakage_tasks.targets.suffix.sampled_suffixes import PartialDraws, SampledSuffixes
from leakage_tasks.targets.suffix.truncation import Cut, cut, draw, own_figures

GROWTH = 4
"""So many times as many prefixes are drawn after at once, at most, as before."""


def draw_suffixes(
    sampler: SuffixSampler, prefixes: Sequence[Sequence[int]], uniforms: FloatArray, scheme: DecodingConfig
) -> list[SampledSuffixes]:
    """Draw suffixes after prefixes of one length, with ``uniforms`` ``[prefixes, K, L]`` in [0, 1).

    Neither the batch nor company or order of prefixes changes a draw, but by rounding in the model's own arithmetic.
    """
    _, samples, length = uniforms.shape
    found: list[SampledSuffixes] = []
    last: list[SampledSuffixes] = []
    with sampler.target.inference():
        while len(found) < len(prefixes):
            bound = sampler.bound(prefixes[0], length)
            # Prefixes whose draws part from each other at once; more where the last ones' hardly did.
            safe = max(1, min(bound, 2 * bound // samples))
            rows = sum(len(each.tokens) for each in last)
            at_once = max(safe, min(GROWTH * len(last), len(last) * bound // max(rows, 1), bound))
            part = slice(len(found), len(found) + at_once)
            with sampler.limit.halving(min(bound, len(prefixes[part]) * samples)):
                last = _Drawing(sampler, scheme, uniforms[part], bound).run(prefixes[part])
                found += last
    return found


@dataclass
class _Front:
    """A batch of partly drawn suffixes: draw ``draws[i]`` has become row ``row_of[i]`` of ``live`` and ``path``.

    ``logits`` are those after the last token of each row, once it has been read.
    """

    live: GrowingCache
    logits: Tensor
    path: PartialDraws
    draws: IntArray
    row_of: IntArray


@dataclass(frozen=True)
class _Chosen:
    """The distinct next tokens of a front: ``n`` of them, each after a parent row; draw i takes number ``which[i]``."""

    parents: IntArray
    tokens: IntArray
    figures: FloatArray
    which: IntArray


class _Drawing:
    """One batch of prefixes being drawn after, with no more than ``most`` rows at a time."""

    def __init__(self, sampler: SuffixSampler, scheme: DecodingConfig, uniforms: FloatArray, most: int) -> None:
        self.sampler, self.scheme, self.most = sampler, scheme, most
        self.device = sampler.target.device
        self.count, self.samples, self.length = uniforms.shape
        self.uniforms = uniforms.reshape(-1, self.length)
        self.nodes = np.zeros(len(self.uniforms), dtype=np.int64)
        self.finished: list[tuple[PartialDraws, IntArray, IntArray]] = []

    def run(self, prefixes: Sequence[Sequence[int]]) -> list[SampledSuffixes]:
        """Draw all suffixes; one result a prefix."""
        live, logits = self.sampler.begin(prefixes, self.length)
        draws = np.arange(len(self.uniforms))
        path, room = PartialDraws.empty(self.count, self.length), self.sampler.room(prefixes[0], self.length)
        self._draw(_Front(live, logits, path, draws, draws // self.samples), 0, room)
        row_of = np.empty(len(self.uniforms), dtype=np.int64)
        offset = 0
        for path, own, which in self.finished:
            row_of[own] = which + offset
            offset += len(path.tokens)
        tokens = np.concatenate([path.tokens for path, _, _ in self.finished])
        figures = np.concatenate([path.figures for path, _, _ in self.finished], axis=1)
        parts = zip(np.split(row_of, self.count), np.split(self.nodes, self.count), strict=True)
        return [_result(rows, tokens, figures, int(nodes.sum())) for rows, nodes in parts]

    def _draw(self, front: _Front, step: int, room: int) -> None:
        """Draw the tokens from ``step`` on, for which the logits are at hand; memory has ``room`` for so many rows.

        A front that is drawn on in parts stays for the next of them: what it leaves free is theirs.
        """
        most = max(1, min(self.most, room // 2))
        while True:
            chosen = self._choose(front, step)
            if step == self.length - 1:
                path = front.path.select(chosen.parents)
                path.write(step, np.arange(len(chosen.tokens)), chosen.tokens, chosen.figures)
                self.finished.append((path, front.draws, chosen.which))
                return
            if len(chosen.tokens) > most:
                break
            self._follow(front, chosen, step, most)
            self._read(front, step)
            step += 1
        for part in self._parts(front, chosen, step, max(1, min(most, (room - front.live.rows) // 2) // 2)):
            self._read(part, step)
            self._draw(part, step + 1, room - front.live.rows)
            # Its memory is to be free before the next one is made.
            del part

    def _choose(self, front: _Front, step: int) -> _Chosen:
        """Give every draw its token of ``step``."""
        found = cut(front.logits, self.scheme)
        uniforms = torch.from_numpy(self.uniforms[front.draws, step]).to(self.device)
        drawn = draw(found, torch.from_numpy(front.row_of).to(self.device), uniforms).cpu().numpy()
        vocabulary = front.logits.shape[1]
        pairs, which = np.unique(front.row_of * vocabulary + drawn, return_inverse=True)
        parents, tokens = np.divmod(pairs, vocabulary)
        which = which.reshape(-1)
        # Each row's position is booked on one of its draws, and so on its prefix.
        self.nodes[front.draws[np.unique(which, return_index=True)[1]]] += 1
        return _Chosen(parents, tokens, _figures(front.logits, found, parents, tokens), which)

    def _follow(self, front: _Front, chosen: _Chosen, step: int, most: int) -> None:
        """Let every row go its first way and add a row for each other one."""
        parents = chosen.parents
        stays = np.r_[True, parents[1:] != parents[:-1]]
        place = parents.copy()
        place[~stays] = front.live.rows + np.arange(np.count_nonzero(~stays))
        if not stays.all():
            front.live.branch(torch.from_numpy(parents[~stays]).to(self.device), most)
            front.path.branch(parents[~stays])
        front.row_of = place[chosen.which]
        front.path.write(step, place, chosen.tokens, chosen.figures)

    def _parts(self, front: _Front, chosen: _Chosen, step: int, size: int) -> Iterator[_Front]:
        """Fronts of ``size`` rows, so few that each may grow to twice as many, made when they are asked for."""
        front.logits = front.logits[:0]
        for first in range(0, len(chosen.tokens), size):
            part = slice(first, first + size)
            own = (chosen.which >= first) & (chosen.which < first + size)
            parents = chosen.parents[part]
            path = front.path.select(parents)
            path.write(step, np.arange(len(parents)), chosen.tokens[part], chosen.figures[:, part])
            live = front.live.select(torch.from_numpy(parents).to(self.device))
            yield _Front(live, front.logits, path, front.draws[own], chosen.which[own] - first)

    def _read(self, front: _Front, step: int) -> None:
        """Have the model read the tokens of ``step``."""
        tokens = torch.from_numpy(front.path.tokens[:, step]).to(self.device)
        front.logits = self.sampler.go_on(front.live, tokens)


def _figures(logits: Tensor, found: Cut, parents: IntArray, tokens: IntArray) -> FloatArray:
    """Own cost, cost by the scheme, entropy and margin ``[4, n]`` of each token after its parent row."""
    rows, chosen = (torch.from_numpy(each).to(logits.device) for each in (parents, tokens))
    own, entropy, margin = own_figures(logits, rows, chosen)
    by_scheme = (found.log_total[rows] - (logits[rows, chosen] - found.most[rows]) / found.temperature) / LN2
    return torch.stack([own, by_scheme, entropy, margin]).double().cpu().numpy()


def _result(rows: IntArray, tokens: IntArray, figures: FloatArray, nodes: int) -> SampledSuffixes:
    """The draws of one prefix, whose suffixes are ``rows`` ``[K]`` of all there are."""
    distinct, first, which = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    kept = distinct[order]
    own, drawn, entropy, margin = figures[:, kept]
    return SampledSuffixes(tokens[kept], back[which.reshape(-1)], own, drawn, entropy, margin, nodes)
