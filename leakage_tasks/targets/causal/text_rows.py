"""Texts that a model has read, as rows of a table: each row is one token, and its parent is the token before it.

A text is the number of its last row, so texts with a common beginning share the rows of this beginning. A row is freed
when no :class:`TextRows` refers to it and no other row follows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from leakage_tasks.core.arrays import BoolArray, IntArray
from leakage_tasks.targets.causal.cache import attention_only
from leakage_tasks.targets.causal.key_values import NOTHING, KeyValueTable
from leakage_tasks.targets.causal.whole_states import WholeStates

FIRST_ROWS = 256
VIRTUAL = -1
"""Token of a row that holds a soft prompt's embedding."""


class TextTree:
    """The bookkeeping of a table of texts, on the host: parent, token and length of each row.

    ``freed`` is called with the numbers of rows that were freed.
    """

    def __init__(self, freed: Callable[[IntArray], None] = lambda rows: None) -> None:
        self._freed = freed
        self.parents = np.zeros(1, dtype=np.int64)
        self.tokens = np.full(1, VIRTUAL)
        self.lengths = np.zeros(1, dtype=np.int64)
        self.contexts, self.sources = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        """Numbers of the shared context and of the source sentence of each text; a new row has those of its parent."""
        self._uses = np.ones(1, dtype=np.int64)
        self._free, self._count = np.zeros(1, dtype=np.int64), 0
        self._let_go: deque[IntArray] = deque()

    @property
    def size(self) -> int:
        """Number of rows that there is room for."""
        return len(self.parents)

    @property
    def used(self) -> int:
        """Number of rows in use, including :data:`NOTHING`."""
        self._release_all()
        return self.size - self._count

    def add(self, parents: IntArray, tokens: IntArray) -> IntArray:
        """Add one row per token ``[n]`` after rows ``parents`` ``[n]`` and return the numbers of the new rows.

        A new row is freed together with its last use: hold it before anything else is released.
        """
        rows = self._take(len(tokens))
        self.parents[rows], self.tokens[rows] = parents, tokens
        self.lengths[rows] = self.lengths[parents] + 1
        self.contexts[rows], self.sources[rows] = self.contexts[parents], self.sources[parents]
        np.add.at(self._uses, parents, 1)
        return rows

    def add_texts(self, parents: IntArray, tokens: IntArray, lengths: IntArray) -> tuple[IntArray, BoolArray]:
        """Add rows for ``tokens`` ``[n, k]``, of which the first ``lengths`` ``[n]`` are added after ``parents``.

        Returns the rows ``[n, k]``, :data:`NOTHING` for tokens that are not added, and a mask of the added ones.
        """
        added = np.arange(tokens.shape[1]) < lengths[:, None]
        rows = np.zeros(tokens.shape, dtype=np.int64)
        for column in range(tokens.shape[1]):
            here = added[:, column]
            before = parents if column == 0 else rows[:, column - 1]
            rows[here, column] = self.add(before[here], tokens[here, column])
        return rows, added

    def paths(self, rows: IntArray, after: int = 0) -> IntArray:
        """Return all rows of each text ``[n, longest]``, padded on the left with :data:`NOTHING`.

        The first ``after`` tokens of each text are left out.
        """
        lengths = self.lengths[rows] - after
        paths = np.zeros((len(rows), max(0, int(lengths.max(initial=0)))), dtype=np.int64)
        here = rows
        for column in range(paths.shape[1] - 1, -1, -1):
            paths[:, column] = here
            here = self.parents[here]
        if len(paths) and int(lengths.min()) < paths.shape[1]:
            paths[np.arange(paths.shape[1]) < paths.shape[1] - lengths[:, None]] = NOTHING
        return paths

    def read_tokens(self, row: int) -> list[int]:
        """Return the tokens of a text, without a soft prompt."""
        tokens = self.tokens[self.paths(np.array([row]))[0]]
        return [int(token) for token in tokens if token != VIRTUAL]

    def hold(self, rows: IntArray) -> None:
        """Keep rows until they are released as often as they are held."""
        np.add.at(self._uses, rows, 1)

    def let_go(self, rows: IntArray) -> None:
        """Release rows before the next rows are added; an object may be deleted in the middle of any statement."""
        self._let_go.append(rows)

    def _release_all(self) -> None:
        while self._let_go:
            self.release(np.concatenate([self._let_go.popleft() for _ in range(len(self._let_go))]))

    def release(self, rows: IntArray) -> None:
        """Undo one :meth:`hold` of each row, and free the rows without any use."""
        while len(rows):
            np.subtract.at(self._uses, rows, 1)
            rows = np.unique(rows[self._uses[rows] == 0])
            if len(rows):
                self._free[self._count : self._count + len(rows)] = rows
                self._count += len(rows)
                self._freed(rows)
                rows = self.parents[rows]

    def _take(self, number: int) -> IntArray:
        self._release_all()
        if self._count < number:
            more = max(number - self._count, FIRST_ROWS, self.size // 2)
            free, fresh = self._free[: self._count], np.arange(self.size, self.size + more)[::-1]
            for name in ("parents", "tokens", "lengths", "contexts", "sources", "_uses"):
                setattr(self, name, np.concatenate([getattr(self, name), np.zeros(more, dtype=np.int64)]))
            self._free, self._count = np.concatenate([fresh, free, np.zeros(self.used, np.int64)]), more + len(free)
        self._count -= number
        return self._free[self._count : self._count + number][::-1].copy()


class _Hold:
    """Use of rows of a tree, which ends with the object."""

    def __init__(self, tree: TextTree, rows: IntArray) -> None:
        self._tree, self._rows = tree, rows
        tree.hold(rows)

    def __del__(self) -> None:
        self._tree.let_go(self._rows)


class TextRows:
    """n texts that a model has read: the ``numbers`` ``[n]`` of their rows, which are kept as long as this object."""

    def __init__(self, numbers: IntArray, holds: Sequence[Any]) -> None:
        self.numbers, self._holds = numbers, holds

    @classmethod
    def holding(cls, tree: TextTree, numbers: IntArray, others: Sequence[Any] = ()) -> TextRows:
        """Hold rows of a tree, and ``others`` that these texts need."""
        return cls(numbers, (_Hold(tree, numbers), *others))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, chosen: Any) -> TextRows:
        return TextRows(self.numbers[chosen], self._holds)

    @classmethod
    def joined(cls, parts: Sequence[TextRows]) -> TextRows:
        """Concatenate texts of one model."""
        if len(parts) == 1:
            return parts[0]
        holds = {id(hold): hold for part in parts for hold in part._holds}
        return cls(np.concatenate([part.numbers for part in parts]), tuple(holds.values()))


