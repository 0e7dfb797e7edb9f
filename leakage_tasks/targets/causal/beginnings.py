"""Texts that begin alike: what they share is read once, and then the rest of each.

A context, or the text before a secret, is often most of a text. Where a model's attention can look at a prefix that is
kept once for all rows, the rest of each text is read after it. When this is first done, it is held against reading some
of the texts from their first token.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.log import log
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import TOLERANCE_BITS, TOLERANCE_SHARE, in_half_precision, padded, row_bits
from leakage_tasks.targets.causal.cache import Beginning, First, RowState, SharedLead
from leakage_tasks.targets.causal.passes import few_places
from leakage_tasks.targets.causal.picked import pick
from leakage_tasks.targets.memory import out_of_memory

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
    if not goes_on(engine):
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

    None where the model cannot go on from what all share.
    """

    def found() -> FloatArray:
        with engine.whole_texts.halving(1):
            begun = _begun(engine, rows[0][:shared])
        known = [float(begun.costs[skipped - 1 :].sum()) for skipped in unscored]
        own = [row[shared:] for row in rows]
        first, place = np.unique([row[0] for row in own], return_inverse=True)
        next_one = engine.costs(begun.logits, first)[0, place]

        def read(some: Sequence[list[int]]) -> FloatArray:
            tokens, mask = (part.to(engine.device) for part in padded(some, 0))
            if tokens.shape[1] == 1:
                return np.zeros(len(some))
            with engine.inference():
                said, _ = _read_on(engine, begun.state, tokens[:, :-1])
                return row_bits(said, tokens[:, 1:], mask[:, 1:])

        def at_once(length: int) -> int:
            return int(engine.text_rows(length, length - shared))

        lengths = list(map(len, rows))
        rest = engine.whole_texts.by_length(lengths, at_once, read, own, most_padding=engine.most_padding)
        return np.array(known) + next_one + rest

    def right(costs: FloatArray) -> bool:
        some = _some(list(map(len, rows)))
        beside = [rows[n] for n in some], [unscored[n] for n in some], [None] * len(some)
        plain = engine.whole_texts.by_length([len(rows[n]) for n in some], engine.text_rows, engine.score, *beside)
        share = TOLERANCE_SHARE if in_half_precision(engine.model, engine.autocast) else 0.0
        return np.allclose(costs[some], plain, atol=TOLERANCE_BITS, rtol=share)

    return _tried(engine, found, right, max(map(len, rows)))


def states_after(engine: Any, rows: Sequence[Sequence[int]], shared: int) -> First | None:
    """What :meth:`CausalReader.read_first` finds of ``rows``; None where the model cannot go on from what all share."""
    longest = max(map(len, rows))

    def found() -> First:
        lead = _lead(engine, rows[0][:shared])
        own = [list(row[shared:]) for row in rows]
        tokens = padded(own, 0)[0].to(engine.device)
        with engine.inference():
            said, grown = _read_on(engine, lead.state, tokens)
            after = torch.cat([lead.logits[None].expand(len(rows), -1, -1), said[:, :-1]], dim=1)
            costs = after.log_softmax(-1).gather(-1, tokens[..., None])[..., 0].cpu().double() / -LN2
            last = said[torch.arange(len(rows)), torch.tensor(list(map(len, own))) - 1]
            states = [_one(grown, place, len(own[place]), len(row)) for place, row in enumerate(rows)]
        return states, [torch.cat([lead.costs, row[: len(each)]]) for row, each in zip(costs, own, strict=True)], last

    def right(first: First) -> bool:
        by_length = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        places = {by_length[0], by_length[-1]} if engine.passes.is_beyond(longest) else {by_length[0]}
        alone = [engine.read_first([rows[place]])[2] for place in places]
        return bool(engine.passes.agree([first[2][place : place + 1] for place in places], alone))

    return _tried(engine, found, right, longest)


def goes_on(engine: Any) -> bool:
    """Whether a model can go on from what texts share, as far as is known."""
    return engine.cached and engine.passes.shares and engine.passes.continues is not False


def _tried(engine: Any, find: Callable[[], Any], right: Callable[[Any], bool], longest: int) -> Any:
    """What ``find`` finds, None where it cannot, or where it is not ``right`` when this is first done.

    It is first done twice, with texts that are ``longest`` within what the model's layers look back, and beyond it.
    """
    if not goes_on(engine):
        return None
    passes, beyond = engine.passes, engine.passes.is_beyond(longest)
    known = passes.continues_beyond if beyond else passes.continues
    try:
        found = find()
        if not known:
            passes.continues = right(found)
            passes.continues_beyond = beyond
    except Exception as error:
        if known or out_of_memory(error):
            raise
        log.debug("texts cannot be read after what they share: %s", type(error).__name__)
        passes.continues = False
    return found if passes.continues else None


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


def _read_on(engine: Any, state: RowState, tokens: Tensor) -> tuple[Tensor, RowState]:
    """Read ``tokens`` ``[n, k]`` after the one text of ``state``: logits ``[n, k, V]``, the state of n texts."""
    copies = torch.zeros(len(tokens), dtype=torch.long)
    (said,), (grown,) = engine.passes.read_shared([pick([state], copies, copies)], [tokens])
    return said, grown


def _one(state: RowState, row: int, own: int, read: int) -> RowState:
    """One text of a state, ``read`` tokens of which the last are its ``own``; these become its prefix."""
    prefix = [tensor[row : row + 1, ..., :own, :].clone() for tensor in state.tensors]
    nothing = [tensor[..., own:, :] for tensor in prefix]
    return replace(state, tensors=nothing, prefix=prefix, length=state.length + own, read=read)


def _some(lengths: Sequence[int]) -> list[int]:
    """Places of a few texts, the shortest and the longest among them."""
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    return [order[at] for at in few_places(len(order)).tolist()]
