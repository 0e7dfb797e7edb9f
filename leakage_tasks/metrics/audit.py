"""Auditing figures of a run with controls: membership AUC, TPR at 1 % FPR and lower bounds on ε.

Pure functions of the findings of ``canary_exposure``. The score is the exposure; a planted canary is a member of the
training data, a control is not. Canaries are compared where they are alike in kind and |R| alone, so that nothing but
the training tells them apart.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics.pairing import Matched, bits_of, match
from leakage_tasks.stats.epsilon import fewest_pairs, row_bound, secret_bound, swap_bound
from leakage_tasks.stats.membership import ONE_IN, auc, tpr_at_low_fpr

FEWEST = 5
"""Planted canaries, and controls, that an AUC takes."""


@dataclass(frozen=True)
class AuditFigure:
    """One figure, or the reason why there is none (``refused``), in which case all numbers are None.

    ``low`` and ``high`` are the 95 % interval of ``value``; a ``lower_bound`` has none, being one end itself. ``basis``
    says what the figure rests on, ``words`` what it means and what not, ``chance`` what it is without a leak, ``best``
    what a perfect attack could have shown with as many canaries.
    """

    name: str
    title: str
    words: str
    chance: float
    basis: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    best: float | None = None
    lower_bound: bool = False
    refused: str | None = None


def audit(findings: Iterable[Finding], delta: float = 0.0) -> list[AuditFigure]:
    """All figures of one run, in a fixed order, those it is too small for with the reason.

    ``delta`` is δ of (ε, δ)-DP. Raises ValueError for a δ that is none.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"δ is {delta}: give a number from 0 up to, not including, 1")
    ranked = [found for found in findings if found.exposure is not None and found.kind != "supporting"]
    members, others = _comparable(ranked)
    matched = match(ranked)
    return [
        _auc(members, others),
        _tpr(members, others),
        _epsilon(matched, delta),
        _epsilon_row(matched, delta),
        _epsilon_secret(ranked),
    ]


