"""Decode one token for many cached sequences in few forward passes; each batching strategy is verified before use.

Attention models read all rows in one pass, even if their prefixes differ: with shared prefixes (``shared``), or else
with KV caches padded on the left (``padded``). Some rows are verified against unbatched passes, and a strategy is
dropped if they differ: on first use, when prefixes of several lengths or several source sentences are first batched,
and when texts first exceed the attention window of a layer. All other models batch only rows with equal state shapes.
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
"""Maximum number of rows of a state that are verified; an unbatched pass copies the prefix for each row."""

Read = Callable[..., tuple[Tensor, Any]]
"""A function of a cache and tokens ``[n, 1]`` (and keyword arguments) that returns logits ``[n, 1, V]`` and the new
cache."""
Passed = tuple[list[Tensor], list[RowState]]
"""Logits ``[rows, V]`` and the state after the token, for each state."""
Way = Callable[[Sequence[RowState], Sequence[Tensor]], Passed]


@dataclass
class Tried:
    """Result of trying a strategy. ``beyond`` is the tested number of length thresholds (:meth:`Passes.beyond`)."""

    works: bool | None = None
    beyond: int = 0


class Passes:
    """Forward passes of one model over rows of several states.

    ``read`` is the cached forward pass, ``stepper`` the module that it calls, ``noise`` measures the model's rounding
    noise. ``copied`` returns the bytes that copies of prefixes may take in a pass. ``windows`` are the layers' sliding
    windows, ``turns`` the text lengths at which the model's computation changes.
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
        """Strategies that have not failed, best first, for one state and for several."""
        self._proven: list[tuple[bool, bool, bool, int, int]] = []
        """Verified cases: several states, several lengths, several sources, the level of text length and its spread."""
        self.asked_ahead = False
        """True after a prefix was read with tokens after it to verify the first step; this is done once."""
        self.foretold: Foretold | None = None
        """Expected logits from that pass, until a step is verified."""
        self.continues, self.steps_on = Tried(), Tried()
        """Results for texts with a common prefix: the rest of each text read at once, or token by token."""
        self.lead: Beginning | None = None
        """Shared context of prefixes that were read together."""
        self.pads: bool | None = None
        """True if prefixes of several lengths can be read in one pass, padded on the right; None until tried."""

    @property
    def shares(self) -> bool:
        """True unless prefixes are known to need one copy per row."""
        return self._shared in self._ways[False]

    @property
    def mixes_lengths(self) -> bool:
        """True unless states with prefixes of several lengths are known to need separate passes."""
        return bool(self._ways[True])

    def beyond(self, length: int) -> int:
        """Return the number of length thresholds below ``length`` tokens; the model's computation changes at each."""
        return sum(length > turn for turn in self._turns)

    def step(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """Read one token after each row of each state; ``fed`` are each state's tokens ``[rows, 1]``."""
        logits: dict[int, Tensor] = {}
        grown: dict[int, RowState] = {}
        for group in self._groups(states):
            group_states, tokens = [states[number] for number in group], [fed[number] for number in group]
            for number, row_logits, state in zip(group, *self._step(group_states, tokens), strict=True):
                logits[number], grown[number] = row_logits, state
        return [logits[index] for index in range(len(states))], [grown[index] for index in range(len(states))]

    def _groups(self, states: Sequence[RowState]) -> list[list[int]]:
        """Return the indices of the states of each pass."""
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
            result = self._tried(self._ways[several][0], states, fed, several)
            if result is not None:
                return result
            failed = self._ways[several].pop(0)
            if several and not self._ways[several]:
                warn_of_slower(self._stepper, "texts with different prefixes cannot share a forward pass", len(states))
            elif failed == self._shared:
                tokens = max(state.length for state in states)
                warn_of_slower(self._stepper, "every row needs its own copy of its prefix", 1 + tokens)
        if several and len(set(map(_likeness_of_prefix, states))) == 1:
            return self._equally_long(states, fed)
        return self.step(states, fed) if several else self._each(states, fed)

    def _tried(self, way: Way, states: Sequence[RowState], fed: Sequence[Tensor], several: bool) -> Passed | None:
        """Run one strategy. Return None if its logits differ from unbatched passes on first use."""
        reads, sources = {state.read for state in states}, {id(state.source) for state in states}
        least, most = self.beyond(1 + min(reads)), self.beyond(1 + max(reads))
        kind = several, len(reads) > 1, len(sources) > 1, most, most - least
        proven = any(case[0] == several and all(map(ge, case, kind)) for case in self._proven)
        try:
            result = way(states, fed)
        except Exception as error:
            if proven or out_of_memory(error):
                raise
            log.debug("a shared pass cannot be made: %s", error)
            return None
        if not proven:
            if not self._is_plain(result[0], states, fed):
                return None
            self._proven.append(kind)
            self.foretold = None
        return result

    def _is_plain(self, logits: Sequence[Tensor], states: Sequence[RowState], fed: Sequence[Tensor]) -> bool:
        """Compare some rows of the most different states with unbatched passes.

        No pass is needed if expected logits are known.
        """
        expected = self.foretold.beside(states[0], fed[0], logits[0]) if self.foretold and len(states) == 1 else None
        if expected and self.agree(expected[:1], expected[1:]):
            return True
        checked = {index: few_places(len(fed[index]), self._checked(states[index])) for index in _unlike(states)}
        picked = [pick([states[index]], torch.zeros_like(rows), rows) for index, rows in checked.items()]
        plain, _ = self._each(picked, [rows_of(fed[index], rows) for index, rows in checked.items()])
        return self.agree([rows_of(logits[index], rows) for index, rows in checked.items()], plain)

    def _checked(self, state: RowState) -> int:
        """Return the number of rows of a state to verify: at least 2, and fewer if copies of its prefix are large."""
        return max(2, int(min(CHECKED, self._copied() / max(state.copy_bytes, 1))))

    def agree(self, batched: Sequence[Tensor], plain: Sequence[Tensor]) -> bool:
        """Return True if logits ``[n, …, V]`` of a batched pass equal the unbatched logits up to rounding."""
        apart = how_far_apart(batched, plain)
        if apart <= SAME_NATS or explains(self._noise(), batched, plain):
            return True
        log.debug("a shared pass is off by %s nats", apart)
        return False

    # -- batching strategies ----------------------------------------------------------------------------------

    def _each(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """Run a pass for each state, with a copy of its prefix for each row."""
        logits, grown = [], []
        for state, tokens in zip(states, fed, strict=True):
            output, cache = self._read(state.rebuild(), tokens, **looked_at([state.source], [len(tokens)]))
            logits.append(output[:, -1])
            grown.append(after(state, cache))
        return logits, grown

    def _alike(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """Run one pass over states without a prefix that have equal shapes."""
        (logits,), (whole,) = self._each([join(states)], [torch.cat(list(fed))])
        counts = [len(tokens) for tokens in fed]
        if len(states) == 1:
            return [logits], [whole]
        columns = [tensor.split(counts) for tensor in whole.tensors]
        grown = [replace(whole, tensors=[column[index].clone() for column in columns]) for index in range(len(states))]
        return list(logits.split(counts)), grown

    def _shared(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """Run one pass without a copy of the prefix for each row."""
        logits, grown = self.read_shared(states, fed)
        return [part[:, -1] for part in logits], grown

    def read_shared(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """Read tokens ``[rows, k]`` after each state's rows; return logits ``[rows, k, V]`` and the new states."""
        batch = SharedBatch(states, fed[0].shape[1], self._copied(), self._windows)
        tokens = batch.rows(fed)
        arguments = {"position_ids": batch.positions().to(tokens.device)} if self._positions else {}
        with attending(self._stepper, batch):
            logits, cache = self._read(batch.cache(), tokens, **arguments)
        return batch.parts(logits), batch.split(cache)

    def _padded(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """Run one pass over all states, padded on the left."""
        batch = PaddedBatch(states)
        logits, cache = self._read(batch.cache(), torch.cat(list(fed)), **batch.told(fed[0].device))
        return batch.parts(logits[:, -1]), batch.split(cache)

    def _equally_long(self, states: Sequence[RowState], fed: Sequence[Tensor]) -> Passed:
        """Run one pass over states of equal length, without padding."""
        batch = PaddedBatch(states)
        logits, cache = self._read(batch.cache(), torch.cat(list(fed)), **batch.told(fed[0].device))
        return batch.parts(logits[:, -1]), batch.split(cache)


def how_far_apart(batched: Sequence[Tensor], plain: Sequence[Tensor]) -> float:
    """Return the largest difference of log-probabilities in nats between two lists of logits ``[n, …, V]``."""
    pairs = zip(batched, plain, strict=True)
    return max(float((first.log_softmax(-1) - second.log_softmax(-1)).abs().max()) for first, second in pairs)


def few_places(rows: int, most: int = CHECKED) -> Tensor:
    """Return the indices of a few rows, including the first and the last."""
    return torch.linspace(0, rows - 1, min(rows, most)).round().long()


def _likeness_of_prefix(state: RowState) -> Hashable:
    return state.read, id(state.source)


def _unlike(states: Sequence[RowState]) -> list[int]:
    """Return the indices of the states with the least and the most tokens, rows and source tokens."""
    sizes: list[Callable[[int], int]] = [
        lambda index: states[index].read,
        lambda index: len(states[index].tensors[0]),
        lambda index: getattr(states[index].source, "length", 0),
    ]
    indices = range(len(states))
    return sorted({end(indices, key=size) for size in sizes for end in (min, max)})
