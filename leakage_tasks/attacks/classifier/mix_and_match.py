"""Mix and Match: a masked language model proposes values, the classifier prunes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.access import access_to_candidates
from leakage_tasks.attacks.classifier.class_beam import LEAST, beam_search, plain, room
from leakage_tasks.attacks.classifier.class_scores import BEAM, ClassScores, within, words_only
from leakage_tasks.attacks.finding import AttackResult, Extra
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.attacks.signal import SIGNAL
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.protocols import Proposal, ProposesValues
from leakage_tasks.targets.tokens.slot_tokens import values_at

CANDIDATES = Option("candidates", int, 2000, "how far down the generator's order candidates are taken", minimum=1)


@register(
    "mix-and-match",
    "extraction",
    ProposesValues,
    auto=0,
    remedy="use --model frankenstein-mlm, or give classifier-scorer a generator=causal:MODEL",
    options=(BEAM, CANDIDATES, SIGNAL),
    access=access_to_candidates,
)
def mix_and_match(request: AttackRequest) -> AttackResult:
    """Generate candidates, filter them, sort them by the class loss (Mix and Match, section 4.3).

    The candidates are the first ``candidates`` of all the generator could put into the slot, less continuation pieces
    (where the alphabet marks them with ``##``) and punctuation. Several unknown tokens: generate and prune for the
    first, keep ``beam``, go on with each of them and as many candidates as ``budget`` allows (``candidates_tried``).
    ``extra`` has the paper's two counts, which take the secret's own place as the number of candidates: see
    :func:`two_ranks`.
    """
    space, secret = request.canary.attack_space, request.canary.secret
    attack = _Attack(request)
    beam = beam_search(attack.scores, secret, request.values["beam"], attack.grow, plain)
    calls = attack.scores.calls + attack.generator_calls
    depth = min([request.values["candidates"], *(attack.limit(slot) for slot in range(len(space.slots)))])
    ranked = request.values["candidates"] if len(space.slots) == 1 else beam.ranked
    extra = {"ranked": ranked, "candidates_tried": depth, **two_ranks(request, attack.scores)}
    return {**beam.result(space, secret), "model_calls": calls, "extra": extra}


def two_ranks(request: AttackRequest, scores: ClassScores) -> Extra:
    """The paper's "Top K" and "Beam size", counted from 1, and what it took to count them.

    ``candidate_rank`` is the secret's place in the generator's order over its whole vocabulary, ``pruned_rank`` its
    place by the class loss among the filtered candidates down to there (None if the filters leave the secret out).
    With several unknown tokens each is counted with the earlier ones known, and the largest over the slots stands for
    all: so many must be let through at each step.
    """
    space = scores.space
    target, secret = request.target, scores.places([request.canary.secret])[0]
    before = scores.calls
    first: list[int] = []
    second: list[int | None] = []
    for slot in range(len(space.slots)):
        proposal = target.propose(space, [request.canary.secret[:slot]], slot)[0]
        first.append(int(proposal.places[secret[slot]]))
        second.append(_pruned(scores, proposal, secret, slot))
    kept = [rank for rank in second if rank is not None]
    return {
        "generator": target.generator_name,
        "candidate_rank": max(first),
        "pruned_rank": max(kept) if len(kept) == len(second) else None,
        "candidate_ranks": first,
        "pruned_ranks": second,
        "audit_calls": scores.calls - before,
    }


def _pruned(scores: ClassScores, proposal: Proposal, secret: IntArray, slot: int) -> int | None:
    own = int(secret[slot])
    allowed = words_only(scores.space.slots[slot].values) & (proposal.places <= proposal.places[own])
    if not allowed[own]:
        return None
    candidates = np.flatnonzero(allowed)
    heads = np.broadcast_to(secret[:slot], (len(candidates), slot))
    found = scores.of(np.concatenate([heads, candidates[:, None]], axis=1))
    mine = float(found[np.searchsorted(candidates, own)])
    return int((found <= within(mine, scores.signal)).sum())


class _Attack:
    """What is generated and scored for one canary."""

    def __init__(self, request: AttackRequest) -> None:
        self.request, self.space = request, request.canary.attack_space
        self.scores = ClassScores(request, request.values["signal"])
        self.allowed: list[NDArray[np.bool_]] = [words_only(slot.values) for slot in self.space.slots]
        self.generator_calls = 0

    def grow(self, heads: IntArray, kept: FloatArray, slot: int) -> tuple[IntArray, FloatArray]:
        """Every head with each of its candidates."""
        proposals = self.request.target.propose(self.space, values_at(self.space, heads), slot)
        self.generator_calls += len(heads)
        limit = self.limit(slot)
        grown = []
        for head, proposal in zip(heads, proposals, strict=True):
            chosen = self._candidates(proposal, slot, limit)
            grown.append(np.concatenate([np.broadcast_to(head, (len(chosen), slot)), chosen[:, None]], axis=1))
        rows = np.concatenate(grown)
        if not len(rows):
            raise OptionError(
                f"candidates={self.request.values['candidates']} are all continuation pieces or punctuation: raise it"
            )
        return rows, np.zeros(len(rows))

    def limit(self, slot: int) -> int:
        """How many candidates the budget lets be scored after each filling. Raises OptionError if too few."""
        if slot == 0:
            return len(self.space.slots[slot])
        width, values = room(self.space, slot, self.request.values["beam"], self.request.budget)
        if values - 1 < LEAST:
            raise OptionError(
                f"budget={self.request.budget} leaves {values} candidates after each of {width} fillings: raise "
                "budget=…, or lower beam=…"
            )
        return values - 1

    def _candidates(self, proposal: Proposal, slot: int, limit: int) -> IntArray:
        """Filtered candidates, likeliest first, no more than ``limit``."""
        # All values share the last place of an exhaustive generator, which has no order to go down.
        deepest = max(self.request.values["candidates"], int(proposal.places.min()))
        order = np.argsort(proposal.places, kind="stable")
        found = order[(proposal.places[order] <= deepest) & self.allowed[slot][order]]
        if limit < len(found) and proposal.places[found[limit - 1]] == proposal.places[found[limit]]:
            raise OptionError(
                f"budget={self.request.budget} lets {limit} of {len(found)} candidates be scored after each filling, "
                "and the generator ranks those at the cut alike: raise budget=…, lower beam=…, or use "
                "attack=label-search"
            )
        return found[:limit]
