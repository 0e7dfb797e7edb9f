"""Texts that begin alike: what they share is read once, and then the rest of each.

A context, or the text before a secret, is often most of a text. Where a model's attention can look at a prefix that is
kept once for all rows, the rest of each text is read after it. Other models that remember what they read go on by a
token of each text. When this is first done, it is held against reading some of the texts from their first token.
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
"""Tokens that sharing must save, at the least, and the share of all tokens: it takes a pass of its own."""


def shared_tokens(rows: Sequence[Sequence[int]]) -> int:
    """How many tokens all ``rows`` begin with, one being left to each; 0 where reading them once saves little."""
    if len(rows) < 2:
        return 0
    shared = min(len(os.path.commonprefix(list(map(tuple, rows)))), min(map(len, rows)) - 1)
    return shared if worth_sharing(shared, len(rows), sum(map(len, rows))) else 0


def worth_sharing(shared: int, texts: int, tokens: int) -> bool:
    """Whether so many ``texts``, of so many ``tokens`` in all, are best read after the ``shared`` ones."""
    return shared * (texts - 1) >= max(SAVED, SHARE * tokens)


def lead_length(engine: Any, rows: Sequence[Sequence[int]]) -> int:
    """After how many tokens prefixes are best read: the lead in memory where it is most of them, else what they share.

    0 where reading that once saves little, or the model cannot go on from it.
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
    """Costs in bits ``[n]`` of ``rows``, each but for its first ``unscored`` ``[n]``, which are ``shared`` at the most.

    None where the model cannot go on from what all share, or had better not.
    """
    longest, own = max(map(len, rows)), [row[shared:] for row in rows]

    def whole(costs: Tensor, rest: FloatArray) -> FloatArray:
        return np.array([float(costs[skipped - 1 :].sum()) for skipped in unscored]) + rest

    def at_once() -> FloatArray:
        with engine.whole_texts.halving(1):
            begun = _begun(engine, rows[0][:shared])
        return whole(begun.costs, costs_at_once(engine, begun, own))

    def by_steps() -> FloatArray:
        with engine.whole_texts.halving(1):
            states, (costs,), logits = engine.read_first([rows[0][:shared]])
        return whole(costs, costs_by_steps(engine, states[0], logits, own))

    def right(costs: FloatArray) -> bool:
        some = _some(list(map(len, rows)))
        beside = [rows[n] for n in some], [unscored[n] for n in some], [None] * len(some)
        plain = engine.whole_texts.by_length([len(rows[n]) for n in some], engine.text_rows, engine.score, *beside)
        return agree(engine, costs[some], plain, [len(rows[n]) for n in some])

    # Of texts with one token of their own nothing is read after what they share, which proves no way to do it.
    proof = right if longest - shared > 1 else None
    factor = longest / max(longest - shared, 1)
    found = _tried(engine, engine.passes.continues, at_once, proof, longest, factor) if continues(engine) else None
    if found is None and engine.cached and len(rows) >= fewest_worth(engine, shared, longest - shared):
        found = _tried(engine, engine.passes.steps_on, by_steps, proof, longest, factor)
    return found


def states_after(engine: Any, rows: Sequence[Sequence[int]], shared: int) -> First | None:
    """What :meth:`CausalReader.read_first` finds of ``rows``; None where the model cannot go on from what all share."""
    longest = max(map(len, rows))

    def right(first: First) -> bool:
        by_length = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        places = {by_length[0], by_length[-1]} if engine.passes.beyond(longest) else {by_length[0]}
        alone = [engine.read_first([rows[place]])[2] for place in places]
        return bool(engine.passes.agree([first[2][place : place + 1] for place in places], alone))

    def found() -> First:
        return read_after(engine, _lead(engine, rows[0][:shared]), rows)

    factor = longest / max(longest - shared, 1)
    return _tried(engine, engine.passes.continues, found, right, longest, factor) if continues(engine) else None


def continues(engine: Any) -> bool:
    """Whether a model can go on from what texts share with several tokens of each, as far as is known."""
    return engine.cached and engine.passes.shares and engine.passes.continues.works is not False


def goes_on(engine: Any) -> bool:
    """Whether a model can go on from what texts share, at once or by single tokens, as far as is known."""
    return continues(engine) or (engine.cached and engine.passes.steps_on.works is not False)


def _tried(
    engine: Any, way: Tried, find: Callable[[], Any], right: Callable[[Any], bool] | None, longest: int, factor: float
) -> Any:
    """What ``find`` finds, None where it cannot or where it is not ``right``; where that is None, nothing is proven.

    It is held against that when it is first done, and once more when ``longest``, the tokens of the longest text, is
    first more than layers look back. ``factor`` is how many times as many tokens the model reads where it is not.
    """
    if way.works is False:
        return None
    beyond = engine.passes.beyond(longest)
    known = way.works and way.beyond >= beyond
    try:
        found = find()
        if not known and right is not None:
            way.works, way.beyond = right(found), beyond
    except Exception as error:
        if known or out_of_memory(error):
            raise
        log.debug("texts cannot be read after what they share: %s", type(error).__name__)
        way.works = False
    if way.works is not False:
        return found
    warn_of_slower(engine.model, "texts cannot be read after what they begin with", factor)
    return None


def _begun(engine: Any, tokens: Sequence[int]) -> Beginning:
    """What texts begin with, read after the lead in memory if it begins with that."""
    known: Beginning | None = engine.passes.lead
    if known is not None and known.tokens == tuple(tokens):
        return known
    lead = lead_length(engine, [tokens])
    first = states_after(engine, [tokens], lead) if lead else None
    return _beginning(tokens, first or engine.read_first([tokens]))


def _beginning(tokens: Sequence[int], first: First) -> Beginning:
    """Raises ValueError for a state of more than attention, from which rows cannot go on so."""
    (state,), (costs,), logits = first
    if state.prefix is None:
        raise ValueError("a state of more than attention")
    return Beginning(tuple(tokens), state, costs, logits)


def _lead(engine: Any, tokens: Sequence[int]) -> Beginning:
    """What many prefixes begin with, as a lead, which stays in memory."""
    known: Beginning | None = engine.passes.lead
    if known is None or known.tokens != tuple(tokens):
        read = _beginning(tokens, engine.read_first([tokens]))
        lead = SharedLead(read.state.prefix or [], read.state.length)
        known = replace(read, state=replace(read.state, prefix=[*read.state.tensors], lead=lead))
        engine.passes.lead = known
    return known


def _some(lengths: Sequence[int]) -> list[int]:
    """Places of a few texts, the shortest and the longest among them."""
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    return [order[at] for at in few_places(len(order)).tolist()]
