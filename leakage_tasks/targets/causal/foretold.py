"""Expected logits for verifying the first decoding step, computed together with the first prefix.

Each batching strategy is verified against unbatched passes on first use. Reading the prefix with one more token in the
pass over the prefix itself adds almost no cost, and saves a pass for that verification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.log import log
from leakage_tasks.targets.causal.cache import First, RowState
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.protocols import Paths

FEW_TOKENS = 32
"""Maximum number of tokens in such a pass; a longer prefix costs more than the pass that is saved."""


@dataclass(frozen=True)
class Foretold:
    """Expected logits ``[k, V]`` after each of k ``tokens`` that follow a prefix, identified by its KV cache."""

    prefix: list[Tensor]
    tokens: Sequence[int]
    logits: Tensor

    def beside(self, state: RowState, fed: Tensor, logits: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return actual and expected logits for the tokens in ``fed`` ``[n, 1]`` that have expected logits.

        Return None if this is not the first step after the prefix, or ``fed`` contains no such token.
        """
        if state.prefix is not self.prefix or state.tensors[0].shape[-2]:
            return None
        known = {token: index for index, token in enumerate(self.tokens)}
        pairs = [(row, known[token]) for row, token in enumerate(fed[:, 0].tolist()) if token in known]
        if not pairs:
            return None
        rows, expected = torch.tensor(pairs, device=logits.device).T
        return logits[rows], self.logits[expected]


def first_tokens(paths: Paths | None, columns: IntArray) -> list[int]:
    """Return the first and the last token that a search of ``paths`` reads first, if ``columns`` belong to it.

    Two tokens are needed to detect swapped rows.
    """
    if paths is None or paths.columns is not columns:
        return []
    states = paths.table(np.array([paths.root]))[0]
    may_follow = np.flatnonzero(states >= 0)
    inner = may_follow[paths.goes_on(states[may_follow])]
    return [int(columns[column]) for column in dict.fromkeys([*inner[:1], *inner[-1:]])]


def read_ahead(engine: Any, tokens: Sequence[int], ahead: Sequence[int]) -> First | None:
    """Return the result of :meth:`CausalReader.read_first` for one text, and store the expected logits after ``ahead``.

    Return None if expected logits are not needed or cannot be computed.
    """
    rows = [list(tokens), *([*tokens, token] for token in ahead)]
    fits = len(tokens) < engine.max_length and len(rows) * len(rows[-1]) <= FEW_TOKENS
    taking = engine.passes
    if not (engine.cached and ahead and fits) or taking.asked_ahead or taking.pads is False:
        return None
    taking.asked_ahead = True
    try:
        states, costs, logits = engine.read_together(rows)
    except Exception as error:
        if out_of_memory(error):
            raise
        log.debug("a prefix cannot be read with longer texts: %s", error)
        return None
    taking.foretold = Foretold(states[0].prefix, ahead, logits[1:])
    return states[:1], costs[:1], logits[:1]
