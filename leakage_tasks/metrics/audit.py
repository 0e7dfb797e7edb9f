"""Auditing figures of a run with controls: membership AUC, TPR at 1 % FPR and lower bounds on ε.

Pure functions of the findings of ``canary_exposure``. The score is the exposure; a planted canary is a member of the
training data, a control is not. Canaries are compared where they are alike in kind and |R| alone, so that nothing but
the training tells them apart.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import FAMILIES
from leakage_tasks.stats.epsilon import fewest_pairs, secret_bound, swap_bound
from leakage_tasks.stats.membership import ONE_IN, auc, tpr_at_low_fpr

FEWEST = 5
"""Planted canaries, and controls, that an AUC takes."""


@dataclass(frozen=True)
class Matched:
    """Guesses at which canary of each pair was planted: the one of higher exposure; equals are no guess.

    ``copies`` is how many texts the canary planted most has in the data, its supporting canaries' among them.
    """

    pairs: int
    guesses: int
    right: int
    copies: int

    @property
    def words(self) -> str:
        """What a bound on ε rests on."""
        tied = self.pairs - self.guesses
        return f"{self.right} of {self.guesses} pairs guessed right" + (f", {tied} tied" if tied else "")


def match(findings: Iterable[Finding]) -> Matched:
    """Planted canaries and controls of kind ``random``, one family and |R| in pairs, at random by their ids alone."""
    groups: dict[tuple[str, float], tuple[list[Finding], list[Finding]]] = defaultdict(lambda: ([], []))
    for finding in findings:
        if finding.kind == "random" and finding.exposure is not None:
            groups[finding.family, finding.log2_size][not finding.planted].append(finding)
    pairs = [
        (planted, control)
        for both in groups.values()
        for planted, control in zip(*(sorted(each, key=_lot) for each in both), strict=False)
    ]
    leads = [bits_of(planted) - bits_of(control) for planted, control in pairs]
    copies = max((planted.repetitions + planted.near + planted.supporting for planted, _ in pairs), default=1)
    return Matched(len(pairs), sum(map(bool, leads)), sum(lead > 0 for lead in leads), max(1, copies))


def _lot(found: Finding) -> str:
    """A place in line that depends on the canary's id and nothing that was measured."""
    # Ids in samples that others wrote may hold half a surrogate pair.
    return hashlib.sha256(f"pair:{found.canary}".encode(errors="surrogatepass")).hexdigest()


def bits_of(found: Finding) -> float:
    """The exposure of a finding that has one."""
    assert found.exposure is not None
    return found.exposure


@dataclass(frozen=True)
class AuditFigure:
    """One figure, or the reason why there is none (``refused``), in which case all numbers are None.

    ``low`` and ``high`` are the 95 % interval of ``value``; a ``lower_bound`` has none, being one end itself. ``basis``
    says what the figure rests on, ``words`` what it means and what not (empty where an earlier one says it), ``chance``
    what it is without a leak, ``best`` what a perfect attack could have shown with as many canaries.
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
    """All figures of one run, in a fixed order, those it is too small for with the reason; then those of each family.

    ``delta`` is δ of (ε, δ)-DP. Raises ValueError for a δ that is none.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"δ is {delta}: give a number from 0 up to, not including, 1")
    ranked = [finding for finding in findings if finding.exposure is not None and finding.kind != "supporting"]
    figures = _figures(ranked, delta)
    named = {found.family for found in ranked}
    if len(named) < 2:
        return figures
    # What one family gives away is no figure of all.
    figures = [_without(figure) if figure.name in ("auc", "tpr_at_1_fpr") else figure for figure in figures]
    for family in (each for each in FAMILIES if each in named):
        own, ending = _figures([found for found in ranked if found.family == family], delta), family.replace("-", "_")
        figures += [
            replace(each, name=f"{each.name}_{ending}", title=f"{each.title}, {family}", words="") for each in own
        ]
    return figures


def _without(figure: AuditFigure) -> AuditFigure:
    why = "there are canaries of several families, which are told apart below"
    return replace(figure, value=None, low=None, high=None, best=None, refused=why)


