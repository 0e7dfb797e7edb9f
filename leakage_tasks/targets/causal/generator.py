"""A causal language model as generator of candidates: the cost of each value after the text before its slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.causal.in_context import tokens_of
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.protocols import Proposal
from leakage_tasks.targets.tokens.trie import TriePaths

CELLS = 4_000_000
"""Maximum number of (text, token) pairs processed at once."""


class CausalGenerator:
    """A generator of candidate values; implements ``ProposesValues``. It reads only the text before the slot.

    A value's cost is the sum over all its tokens, which may be several, after the tokens that hold only text before the
    slot and are common to all values. Ranks are among the alphabet's values; tied values share the better rank. Mix and
    Match suggests such a generator in section 6.
    """

    def __init__(self, target: CausalTarget, name: str = "causal") -> None:
        self.generator_name = name
        self._target, self.model = target, target.model

    def propose(self, space: Space, heads: Sequence[Filling], slot: int) -> list[Proposal]:
        """Return the costs and ranks of the slot's values after each of ``heads``.

        Raises TargetError for a text longer than the model's context length, values that the tokenizer cannot
        distinguish, and a model that gives no finite costs.
        """
        costs = [last_slot_costs(self._target, space.begin(head), space.slots[slot]) for head in heads]
        return [Proposal(cost, 1 + np.searchsorted(np.sort(cost), cost, side="left")) for cost in costs]

    def most_calls(self, space: Space, slot: int) -> Calls:
        """Return the most calls for one proposal: the text before the slot twice, all tokens but each value's last."""
        head = [max(alphabet.values, key=len) for alphabet in space.slots[:slot]]
        trie = TriePaths(Space((space.begin(head), ""), (space.slots[slot],)), self._target.encode)
        steps = sum(map(len, self._target.encode([space.begin((*head, value)) for value in space.slots[slot].values])))
        steps -= len(space.slots[slot]) * (len(trie.prefix) + 1)
        return Calls(texts=2, steps=max(steps, 0), rounds=2 + max(steps, 0))


@dataclass(frozen=True)
class _Texts:
    """n cached prefixes of equal length: trie nodes, costs ``[n]``, state, costs of the next tokens."""

    nodes: IntArray
    costs: FloatArray
    length: int
    memory: Any
    following: FloatArray


def last_slot_costs(target: CausalTarget, before: str, alphabet: Alphabet) -> FloatArray:
    """Compute costs in bits ``[A]`` of the values of ``alphabet`` after the text ``before``.

    The text is read once, which gives the cost of every value's first token; longer values are extended.
    """
    space = Space((before, ""), (alphabet,))
    trie = TriePaths(space, target.encode)
    _check_room(target, len(trie.prefix) + 1)
    memory, whole, following = target.start(trie.prefix, trie.columns)
    shared = len(tokens_of(before, trie.prefix, target.encode, target.decode)[0])
    extra = whole - target.start(trie.prefix[:shared], trie.columns)[1] if shared < len(trie.prefix) else 0.0
    costs = np.full(len(alphabet), np.nan)
    root = _Texts(np.array([trie.root]), np.zeros(1), len(trie.prefix), memory, following)
    _walk(target, trie, space, root, costs)
    if not np.isfinite(costs).all():
        raise TargetError("the causal generator gives no finite log-likelihood: look for damaged weights in its model")
    return costs + extra


def _walk(target: CausalTarget, trie: TriePaths, space: Space, texts: _Texts, costs: FloatArray) -> None:
    """Store the costs of values that end one token after ``texts``; extend the other values batch by batch."""
    length = texts.length + 1
    table = trie.table(texts.nodes)
    parents, columns = np.nonzero(table >= 0)
    nodes, node_costs = table[parents, columns], texts.costs[parents] + texts.following[parents, columns]
    ending = np.flatnonzero(trie.ends(nodes))
    for index, fillings in zip(ending, trie.fillings(nodes[ending], nodes[ending, None]), strict=True):
        for filling in fillings:
            costs[space.index(filling)] = node_costs[index]
    onward = np.flatnonzero(trie.goes_on(nodes))
    if len(onward):
        _check_room(target, length + 1)
    size = max(1, min(target.rows(length), CELLS // len(trie.columns)))
    for first in range(0, len(onward), size):
        part = onward[first : first + size]
        memory, following = target.extend(texts.memory[parents[part]], trie.columns[columns[part]], trie.columns)
        _walk(target, trie, space, _Texts(nodes[part], node_costs[part], length, memory, following), costs)


def _check_room(target: CausalTarget, length: int) -> None:
    if length > target.max_length:
        raise TargetError(
            f"a text of {length} tokens or more does not fit the generator's {target.max_length}: shorten it"
        )
