"""Texts with a common prefix: the prefix is read once, then the rest of each text.

A context, or the text before a secret, is often most of a text. If the model's attention can use one KV cache of the
prefix for all rows, the rest of each text is read in one forward pass. Other models with a cache read the rest token by
token. On first use, both strategies are verified against full passes over some of the texts.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.log import log
from leakage_tasks.targets.causal.cache import Beginning, First, SharedLead
from leakage_tasks.targets.causal.passes import Tried, few_places
from leakage_tasks.targets.causal.read_on import costs_at_once, read_after
from leakage_tasks.targets.causal.token_by_token import costs_by_steps, fewest_worth
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.noise import agree, warn_of_slower

SAVED, SHARE = 512, 0.5
"""Minimum number of tokens that sharing must save, and minimum share of all tokens; sharing takes an extra pass."""


def shared_tokens(rows: Sequence[Sequence[int]]) -> int:
    """Return the length of the common prefix of ``rows``, at least one token less than each; 0 if sharing saves
    little."""
    if len(rows) < 2:
        return 0
    shared = min(len(os.path.commonprefix(list(map(tuple, rows)))), min(map(len, rows)) - 1)
    return shared if worth_sharing(shared, len(rows), sum(map(len, rows))) else 0


def worth_sharing(shared: int, texts: int, tokens: int) -> bool:
    """Return True if reading the ``shared`` tokens once pays off for ``texts`` texts with ``tokens`` tokens in
    total."""
    return shared * (texts - 1) >= max(SAVED, SHARE * tokens)


def lead_length(engine: Any, rows: Sequence[Sequence[int]]) -> int:
    """Return the number of tokens that ``rows`` share and that are best read once.

    This is the shared context in memory if it makes up most of the rows, else their common prefix; 0 if sharing saves
    little or the model cannot continue from a cached prefix.
    """
    if not continues(engine):
        return 0
    known = engine.passes.lead
    if known is not None:
        length = len(known.tokens)
        begins = all(len(row) > length and tuple(row[:length]) == known.tokens for row in rows)
        if begins and length * len(rows) >= SHARE * sum(map(len, rows)):
            return length
    return shared_tokens(rows)


def texts_after(engine: Any, rows: Sequence[list[int]], unscored: Sequence[int], shared: int) -> FloatArray | None:
    """Compute costs in bits ``[n]`` of ``rows``, which have their first ``shared`` tokens in common.

    Each row's first ``unscored`` ``[n]`` tokens (at most ``shared``) have no cost. Return None if the model cannot
    continue from the shared prefix, or if sharing does not pay off.
    """
    longest, own_tokens = max(map(len, rows)), [row[shared:] for row in rows]

    def whole(costs: Tensor, rest: FloatArray) -> FloatArray:
        return np.array([float(costs[skipped - 1 :].sum()) for skipped in unscored]) + rest

    def at_once() -> FloatArray:
        with engine.whole_texts.halving(1):
            begun = _begun(engine, rows[0][:shared])
        return whole(begun.costs, costs_at_once(engine, begun, own_tokens))

    def by_steps() -> FloatArray:
        with engine.whole_texts.halving(1):
            states, (costs,), logits = engine.read_first([rows[0][:shared]])
        return whole(costs, costs_by_steps(engine, states[0], logits, own_tokens))

    def right(costs: FloatArray) -> bool:
        sample = _some(list(map(len, rows)))
        arguments = [rows[n] for n in sample], [unscored[n] for n in sample], [None] * len(sample)
        plain = engine.whole_texts.by_length([len(rows[n]) for n in sample], engine.text_rows, engine.score, *arguments)
        return agree(engine, costs[sample], plain, [len(rows[n]) for n in sample])

    # Texts with a single token after the shared prefix read nothing from its cache, so they cannot verify a strategy.
    proof = right if longest - shared > 1 else None
    factor = longest / max(longest - shared, 1)
    result = _tried(engine, engine.passes.continues, at_once, proof, longest, factor) if continues(engine) else None
    if result is None and engine.cached and len(rows) >= fewest_worth(engine, shared, longest - shared):
        result = _tried(engine, engine.passes.steps_on, by_steps, proof, longest, factor)
    return result


def states_after(engine: Any, rows: Sequence[Sequence[int]], shared: int) -> First | None:
    """Return :meth:`CausalReader.read_first` for ``rows``, or None if the model cannot continue from their prefix."""
    longest = max(map(len, rows))

    def right(first: First) -> bool:
        by_length = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        checked = {by_length[0], by_length[-1]} if engine.passes.beyond(longest) else {by_length[0]}
        alone = [engine.read_first([rows[number]])[2] for number in checked]
        return bool(engine.passes.agree([first[2][number : number + 1] for number in checked], alone))

    def found() -> First:
        return read_after(engine, _lead(engine, rows[0][:shared]), rows)

    factor = longest / max(longest - shared, 1)
    return _tried(engine, engine.passes.continues, found, right, longest, factor) if continues(engine) else None


def continues(engine: Any) -> bool:
    """Return True unless the model is known to fail at reading several tokens after a shared prefix."""
    return engine.cached and engine.passes.shares and engine.passes.continues.works is not False


def goes_on(engine: Any) -> bool:
    """Return True unless reading after a shared prefix is known to fail both at once and token by token."""
    return continues(engine) or (engine.cached and engine.passes.steps_on.works is not False)


def _tried(
    engine: Any, way: Tried, find: Callable[[], Any], right: Callable[[Any], bool] | None, longest: int, factor: float
) -> Any:
    """Return the result of ``find``, or None if it fails or ``right`` rejects it.

    The result is verified on first use, and again when ``longest``, the length of the longest text, first exceeds a
    layer's attention window; it is not verified without ``right``. ``factor`` is the ratio of tokens read without
    sharing, for the warning.
    """
    if way.works is False:
        return None
    beyond = engine.passes.beyond(longest)
    known = way.works and way.beyond >= beyond
    try:
        result = find()
        if not known and right is not None:
            way.works, way.beyond = right(result), beyond
    except Exception as error:
        if known or out_of_memory(error):
            raise
        log.debug("texts cannot be read after their common prefix: %s", type(error).__name__)
        way.works = False
    if way.works is not False:
        return result
    warn_of_slower(engine.model, "a common prefix of texts cannot be read once", factor)
    return None


def _begun(engine: Any, tokens: Sequence[int]) -> Beginning:
    """Read the common prefix of texts, continuing from the shared context in memory if it begins with that."""
    known: Beginning | None = engine.passes.lead
    if known is not None and known.tokens == tuple(tokens):
        return known
    lead = lead_length(engine, [tokens])
    first = states_after(engine, [tokens], lead) if lead else None
    return _beginning(tokens, first or engine.read_first([tokens]))


def _beginning(tokens: Sequence[int], first: First) -> Beginning:
    """Raise ValueError if the state is more than an attention cache, since rows cannot continue from it this way."""
    (state,), (costs,), logits = first
    if state.prefix is None:
        raise ValueError("a state of more than attention")
    return Beginning(tuple(tokens), state, costs, logits)


def _lead(engine: Any, tokens: Sequence[int]) -> Beginning:
    """Return the shared context of many prefixes, and keep it in memory."""
    known: Beginning | None = engine.passes.lead
    if known is None or known.tokens != tuple(tokens):
        read = _beginning(tokens, engine.read_first([tokens]))
        lead = SharedLead(read.state.prefix or [], read.state.length)
        known = replace(read, state=replace(read.state, prefix=[*read.state.tensors], lead=lead))
        engine.passes.lead = known
    return known


def _some(lengths: Sequence[int]) -> list[int]:
    """Return the indices of a few texts, including the shortest and the longest."""
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    return [order[at] for at in few_places(len(order)).tolist()]