class TextTable:
    """Rows of texts in ``tree``, and the states of these rows in ``table``, which depends on the model's cache.

    ``table`` is None until a cache was read, and for a model that is read without a cache. ``layers_first`` is as in
    :class:`~leakage_tasks.targets.causal.whole_states.WholeStates`.
    """

    def __init__(self, layers_first: bool = False) -> None:
        self._layers_first = layers_first
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
        """Memory in bytes that a pass takes for each token before the new ones."""
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
            self.table, self.reads_many = WholeStates(self._layers_first), False
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

    def levels(self, texts: TextRows, lengths: IntArray) -> list[TextRows]:
        """Return, for each of the last ``lengths`` ``[n]`` tokens of texts, the texts that have it, up to it."""
        here, levels = texts.numbers.copy(), []
        for column in range(int(lengths.max(initial=0)), 0, -1):
            going = lengths >= column
            levels.append(self.held(here[going]))
            here[going] = self.tree.parents[here[going]]
        return levels[::-1]

    def held(self, numbers: IntArray) -> TextRows:
        """Return texts that are kept independently of the other texts of their pass."""
        return self._holding(numbers, self.sources_of(numbers) if self._sources else (None,))

    def _forget(self, rows: IntArray) -> None:
        if isinstance(self.table, WholeStates):
            self.table.forget(rows)
