"""The texts that a causal model has read, with their states and source sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.targets.causal.cache import attention_only
from leakage_tasks.targets.causal.key_values import KeyValueTable
from leakage_tasks.targets.causal.text_rows import NOTHING, VIRTUAL, TextRows, TextTree
from leakage_tasks.targets.causal.whole_states import WholeStates


class TextTable:
    """Rows of texts in ``tree``, and the states of these rows in ``table``, which depends on the model's cache.

    ``table`` is None until a cache was read, and for a model that is read without a cache.
    """

    def __init__(self) -> None:
        self.tree = TextTree(self._forget)
        self.table: KeyValueTable | WholeStates | None = None
        self.reads_many = True
        """True unless the model is known to read only one token at a time after a cached state."""
        self._prompt, self._virtual = np.zeros(0, dtype=np.int64), 0
        self._sources: WeakValueDictionary[int, Any] = WeakValueDictionary()

    @property
    def row_bytes(self) -> int:
        """Memory in bytes of a text's state, without the state of the text before its last token."""
        return 0 if self.table is None else self.table.row_bytes

    @property
    def copied_bytes(self) -> float:
        """Memory in bytes that a pass takes for each token before those that it reads."""
        return self.table.copied_bytes if isinstance(self.table, KeyValueTable) else 0.0

    def keep(self, ids: IntArray, lengths: IntArray, cache: Any, sources: Sequence[Any]) -> TextRows:
        """Add rows for texts ``[n, k]`` of some lengths and store their states, if the model has any."""
        if cache is not None and self.table is None:
            self._make_table(cache, ids.shape[1], sources[0] is None)
        if isinstance(self.table, WholeStates) and (lengths != lengths[0]).any():
            raise ValueError("a state of more than attention")
        before, skipped = NOTHING, self._virtual
        if len(self._prompt):
            before = int(self._prompt[-1])
        elif self._virtual:
            ids, lengths = np.pad(ids, ((0, 0), (self._virtual, 0)), constant_values=VIRTUAL), lengths + self._virtual
            skipped = 0
        rows, added = self.tree.add_texts(np.full(len(ids), before), ids, lengths)
        texts = self._holding(rows[np.arange(len(ids)), lengths - 1], sources)
        if isinstance(self.table, KeyValueTable):
            read = skipped + ids.shape[1]
            places = (skipped + np.arange(len(ids))[:, None] * read + np.arange(ids.shape[1]))[added]
            self._store(self.table, cache, rows[added], places)
        elif self.table is not None:
            self.table.make_room(self.tree.size)
            self.table.store(cache, texts.numbers)
        return texts

    def _make_table(self, cache: Any, read: int, alike: bool) -> None:
        """Make the table for a model's kind of cache.

        A cache may begin with the states of a soft prompt, before the ``read`` tokens; they are stored once if they are
        ``alike`` for all texts.
        """
        if not attention_only(cache):
            self.table, self.reads_many = WholeStates(), False
            return
        self.table, self._virtual = KeyValueTable(cache), cache.layers[0].keys.shape[2] - read
        if self._virtual and alike:
            virtual, lengths = np.full((1, self._virtual), VIRTUAL), np.full(1, self._virtual)
            self._prompt = self.tree.add_texts(np.full(1, NOTHING), virtual, lengths)[0][0]
            self.tree.hold(self._prompt)
            self._store(self.table, cache, self._prompt, np.arange(self._virtual))

    def _store(self, table: KeyValueTable, cache: Any, rows: IntArray, places: IntArray) -> None:
        table.make_room(self.tree.size)
        table.store(cache, rows, places)

    def _holding(self, rows: IntArray, sources: Sequence[Any]) -> TextRows:
        """Hold rows, and the sources of their texts."""
        if sources[0] is None:
            return TextRows.holding(self.tree, rows)
        used = {id(source): source for source in sources}
        for number, source in used.items():
            self._sources[number] = source
        self.tree.sources[rows] = [id(source) for source in sources]
        return TextRows.holding(self.tree, rows, tuple(used.values()))

    def add(self, rows: IntArray, tokens: IntArray, lengths: IntArray) -> tuple[IntArray, TextRows]:
        """Add rows for tokens ``[n, k]``, of which the first ``lengths`` count, after ``rows``; return them and the
        texts."""
        new, _ = self.tree.add_texts(rows, tokens, lengths)
        return new, self._holding(new[np.arange(len(rows)), lengths - 1], self.sources_of(rows))

    def sources_of(self, rows: IntArray) -> list[Any]:
        """Return the source of each text, None without sources."""
        if not self._sources:
            return [None] * len(rows)
        return [self._sources[number] for number in self.tree.sources[rows].tolist()]

    def held(self, numbers: IntArray) -> TextRows:
        """Return texts that are kept independently of the other texts of their pass."""
        return self._holding(numbers, self.sources_of(numbers) if self._sources else (None,))

    def _forget(self, rows: IntArray) -> None:
        if isinstance(self.table, WholeStates):
            self.table.forget(rows)
