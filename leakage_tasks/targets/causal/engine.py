"""The texts that a causal model has read, and the forward passes that continue them.

All texts of a run are rows of one table. A pass continues any of them, whichever canaries they belong to. The first
pass of each kind (texts of several lengths, several tokens at once, after a shared context, beyond a sliding window) is
compared with plain passes over whole texts. If it differs, the engine changes to a slower kind of pass and warns.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.log import log
from leakage_tasks.targets.causal.first_passes import Begun, FirstPasses
from leakage_tasks.targets.causal.key_values import KeyValueBatch, KeyValueTable, Reading
from leakage_tasks.targets.causal.shared_context import SharedContext, SharedContextBatch, attending
from leakage_tasks.targets.causal.text_rows import TextRows
from leakage_tasks.targets.causal.whole_states import WholeStates
from leakage_tasks.targets.causal.windows import turns_of
from leakage_tasks.targets.memory import out_of_memory
from leakage_tasks.targets.noise import warn_of_slower

CONTEXTS = 4
"""Maximum number of contexts that are stored once each."""


class Kind(NamedTuple):
    """A kind of pass over texts that were read before.

    ``lengths`` and ``sources`` say whether texts of several lengths, and after several source sentences, are continued.
    The model's computation changes at some lengths: ``beyond`` is the number of these below the longest text, and
    ``turns`` the number between the shortest and the longest.
    """

    context: bool
    """The texts begin with the shared context."""
    many: bool
    """Several tokens are read after each text."""
    lengths: bool
    sources: bool
    beyond: int
    turns: int = 0

    def covers(self, other: Kind) -> bool:
        """Return True if a pass of this kind proves one of the other kind."""
        return self[:2] == other[:2] and all(mine >= theirs for mine, theirs in zip(self[2:], other[2:], strict=True))


class Engine(FirstPasses):
    """The texts of one model, and the passes of ``reader`` over them."""

    def __init__(self, reader: Any) -> None:
        super().__init__(reader)
        self.mixes = self.mixes_many = self.mixes_sources = self.shares = True
        """True unless the kind of pass is known to be wrong: over texts of several lengths, with several tokens after
        texts of several lengths, after several sources, and with a shared context that is stored once."""
        self._contexts: dict[int, SharedContext] = {}
        """The contexts that are stored once, by their numbers in the tree, latest used last."""
        self._numbers = itertools.count(1)
        self._turns = turns_of(reader.model.config, reader.windows)
        self._positions = _takes_positions(reader.stepper)
        self._proven: list[Kind] = []

    @property
    def mixes_lengths(self) -> bool:
        """True unless texts of several lengths are known to need separate passes."""
        return self.cached and self.mixes and (not isinstance(self.table, WholeStates) or self.table.one_form)

    # -- more tokens after texts ------------------------------------------------------------------------------

    def go_on(
        self, rows: IntArray, tokens: IntArray, lengths: IntArray | None = None, keep: bool = True
    ) -> tuple[Tensor, TextRows | None]:
        """Read tokens ``[n, k]``, of which the first ``lengths`` ``[n]`` count, after the texts ``rows`` ``[n]``.

        Returns logits ``[n, k, V]``, and the texts with these tokens if ``keep`` is true. The caller holds ``rows``. A
        model that reads one token at a time takes k passes.
        """
        lengths = np.full(len(rows), tokens.shape[1]) if lengths is None else lengths
        while True:
            if tokens.shape[1] > 1 and self.cached and not self.reads_many:
                return self._one_by_one(rows, tokens, lengths, keep)
            groups = self._groups(rows, tokens.shape[1] > 1)
            results = []
            for group in groups:
                result = self._proven_pass(rows[group], tokens[group], lengths[group], keep)
                if result is None:
                    break
                results.append(result)
            else:
                return _together(results, groups)

    def steps(
        self, rows: IntArray, tokens: IntArray, lengths: IntArray
    ) -> Iterator[tuple[IntArray, IntArray, Tensor, TextRows]]:
        """Read tokens as :meth:`go_on` does, one per pass; texts are one row as long as their tokens are equal.

        Yields for each pass the numbers of the texts whose token it reads ``[m]``, their rows in the pass ``[m]``, the
        logits ``[rows, V]`` and the texts of its rows.
        """
        numbers = rows.copy()
        for column in range(tokens.shape[1]):
            going = np.flatnonzero(lengths > column)
            pairs, which = np.unique(np.stack([numbers[going], tokens[going, column]]), axis=1, return_inverse=True)
            logits, texts = self.go_on(pairs[0], pairs[1][:, None])
            assert texts is not None
            numbers[going] = texts.numbers[which.reshape(-1)]
            yield going, which.reshape(-1), logits[:, 0], texts

    def _one_by_one(
        self, rows: IntArray, tokens: IntArray, lengths: IntArray, keep: bool
    ) -> tuple[Tensor, TextRows | None]:
        numbers, parts, held = rows.copy(), [], []
        for going, which, logits, texts in self.steps(rows, tokens, lengths):
            # A text whose tokens have ended gets any logits.
            row_of = np.zeros(len(rows), dtype=np.int64)
            row_of[going], numbers[going] = which, texts.numbers[which]
            parts.append(logits[torch.from_numpy(row_of).to(logits.device)])
            held.append(texts)
        return torch.stack(parts, dim=1), self.held(numbers) if keep else None

    def _groups(self, rows: IntArray, many: bool) -> list[IntArray]:
        """Return the indices of the rows of each pass, which reads one token of each or ``many``."""
        if self.cached and isinstance(self.table, WholeStates):
            apart = [self.table.forms(rows)]
        else:
            apart = [self._context_numbers(rows)]
        if not (self.cached and self.mixes and (self.mixes_many or not many)):
            apart.append(self.tree.lengths[rows])
        if not self.mixes_sources:
            apart.append(self.tree.sources[rows])
        if all((key == key[0]).all() for key in apart):
            return [np.arange(len(rows))]
        groups = np.unique(np.stack(apart), axis=1, return_inverse=True)[1].reshape(-1)
        return [np.flatnonzero(groups == group) for group in range(int(groups.max()) + 1)]

    def _context_numbers(self, rows: IntArray) -> IntArray:
        """Return the number of the stored context that each text begins with, 0 for none."""
        numbers = self.tree.contexts[rows]
        if not (self._contexts and self.cached and self.shares):
            return np.zeros(len(rows), dtype=np.int64)
        return numbers * np.isin(numbers, list(self._contexts))

    def _proven_pass(
        self, rows: IntArray, tokens: IntArray, lengths: IntArray, keep: bool
    ) -> tuple[Tensor, TextRows | None] | None:
        """Run one pass; return None if its logits differ from plain passes on first use."""
        kind = self._kind(rows, tokens)
        if not self.cached:
            return self._read_again(rows, tokens, lengths, keep)
        proven = any(case.covers(kind) for case in self._proven)
        try:
            result = self._pass(rows, tokens, lengths, keep, kind)
            if proven:
                return result
            if self._is_plain(result[0], rows, tokens, lengths):
                self._proven.append(kind)
                return result
        except Exception as error:
            if proven or out_of_memory(error):
                raise
            log.debug("a pass over several texts cannot be made: %s", type(error).__name__)
        self._step_aside(kind, rows)
        return None

    def _kind(self, rows: IntArray, tokens: IntArray) -> Kind:
        lengths, sources = self.tree.lengths[rows], self.tree.sources[rows]
        least, most = (self.beyond(int(end) + tokens.shape[1]) for end in (lengths.min(), lengths.max()))
        several = bool((lengths != lengths[0]).any()), bool((sources != sources[0]).any())
        return Kind(bool(self._context_numbers(rows[:1])[0]), tokens.shape[1] > 1, *several, most, most - least)

    def beyond(self, length: int) -> int:
        """Return the number of lengths below ``length`` tokens at which the model's computation changes."""
        return sum(length > turn for turn in self._turns)

    def _step_aside(self, kind: Kind, rows: IntArray) -> None:
        """Give up the fastest part of a kind of pass that is wrong, and warn."""
        lengths, stepper = self.tree.lengths[rows], self._reader.stepper
        if kind.context:
            self.shares = False
            self._contexts = {number: replace(known, tensors=[]) for number, known in self._contexts.items()}
            warn_of_slower(stepper, "every row needs its own copy of its context", 1 + int(lengths.max()))
        elif kind.lengths:
            several = "several tokens after " if kind.many else ""
            self.mixes, self.mixes_many = self.mixes and kind.many, False
            number = len(np.unique(lengths))
            warn_of_slower(stepper, f"{several}texts of different lengths cannot share a forward pass", number)
        elif kind.sources:
            self.mixes_sources = False
            number = len(np.unique(self.tree.sources[rows]))
            warn_of_slower(stepper, "different source sentences cannot share a forward pass", number)
        elif kind.many:
            self.reads_many = False
        else:
            self.cached = False
            self._contexts.clear()
            warn_of_slower(stepper, "every text is read again from its first token", 1 + int(lengths.max()))

    def _pass(
        self, rows: IntArray, tokens: IntArray, lengths: IntArray, keep: bool, kind: Kind
    ) -> tuple[Tensor, TextRows | None]:
        if isinstance(self.table, KeyValueTable):
            return self._attention_pass(self.table, rows, tokens, lengths, keep, kind)
        assert self.table is not None
        reader = self._reader
        with reader.inference():
            fed, sources = reader.on_device(tokens), self.sources_of(rows)
            logits, cache = reader.read_on(self.table.cache(rows), fed, sources)
            if not keep:
                return logits, None
            texts = self.add(rows, tokens, lengths)[1]
            self.table.make_room(self.tree.size)
            self.table.store(cache, texts.numbers)
        return logits, texts

    def _attention_pass(
        self, table: KeyValueTable, rows: IntArray, tokens: IntArray, lengths: IntArray, keep: bool, kind: Kind
    ) -> tuple[Tensor, TextRows | None]:
        reader, context = self._reader, self._contexts[int(self.tree.contexts[rows[0]])] if kind.context else None
        new, texts, added = None, None, np.arange(tokens.shape[1]) < lengths[:, None]
        if keep:
            new, texts = self.add(rows, tokens, lengths)
            table.make_room(self.tree.size)
        before = 0 if context is None else context.length
        reading = Reading(self.tree.paths(rows, before), new, added, before)
        fed, sources = reader.on_device(tokens), self.sources_of(rows)
        arguments = {}
        if self._positions and (context is not None or reading.mask is not None):
            arguments["position_ids"] = reader.on_device(reading.positions)
        with reader.inference():
            if context is not None:
                batch = SharedContextBatch(table, reading, context, reader.windows)
                with attending(reader.stepper, batch):
                    return reader.read_on(batch.cache(), fed, sources, **arguments)[0], texts
            if reading.mask is not None:
                arguments["attention_mask"] = reader.on_device(reading.mask)
            return reader.read_on(KeyValueBatch(table, reading).cache(), fed, sources, **arguments)[0], texts

    def _read_again(
        self, rows: IntArray, tokens: IntArray, lengths: IntArray, keep: bool
    ) -> tuple[Tensor, TextRows | None]:
        """Read texts of one length from their first token, with the new tokens."""
        before = self.tree.tokens[self.tree.paths(rows, self._virtual)]
        whole = np.concatenate([before, tokens], axis=1)
        logits = self._plain_logits(whole, rows, tokens.shape[1])
        return logits, self.add(rows, tokens, lengths)[1] if keep else None

    def copied_tokens(self, rows: IntArray) -> int:
        """Return the largest number of tokens of these texts that a pass copies, which a stored context is not."""
        if not self._contexts:
            return int(self.tree.lengths[rows].max(initial=0))
        numbers = self._context_numbers(rows)
        stored = np.zeros(len(rows), dtype=np.int64)
        for number in np.unique(numbers[numbers > 0]):
            stored[numbers == number] = self._contexts[int(number)].length
        return int((self.tree.lengths[rows] - stored).max(initial=0))

    # -- contexts that texts share ----------------------------------------------------------------------------

    def context_of(self, texts: Sequence[Sequence[int]]) -> Begun | None:
        """Return the stored context that all texts begin with, if it makes up at least half of their tokens."""
        for number, context in reversed(self._contexts.items()):
            length = len(context.tokens)
            begin = all(len(text) > length and tuple(text[:length]) == context.tokens for text in texts)
            if begin and 2 * length * len(texts) >= sum(map(len, texts)):
                self._contexts[number] = self._contexts.pop(number)
                return context.begun
        return None

    def share(self, tokens: Sequence[int]) -> Begun:
        """Read the tokens that many texts begin with, and store them once for all later passes if possible."""
        begun = self.begin([tokens])
        if isinstance(self.table, KeyValueTable):
            number, row = next(self._numbers), begun.rows.numbers
            self.tree.contexts[row] = number
            tensors = self.table.whole(self.tree.paths(row)[0]) if self.shares else []
            self._contexts[number] = SharedContext(tuple(tokens), begun, tensors)
            if len(self._contexts) > CONTEXTS:
                del self._contexts[next(iter(self._contexts))]
        return begun


def _takes_positions(model: Any) -> bool:
    """Return True if a model's forward pass accepts position ids; adapters pass them on."""
    whose = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "position_ids" in inspect.signature(whose.forward).parameters


def _together(
    results: Sequence[tuple[Tensor, TextRows | None]], groups: Sequence[IntArray]
) -> tuple[Tensor, TextRows | None]:
    """Join the results of several passes in the order of their rows."""
    if len(groups) == 1:
        return results[0]
    back = np.argsort(np.concatenate(groups))
    logits = torch.cat([logits for logits, _ in results])
    texts = [texts for _, texts in results if texts is not None]
    return logits[torch.from_numpy(back).to(logits.device)], TextRows.joined(texts)[back] if texts else None
