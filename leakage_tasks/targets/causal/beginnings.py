"""Texts with a common prefix: the prefix is read once, then the rest of each text.

A context, or the text before a secret, is often most of a text.
"""

from __future__ import annotations

import math
import os.path
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.batches import padded, row_bits
from leakage_tasks.targets.causal.first_passes import Begun, token_bits

SAVED, SHARE = 512, 0.5
"""Minimum number of tokens that sharing must save, and minimum share of all tokens; sharing takes an extra pass."""
CONTEXT = 64
"""Minimum number of tokens of a prefix that is stored once for all rows; a shorter one is copied for each row of a
pass, which takes less time than a second product in each layer."""
PASS_ON_CPU, PASS_ELSEWHERE = 256, 4096
"""Minimum number of tokens that one more pass of single tokens must save, on a CPU and on other devices."""


def shared_tokens(rows: Sequence[Sequence[int]]) -> int:
    """Return the length of the common prefix of ``rows``, at least one token less than each; 0 if sharing saves
    little."""
    if len(rows) < 2:
        return 0
    shared = min(len(os.path.commonprefix([min(map(tuple, rows)), max(map(tuple, rows))])), min(map(len, rows)) - 1)
    return shared if worth_sharing(shared, len(rows), sum(map(len, rows))) else 0


def worth_sharing(shared: int, texts: int, tokens: int) -> bool:
    """Return True if reading the ``shared`` tokens once pays off for ``texts`` texts with ``tokens`` tokens in
    total."""
    return shared * (texts - 1) >= max(SAVED, SHARE * tokens)


def fewest_sharing(reader: Any, length: int, own: int) -> int | None:
    """Return the minimum number of texts of ``length`` tokens that share all but their last ``own`` tokens; None if no
    number of texts does."""
    shared, saved = length - own, length - own - SHARE * length
    if saved <= 0:
        return None
    fewest = math.ceil(max(1 + SAVED / shared, shared / saved))
    return fewest if continues(reader) else max(fewest, fewest_worth(reader, shared, own))


def continues(reader: Any) -> bool:
    """Return True unless the model is known to fail at reading several tokens after a prefix."""
    return bool(reader.engine.cached and reader.engine.reads_many)


def fewest_worth(reader: Any, shared: int, longest: int) -> int:
    """Return the minimum number of texts for which reading ``shared`` tokens once pays for ``longest`` passes.

    Each pass reads one token of each text; ``longest`` is the largest number of tokens after the shared prefix.
    """
    return 1 + math.ceil(longest * worth_of_a_pass(reader) / shared)


def worth_of_a_pass(reader: Any) -> int:
    """Return the minimum number of tokens that one more pass must save."""
    return PASS_ON_CPU if reader.device.type == "cpu" else PASS_ELSEWHERE


def begin(reader: Any, texts: Sequence[Sequence[int]], sources: Sequence[Any]) -> Begun:
    """Read texts from their first token; a long prefix that they share is read and stored once."""
    known = shared_context(reader, texts, sources)
    if known is None and len(texts) == 1 and len(texts[0]) >= CONTEXT and sources[0] is None and continues(reader):
        begun: Begun = reader.engine.share(texts[0])
        return begun
    return begin_after(reader, known, texts, sources)


def shared_context(reader: Any, texts: Sequence[Sequence[int]], sources: Sequence[Any]) -> Begun | None:
    """Return the stored context that all texts begin with, after reading and storing it if that saves enough; else
    None."""
    if not continues(reader) or any(source is not None for source in sources):
        return None
    known: Begun | None = reader.engine.context_of(texts)
    if known is None and (shared := shared_tokens(texts)) >= CONTEXT:
        known = reader.engine.share(texts[0][:shared])
    return known if continues(reader) else None


