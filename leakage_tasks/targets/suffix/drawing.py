"""The sampling engine: many suffixes of many prefixes at once, from a causal model.

A prefix is read once. Draws that are still identical are one row of the batch; where they part, the row's state is
copied. Rows of many prefixes go on step by step, each step in as few passes as hold them, and part after part where
they become too many to be held. Each draw has its own stream of uniform numbers, turned into tokens by the inverse of
the distribution function, which splits a row's draws as a multinomial does and makes the first k of K draws those of a
run with k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.suffix.causal import Room, SuffixSampler
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
            room = sampler.room(prefixes[0], length)
            rows = sum(len(each.tokens) for each in last)
            # More prefixes where the last ones' draws hardly parted from each other.
            at_once = max(room.prefixes(samples), min(GROWTH * len(last), len(last) * room.held // max(rows, 1)))
            part = slice(len(found), len(found) + at_once)
            with sampler.limit.halving(min(room.most, len(prefixes[part]) * samples)):
                last = _Drawing(sampler, scheme, uniforms[part], room).run(prefixes[part])
                found += last
    return found


@dataclass
class _Front:
    """A batch of partly drawn suffixes: draw ``draws[i]`` has become row ``row_of[i]`` of ``live`` and ``path``."""

    live: GrowingCache
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
    """One batch of prefixes being drawn after."""

    def __init__(self, sampler: SuffixSampler, scheme: DecodingConfig, uniforms: FloatArray, room: Room) -> None:
        self.sampler, self.scheme = sampler, scheme
        self.most, self.held, self.room = room.most, room.held, room.all
        self.device = sampler.target.device
        self.count, self.samples, self.length = uniforms.shape
        self.uniforms = uniforms.reshape(-1, self.length)
        self.nodes = np.zeros(len(self.uniforms), dtype=np.int64)
        self.finished: list[tuple[PartialDraws, IntArray, IntArray]] = []

    def run(self, prefixes: Sequence[Sequence[int]]) -> list[SampledSuffixes]:
        """Draw all suffixes; one result a prefix."""
        live, logits = self.sampler.begin(prefixes, self.length, self.most)
        draws = np.arange(len(self.uniforms))
        front = _Front(live, PartialDraws.empty(self.count, self.length), draws, draws // self.samples)
        self._draw(front, self._choose(front, draws, 0, logits, 0), 0, self.room)
        row_of = np.empty(len(self.uniforms), dtype=np.int64)
        offset = 0
        for path, own, which in self.finished:
            row_of[own] = which + offset
            offset += len(path.tokens)
        tokens = np.concatenate([path.tokens for path, _, _ in self.finished])
        figures = np.concatenate([path.figures for path, _, _ in self.finished], axis=1)
        parts = zip(np.split(row_of, self.count), np.split(self.nodes, self.count), strict=True)
        return [_result(rows, tokens, figures, int(nodes.sum())) for rows, nodes in parts]

    def _draw(self, front: _Front, chosen: _Chosen, step: int, room: int) -> None:
        """Draw all tokens from ``step`` on, whose own are ``chosen`` and not yet taken; memory has ``room`` for rows.

        A front that is drawn on in parts stays for the next of them: what it leaves free is theirs.
        """
        held = self._held(room)
        while True:
            # Each row's position is booked on one of its draws, and so on its prefix.
            self.nodes[front.draws[np.unique(chosen.which, return_index=True)[1]]] += 1
            if step == self.length - 1:
                path = front.path.select(chosen.parents)
                path.write(step, np.arange(len(chosen.tokens)), chosen.tokens, chosen.figures)
                self.finished.append((path, front.draws, chosen.which))
                return
            if len(chosen.tokens) > held:
                break
            self._follow(front, chosen, step, held)
            chosen = self._read(front, step)
            step += 1
        room -= front.live.rows
        for part in self._parts(front, chosen, step, self._held(room)):
            self._draw(part, self._read(part, step), step + 1, room)
            # Its memory is to be free before the next one is made.
            del part

    def _held(self, room: int) -> int:
        """Rows that a front may grow to: half of what there is room for, as its parts need some too."""
        return max(1, min(self.held, room // 2))

    def _read(self, front: _Front, step: int) -> _Chosen:
        """Have the model read the tokens of ``step``, and give every draw its next one."""
        which, parts = np.empty_like(front.row_of), []
        first = rows = 0
        while first < front.live.rows:
            part = slice(first, first + evenly(front.live.rows, self.most))
            tokens = torch.from_numpy(front.path.tokens[part, step]).to(self.device)
            here = np.flatnonzero((front.row_of >= part.start) & (front.row_of < part.stop))
            chosen = self._choose(front, here, first, self.sampler.go_on(front.live, tokens, part), step + 1)
            which[here] = chosen.which + rows
            parts.append(chosen)
            first, rows = part.stop, rows + len(chosen.tokens)
        parents, chosen_tokens = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("parents", "tokens")
        )
        return _Chosen(parents, chosen_tokens, np.concatenate([one.figures for one in parts], axis=1), which)

    def _choose(self, front: _Front, draws: IntArray, first: int, logits: Tensor, step: int) -> _Chosen:
        """Give ``draws`` of a front their tokens of ``step`` by ``logits`` ``[n, V]`` of its rows from ``first`` on."""
        rows, found = front.row_of[draws] - first, cut(logits, self.scheme)
        uniforms = torch.from_numpy(self.uniforms[front.draws[draws], step]).to(self.device)
        drawn = draw(found, torch.from_numpy(rows).to(self.device), uniforms).cpu().numpy()
        pairs, which = np.unique(rows * logits.shape[1] + drawn, return_inverse=True)
        parents, tokens = np.divmod(pairs, logits.shape[1])
        return _Chosen(parents + first, tokens, _figures(logits, found, parents, tokens), which.reshape(-1))

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

    def _parts(self, front: _Front, chosen: _Chosen, step: int, held: int) -> Iterator[_Front]:
        """Fronts of so few draws, or rows, that each may grow to ``held`` rows; made when they are asked for."""
        draws = np.bincount(chosen.which).cumsum()
        first = last = 0
        while last < len(chosen.tokens):
            first, before = last, draws[last - 1] if last else 0
            last = max(first + 1, first + held // 2, int(np.searchsorted(draws, before + held, side="right")))
            part = slice(first, last)
            own = (chosen.which >= first) & (chosen.which < last)
            parents = chosen.parents[part]
            path = front.path.select(parents)
            path.write(step, np.arange(len(parents)), chosen.tokens[part], chosen.figures[:, part])
            live = front.live.select(torch.from_numpy(parents).to(self.device))
            yield _Front(live, path, front.draws[own], chosen.which[own] - first)


def evenly(rows: int, most: int) -> int:
    """The size of parts of ``rows`` rows: as few parts as hold ``most`` each, of about one size."""
    return -(-rows // -(-rows // most))


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
