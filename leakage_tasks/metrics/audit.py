"""Audit metrics of a run with controls: membership AUC, TPR at 1 % FPR and lower bounds on ε.

Pure functions of the findings of ``canary_exposure``. The score is the exposure; a planted canary is a member of the
training data, a control is not. Only canaries of equal kind and |R| are compared, so that only the training
distinguishes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import FAMILIES
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.nouns import counted
from leakage_tasks.metrics.audit_figure import AuditFigure, bits_of
from leakage_tasks.metrics.epsilon_figures import epsilon_figures
from leakage_tasks.stats.membership import ONE_IN, auc, tpr_at_low_fpr

FEWEST = 5
"""Minimum number of planted canaries, and of controls, for an AUC."""


def audit(findings: Iterable[Finding], delta: float = 0.0) -> list[AuditFigure]:
    """Return all audit metrics of one run in a fixed order, then those per family.

    A metric that needs more canaries comes with the reason. ``delta`` is δ of (ε, δ)-DP. Raises OptionError for an
    invalid δ.
    """
    if not 0 <= delta < 1:
        raise OptionError(f"delta is {delta:g}: give a number of at least 0 and less than 1, such as 1e-5")
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
    return [_auc(members, others), _tpr(members, others), *epsilon_figures(ranked, members, others, delta)]


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
    basis = f"{len(members)} planted, {counted(len(others), 'control')}"
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
    basis = f"{len(members)} planted, {counted(len(others), 'control')}"
    figure = AuditFigure("tpr_at_1_fpr", "TPR at 1 % FPR", words, 0.01, basis)
    if len(others) < ONE_IN or not members:
        return replace(
            figure, refused=f"requires {ONE_IN} controls, and a planted canary of their kind and |R|: {basis}"
        )
    rate, hits, _ = tpr_at_low_fpr(members, others)
    return replace(figure, **rate._asdict(), best=1.0, basis=f"{hits} of {basis}")