def _comparable(findings: Sequence[Finding]) -> tuple[list[float], list[float]]:
    """Exposures of planted canaries and of controls of one kind and one |R|, those of which most pairs can be made.

    Several kinds or sizes in one pool would be told apart by what they are, not by what the model saw.
    """
    alike: dict[tuple[str, float], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for each in findings:
        alike[each.kind, each.log2_size][not each.planted].append(bits_of(each))
    return max(alike.values(), key=lambda sides: len(sides[0]) * len(sides[1]), default=([], []))


def _auc(members: Sequence[float], others: Sequence[float]) -> AuditFigure:
    words = (
        "probability that a planted canary is more exposed than a control, equal ones counting half; 0.5 if the model "
        "treats them alike; it speaks of canaries planted as often as these, not of other training text"
    )
    basis = f"{len(members)} planted, {len(others)} controls"
    figure = AuditFigure("auc", "Membership AUC", words, 0.5, basis)
    if min(len(members), len(others)) < FEWEST:
        return replace(
            figure, refused=f"takes {FEWEST} planted canaries and {FEWEST} controls of like kind and |R|: {basis}"
        )
    found = auc(members, others)
    return replace(figure, value=found.value, low=found.low, high=found.high, best=1.0)


def _tpr(members: Sequence[float], others: Sequence[float]) -> AuditFigure:
    words = (
        "share of planted canaries more exposed than all but 1 % of the controls: those a cautious attacker finds; the "
        "interval takes the threshold, which the controls set, as given"
    )
    basis = f"{len(members)} planted, {len(others)} controls"
    figure = AuditFigure("tpr_at_1_fpr", "TPR at 1 % FPR", words, 0.01, basis)
    if len(others) < ONE_IN or not members:
        return replace(figure, refused=f"takes {ONE_IN} controls, and a planted canary of their kind and |R|: {basis}")
    (value, low, high), hits, _ = tpr_at_low_fpr(members, others)
    return replace(figure, value=value, low=low, high=high, best=1.0, basis=f"{hits} of {basis}")


def _epsilon(matched: Matched, delta: float) -> AuditFigure:
    words = (
        f"with 95 % confidence the training is not (ε, {delta:g})-differentially private for any smaller ε, neighbours "
        "differing by one canary, with all its copies and supporting canaries, in the place of another; 0 shows "
        "nothing, privacy least of all"
    )
    figure = AuditFigure("epsilon", "ε, one canary swapped", words, 0.0, matched.words, lower_bound=True)
    best = swap_bound(matched.pairs, matched.pairs, matched.pairs, delta)
    if not best:
        return replace(figure, refused=_too_few(matched, delta, 1))
    value = swap_bound(matched.right, matched.guesses, matched.pairs, delta)
    return replace(figure, value=value, best=best)


def _epsilon_row(matched: Matched, delta: float) -> AuditFigure:
    rows = 2 * matched.copies
    other = "" if delta else "; DP-SGD promises with a δ above 0, so score with its own before you compare"
    words = (
        f"the same for one training row added or removed, the neighbour of DP-SGD: a swap changes up to {rows} rows, "
        f"if each copy is a row of its own; many copies make it small, whatever leaked{other}"
    )
    basis = f"{matched.words}, up to {rows} rows a swap"
    figure = AuditFigure("epsilon_row", "ε, one training row", words, 0.0, basis, lower_bound=True)
    best = row_bound(matched.pairs, matched.pairs, matched.pairs, rows, delta)
    if not best:
        return replace(figure, refused=_too_few(matched, delta, rows))
    value = row_bound(matched.right, matched.guesses, matched.pairs, rows, delta)
    return replace(figure, value=value, best=best)


def _too_few(matched: Matched, delta: float, rows: int) -> str:
    fewest = fewest_pairs(delta, rows)
    if fewest is None:
        return f"no number of pairs can show any ε at δ = {delta:g}: give a smaller δ"
    return (
        f"takes {fewest} pairs of a planted canary and a control, kind 'random' and of one |R|, at δ = {delta:g}: "
        f"there are {matched.pairs}"
    )


def _epsilon_secret(findings: Sequence[Finding]) -> AuditFigure:
    words = (
        "with 95 % confidence the training is not ε-differentially private (δ = 0) for any smaller ε, neighbours "
        "differing by one canary's secret in all its copies: about what the secret is, not whether it was there"
    )
    drawn = _most_alike([each for each in findings if each.kind == "random"])
    planted = [each for each in drawn if each.planted]
    first = sum(each.method == "exact" and each.rank == 1 for each in planted)
    basis = f"{first} of {len(planted)} secrets proven likeliest"
    figure = AuditFigure("epsilon_secret", "ε, one secret changed", words, 0.0, basis, lower_bound=True)
    if not any(each.method == "exact" for each in planted):
        return replace(figure, refused="takes an exact rank of a planted canary of kind 'random': there is none")
    log_others = _log_others(_least(planted), len(drawn))
    best = secret_bound(len(planted), len(planted), log_others)
    if not best:
        return replace(
            figure, refused=f"takes more canaries or a larger |R|: {len(planted)} of 2^{_least(planted):.3g} fillings"
        )
    return replace(figure, value=secret_bound(first, len(planted), log_others), best=best)


def _most_alike(findings: Sequence[Finding]) -> list[Finding]:
    """Those of the |R| that most planted canaries have, of equals the largest."""
    sizes = Counter(each.log2_size for each in findings if each.planted)
    most = max(sizes, key=lambda size: (sizes[size], size), default=None)
    return [each for each in findings if each.log2_size == most]


def _least(planted: Sequence[Finding]) -> float:
    return min(each.log2_size for each in planted)


def _log_others(log2_size: float, taken: int) -> float:
    """ln(N − 1): where secrets were drawn to differ, those of the ``taken`` − 1 others are no values of this one."""
    if log2_size > 52:
        return log2_size * math.log(2)
    others = round(2**log2_size) - taken
    return math.log(others) if others > 0 else -math.inf
