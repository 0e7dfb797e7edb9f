"""Audit metrics of a run with controls: membership AUC, TPR at 1 % FPR and lower bounds on ε.

Pure functions of the findings of ``canary_exposure``. The score is the exposure; a planted canary is a member of the
training data, a control is not. Only canaries of equal kind and |R| are compared, so that only the training
distinguishes them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import FAMILIES
from leakage_tasks.stats.epsilon import fewest_pairs, secret_bound, swap_bound
from leakage_tasks.stats.membership import ONE_IN, auc, tpr_at_low_fpr

_CONTROL = re.compile(r"-control-\d+(?=-\w+\Z)")
"""The part of the id of a natural secret's control that the id of the secret lacks."""
FEWEST = 5
"""Minimum number of planted canaries, and of controls, for an AUC."""


@dataclass(frozen=True)
class Matched:
    """Result of guessing which canary of each pair was planted: the one with the higher exposure; a tie is no guess.

    ``copies`` is the maximum number of texts with one canary in the data, including its supporting canaries.
    """

    pairs: int
    guesses: int
    right: int
    copies: int

    @property
    def words(self) -> str:
        """The data on which a bound on ε is based, in words."""
        tied = self.pairs - self.guesses
        return f"{self.right} of {self.guesses} pairs guessed correctly" + (f", {tied} tied" if tied else "")


def match(findings: Iterable[Finding]) -> Matched:
    """Pair planted canaries and controls of kind ``random``, one family and one |R|, at random by their ids alone.

    A natural secret that its format makes uniform is paired with its own control, which has the same context.
    """
    groups: dict[tuple[str, float], tuple[list[Finding], list[Finding]]] = defaultdict(lambda: ([], []))
    for finding in findings:
        if finding.exposure is not None and _is_uniform(finding):
            name = finding.family if finding.kind == "random" else _CONTROL.sub("", finding.canary)
            groups[name, finding.log2_size][not finding.planted].append(finding)
    pairs = [
        (planted, control)
        for both in groups.values()
        for planted, control in zip(*(sorted(group, key=_random_key) for group in both), strict=False)
    ]
    differences = [bits_of(planted) - bits_of(control) for planted, control in pairs]
    copies = max((planted.repetitions + planted.near + planted.supporting for planted, _ in pairs), default=1)
    return Matched(
        len(pairs), sum(map(bool, differences)), sum(difference > 0 for difference in differences), max(1, copies)
    )


def _is_uniform(finding: Finding) -> bool:
    """Return True if any filling was equally likely to be the secret, so that a control could have been the canary."""
    return finding.kind == "random" or (finding.kind == NATURAL and finding.uniform is True)


def _random_key(finding: Finding) -> str:
    """Return a sort key that is random but depends only on the canary's id."""
    # Ids in samples of others may hold half a surrogate pair.
    return hashlib.sha256(f"pair:{finding.canary}".encode(errors="surrogatepass")).hexdigest()


def bits_of(finding: Finding) -> float:
    """Return the exposure of a finding, which must have an exposure."""
    assert finding.exposure is not None
    return finding.exposure


@dataclass(frozen=True)
class AuditFigure:
    """One audit metric, or the reason why it is refused (``refused``), in which case all numbers are None.

    ``low`` and ``high`` are the 95 % interval of ``value``; a ``lower_bound`` has no interval. ``basis`` describes the
    data, ``words`` the meaning and its limits (empty if an earlier metric explains it), ``chance`` the value without a
    leak, ``best`` the value of a perfect attack with this number of canaries.
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
    """Return all audit metrics of one run in a fixed order, then those per family.

    A metric that needs more canaries comes with the reason. ``delta`` is δ of (ε, δ)-DP. Raises ValueError for an
    invalid δ.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"δ is {delta}: give a number from 0 up to, not including, 1")
    ranked = [finding for finding in findings if finding.exposure is not None and finding.kind != "supporting"]
    figures = _figures(ranked, delta)
    named = {finding.family for finding in ranked}
    if len(named) < 2:
        return figures
    # A metric of one family does not describe the run.
    figures = [_without(figure) if figure.name in ("auc", "tpr_at_1_fpr") else figure for figure in figures]
    for family in (family for family in FAMILIES if family in named):
        of_family, ending = (
            _figures([finding for finding in ranked if finding.family == family], delta),
            family.replace("-", "_"),
        )
        figures += [
            replace(figure, name=f"{figure.name}_{ending}", title=f"{figure.title}, {family}", words="")
            for figure in of_family
        ]
    return figures


def _without(figure: AuditFigure) -> AuditFigure:
    why = "there are canaries of several families, which are listed separately below"
    return replace(figure, value=None, low=None, high=None, best=None, refused=why)


