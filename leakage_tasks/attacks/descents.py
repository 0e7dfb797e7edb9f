"""Random descents of the tree of partial fillings, as many at once as there are.

Descents at one node are one row of a batch. Which child a descent goes on to depends on the seed, its number and
its depth alone: neither batch nor company changes it, and the first 10 of 100 are those 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.explorer import Children, Explorer, Nodes
from leakage_tasks.targets.protocols import FloatArray, IntArray


@dataclass(frozen=True)
class Visit:
    """A batch of nodes that were read, and the descents that came there.

    Descent ``who[i]`` stands at row ``at[i]`` of ``nodes``; ``log2_q`` ``[nodes, P]`` is log2 of the probability to
    come to a node by each of the powers. ``taken`` are those of ``children`` that some descent goes on to: descent
    ``goers[i]`` to row ``place[i]``. Descents are numbered from 0 within the call.
    """

    nodes: Nodes
    children: Children
    log2_q: FloatArray
    at: IntArray
    who: IntArray
    taken: Children
    goers: IntArray
    place: IntArray


def descend(
    explorer: Explorer,
    numbers: range,
    seed: str,
    *,
    bound: float = np.inf,
    powers: Sequence[float] = (1.0,),
    power: float = 1.0,
    last: bool = True,
) -> Iterator[Visit]:
    """Every batch of nodes that the descents of these ``numbers`` come to, from the root.

    The chance of a child among its siblings that cost no more than ``bound`` is in proportion to the model's to the
    ``power``, one of ``powers``. With ``last`` the token that ends a filling is drawn as well; without it a descent
    stops above it.
    """
    own, uniform = powers.index(power), dict[int, FloatArray]()
    waiting: list[tuple[Nodes, Children, FloatArray, IntArray, IntArray]] = []
    nodes, log2_q = explorer.root, np.zeros((1, len(powers)))
    at, who = np.zeros(len(numbers), dtype=np.int64), np.arange(len(numbers))
    while True:
        children = explorer.children(nodes, bound)
        open_to = children if last else children[explorer.paths.goes_on(children.states)]
        first = np.searchsorted(open_to.parents, np.arange(len(nodes) + 1))
        chance = np.stack([_chances(open_to, len(nodes), each) for each in powers], axis=1)
        goes = first[at + 1] > first[at]
        goers, depth = who[goes], nodes.paths.shape[1]
        if depth not in uniform:
            uniform[depth] = _uniform(f"{seed}:{depth}", numbers)
        chosen = _take(chance[:, own], first, at[goes], uniform[depth][goers])
        used, place = np.unique(chosen, return_inverse=True)
        taken, reached = open_to[used], log2_q[open_to.parents[used]] + np.log2(chance[used])
        yield Visit(nodes, children, log2_q, at, who, taken, goers, place)
        on = explorer.paths.goes_on(taken.states)
        still = on[place]
        taken, reached, place, goers = taken[on], reached[on], (np.cumsum(on) - 1)[place[still]], goers[still]
        for part in explorer.parts(nodes, taken):
            here = (place >= part.start) & (place < part.stop)
            waiting.append((nodes, taken[part], reached[part], place[here] - part.start, goers[here]))
        if not waiting:
            return
        above, taken, log2_q, at, who = waiting.pop()
        nodes = explorer.read_part(above, taken)


def _chances(children: Children, nodes: int, power: float) -> FloatArray:
    """q of each child among its siblings, shape ``[m]``."""
    lowest = np.full(nodes, np.inf)
    np.minimum.at(lowest, children.parents, children.costs)
    mass = np.exp2(power * (lowest[children.parents] - children.costs))
    return mass / np.bincount(children.parents, weights=mass, minlength=nodes)[children.parents]


def _take(chance: FloatArray, first: IntArray, at: IntArray, uniform: FloatArray) -> IntArray:
    """The child each descent goes on to: the inverse of its node's cumulative q at a uniform number."""
    total = np.concatenate([[0.0], np.cumsum(chance)])
    taken = np.searchsorted(total, total[first[at]] + uniform, side="right") - 1
    return np.clip(taken, first[at], first[at + 1] - 1)


def _uniform(seed: str, numbers: range) -> FloatArray:
    """One number in [0, 1) for each of ``numbers``, the same in whatever range it is asked for."""
    words = np.frombuffer(seed.encode(), dtype=np.uint8).astype(np.uint32)
    return np.random.Generator(np.random.PCG64(words).advance(numbers.start)).random(len(numbers))
