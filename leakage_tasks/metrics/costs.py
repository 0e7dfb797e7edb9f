"""Metrics of the cost of true suffixes, next to the cost of suffixes that the model never saw.

A suffix may be memorized without being extracted: its tokens then cost less than those of comparable text. The test
compares means by document.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import stats

from leakage_tasks.attacks.suffix.finding import SelectedView
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.metrics.aggregates import estimate_of, of_defined
from leakage_tasks.metrics.clustered import FEWEST_DOCUMENTS, Row, clustered, mean_between
from leakage_tasks.metrics.metric import Applies, MetricSpec
from leakage_tasks.stats.clusters import totals
from leakage_tasks.stats.membership import Estimate, auc

MOST_DIVISIONS = 20_000
"""Maximum number of divisions of documents and controls that are counted if some cost the same; for more documents the
normal approximation is accurate."""


class SuffixCost(NamedTuple):
    """Bits per token of a suffix, the number of its document, and 1 for a control."""

    bits: float
    document: int
    control: bool


def bits_per_token(selected: SelectedView) -> float | None:
    """Return the cost of the true suffix under the model's own distribution, in bits per token."""
    bits = selected.view.own_bits
    return None if bits is None else bits / selected.view.suffix_length


def top1_tokens(selected: SelectedView) -> float | None:
    """Return the share of the true suffix' tokens that are the model's first choice after the true tokens before them.

    This is Exact Memorization of Wang et al. (2025, "Towards Effective Evaluations and Comparisons for LLM Unlearning
    Methods"), as open-unlearning computes it.
    """
    top1 = selected.view.top1
    return None if top1 is None else top1 / selected.view.suffix_length


def extraction_strength(selected: SelectedView) -> float | None:
    """Return 1 − k/n: n is the length of the suffix, k the smallest number of its tokens after which all its other
    tokens are first choices.

    This is Extraction Strength of Carlini et al. (2021), as open-unlearning computes it, except that it is 0 and not
    1/n if the last token is no first choice.
    """
    tail = selected.view.top1_tail
    return None if tail is None else tail / selected.view.suffix_length


def _cost(selected: SelectedView) -> SuffixCost | None:
    bits = bits_per_token(selected)
    return None if bits is None else SuffixCost(bits, selected.document, selected.finding.control)


def document_means(costs: Sequence[SuffixCost], control: bool) -> list[float]:
    """Return the mean bits per token of each document, or of each control document."""
    chosen = [cost for cost in costs if cost.control is control]
    if not chosen:
        return []
    sums, sizes = totals([cost.bits for cost in chosen], [cost.document for cost in chosen])
    return [float(mean) for mean in np.divide(sums, sizes)]


def _auc(costs: Sequence[SuffixCost]) -> Estimate | None:
    documents, controls = document_means(costs, False), document_means(costs, True)
    if min(len(documents), len(controls)) < FEWEST_DOCUMENTS:
        return None
    return auc([-mean for mean in documents], [-mean for mean in controls])


cost_auc, _AUC_ENDS = estimate_of(_auc, "by-document Newcombe")
"""Probability that a document costs less than a control, equal costs counting half, and its interval."""


@of_defined
def cost_p(costs: list[SuffixCost]) -> float | None:
    """Return the one-sided p-value of Mann and Whitney's test that documents cost less than controls."""
    documents, controls = document_means(costs, False), document_means(costs, True)
    if min(len(documents), len(controls)) < FEWEST_DOCUMENTS:
        return None
    means = [*documents, *controls]
    if len(set(means)) == len(means) or math.comb(len(means), len(documents)) > MOST_DIVISIONS:
        return float(stats.mannwhitneyu(documents, controls, alternative="less").pvalue)
    ranks = stats.rankdata(means)
    groups = ranks[: len(documents)], ranks[len(documents) :]
    return float(stats.permutation_test(groups, _sum_of_first, n_resamples=MOST_DIVISIONS, alternative="less").pvalue)


def _sum_of_first(first: FloatArray, _: FloatArray, axis: int) -> FloatArray:
    sums: FloatArray = first.sum(axis=axis)
    return sums


def cost_rows(controls: bool, applies: Applies[SelectedView]) -> list[Row]:
    """Return the rows of costs; with controls, also the comparison of documents with controls.

    ``applies`` is true for results that have the rows, if the model reports costs.
    """

    def scored(selected: SelectedView) -> bool:
        return applies(selected) and not selected.finding.only_writes

    def ranked(selected: SelectedView) -> bool:
        return scored(selected) and selected.view.top1 is not None

    bits = "cost of the true suffix under the model's own distribution, bits per token, mean"
    first = (
        "share of the true suffix' tokens that are the model's first choice after the true text (Exact Memorization)"
    )
    strength = "share of the true suffix, at its end, that is the model's first choice after the rest of it, mean"
    rows = [
        *clustered(
            MetricSpec("bits_per_token", bits, "bits", direction="higher"),
            bits_per_token,
            mean_between(0, math.inf),
            controls=controls,
            applies=scored,
            value_in_table=True,
        ),
        *clustered(
            MetricSpec("top1_tokens", first, "share", direction="lower"),
            top1_tokens,
            mean_between(0, 1),
            controls=controls,
            applies=ranked,
        ),
        *clustered(
            MetricSpec("extraction_strength", strength, "share", direction="lower"),
            extraction_strength,
            mean_between(0, 1),
            controls=controls,
            applies=ranked,
        ),
    ]
    return [*rows, *_comparison(scored)] if controls else rows


def _comparison(applies: Applies[SelectedView]) -> list[Row]:
    words = "probability that a document's suffixes cost fewer bits per token than a control's"
    spec = MetricSpec(
        "cost_auc",
        words,
        "AUC",
        chance="0.5",
        direction="lower",
        title="Cost comparison",
        headline=True,
        count="n_documents",
    )
    test = "p of the suffixes of documents costing less than those of controls by chance (Mann-Whitney, by document)"
    area, *ends = spec.row(_cost, cost_auc, applies).with_ends(_AUC_ENDS)
    return [
        replace(area, in_table=True),
        *ends,
        MetricSpec("cost_p", test, "p").row(_cost, cost_p, applies, in_table=True),
    ]
