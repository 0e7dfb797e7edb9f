"""What the pass over a first prefix tells beside: what comes after some tokens more, which proves the step after it.

A way to take steps is held against plain passes when it is first used. Texts of the prefix and one token more cost next
to nothing where the prefix is read anyhow, and save a pass of their own.
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
"""The most that the pass may read; a longer prefix costs more than the pass that is saved."""


@dataclass(frozen=True)
class Foretold:
    """Logits ``[k, V]`` after each of k ``tokens`` that follow a prefix, whose keys and values tell it apart."""

    prefix: list[Tensor]
    tokens: Sequence[int]
    logits: Tensor

    def beside(self, state: RowState, fed: Tensor, logits: Tensor) -> tuple[Tensor, Tensor] | None:
        """Of a step's ``logits`` ``[n, V]`` after ``fed`` ``[n, 1]``, those foretold, and what was foretold of them.

        None where the step is not the first after that prefix, or feeds none of the tokens.
        """
        if state.prefix is not self.prefix or state.tensors[0].shape[-2]:
            return None
        known = {token: index for index, token in enumerate(self.tokens)}
        pairs = [(row, known[token]) for row, token in enumerate(fed[:, 0].tolist()) if token in known]
        if not pairs:
            return None
        rows, places = torch.tensor(pairs, device=logits.device).T
        return logits[rows], self.logits[places]


def first_tokens(paths: Paths | None, columns: IntArray) -> list[int]:
    """The first and the last of the tokens that a search of ``paths`` reads first, if ``columns`` are its own.

    Rows taken for one another show in two.
    """
    if paths is None or paths.columns is not columns:
        return []
    states = paths.table(np.array([paths.root]))[0]
    may_follow = np.flatnonzero(states >= 0)
    inner = may_follow[paths.goes_on(states[may_follow])]
    return [int(columns[place]) for place in dict.fromkeys([*inner[:1], *inner[-1:]])]


def read_ahead(engine: Any, tokens: Sequence[int], ahead: Sequence[int]) -> First | None:
    """What :meth:`CausalReader.read_first` finds of a text, with what is foretold of tokens ``ahead`` of it noted.

    None where nothing needs to be foretold, or cannot be.
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
