"""Bounds on the probability that a draw is within a small edit distance of the true suffix, by beam search.

A draw has as many tokens as the true suffix. The beam holds beginnings of draws, with exact probabilities, whose
distance can still become small enough. The probability of a beginning counts for the lower bound as soon as its
distance stays small enough whatever follows. Beginnings are distinct, so their probabilities add up. A beginning
for which the beam has no place counts for the upper bound only. Cooper et al. 2026 (arXiv:2603.24917) proposed a beam
search that is pruned by edit distance for this lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.devices import double_array
from leakage_tasks.targets.suffix.beginnings import NEVER, Beginnings
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.edit_band import BandWindow, EditBand
from leakage_tasks.targets.suffix.sampled_suffixes import NearBounds
from leakage_tasks.targets.suffix.search import in_parts, selected
from leakage_tasks.targets.suffix.truncation import Cut, check_numbers, cut, greedy_cut, slices


def near_bounds(
    sampler: SuffixSampler,
    prefixes: Sequence[Sequence[int]],
    suffixes: Sequence[Sequence[int]],
    scheme: DecodingConfig,
    edits: int,
    width: int,
) -> list[NearBounds]:
    """Return bounds for each true suffix after its prefix.

    Args:
        sampler: The model.
        prefixes: Token ids, all of one length.
        suffixes: Token ids of the true suffixes, all of one length.
        scheme: The decoding scheme, which samples or is greedy.
        edits: Largest number of token edits, fewer than the tokens of a suffix.
        width: Largest number of beginnings per suffix in the beam. The true suffix, if it can be drawn, has a place.

    Returns:
        The bounds, in the order of the suffixes.

    Raises:
        TargetError: Memory runs out, or the model's probabilities are NaN.
    """

    def run(part: slice) -> list[NearBounds]:
        return _NearBeam(sampler, prefixes[part], suffixes[part], scheme, edits, width).run()

    return in_parts(sampler, prefixes, len(suffixes[0]) if suffixes else 0, width, "near_beam", run)


class _NearBeam:
    """The beams of some suffixes, which advance together: row i of ``live`` is beginning i of ``beam``."""

    def __init__(
        self,
        sampler: SuffixSampler,
        prefixes: Sequence[Sequence[int]],
        suffixes: Sequence[Sequence[int]],
        scheme: DecodingConfig,
        edits: int,
        width: int,
    ) -> None:
        self.sampler, self.scheme, self.width = sampler, scheme, width
        self.truth: IntArray = np.array(suffixes, dtype=np.int64)
        count, length = self.truth.shape
        self.band = EditBand(length, edits)
        self.live, self.logits = sampler.begin(prefixes, length)
        owner, rows = np.arange(count), np.tile(self.band.first(), (count, 1))
        self.beam = Beginnings(owner, owner, owner, np.zeros(count), rows, np.ones(count, dtype=bool))
        self.near, self.lost = np.full(count, NEVER), np.full(count, NEVER)
        self.nodes = np.zeros(count, dtype=np.int64)

    def run(self) -> list[NearBounds]:
        """Search to the end and return the bounds of each suffix."""
        for drawn in range(1, self.band.length + 1):
            self.nodes += np.bincount(self.beam.owner, minlength=len(self.truth))
            self._keep(self._candidates(drawn))
            if not len(self.beam):
                break
            self.live = selected(self.live, self.sampler.tensor(self.beam.parent))
            self.logits = self.sampler.go_on(self.live, self.sampler.tensor(self.beam.token))
        high = np.logaddexp(self.near, self.lost)
        bits, high_bits = (np.maximum(-log_p / LN2, 0.0) for log_p in (self.near, high))
        return [
            NearBounds(self.band.most, float(low), float(top), int(nodes))
            for low, top, nodes in zip(bits, high_bits, self.nodes, strict=True)
        ]

    def _keep(self, candidates: Beginnings) -> None:
        """Keep the likeliest beginnings of each suffix, with that of the true suffix; add up the others."""
        # Equal probabilities are ordered by parent and token, so that the batch does not decide.
        keys = candidates.token, candidates.parent, -candidates.log_p, ~candidates.true, candidates.owner
        candidates = candidates[np.lexsort(keys)]
        rank = np.arange(len(candidates)) - np.searchsorted(candidates.owner, candidates.owner)
        candidates[rank >= self.width].add_to(self.lost)
        self.beam = candidates[rank < self.width]

    def _candidates(self, drawn: int) -> Beginnings:
        """Return the undecided beginnings of ``drawn`` tokens; add up others that are certain to end near enough."""
        window, parts, first = BandWindow.at(self.band, self.truth, drawn), [], 0
        for logits in slices(self.logits):
            rows = np.arange(first, first + len(logits))
            beam = replace(self.beam[rows], parent=rows)
            kept = greedy_cut(logits) if self.scheme.decoding == "greedy" else cut(logits, self.scheme)
            check_numbers(kept.log_total)
            parts += self._after(beam, kept, window, drawn)
            first += len(logits)
        return Beginnings.joined(parts)

    def _after(self, beam: Beginnings, kept: Cut, window: BandWindow, drawn: int) -> list[Beginnings]:
        """Return the undecided beginnings that follow ``beam``, whose next tokens have the distributions ``kept``.

        A token outside the window makes no beginning certain: the worst case of its parent is such a token.
        """
        true, tokens = self.truth[:, drawn - 1], window.tokens[beam.owner]
        rows = self.band.follow(beam.rows[:, None], window.equal[beam.owner], drawn)
        certain = self.band.worst(rows, drawn) <= self.band.most
        undecided = ~certain & (self.band.least(rows, drawn) <= self.band.most)
        added = double_array(kept.log_probabilities(self.sampler.tensor(tokens)))
        grown = []
        for which in (certain, undecided):
            row, column = np.nonzero(which[:, :-1] & window.distinct[beam.owner])
            grown.append(beam.grow(row, tokens[row, column], added[row, column], rows[row, column], true))
        grown[0].add_to(self.near)
        free = np.flatnonzero(undecided[:, -1])
        outside = self._outside(beam[free], kept.take(self.sampler.tensor(free)), tokens[free], rows[free, -1])
        return [grown[1], outside]

    def _outside(self, beam: Beginnings, kept: Cut, window: IntArray, rows: IntArray) -> Beginnings:
        """Return the likeliest beginnings with a token that is not in ``window`` ``[n, band]``; add up the others."""
        tokens, added, rest = kept.likeliest_others(self.sampler.tensor(window), self.width)
        replace(beam, log_p=beam.log_p + double_array(rest)).add_to(self.lost)
        parents = np.repeat(np.arange(len(rows)), tokens.shape[1])
        nowhere = np.full(len(self.truth), -1)
        return beam.grow(parents, tokens.flatten().cpu().numpy(), double_array(added.flatten()), rows[parents], nowhere)