def begin_after(reader: Any, known: Begun | None, texts: Sequence[Sequence[int]], sources: Sequence[Any]) -> Begun:
    """Return :meth:`Engine.begin` for texts that begin with the ``known`` text, if any, and have more tokens."""
    if known is None:
        whole: Begun = reader.engine.begin(texts, sources)
        return whole
    skipped = len(known.costs[0]) + 1
    rests = [list(text[skipped:]) for text in texts]
    ids, mask = padded(rests, 0)
    lengths = mask.sum(1).numpy()
    logits, rows = reader.engine.go_on(np.repeat(known.rows.numbers, len(texts)), ids.numpy(), lengths)
    with reader.inference():
        after = torch.cat([known.logits[None].expand(len(texts), -1, -1), logits[:, :-1]], dim=1)
        costs = token_bits(after, ids.to(after.device))
        last = logits[torch.arange(len(texts)), torch.from_numpy(lengths - 1)]
    own = zip(costs, lengths.tolist(), strict=True)
    return Begun(rows, [np.concatenate([known.costs[0], row[:length]]) for row, length in own], last)


def costs_after(reader: Any, rows: Sequence[list[int]], unscored: Sequence[int], shared: int) -> FloatArray | None:
    """Compute costs in bits ``[n]`` of ``rows``, which have their first ``shared`` tokens in common.

    Each row's first ``unscored`` ``[n]`` tokens (at most ``shared``) have no cost. Return None if the model cannot
    continue from the shared prefix, or if sharing does not pay off.
    """
    own, longest = [row[shared:] for row in rows], max(map(len, rows)) - shared
    if not continues(reader) and len(rows) < fewest_worth(reader, shared, longest):
        return None
    with reader.pass_rows.whole_texts.halving(1):
        begun = begin(reader, [rows[0][:shared]], [None])
    scored = {skipped: float(begun.costs[0][skipped - 1 :].sum()) for skipped in set(unscored)}
    return np.array([scored[skipped] for skipped in unscored]) + _costs_of_rest(reader, begun, own, shared)


def _costs_of_rest(reader: Any, begun: Begun, own: Sequence[list[int]], shared: int) -> FloatArray:
    """Compute costs in bits ``[n]`` of the tokens ``own`` of each text after the common prefix."""

    def read(batch: Sequence[list[int]]) -> FloatArray:
        tokens, mask = padded(batch, 0)
        before, lengths = np.repeat(begun.rows.numbers, len(batch)), mask.sum(1).numpy() - 1
        if not continues(reader):
            return _costs_by_steps(reader, before, tokens.numpy(), lengths)
        logits, _ = reader.engine.go_on(before, tokens[:, :-1].numpy(), lengths, keep=False)
        with reader.inference():
            return row_bits(logits, tokens[:, 1:].to(logits.device), mask[:, 1:].to(logits.device))

    def fit(length: int) -> int:
        if continues(reader):
            return int(reader.text_rows(shared + length, length, copied))
        return int(reader.step_rows(begun.rows))

    copied = reader.engine.copied_tokens(begun.rows.numbers)
    first, inverse = np.unique([row[0] for row in own], return_inverse=True)
    costs: FloatArray = reader.costs(begun.logits, first)[0, inverse]
    # Nothing follows a text of one token. Texts in order share most tokens with their neighbours.
    longer = sorted((index for index, row in enumerate(own) if len(row) > 1), key=own.__getitem__)
    rows = [own[index] for index in longer]
    padding = reader.most_padding if continues(reader) else math.inf
    costs[longer] += reader.pass_rows.whole_texts.by_length(list(map(len, rows)), fit, read, rows, most_padding=padding)
    return costs


def _costs_by_steps(reader: Any, before: IntArray, tokens: IntArray, lengths: IntArray) -> FloatArray:
    """Compute costs in bits ``[n]`` of tokens ``[n, 1 + k]`` after the first, of which ``lengths`` ``[n]`` count."""
    costs = np.zeros(len(tokens))
    for column, (going, which, logits, _) in enumerate(reader.engine.steps(before, tokens[:, :-1], lengths), 1):
        columns, index = np.unique(tokens[going, column], return_inverse=True)
        costs[going] += reader.costs(logits, columns)[which, index]
    return costs
