"""Extraction by best-first search, which finds the cheapest fillings of the whole space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from leakage_tasks.attacks.causal.beam import BEAM, beam_search
from leakage_tasks.attacks.causal.frontier import Frontier
from leakage_tasks.attacks.causal.nodes import NO_COSTS, Children, Nodes
from leakage_tasks.attacks.causal.search_tree import NO_LOGITS, TIE_BITS, SearchTree, distinct, within
from leakage_tasks.attacks.causal.secret_path import SecretPath
from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Guess, best_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import PredictsNextToken

SETTLED, PROVEN, PAPER = "settled", "proven", "paper"
STOPPING = Option(
    "stopping",
    str,
    SETTLED,
    "when best-first search ends: when the secret's place among the ten cheapest fillings is certain (settled), with "
    "ten certain guesses (proven), or after twice as many iterations as the first filling took (paper)",
    choices=(SETTLED, PROVEN, PAPER),
)
WHOLE = 256
"""Maximum number of nodes of a tree that is read whole instead of in part by a beam search."""
NARROW = 4
"""Width of the first beam search for an unknown secret. Where a model knows nothing of nine digits, ten guesses of this
beam cost less than the secret as reliably as those of a wide beam, for 43 instead of 139 nodes."""
BATCH = Option("batch", int, 128, "number of nodes that best-first search reads per iteration", minimum=1)


def _most_calls(request: AttackRequest) -> Calls:
    """Return the most calls: the budget, or fewer for a small tree.

    Nodes of one iteration may have all lengths, which need a round each.
    """
    paths = request.target.paths(request.canary.attack_space)
    # Two beam searches and the best-first search may each read the whole tree, and the secret's path is read first.
    nodes = paths.inner_nodes((request.budget - paths.longest) // 3)
    steps = request.budget if nodes is None else 3 * nodes + paths.longest
    # Two beam searches, the secret's path and a partial last iteration are in addition.
    return Calls(steps=steps, rounds=(steps // request.values[BATCH.name] + 4) * paths.longest)


@register(
    "shortest-path",
    "extraction",
    PredictsNextToken,
    auto=1,
    remedy=NO_LOGITS,
    options=(STOPPING, BATCH),
    most_calls=_most_calls,
)
def shortest_path(request: AttackRequest) -> AttackResult:
    """Return the ten cheapest fillings by best-first search over partial fillings (The Secret Sharer, section 5.4).

    Each iteration reads ``batch`` nodes, and the result is still certain: a filling is final once it costs no more than
    the cheapest node left (``batch=1`` is Dijkstra's algorithm). With ``stopping=proven`` a beam search runs first;
    nodes that cost more than its tenth filling are pruned. ``stopping=paper`` is the paper's rule, without beam search
    and certainty: if the first whole filling appears in iteration n, the search ends after 2n iterations and sorts its
    fillings.

    ``stopping=settled`` ends when it is certain whether the secret is the cheapest filling and whether it is among the
    ten cheapest: ten known fillings cost less, or all fillings that cost less are known. Its guesses are fillings that
    a beam search found and fillings that a best-first search without knowledge of the secret finds up to its cost. A
    small tree is searched whole instead.

    When ``budget`` sequences are spent, the search returns the best fillings so far; ``proven`` of them are certain.
    """
    explorer = SearchTree(request.target, request.canary.attack_space)
    path = explorer.path_of(request.canary.secret)
    search = _Search(explorer, explorer.calls + request.budget, request.values[BATCH.name])
    certain: dict[str, int | None] = {}
    if request.values[STOPPING.name] == SETTLED:
        certain["place_settled"] = search.settle(path, natural=request.canary.kind == NATURAL)
    elif request.values[STOPPING.name] == PAPER:
        search.stop_as_in_the_paper()
    else:
        search.prove()
    effort = {"iterations": search.iterations, "first_leaf_iteration": search.first_leaf}
    return explorer.result(request.canary.secret, search.best, search.proven, **effort, **certain)


class _Search:
    """A best-first search from the root, up to ``limit`` model calls in total.

    ``iterations`` counts the iterations, of which the first reads the root. ``first_leaf`` is the iteration that took
    the first filling, or None.
    """

    def __init__(self, explorer: SearchTree, limit: int, batch: int) -> None:
        self.iterations = 1
        self.first_leaf: int | None = None
        self._explorer, self._limit, self._batch = explorer, limit, batch
        self._frontier = Frontier(explorer)
        self._of_beam: list[Guess] = []
        self._width = 0
        self._whole = False
        self._taken: list[Guess] = []
        self._bound = self._ceiling = np.inf
        self._secret: SecretPath | None = None

    @property
    def best(self) -> list[Guess]:
        """The ten cheapest known fillings; the beam search and this search may have found equal ones."""
        return distinct(self._of_beam, self._taken)

    @property
    def proven(self) -> int:
        """The number of fillings that are certain to be the cheapest."""
        if self._whole:
            return len(self.best)
        left = min(self._frontier.cheapest(), self._ceiling) + self._explorer.prefix_cost
        return sum(guess.score <= left for guess in self.best)

    def stop_as_in_the_paper(self) -> None:
        """Search for twice as many iterations as the first filling took."""
        self._start()
        while self._goes_on and not (self.first_leaf and self.iterations == 2 * self.first_leaf):
            self._iterate()

    def prove(self) -> None:
        """Search until ten fillings are certain to be the cheapest. A beam search gives a bound."""
        self._bound = self._explorer.tenth(self._beam(BEAM))
        self._start()
        while self._goes_on:
            self._iterate()
            self._bound = min(self._bound, self._explorer.tenth(self._taken))

    def settle(self, path: Sequence[int], natural: bool) -> bool:
        """Search until the secret's place among the ten cheapest fillings is certain; return False if it is not.

        A narrow and then a wide beam search run first, unless few nodes beside the secret's ``path`` cost less than the
        secret. The number of guesses on a ``natural`` secret must not depend on the secret: the wide beam search, which
        does not know it, runs first in any case, and if it finds too few guesses, the search does not use the secret
        either.
        """
        few = natural and len(self._guess_first(BEAM)) < min(GUESSES, self._explorer.space.size)
        if few or self._explorer.calls + len(path) > self._limit:
            self.prove()
            return self._exhausted
        self._secret = SecretPath(self._explorer, path)
        self._bound = self._ceiling = within(self._secret.cost)
        self._start()
        while not self._ten_are_cheaper(self._secret.cost):
            self._bound = min(self._ceiling, self._explorer.tenth(self.best))
            if self._width < BEAM and self._is_wide(self._secret):
                self._guess_first(BEAM if self._width else NARROW)
            elif self._goes_on:
                self._iterate()
            else:
                return self._exhausted
        return True

    def _ten_are_cheaper(self, cost: float) -> bool:
        """Return True if ten known fillings cost less than ``cost`` by more than rounding."""
        return self._explorer.tenth(self.best) < cost - TIE_BITS

    def _is_wide(self, secret: SecretPath) -> bool:
        """Return True if more nodes than a beam search keeps per level are known to cost no more than the secret."""
        return max(secret.cheaper_siblings, self._frontier.within(self._bound)) > BEAM

    def _guess_first(self, width: int) -> list[Guess]:
        """Return the cheapest fillings of a small tree, or else the guesses of a beam search of this ``width``."""
        nodes = self._explorer.paths.inner_nodes(min(WHOLE, self._limit - self._explorer.calls))
        self._whole = nodes is not None
        return self._beam(width if nodes is None else max(nodes, BEAM))

    def _beam(self, width: int) -> list[Guess]:
        """Return the guesses so far; first run a beam search of this ``width``, unless one as wide has run."""
        if width > self._width:
            found = beam_search(self._explorer, width, self._limit, without_choice=GUESSES)
            self._of_beam, self._width = distinct(self._of_beam, found), width
        return self._of_beam

    def _start(self) -> None:
        self._frontier.add(self._explorer.root, self._bound)

    @property
    def _exhausted(self) -> bool:
        """True if all nodes up to the bound have been read."""
        return self._whole or self._frontier.cheapest() > self._bound

    @property
    def _goes_on(self) -> bool:
        return bool(self._frontier) and not self._exhausted and self._explorer.calls < self._limit

    def _iterate(self) -> None:
        """Take the cheapest children, up to ``batch`` of them, and read those that can continue."""
        self.iterations += 1
        taken = self._frontier.pop(min(self._batch, self._limit - self._explorer.calls), self._bound)
        for nodes, children in taken:
            self._taken = best_guesses([*self._taken, *self._explorer.spelled(nodes, children)])
        if self._taken and self.first_leaf is None:
            self.first_leaf = self.iterations
        for nodes in self._read(taken):
            self._frontier.add(nodes, self._bound)
            nodes.following = NO_COSTS

    def _read(self, taken: Sequence[tuple[Nodes, Children]]) -> Iterator[Nodes]:
        """Return the children that can continue as nodes. The nodes of the secret's path have been read already."""
        unread = []
        for nodes, children in taken:
            going = children[self._explorer.paths.goes_on(children.states)]
            if self._secret is not None:
                own = self._secret.on_path(nodes, going)
                if own.any():
                    yield self._secret.node(nodes.paths.shape[1] + 1)
                going = going[~own]
            if len(going):
                unread.append((nodes, going))
        yield from _read(self._explorer, unread)


def _read(explorer: SearchTree, taken: Sequence[tuple[Nodes, Children]]) -> Iterator[Nodes]:
    """Run the model on children, depth by depth; batches of one depth are read together."""
    depths: dict[int, list[tuple[Nodes, Children]]] = {}
    for nodes, children in taken:
        depths.setdefault(nodes.paths.shape[1], []).append((nodes, children))
    for depth, parts in sorted(depths.items()):
        joined = Children.joined(children for _, children in parts)
        which = np.repeat(np.arange(len(parts)), [len(children) for _, children in parts])
        size = explorer.rows(depth + 1)
        for first in range(0, len(joined), size):
            part = slice(first, first + size)
            used, batch_index = np.unique(which[part], return_inverse=True)
            yield explorer.read([parts[n][0] for n in used], batch_index, joined[part], cheapest_first=True)
