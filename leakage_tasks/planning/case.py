"""One attack on one canary as the numbers that its cost follows from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.attacks.classifier.class_beam import beginnings
from leakage_tasks.attacks.registry import Attack, AttackRequest
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.targets.harness.texts import requests_at_once
from leakage_tasks.targets.protocols import FillsMasks, Paths, PredictsNextToken, ProposesValues, ScoresLabels

WALKED = 4096
"""States that the search for the shortest path holds at most."""

CHUNK = 1024
"""Whole texts that are handed to a target at once."""
WHOLE_TEXTS = frozenset({"rank-sample", "skew-normal", "brute-force"})
"""Attacks that score whole texts, whatever the target."""


@dataclass(frozen=True)
class Case:
    """One attack on one canary, as numbers: ``size`` |R|, ``slots`` alphabets' sizes, ``budget``, tokens of the text
    (``length``) and of a path after what all fillings share (``shortest``, ``longest``), of which a row reads ``step``.

    Of many whole texts each reads ``own`` tokens, at once or, where at least ``by_token`` are read together, one after
    the other (0: always at once); ``at_once`` rows are read in a pass. A generator that writes texts reads ``written``
    rows, tokens and steps at most. ``tree`` is the number of nodes that a search without a bound reads below what all
    fillings share, None if it exceeds the budget.
    """

    size: int
    slots: tuple[int, ...]
    budget: int
    length: int
    shortest: int
    longest: int
    step: int
    own: int
    at_once: int
    values: dict[str, Any]
    next_token: bool = False
    proposes: bool = False
    masked: bool = False
    by_token: int = 0
    written: tuple[int, int, int] = (0, 0, 0)
    tree: int | None = None

    @property
    def least_steps(self) -> int:
        """Rows from the shared beginning down to a filling; the last token is not read."""
        return max(self.shortest - 1, 0)

    @property
    def most_steps(self) -> int:
        """The same of the longest filling."""
        return max(self.longest - 1, 0)


def case_of(attack: Attack, request: AttackRequest) -> Case:
    """The numbers of one attack on one canary."""
    target, space = request.target, request.canary.attack_space
    length = (target.length(space.fill(request.canary.secret)) or len(space.fill(request.canary.secret))) + 1
    shortest = longest = length
    tree = None
    following = isinstance(target, PredictsNextToken)
    if following:
        paths = target.paths(space)
        shortest, longest, tree = shortest_path(paths), paths.longest, paths.inner_nodes(request.budget)
    own, by_token = length, 0
    if hasattr(target, "tokens_read"):
        texts = min(space.size, request.budget, CHUNK)
        own, by_token = target.tokens_read(length, longest, texts), target.fewest_by_token(length, longest, texts)
    return Case(
        size=space.size,
        slots=tuple(len(slot) for slot in space.slots),
        budget=request.budget,
        length=length,
        shortest=shortest,
        longest=longest,
        step=1 if following and getattr(target, "cached", True) else length,
        own=own,
        at_once=rows_at_once(target, length, own if attack.name in WHOLE_TEXTS and not by_token else None),
        values=dict(request.values),
        next_token=following,
        proposes=isinstance(target, ProposesValues),
        masked=isinstance(target, FillsMasks),
        by_token=by_token,
        written=written(getattr(target, "generator", None), space, int(request.values.get("beam", 0))),
        tree=tree,
    )


def rows_at_once(target: Any, length: int, own: int | None = None) -> int:
    """Rows of ``length`` tokens that a target reads in one pass, each a token more, or the last ``own`` of them."""
    if isinstance(target, ScoresLabels) or hasattr(target, "batch"):
        return int(target.batch(length)) if hasattr(target, "batch") else 1
    if isinstance(target, PredictsNextToken):
        # Of whole texts a causal model takes fewer at once, since each has logits at every token.
        return target.text_rows(length, own) if own and hasattr(target, "text_rows") else target.rows(length)
    return requests_at_once(getattr(target, "_lm", None))


def written(generator: Any, space: Space, width: int) -> tuple[int, int, int]:
    """Rows, tokens and steps of texts that a generator writes after ``width`` beginnings of each slot and the secret's.

    All are none of a generator that writes none.
    """
    if not hasattr(generator, "most_work"):
        return 0, 0, 0
    slots = range(len(space.slots))
    times = np.array([beginnings(space, slot, width) + 1 for slot in slots])
    rows, tokens, steps = (times @ np.array([generator.most_work(space, slot) for slot in slots])).tolist()
    return rows, tokens, steps


def shortest_path(paths: Paths) -> int:
    """Tokens of the shortest path that ends a filling; of spaces too large to walk, how deep none ends."""
    states, depth = np.array([paths.root]), 0
    while len(states) and len(states) <= WALKED and not paths.ends(states).any():
        table = paths.table(states)
        states, depth = np.unique(table[table >= 0]), depth + 1
    return depth
