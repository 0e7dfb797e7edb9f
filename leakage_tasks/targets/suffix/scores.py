"""Costs of given suffixes from one teacher-forced pass, without sampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import padded
from leakage_tasks.targets.devices import double_array
from leakage_tasks.targets.pass_rows import rows_at_once
from leakage_tasks.targets.suffix.causal import SuffixSampler
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.sampled_suffixes import SuffixCosts
from leakage_tasks.targets.suffix.truncation import check_numbers, cut, slices

LOGITS_ELSEWHERE = 1 << 28
"""Maximum number of logits of a batch on devices other than a CPU."""


def score_suffixes(
    sampler: SuffixSampler, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], scheme: DecodingConfig
) -> list[SuffixCosts]:
    """Score each suffix after its prefix; all suffixes have one length, and all prefixes have one length.

    The product of the probabilities under the scheme is p_z (Hayes et al. 2024, arXiv:2410.19482).
    """
    rows = [[*prefix, *suffix] for prefix, suffix in zip(prefixes, suffixes, strict=True)]
    length = len(suffixes[0]) if suffixes else 0
    at_once = _rows(sampler, len(rows[0]), length) if rows else 1
    parts = sampler.limit.parts(len(rows), lambda part: _score(sampler, rows[part], length, scheme), at_once)
    return list(itertools.chain.from_iterable(parts))


def _rows(sampler: SuffixSampler, length: int, suffix_length: int) -> int:
    target = sampler.target
    most = min(sampler.limit.most, target.pass_rows.with_logits(suffix_length))
    if target.device.type != "cpu":
        most = min(most, max(1, LOGITS_ELSEWHERE // (suffix_length * sampler.vocabulary)))
    return rows_at_once(
        target.device, length, None, target.max_length, min(most, sampler.asked(length)), sampler.tokens
    )


def _score(
    sampler: SuffixSampler, rows: Sequence[Sequence[int]], length: int, scheme: DecodingConfig
) -> list[SuffixCosts]:
    tokens = sampler.tensor([[*sampler.before, *row] for row in rows])
    with sampler.target.inference():
        logits = sampler.target.read(tokens[:, :-1], length)
        own, drawn, top1 = _costs(logits.reshape(-1, logits.shape[-1]), tokens[:, -length:].reshape(-1), scheme)
    return [
        SuffixCosts(one, None if scheme.decoding == "beam" else other, first)
        for one, other, first in zip(*(part.reshape(-1, length) for part in (own, drawn, top1)), strict=True)
    ]


def _costs(logits: Tensor, tokens: Tensor, scheme: DecodingConfig) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Compute costs ``[n]`` of ``tokens`` ``[n]`` from ``logits`` ``[n, V]``: own costs, and costs under the scheme.

    Also return True for each token that is the first choice.
    """
    own, drawn, top1, first = [], [], [], 0
    for part in slices(logits):
        wanted = tokens[first : first + len(part)]
        first += len(part)
        own.append(_own(part, wanted))
        top1.append(part.argmax(1) == wanted)
        if scheme.decoding == "sample":
            drawn.append(-cut(part, scheme).log_probability(wanted))
        else:
            drawn.append(torch.where(top1[-1], 0.0, math.inf))
    return _bits(own), _bits(drawn), torch.cat(top1).cpu().numpy()


def _own(logits: Tensor, tokens: Tensor) -> Tensor:
    """Compute costs ``[n]`` in nats of ``tokens`` ``[n]`` from logits ``[n, V]``."""
    return logits.logsumexp(1) - logits.gather(1, tokens[:, None])[:, 0]


def _bits(parts: Sequence[Tensor]) -> FloatArray:
    costs = double_array(torch.cat(list(parts))) / LN2
    check_numbers(costs)
    return np.maximum(costs, 0.0)


def costs_after(
    sampler: SuffixSampler,
    prefixes: Sequence[Sequence[int]],
    continuations: Sequence[Sequence[int]],
    whole: bool | None = None,
) -> list[FloatArray]:
    """Compute own costs in bits of the tokens of each continuation after its prefix.

    Continuations may have any length; all prefixes have one length. A prefix of several continuations is read once,
    unless ``whole`` is True: then each continuation is read together with its prefix. The default is the faster method
    (:meth:`SuffixSampler.better_whole`).
    """
    if not continuations:
        return []
    together: dict[tuple[int, ...], list[int]] = {}
    for index, prefix in enumerate(prefixes):
        together.setdefault(tuple(prefix), []).append(index)
    longest = max(map(len, continuations))
    several, costs = list(together), [np.zeros(0)] * len(continuations)
    if sampler.better_whole(several, len(continuations), longest) if whole is None else whole:
        return _whole(sampler, prefixes, continuations, longest)

    def read(part: slice) -> None:
        batch = several[part]
        indices = [number for prefix in batch for number in together[prefix]]
        parents = np.repeat(np.arange(len(batch)), [len(together[prefix]) for prefix in batch])
        results = _after(sampler, batch, parents, [continuations[number] for number in indices], longest)
        for number, result in zip(indices, results, strict=True):
            costs[number] = result

    sampler.limit.parts(len(several), read, sampler.bound(several[0], longest))
    return costs


def _after(
    sampler: SuffixSampler,
    prefixes: Sequence[Sequence[int]],
    parents: IntArray,
    batch: Sequence[Sequence[int]],
    longest: int,
) -> list[FloatArray]:
    """Compute the costs of each continuation of ``batch`` after prefix number ``parents[i]``."""
    with sampler.target.inference():
        live, logits = sampler.begin(prefixes, longest)

        def read(part: slice) -> list[FloatArray]:
            rows, tokens = sampler.tensor(parents[part]), padded(batch[part], 0)[0].to(sampler.target.device)
            bits = _bits([_own(logits[rows], tokens[:, 0])])[:, None]
            if tokens.shape[1] > 1:
                after = sampler.read_more(live.select(rows), tokens[:, :-1])
                bits = np.concatenate([bits, _of_each(after, tokens[:, 1:])], axis=1)
            return [bits[index, : len(tokens_of)] for index, tokens_of in enumerate(batch[part])]

        at_once = min(sampler.bound(prefixes[0], longest), _rows(sampler, longest, longest))
        return list(itertools.chain.from_iterable(sampler.limit.parts(len(batch), read, at_once)))


def _whole(
    sampler: SuffixSampler, prefixes: Sequence[Sequence[int]], batch: Sequence[Sequence[int]], longest: int
) -> list[FloatArray]:
    """Compute the costs of each continuation of ``batch``, read together with its prefix."""
    before = [[*sampler.before, *prefix] for prefix in prefixes]

    def read(part: slice) -> list[FloatArray]:
        tokens = padded(batch[part], 0)[0].to(sampler.target.device)
        texts = torch.cat([sampler.tensor(before[part]), tokens[:, :-1]], dim=1)
        with sampler.target.inference():
            bits = _of_each(sampler.target.read(texts, tokens.shape[1]), tokens)
        return [bits[index, : len(tokens_of)] for index, tokens_of in enumerate(batch[part])]

    at_once = _rows(sampler, len(before[0]) + longest, longest)
    return list(itertools.chain.from_iterable(sampler.limit.parts(len(batch), read, at_once)))


def _of_each(logits: Tensor, tokens: Tensor) -> FloatArray:
    """Compute own costs ``[n, k]`` in bits of ``tokens`` ``[n, k]`` from logits ``[n, k, V]``."""
    parts, wanted = list(slices(logits.flatten(0, 1))), tokens.flatten()
    return _bits(list(map(_own, parts, wanted.split(list(map(len, parts)))))).reshape(tokens.shape)
