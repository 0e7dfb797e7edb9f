"""Next-token distributions of a model: their statistics, truncation by a sampling scheme, and drawn tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.loading import has_double
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.devices import on_device
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

FIRST_LOOK = 64
"""Number of most likely tokens examined before the whole vocabulary is sorted."""
AT_ONCE, AT_ONCE_ELSEWHERE = 1 << 20, 1 << 27
"""Number of logits processed at once: few enough for a CPU's cache or for several copies in GPU memory."""


@dataclass(frozen=True)
class Cut:
    """Truncation of ``n`` next-token distributions with ``logits`` ``[n, V]`` by a sampling scheme.

    A scaled logit is the logit minus the row's largest (``most``), divided by ``temperature``. A token is kept if its
    scaled logit is at least ``least``; its probability is then exp(scaled − ``log_total``). All three are ``[n]``.
    ``whole`` is True if every token is kept.
    """

    logits: Tensor
    temperature: float
    most: Tensor
    least: Tensor
    log_total: Tensor
    whole: bool = False

    def log_probability(self, tokens: Tensor) -> Tensor:
        """Return log-probabilities ``[n]`` in nats of ``tokens`` ``[n]``, −inf for tokens that are not kept."""
        return self.log_probabilities(tokens[:, None])[:, 0]

    def log_probabilities(self, tokens: Tensor) -> Tensor:
        """Return log-probabilities ``[n, k]`` in nats of ``tokens`` ``[n, k]``, −inf for tokens that are not kept."""
        return self._of_logits(self.logits.gather(1, tokens))

    def _of_logits(self, logits: Tensor) -> Tensor:
        scaled = (logits - self.most[:, None]) / self.temperature
        return torch.where(scaled >= self.least[:, None], scaled - self.log_total[:, None], -math.inf)

    def likeliest_others(self, left_out: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return up to ``most`` likeliest tokens ``[n, k]`` of each row, except for ``left_out`` ``[n, m]``.

        Also return their log-probabilities in nats, and the log-probability ``[n]`` of all further tokens together.
        """
        others = self._of_logits(self.logits).scatter_(1, left_out, -math.inf)
        top = others.topk(min(most, others.shape[1]), dim=1)
        return top.indices, top.values, others.scatter_(1, top.indices, -math.inf).logsumexp(1)

    def cpu(self) -> Cut:
        """Return the distributions on the CPU."""
        return self._each(Tensor.cpu)

    def take(self, rows: Tensor) -> Cut:
        """Return the distributions ``rows``."""
        return self._each(lambda tensor: tensor[rows])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Cut:
        tensors: dict[str, Any] = {
            name: change(getattr(self, name)) for name in ("logits", "most", "least", "log_total")
        }
        return replace(self, **tensors)


def slices(logits: Tensor) -> Iterator[Tensor]:
    """Yield ``logits`` ``[n, V]`` in parts of whole rows that are processed at once."""
    at_once = AT_ONCE if logits.device.type == "cpu" else AT_ONCE_ELSEWHERE
    yield from logits.split(max(1, at_once // logits.shape[1]))


def check_numbers(values: Any) -> None:
    """Raise TargetError if a model's probabilities, a tensor or an array, are NaN."""
    if bool((values != values).any()):
        raise TargetError("the model gives probabilities that are no numbers: load it in dtype=bfloat16 or float32")


def own_figures(logits: Tensor, rows: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return statistics of ``tokens`` ``[n]`` under rows ``rows`` ``[n]`` of the model's own ``logits`` ``[m, V]``.

    These are each token's cost in bits, the distribution's entropy in bits, and the token's probability minus that of
    the most likely other token; ``[n]`` each.
    """
    parts = [_facts(part) for part in slices(logits)]
    log_total, entropy, top = (torch.cat(column)[rows] for column in zip(*parts, strict=True))
    taken = logits[rows, tokens]
    rival = torch.where(taken >= top[:, 0], top[:, 1], top[:, 0])
    return (log_total - taken) / LN2, entropy, (taken - log_total).exp() - (rival - log_total).exp()


def _facts(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the log-normaliser in nats, the entropy in bits and the two largest logits of each distribution."""
    top = logits.topk(2, dim=1).values
    shifted = logits - top[:, :1]
    weights = shifted.exp()
    total = weights.sum(1)
    log_total = total.log()
    # Some models exclude tokens with −inf, which a weight of 0 would turn into NaN.
    entropy = log_total - (weights * shifted.clamp_(min=-1e6)).sum(1) / total
    return log_total + top[:, 0], entropy / LN2, top


def cut(logits: Tensor, scheme: DecodingConfig) -> Cut:
    """Truncate ``logits`` ``[n, V]`` in float32 by ``scheme``, which samples.

    Raises TargetError for NaN if the scheme limits ``top_p``; else the distributions of these rows are NaN.
    """
    parts = [_cut(part, scheme) for part in slices(logits)]
    most, least, log_total = (torch.cat(column) for column in zip(*parts, strict=True))
    whole = scheme.top_p == 1 and not 0 < scheme.top_k < logits.shape[1]
    return Cut(logits, scheme.temperature, most, least, log_total, whole)


def greedy_cut(logits: Tensor) -> Cut:
    """Keep only the most likely token of each row of ``logits`` ``[n, V]``; of equal tokens that of the lowest id."""
    check_numbers(logits)
    nothing = logits.new_zeros(len(logits))
    alone = torch.full_like(logits, -math.inf).scatter_(1, logits.argmax(1, keepdim=True), 0.0)
    return Cut(alone, 1.0, nothing, nothing, nothing)


def _cut(logits: Tensor, scheme: DecodingConfig) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest logit, the smallest kept scaled logit and the log of the kept total, ``[n]`` each."""
    most = logits.amax(1)
    scaled = (logits - most[:, None]) / scheme.temperature
    least = torch.full_like(most, -math.inf)
    if 0 < scheme.top_k < logits.shape[1]:
        least = scaled.topk(scheme.top_k, dim=1).values[:, -1]
        # Tokens as likely as the last kept token are also kept, as in `transformers`.
        scaled = scaled.masked_fill(scaled < least[:, None], -math.inf)
    log_total = scaled.logsumexp(1)
    if scheme.top_p == 1:
        return most, least, log_total
    check_numbers(log_total)
    # A token with more than half of the probability has no equal.
    alone = (-log_total).exp() >= max(scheme.top_p, 0.51)
    least, total = torch.where(alone, 0.0, least), torch.where(alone, 0.0, log_total)
    _nucleus(scaled, log_total, (~alone).nonzero()[:, 0], scheme.top_p, least, total)
    return most, least, total


def _nucleus(scaled: Tensor, log_total: Tensor, rows: Tensor, top_p: float, least: Tensor, total: Tensor) -> None:
    """Set ``least`` and ``total`` of rows with several kept tokens, examining more tokens only if needed."""
    width = min(FIRST_LOOK, scaled.shape[1])
    while len(rows):
        top = scaled[rows].topk(width, dim=1).values
        share = (top - log_total[rows, None]).exp()
        inside = ((share.cumsum(1) - share) < top_p) & (share > 0)
        last = inside.sum(1, keepdim=True) - 1
        ends = top.gather(1, last)
        # Tokens as likely as the last kept token may follow the examined tokens.
        done = top[:, -1] < ends[:, 0] if width < scaled.shape[1] else torch.ones_like(rows, dtype=torch.bool)
        least[rows[done]] = ends[done, 0]
        total[rows[done]] = top.masked_fill(top < ends, -math.inf).logsumexp(1)[done]
        rows, width = rows[~done], min(width * 8, scaled.shape[1])


def draw(truncated: Cut, rows: IntArray, uniforms: FloatArray) -> Tensor:
    """Draw a token for each of ``uniforms`` ``[d]`` in [0, 1) from the distributions ``rows`` ``[d]``.

    Tokens are in the order of their ids, so rounding affects only the draw it touches. Draws from all tokens do not
    wait for the device.
    """
    if not has_double(truncated.logits.device):
        return draw(truncated.cpu(), rows, uniforms).to(truncated.logits.device)
    device, first = truncated.logits.device, 0
    tokens = torch.empty(len(rows), dtype=torch.long, device=device)
    for part in slices(truncated.logits):
        here = np.flatnonzero((rows >= first) & (rows < first + len(part)))
        if len(here):
            rows_here = slice(first, first + len(part))
            scaled = (part - truncated.most[rows_here, None]) / truncated.temperature
            kept = _kept_tokens(scaled, truncated.least[rows_here], truncated.whole)
            tokens[on_device(here, device)] = _draw_tokens(*kept, rows[here] - first, uniforms[here])
        first += len(part)
    return tokens


def _draw_tokens(ids: Tensor | None, weights: Tensor, count: Tensor, rows: IntArray, uniforms: FloatArray) -> Tensor:
    running, device = weights.cumsum(1), weights.device
    most, ranks = _within(rows, len(weights))
    row, rank, uniform = (on_device(array, device) for array in (rows, ranks, uniforms))
    sought = running.new_zeros(len(weights), most)
    sought[row, rank] = uniform.double() * running[row, -1]
    index = torch.searchsorted(running, sought, right=True)[row, rank]
    index = torch.minimum(index, count[row] - 1)
    return index if ids is None else ids[row, index]


def _kept_tokens(scaled: Tensor, least: Tensor, whole: bool) -> tuple[Tensor | None, Tensor, Tensor]:
    """Return the kept tokens' ids ``[n, k]`` (None: all), weights (0 for padding) and number ``[n]``."""
    if whole:
        return None, scaled.double().exp(), torch.full_like(least, scaled.shape[1], dtype=torch.long)
    row, column = (scaled >= least[:, None]).nonzero(as_tuple=True)
    count = torch.bincount(row, minlength=len(scaled))
    rank = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    ids = column.new_zeros(len(scaled), int(count.max())).index_put((row, rank), column)
    weights = ids.new_zeros(ids.shape, dtype=torch.float64)
    return ids, weights.index_put((row, rank), scaled[row, column].double().exp()), count


def _within(rows: IntArray, size: int) -> tuple[int, IntArray]:
    """Return the largest number of entries of one of ``size`` rows, and the rank of each entry within its row."""
    counts = np.bincount(rows, minlength=size)
    order = rows.argsort(kind="stable")
    rank = np.empty_like(rows)
    rank[order] = np.arange(len(rows)) - (counts.cumsum() - counts)[rows[order]]
    return int(counts.max()), rank