def _figures(ranked: Sequence[Finding], delta: float) -> list[AuditFigure]:
    members, others = _comparable(ranked)
    matched = match(ranked)
    rows = 2 * matched.copies
    other = "" if delta else "; DP-SGD promises with a δ above 0, so score with its own before you compare"
    swap = AuditFigure(
        "epsilon",
        "ε, one canary swapped",
        f"with 95 % confidence the training is not (ε, {delta:g})-differentially private for any smaller ε, neighbours "
        "differing by one canary, with all its copies and supporting canaries, in the place of another; 0 shows "
        "nothing, privacy least of all",
        0.0,
        matched.words,
        lower_bound=True,
    )
    row = AuditFigure(
        "epsilon_row",
        "ε, one training row",
        f"the same for one training row added or removed, the neighbour of DP-SGD: a swap changes up to {rows} rows, "
        f"if each copy is a row of its own; many copies make it small, whatever leaked{other}",
        0.0,
        f"{matched.words}, up to {rows} rows a swap",
        lower_bound=True,
    )
    return [
        _auc(members, others),
        _tpr(members, others),
        _epsilon(swap, matched, 1, delta),
        _epsilon(row, matched, rows, delta),
        _epsilon_secret(ranked),
    ]


def _comparable(findings: Sequence[Finding]) -> tuple[list[float], list[float]]:
    """Exposures of planted canaries and of controls of one kind, family and |R|: those that give most pairs.

    Several kinds or sizes in one pool would be told apart by what they are, not by what the model saw.
    """
    alike: dict[tuple[str, str, float], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for finding in findings:
        alike[finding.kind, finding.family, finding.log2_size][not finding.planted].append(bits_of(finding))
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
    return replace(figure, **auc(members, others)._asdict(), best=1.0)


def _tpr(members: Sequence[float], others: Sequence[float]) -> AuditFigure:
    words = (
        "share of planted canaries more exposed than all but 1 % of the controls: those a cautious attacker finds; the "
        "interval takes the threshold, which the controls set, as given"
    )
    basis = f"{len(members)} planted, {len(others)} controls"
    figure = AuditFigure("tpr_at_1_fpr", "TPR at 1 % FPR", words, 0.01, basis)
    if len(others) < ONE_IN or not members:
        return replace(figure, refused=f"takes {ONE_IN} controls, and a planted canary of their kind and |R|: {basis}")
    rate, hits, _ = tpr_at_low_fpr(members, others)
    return replace(figure, **rate._asdict(), best=1.0, basis=f"{hits} of {basis}")


def _epsilon(figure: AuditFigure, matched: Matched, rows: int, delta: float) -> AuditFigure:
    """``figure`` with the bound on ε, a swap being ``rows`` rows; refused where even all guesses right bound none."""
    best = swap_bound(matched.pairs, matched.pairs, matched.pairs, delta, rows)
    if not best:
        return replace(figure, refused=_too_few(matched, delta, rows))
    return replace(figure, value=swap_bound(matched.right, matched.guesses, matched.pairs, delta, rows), best=best)


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
    random = [finding for finding in findings if finding.kind == "random"]
    sizes = Counter(each.log2_size for each in random if each.planted)
    # Of the |R| that most planted canaries have, of equals the largest.
    size = max(sizes, key=lambda size: (sizes[size], size), default=None)
    drawn = [each for each in random if each.log2_size == size]
    planted = [each for each in drawn if each.planted]
    first = sum(each.method == "exact" and each.rank == 1 for each in planted)
    basis = f"{first} of {len(planted)} secrets proven likeliest"
    figure = AuditFigure("epsilon_secret", "ε, one secret changed", words, 0.0, basis, lower_bound=True)
    if size is None or not any(each.method == "exact" for each in planted):
        return replace(figure, refused="takes an exact rank of a planted canary of kind 'random': there is none")
    log_others = _log_others(size, len(drawn))
    best = secret_bound(len(planted), len(planted), log_others)
    if not best:
        return replace(figure, refused=f"takes more canaries or a larger |R|: {len(planted)} of 2^{size:.3g} fillings")
    return replace(figure, value=secret_bound(first, len(planted), log_others), best=best)


def _log_others(log2_size: float, taken: int) -> float:
    """ln(N − 1): where secrets were drawn to differ, those of the ``taken`` − 1 others are no values of this one."""
    if log2_size > 52:
        return log2_size * math.log(2)
    others = round(2**log2_size) - taken
    return math.log(others) if others > 0 else -math.inf
