"""The quantities that determine the cost of one attack on one canary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.attacks.classifier.class_beam import kept_fillings
from leakage_tasks.attacks.registry import Attack, AttackRequest
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.targets.harness.texts import requests_at_once
from leakage_tasks.targets.protocols import FillsMasks, Paths, PredictsNextToken, ProposesValues, ScoresLabels

WALKED = 4096
"""Maximum number of states in the search for the shortest path."""

CHUNK = 1024
"""Number of whole texts passed to a target in one call."""
WHOLE_TEXTS = frozenset({"rank-sample", "skew-normal", "brute-force"})
"""Attacks that score whole texts on every target."""


@dataclass(frozen=True)
class Case:
    """The numbers that determine the cost of one attack on one canary.

    ``size`` is |R|, ``slots`` the sizes of the alphabets, ``budget`` the attack's budget. ``length`` is the number of
    tokens of the text. ``shortest`` and ``longest`` are the numbers of tokens of a path after the prefix that all
    fillings share. A row reads ``step`` tokens.

    When many whole texts are scored, each reads ``own_tokens`` tokens. Batches of at least ``by_token`` texts read them
    one token at a time (0: always all at once). A forward pass has ``at_once`` rows. A generator that writes texts
    reads at most ``written`` rows, tokens and steps. ``tree`` is the number of nodes that an unlimited search reads
    after the shared prefix, or None if it exceeds the budget.
    """

    size: int
    slots: tuple[int, ...]
    budget: int
    length: int
    shortest: int
    longest: int
    step: int
    own_tokens: int
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
        """Number of rows from the shared prefix down to the shortest filling; the last token is not read."""
        return max(self.shortest - 1, 0)

    @property
    def most_steps(self) -> int:
        """Number of rows from the shared prefix down to the longest filling; the last token is not read."""
        return max(self.longest - 1, 0)


def case_of(attack: Attack, request: AttackRequest) -> Case:
    """Return the cost quantities of one attack on one canary."""
    target, space = request.target, request.canary.attack_space
    length = (target.length(space.fill(request.canary.secret)) or len(space.fill(request.canary.secret))) + 1
    shortest = longest = length
    tree = None
    following = isinstance(target, PredictsNextToken)
    if following:
        paths = target.paths(space)
        shortest, longest, tree = shortest_path(paths), paths.longest, paths.inner_nodes(request.budget)
    own_tokens, by_token = length, 0
    if hasattr(target, "tokens_read"):
        texts = min(space.size, request.budget, CHUNK)
        own_tokens, by_token = (
            target.tokens_read(length, longest, texts),
            target.fewest_by_token(length, longest, texts),
        )
    return Case(
        size=space.size,
        slots=tuple(len(slot) for slot in space.slots),
        budget=request.budget,
        length=length,
        shortest=shortest,
        longest=longest,
        step=1 if following and getattr(target, "cached", True) else length,
        own_tokens=own_tokens,
        at_once=rows_at_once(target, length, own_tokens if attack.name in WHOLE_TEXTS and not by_token else None),
        values=dict(request.values),
        next_token=following,
        proposes=isinstance(target, ProposesValues),
        masked=isinstance(target, FillsMasks),
        by_token=by_token,
        written=written(getattr(target, "generator", None), space, int(request.values.get("beam", 0))),
        tree=tree,
    )


def rows_at_once(target: Any, length: int, own_tokens: int | None = None) -> int:
    """Return the rows per forward pass for rows of ``length`` tokens plus one, or for their last ``own_tokens``
    tokens."""
    if isinstance(target, ScoresLabels) or hasattr(target, "batch"):
        return int(target.batch(length)) if hasattr(target, "batch") else 1
    if isinstance(target, PredictsNextToken):
        # A causal model takes fewer whole texts at once, since each has logits at every token.
        return (
            target.text_rows(length, own_tokens) if own_tokens and hasattr(target, "text_rows") else target.rows(length)
        )
    return requests_at_once(getattr(target, "_lm", None))


def written(generator: Any, space: Space, width: int) -> tuple[int, int, int]:
    """Return the rows, tokens and steps of a generator that writes texts: for ``width`` beginnings per slot, and for
    the secret's.

    Returns zeros for a generator that writes no texts.
    """
    if not hasattr(generator, "most_work"):
        return 0, 0, 0
    slots = range(len(space.slots))
    times = np.array([kept_fillings(space, slot, width) + 1 for slot in slots])
    rows, tokens, steps = (times @ np.array([generator.most_work(space, slot) for slot in slots])).tolist()
    return rows, tokens, steps


def shortest_path(paths: Paths) -> int:
    """Return the tokens of the shortest path that ends a filling. For a space that is too large, return a lower
    bound."""
    states, depth = np.array([paths.root]), 0
    while len(states) and len(states) <= WALKED and not paths.ends(states).any():
        table = paths.table(states)
        states, depth = np.unique(table[table >= 0]), depth + 1
    return depth