def _figures(ranked: Sequence[Finding], delta: float) -> list[AuditFigure]:
    members, others = _comparable(ranked)
    matched = match(ranked)
    rows = 2 * matched.copies
    other = "" if delta else "; DP-SGD guarantees have δ above 0, so score with that δ before you compare"
    swap = AuditFigure(
        "epsilon",
        "ε, one canary swapped",
        f"with 95 % confidence the training is not (ε, {delta:g})-differentially private for any smaller ε, for "
        "neighbours that differ in one canary, with all its copies and supporting canaries, replaced by another; 0 "
        "shows nothing and is no evidence of privacy",
        0.0,
        matched.words,
        lower_bound=True,
    )
    row = AuditFigure(
        "epsilon_row",
        "ε, one training row",
        "the bound for one training row added or removed, the neighbour relation of DP-SGD: a swap changes up to "
        f"{rows} rows if each copy is one row; with many copies it is small at any leakage{other}",
        0.0,
        f"{matched.words}, up to {rows} rows per swap",
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
    """Return exposures of planted canaries and controls of the one kind, family and |R| with the most pairs.

    In a pool of several kinds or sizes, an AUC would measure their differences instead of memorization.
    """
    alike: dict[tuple[object, ...], tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for finding in findings:
        alike[finding.kind, finding.uniform, finding.family, finding.log2_size][not finding.planted].append(
            bits_of(finding)
        )
    return max(alike.values(), key=lambda sides: len(sides[0]) * len(sides[1]), default=([], []))


def _auc(members: Sequence[float], others: Sequence[float]) -> AuditFigure:
    words = (
        "probability that a planted canary is more exposed than a control, ties counting half; 0.5 if the model "
        "treats both equally; valid for canaries with these repetition counts, not for other training text"
    )
    basis = f"{len(members)} planted, {len(others)} controls"
    figure = AuditFigure("auc", "Membership AUC", words, 0.5, basis)
    if min(len(members), len(others)) < FEWEST:
        return replace(
            figure, refused=f"requires {FEWEST} planted canaries and {FEWEST} controls of equal kind and |R|: {basis}"
        )
    return replace(figure, **auc(members, others)._asdict(), best=1.0)


def _tpr(members: Sequence[float], others: Sequence[float]) -> AuditFigure:
    words = (
        "share of planted canaries more exposed than all but 1 % of the controls; the interval treats the "
        "threshold, which the controls determine, as fixed"
    )
    basis = f"{len(members)} planted, {len(others)} controls"
    figure = AuditFigure("tpr_at_1_fpr", "TPR at 1 % FPR", words, 0.01, basis)
    if len(others) < ONE_IN or not members:
        return replace(
            figure, refused=f"requires {ONE_IN} controls, and a planted canary of their kind and |R|: {basis}"
        )
    rate, hits, _ = tpr_at_low_fpr(members, others)
    return replace(figure, **rate._asdict(), best=1.0, basis=f"{hits} of {basis}")


def _epsilon(figure: AuditFigure, matched: Matched, rows: int, delta: float) -> AuditFigure:
    """Return ``figure`` with the bound on ε if a swap changes ``rows`` rows; refused if no number of guesses gives a
    bound."""
    best = swap_bound(matched.pairs, matched.pairs, matched.pairs, delta, rows)
    if not best:
        return replace(figure, refused=_too_few(matched, delta, rows))
    return replace(figure, value=swap_bound(matched.right, matched.guesses, matched.pairs, delta, rows), best=best)


def _too_few(matched: Matched, delta: float, rows: int) -> str:
    fewest = fewest_pairs(delta, rows)
    if fewest is None:
        return f"no number of pairs can show any ε at δ = {delta:g}: give a smaller δ"
    return (
        f"needs {fewest} pairs of a planted canary and a control, kind 'random' and of one |R|, or of an identifier "
        f"and its own control, at δ = {delta:g}: "
        f"found {matched.pairs}"
    )


def _epsilon_secret(findings: Sequence[Finding]) -> AuditFigure:
    words = (
        "with 95 % confidence the training is not ε-differentially private (δ = 0) for any smaller ε, for "
        "neighbours that differ in one canary's secret in all its copies: a bound on the value of the secret, not on "
        "its membership"
    )
    # The rank of a natural secret is known by its band only.
    random = [finding for finding in findings if finding.kind == "random"]
    sizes = Counter(finding.log2_size for finding in random if finding.planted)
    # The |R| of most planted canaries; the largest if several tie.
    size = max(sizes, key=lambda size: (sizes[size], size), default=None)
    drawn = [finding for finding in random if finding.log2_size == size]
    planted = [finding for finding in drawn if finding.planted]
    first = sum(finding.method == "exact" and finding.rank == 1 for finding in planted)
    basis = f"{first} of {len(planted)} secrets proven to have rank 1"
    figure = AuditFigure("epsilon_secret", "ε, one secret changed", words, 0.0, basis, lower_bound=True)
    if size is None or not any(finding.method == "exact" for finding in planted):
        return replace(figure, refused="needs an exact rank of a planted canary of kind 'random': no canary has it")
    log_others = _log_others(size, len(drawn))
    best = secret_bound(len(planted), len(planted), log_others)
    if not best:
        return replace(figure, refused=f"needs more canaries or a larger |R|: {len(planted)} of 2^{size:.3g} fillings")
    return replace(figure, value=secret_bound(first, len(planted), log_others), best=best)


def _log_others(log2_size: float, taken: int) -> float:
    """Return ln(N − 1); secrets drawn without repetition leave out the values of the ``taken`` − 1 others."""
    if log2_size > 52:
        return log2_size * math.log(2)
    others = round(2**log2_size) - taken
    return math.log(others) if others > 0 else -math.inf
