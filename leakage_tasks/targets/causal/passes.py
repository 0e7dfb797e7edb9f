"""One token more after the texts of several states in as few passes as the model allows, each way proven before use.

Attention models read all rows in one pass, whatever their prefixes: sharing these (``shared``), else with keys and
values padded to one length (``padded``). The way that is tried is held against a pass for each state, a few rows of it,
and steps aside where it differs: when first used, when prefixes of several lengths, or several source sentences, first
meet in it, and when texts are first longer than the model's layers look back. All other models read those rows in one
pass whose states are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from operator import ge
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.core.log import log
from leakage_tasks.targets.causal.cache import Beginning, RowState, after, join, likeness, looked_at
from leakage_tasks.targets.causal.foretold import Foretold
from leakage_tasks.targets.causal.own_attention import attending, takes_positions
from leakage_tasks.targets.causal.padded import PaddedBatch
from leakage_tasks.targets.causal.picked import pick, rows_of
from leakage_tasks.targets.causal.shared_prefix import SharedBatch
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.noise import Noise, warn_of_slower
from leakage_tasks.targets.rounding import SAME_NATS, explains

CHECKED = 4
"""The most rows of a state that prove a way; a pass for the state alone takes a copy of the prefix for each."""

Read = Callable[..., tuple[Tensor, Any]]
"""Reads tokens ``[n, 1]`` after a cache, told more by name: logits ``[n, 1, V]`` and the cache after them."""
Passed = tuple[list[Tensor], list[RowState]]
"""Logits ``[rows, V]`` and the state after the token, for each state."""
Way = Callable[[Sequence[RowState], Sequence[Tensor]], Passed]


@dataclass
class Tried:
    """What came of trying a way to read texts; ``beyond``: of how long ones (:meth:`Passes.beyond`)."""

    works: bool | None = None
    beyond: int = 0


class Passes:
    """How one model takes a step with rows of several states.

    ``read`` is its cached pass, ``stepper`` the module that it calls, ``noise`` measures the model's rounding noise.
    ``copied`` says how many bytes copies of prefixes may take in a pass. ``windows`` are those of the model's layers,
    ``turns`` the numbers of tokens from which on it reads otherwise.
    """

    def __init__(
        self,
        read: Read,
        stepper: Any,
        noise: Callable[[], Noise],
        copied: Callable[[], float],
        windows: Sequence[int | None] = (),
        turns: Sequence[int] = (),
    ) -> None:
        self._windows, self._turns = windows, turns
        self._read, self._stepper, self._copied = read, stepper, copied
        self._noise = noise
        self._positions = takes_positions(stepper)
        shared = [self._shared] if isinstance(stepper, torch.nn.Module) else []
        self._ways: dict[bool, list[Way]] = {False: [*shared], True: [*shared, self._padded] if self._positions else []}
        """Ways not found wrong, best first, for one state and for several."""
        self._proven: list[tuple[bool, bool, bool, int, int]] = []
        """For several states or one, of several lengths, of several sources, how far beyond, and by how many turns
        apart: what has been checked."""
        self.asked_ahead = False
        """Whether a prefix was read with tokens after it, to prove the first step; that is done once."""
        self.foretold: Foretold | None = None
        """What that pass told of them, until a step is proven."""
        self.continues, self.steps_on = Tried(), Tried()
        """Of texts that begin alike: to read what they share once, then the rest of each at once, or by the token."""
        self.lead: Beginning | None = None
        """What prefixes that were read together began with."""
        self.pads: bool | None = None
        """Whether prefixes of several lengths may be read in one pass, padded on the right; None until it is tried."""

    @property
    def shares(self) -> bool:
        """Whether no prefix is copied row by row, as far as is known."""
        return self._shared in self._ways[False]

    @property
    def mixes_lengths(self) -> bool:
        """Whether states after prefixes of several lengths share a pass, as far as is known."""
        return bool(self._ways[True])

    def beyond(self, length: int) -> int:
        """How many of the lengths from which on the model reads otherwise are less than ``length`` tokens."""
        return sum(length > turn for turn in self._turns)

    def step(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """Read one token after each row of each state; ``fed`` are its tokens ``[rows, 1]``."""
        logits: dict[int, Tensor] = {}
        grown: dict[int, RowState] = {}
        for group in self._groups(states):
            own, tokens = [states[place] for place in group], [fed[place] for place in group]
            for place, one, state in zip(group, *self._step(own, tokens), strict=True):
                logits[place], grown[place] = one, state
        return [logits[index] for index in range(len(states))], [grown[index] for index in range(len(states))]

    def _groups(self, states: Sequence[RowState]) -> list[list[int]]:
        """Which states can be read in one pass, by number."""
        groups: dict[Hashable, list[int]] = {}
        for index, state in enumerate(states):
            if state.prefix is None:
                kind: Hashable = likeness(state), id(state.source)
            else:
                kind = "any length" if self._ways[True] else _likeness_of_prefix(state)
            groups.setdefault(kind, []).append(index)
        return list(groups.values())

    def _step(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        if any(state.prefix is None for state in states):
            return self._alike(states, fed)
        several = len(states) > 1
        while self._ways[several]:
            found = self._tried(self._ways[several][0], states, fed, several)
            if found is not None:
                return found
            failed = self._ways[several].pop(0)
            if several and not self._ways[several]:
                warn_of_slower(self._stepper, "texts with several beginnings cannot share a pass", len(states))
            elif failed == self._shared:
                tokens = max(state.length for state in states)
                warn_of_slower(self._stepper, "every row needs its own copy of what it begins with", 1 + tokens)
        if several and len(set(map(_likeness_of_prefix, states))) == 1:
            return self._equally_long(states, fed)
        return self.step(states, fed) if several else self._each(states, fed)

    def _tried(self, way: Way, states: Sequence[RowState], fed: Sequence[Tensor], several: bool) -> Passed | None:
        """What comes of one way; None where it does not agree with a pass for each state, when it is first used so."""
        reads, sources = {state.read for state in states}, {id(state.source) for state in states}
        least, most = self.beyond(1 + min(reads)), self.beyond(1 + max(reads))
        kind = several, len(reads) > 1, len(sources) > 1, most, most - least
        proven = any(own[0] == several and all(map(ge, own, kind)) for own in self._proven)
        try:
            found = way(states, fed)
        except Exception as error:
            if proven or out_of_memory(error):
                raise
            log.debug("a shared pass cannot be made: %s", error)
            return None
        if not proven:
            if not self._is_plain(found[0], states, fed):
                return None
            self._proven.append(kind)
            self.foretold = None
        return found

    def _is_plain(self, logits: Sequence[Tensor], states: Sequence[RowState], fed: Sequence[Tensor]) -> bool:
        """Whether some rows of those states that differ most are what a pass for each state makes of them.

        Where such rows were foretold, it takes no pass.
        """
        told = self.foretold.beside(states[0], fed[0], logits[0]) if self.foretold and len(states) == 1 else None
        if told and self.agree(told[:1], told[1:]):
            return True
        some = {place: few_places(len(fed[place]), self._checked(states[place])) for place in _unlike(states)}
        picked = [pick([states[place]], torch.zeros_like(rows), rows) for place, rows in some.items()]
        plain, _ = self._each(picked, [rows_of(fed[place], rows) for place, rows in some.items()])
        return self.agree([rows_of(logits[place], rows) for place, rows in some.items()], plain)

    def _checked(self, state: RowState) -> int:
        """How many rows of a state prove a way: fewer than usual, but two, where copies of its prefix take much."""
        return max(2, int(min(CHECKED, self._copied() / max(state.copy_bytes, 1))))

    def agree(self, found: Sequence[Tensor], plain: Sequence[Tensor]) -> bool:
        """Whether logits ``[n, …, V]`` of a shared pass are those of plain ones, but for rounding."""
        apart = how_far_apart(found, plain)
        if apart <= SAME_NATS or explains(self._noise(), found, plain):
            return True
        log.debug("a shared pass is off by %s nats", apart)
        return False

    # -- the ways ---------------------------------------------------------------------------------------------

    def _each(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """A pass for each state, its prefix copied for each row."""
        logits, grown = [], []
        for state, tokens in zip(states, fed, strict=True):
            said, cache = self._read(state.rebuild(), tokens, **looked_at([state.source], [len(tokens)]))
            logits.append(said[:, -1])
            grown.append(after(state, cache))
        return logits, grown

    def _alike(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """One pass for states without a prefix that are alike in all but their rows."""
        (logits,), (whole,) = self._each([join(states)], [torch.cat(list(fed))])
        counts = [len(tokens) for tokens in fed]
        if len(states) == 1:
            return [logits], [whole]
        columns = [tensor.split(counts) for tensor in whole.tensors]
        grown = [replace(whole, tensors=[column[index].clone() for column in columns]) for index in range(len(states))]
        return list(logits.split(counts)), grown

    def _shared(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """One pass that copies no prefix row by row."""
        logits, grown = self.read_shared(states, fed)
        return [said[:, -1] for said in logits], grown

    def read_shared(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """The same with tokens ``[rows, k]`` after the rows of each state: logits ``[rows, k, V]`` of each."""
        batch = SharedBatch(states, fed[0].shape[1], self._copied(), self._windows)
        tokens = batch.rows(fed)
        told = {"position_ids": batch.positions().to(tokens.device)} if self._positions else {}
        with attending(self._stepper, batch):
            said, cache = self._read(batch.cache(), tokens, **told)
        return batch.parts(said), batch.split(cache)

    def _padded(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """One pass over all states, padded to one length."""
        batch = PaddedBatch(states)
        said, cache = self._read(batch.cache(), torch.cat(list(fed)), **batch.told(fed[0].device))
        return batch.parts(said[:, -1]), batch.split(cache)

    def _equally_long(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """One pass over states of one length, with nothing padded."""
        batch = PaddedBatch(states)
        said, cache = self._read(batch.cache(), torch.cat(list(fed)), **batch.told(fed[0].device))
        return batch.parts(said[:, -1]), batch.split(cache)


def how_far_apart(found: Sequence[Tensor], plain: Sequence[Tensor]) -> float:
    """The most by which log-probabilities of two ways differ, in nats, from logits ``[n, …, V]`` of each."""
    pairs = zip(found, plain, strict=True)
    return max(float((one.log_softmax(-1) - two.log_softmax(-1)).abs().max()) for one, two in pairs)


def few_places(rows: int, most: int = CHECKED) -> Tensor:
    """Places of a few rows, the first and the last among them."""
    return torch.linspace(0, rows - 1, min(rows, most)).round().long()


def _likeness_of_prefix(state: RowState) -> Hashable:
    return state.read, id(state.source)


def _unlike(states: Sequence[RowState]) -> list[int]:
    """The places of those states that differ most, in what a way might get wrong."""
    sizes: list[Callable[[int], int]] = [
        lambda place: states[place].read,
        lambda place: len(states[place].tensors[0]),
        lambda place: getattr(states[place].source, "length", 0),
    ]
    places = range(len(states))
    return sorted({end(places, key=size) for size in sizes for end in (min, max)})
