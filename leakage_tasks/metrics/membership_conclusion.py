"""The verdict on the task ``membership``, from its rows: do attacks on the model separate members from non-members
better than the texts alone?"""

from __future__ import annotations

from collections.abc import Mapping

from leakage_tasks.core.nouns import p_text
from leakage_tasks.metrics.conclusion import Verdict
from leakage_tasks.stats.multiple import holm
from leakage_tasks.stats.power import ALPHA

Values = Mapping[str, float | None]
TEXTS_DIFFER = "the texts differ without the model"
DATASET_LEVEL = 0.01
"""Level of dataset inference if no attack is above the blind baselines text by text."""
OF_BASELINE, OF_ATTACK = "blind_auc_", "above_blind_p_"
"""Beginnings of the names of rows of single baselines and attacks."""
_ENDS = ("_ci_low", "_ci_high")


def on_membership(values: Values) -> Verdict:
    """Return the verdict from the rows of the task.

    - The primary attack is above every blind baseline and above chance at 5 %: above the best blind baseline.
    - Otherwise, a blind baseline is above chance: inconclusive.
    - Otherwise, dataset inference is significant at 1 %: above the best blind baseline, for the data set as a whole.
    - Otherwise, the interval of the AUC is above 0.5: inconclusive, as it is not above the best blind baseline.
    - Otherwise: not above chance.
    """
    area, p = values.get("membership_auc"), values.get("membership_above_blind_p")
    if area is None:
        return Verdict("inconclusive", "no attack has an AUC on the texts that are reported")
    if p is None:
        return Verdict("inconclusive", "no blind baseline shows if the texts differ without the model")
    best = max(_baselines(values).items(), key=lambda item: item[1], default=("", values.get("blind_auc") or 0.5))
    named = f"the best blind baseline{best[0] and f', {best[0]},'} has AUC {best[1]:.2f}"
    shown = f"AUC {area:.2f}, {named}, p = {p_text(p)}"
    if p <= ALPHA:
        return Verdict("above the best blind baseline", shown + _others(values) + _dataset(values))
    if (values.get("blind_p") or 0.0) <= ALPHA:
        return Verdict("inconclusive", f"{TEXTS_DIFFER}: {shown}")
    if dataset_shown(values):
        whole = "for the data set as a whole, not text by text"
        return Verdict("above the best blind baseline", f"{_dataset(values).removeprefix('; ')}; {shown}", whole)
    low = values.get("membership_auc_ci_low")
    if low is not None and low > 0.5:
        return Verdict("inconclusive", f"the AUC is not above that of the texts alone: {shown}")
    return Verdict("not above chance", shown + _dataset(values))


def dataset_shown(values: Values) -> bool:
    """Return True if dataset inference shows that the data set is in the training data, and its controls do not.

    The combination of scores may take either sign, so members must also score higher by the primary attack.
    """
    p, area = values.get("dataset_p"), values.get("membership_auc")
    return p is not None and p <= DATASET_LEVEL and area is not None and area > 0.5 and not _dataset_fault(values)


def _dataset_fault(values: Values) -> str:
    """Return the reason why dataset inference shows nothing; empty if its controls are as they should be."""
    blind, null = values.get("dataset_p_blind"), values.get("dataset_p_null")
    if blind is None or blind <= ALPHA:
        return "no blind control" if blind is None else f"{TEXTS_DIFFER}, p = {p_text(blind)}"
    if null is not None and null <= ALPHA:
        return f"it separates halves of the non-members, p = {p_text(null)}"
    return ""


def _dataset(values: Values) -> str:
    p = values.get("dataset_p")
    if p is None:
        return ""
    fault = _dataset_fault(values)
    return f"; dataset inference: {f'inconclusive, {fault}' if fault else f'p = {p_text(p, DATASET_LEVEL)}'}"


def _baselines(values: Values) -> dict[str, float]:
    return {
        name.removeprefix(OF_BASELINE).replace("_", "-"): value
        for name, value in values.items()
        if name.startswith(OF_BASELINE) and not name.endswith(_ENDS) and value is not None
    }


def _others(values: Values) -> str:
    """Return the number of attacks that are above every blind baseline on all texts, corrected by Holm's method."""
    p_values = [p for name, p in values.items() if name.startswith(OF_ATTACK) and p is not None]
    if not p_values:
        return ""
    above = sum(p <= ALPHA for p in holm(p_values))
    return f"; {above} of {len(p_values)} attacks are above every baseline, corrected for their number (Holm)"
