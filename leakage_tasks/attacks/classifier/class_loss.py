"""Exposure on classifiers: the rank of the secret among all fillings by the loss of the canary's class."""

from __future__ import annotations

import numpy as np

from leakage_tasks.attacks.access import access_to_labels
from leakage_tasks.attacks.causal.whole_texts import (
    HISTOGRAM,
    counted_rank,
    most_texts,
    random_fillings,
    share_of_sample,
    with_costs,
)
from leakage_tasks.attacks.classifier.class_scores import ClassScores, every, guesses_of, within
from leakage_tasks.attacks.classifier.label_search import NO_LABELS
from leakage_tasks.attacks.classifier.mix_and_match import most_of_ranks, two_ranks
from leakage_tasks.attacks.finding import GUESSES, AttackResult, Extra, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import ProposesValues, ScoresLabels


def _most_calls(request: AttackRequest) -> Calls:
    space = request.canary.attack_space
    calls = most_texts(request, space.size if len(space.slots) == 1 else request.budget)
    return calls + most_of_ranks(request) if isinstance(request.target, ProposesValues) else calls


@register(
    "class-loss",
    "exposure",
    ScoresLabels,
    auto=1,
    remedy=NO_LABELS,
    options=(HISTOGRAM,),
    access=access_to_labels,
    most_calls=_most_calls,
)
def class_loss(request: AttackRequest) -> AttackResult:
    """Compute the rank of the secret by −log2 P(label | text) among all fillings of R.

    With one unknown token every filling is scored, also beyond ``budget``. With more unknown tokens, all fillings are
    scored if ``budget`` allows; else a uniform sample of R estimates the rank, with the Clopper-Pearson interval of its
    share. If the model also proposes values, ``extra`` has the two ranks of Mix and Match. ``histogram`` is as in
    :func:`~leakage_tasks.attacks.causal.whole_texts.random_fillings`.
    """
    space = request.canary.attack_space
    scores = ClassScores(request)
    several = len(space.slots) > 1 and space.size > request.budget
    result = _sampled(request, scores) if several else _exact(request, scores)
    result["extra"] |= _two_ranks(request, scores)
    fillings, before = random_fillings(request), scores.calls
    if not fillings:
        return result
    losses = scores.of(scores.places(fillings))
    # A probability close to 1 gives a loss close to 0, which four decimals would round to 0.
    return with_costs(result, losses, scores.calls - before, decimals=8)


def _exact(request: AttackRequest, scores: ClassScores) -> AttackResult:
    space = request.canary.attack_space
    sizes = [len(slot) for slot in space.slots]
    losses = np.concatenate([scores.of(values) for values in every(sizes)])
    secret_index = space.index(request.canary.secret)
    secret_loss = float(losses[secret_index])
    best = np.argsort(losses, kind="stable")[:GUESSES]
    chosen = np.stack(np.unravel_index(best, sizes), axis=1)
    ranked = counted_rank(losses, within(secret_loss), request.noise.margin(None))
    graded = grade_guesses(guesses_of(space, chosen, losses[best]), request.canary.secret)
    return {**graded, **ranked, "model_calls": scores.calls, "extra": {"class_loss": secret_loss}}


def _two_ranks(request: AttackRequest, scores: ClassScores) -> Extra:
    """Return the ranks of Mix and Match if the model proposes values; they are None if it cannot for this canary."""
    if not isinstance(request.target, ProposesValues):
        return {}
    try:
        return two_ranks(request, scores)
    except TargetError as error:
        shown = "" if request.canary.kind == "natural" else f" ({error})"
        warn_once(f"canary {request.canary.id!r}: no candidate_rank and pruned_rank{shown}")
        return {"candidate_rank": None, "pruned_rank": None}


def _sampled(request: AttackRequest, scores: ClassScores) -> AttackResult:
    space = request.canary.attack_space
    secret_loss = float(scores.of(scores.places([request.canary.secret]))[0])
    drawn = [filling for filling in space.sample(request.budget - 1, request.seed) if filling != request.canary.secret]
    losses = scores.of(scores.places(drawn))
    margin = request.noise.margin(None)
    hits, fewest, most = (int((losses <= within(secret_loss) + shift).sum()) for shift in (0.0, -margin, margin))
    ranked = share_of_sample(hits, len(drawn), space.size, (fewest, most))
    return {**ranked, "model_calls": scores.calls, "extra": {**ranked["extra"], "class_loss": secret_loss}}
