"""Mix and Match: a masked language model proposes values, and the classifier prunes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.access import access_to_candidates
from leakage_tasks.attacks.classifier.class_beam import LEAST, beam_search, kept_fillings, loss_only, size_of_step
from leakage_tasks.attacks.classifier.class_scores import BEAM, ClassScores, within, words_only
from leakage_tasks.attacks.finding import AttackResult, Extra
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.attacks.signal import SIGNAL
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import Proposal, ProposesValues
from leakage_tasks.targets.tokens.slot_tokens import values_at

CANDIDATES = Option("candidates", int, 2000, "number of the generator's best candidates to consider", minimum=1)


def _most_calls(request: AttackRequest) -> Calls:
    """Return the most calls: the first slot's values, the budget for later slots, the proposals and the two ranks."""
    slots = request.canary.attack_space.slots
    later = request.budget if len(slots) > 1 else 0
    scored = Calls(len(slots[0]) + later, rounds=len(slots))
    return scored + _most_of_proposals(request, request.values["beam"]) + most_of_ranks(request)


def most_of_ranks(request: AttackRequest) -> Calls:
    """Return the most calls of :func:`two_ranks`: a proposal and all values for each slot."""
    slots = request.canary.attack_space.slots
    return Calls(sum(map(len, slots)), rounds=len(slots)) + _most_of_proposals(request, 1)


def _most_of_proposals(request: AttackRequest, width: int) -> Calls:
    """Return the most calls of the generator to propose values for each slot of ``width`` fillings."""
    space, calls = request.canary.attack_space, Calls(rounds=0)
    most_calls = getattr(getattr(request.target, "generator", None), "most_calls", None)
    for slot in range(len(space.slots)):
        one = Calls(texts=1) if most_calls is None else most_calls(space, slot)
        calls += one.times(kept_fillings(space, slot, width))
    return calls


@register(
    "mix-and-match",
    "extraction",
    ProposesValues,
    auto=0,
    remedy="use --model frankenstein-mlm, or give classifier-scorer a generator=causal:MODEL",
    options=(BEAM, CANDIDATES, SIGNAL),
    access=access_to_candidates,
    classes=["model inversion"],
    most_calls=_most_calls,
)
def mix_and_match(request: AttackRequest) -> AttackResult:
    """Generate candidates, filter them and sort them by the class loss (Mix and Match, section 4.3).

    The candidates are the generator's first ``candidates`` values for the slot, without continuation pieces (if the
    alphabet marks them with ``##``) and punctuation. With several unknown tokens, the attack generates and prunes for
    the first, keeps ``beam`` fillings, and extends each of them by as many candidates as ``budget`` allows
    (``candidates_tried``). ``extra`` has the paper's two counts, which use the secret's own place as the number of
    candidates: see :func:`two_ranks`.
    """
    space, secret = request.canary.attack_space, request.canary.secret
    attack = _Attack(request)
    beam = beam_search(attack.scores, secret, request.values["beam"], attack.grow, loss_only)
    calls = attack.scores.calls + attack.generator_calls
    depth = min([request.values["candidates"], *(attack.limit(slot) for slot in range(len(space.slots)))])
    ranked = request.values["candidates"] if len(space.slots) == 1 else beam.ranked
    extra = {"ranked": ranked, "candidates_tried": depth, **two_ranks(request, attack.scores)}
    return {**beam.result(space, secret), "model_calls": calls, "extra": extra}


def two_ranks(request: AttackRequest, scores: ClassScores) -> Extra:
    """Return the paper's "Top K" and "Beam size", counted from 1, and the rows scored for them.

    ``candidate_rank`` is the secret's place in the generator's order over its whole vocabulary. ``pruned_rank`` is its
    place by the class loss among the filtered candidates up to that place (None if the filters remove the secret).
    With several unknown tokens, both are computed per slot with the earlier slots known, and the largest over the slots
    is reported: an attack must keep at least this number at each step.
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
    known_ranks = [rank for rank in second if rank is not None]
    return {
        "generator": target.generator_name,
        "candidate_rank": max(first),
        "pruned_rank": max(known_ranks) if len(known_ranks) == len(second) else None,
        "candidate_ranks": first,
        "pruned_ranks": second,
        "audit_calls": scores.calls - before,
    }


def _pruned(scores: ClassScores, proposal: Proposal, secret: IntArray, slot: int) -> int | None:
    secret_value = int(secret[slot])
    allowed = words_only(scores.space.slots[slot].values) & (proposal.places <= proposal.places[secret_value])
    if not allowed[secret_value]:
        return None
    candidates = np.flatnonzero(allowed)
    heads = np.broadcast_to(secret[:slot], (len(candidates), slot))
    losses = scores.of(np.concatenate([heads, candidates[:, None]], axis=1))
    secret_loss = float(losses[np.searchsorted(candidates, secret_value)])
    return int((losses <= within(secret_loss, scores.signal)).sum())


class _Attack:
    """Generation and scoring of candidates for one canary."""

    def __init__(self, request: AttackRequest) -> None:
        self.request, self.space = request, request.canary.attack_space
        self.scores = ClassScores(request, request.values["signal"])
        self.allowed: list[NDArray[np.bool_]] = [words_only(slot.values) for slot in self.space.slots]
        self.generator_calls = 0

    def grow(self, heads: IntArray, penalties: FloatArray, slot: int) -> tuple[IntArray, FloatArray]:
        """Return every head with each of its candidates, and penalties of 0."""
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
                f"candidates={self.request.values['candidates']}: all are continuation pieces or punctuation: raise it"
            )
        return rows, np.zeros(len(rows))

    def limit(self, slot: int) -> int:
        """Return the number of candidates that the budget allows after each filling. Raises OptionError for too few."""
        if slot == 0:
            return len(self.space.slots[slot])
        width, values = size_of_step(self.space, slot, self.request.values["beam"], self.request.budget)
        if values - 1 < LEAST:
            raise OptionError(
                f"budget={self.request.budget} leaves {values} candidates after each of {width} fillings: raise "
                "budget=…, or lower beam=…"
            )
        return values - 1

    def _candidates(self, proposal: Proposal, slot: int, limit: int) -> IntArray:
        """Return up to ``limit`` filtered candidates, likeliest first."""
        # An exhaustive generator has no order: all of its values share the last place.
        deepest = max(self.request.values["candidates"], int(proposal.places.min()))
        order = np.argsort(proposal.places, kind="stable")
        candidates = order[(proposal.places[order] <= deepest) & self.allowed[slot][order]]
        if limit < len(candidates) and proposal.places[candidates[limit - 1]] == proposal.places[candidates[limit]]:
            raise OptionError(
                f"budget={self.request.budget} allows {limit} of {len(candidates)} candidates after each filling, "
                "and the generator ranks the candidates at the cut equally: raise budget=…, lower beam=…, or use "
                "attack=label-search"
            )
        return candidates[:limit]
