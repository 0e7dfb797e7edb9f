"""Metrics of the task ``canary_exposure`` (The Secret Sharer, section 4), and what attacks on classifiers add."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from operator import attrgetter
from typing import Any

from leakage_tasks.attacks.access import MASKS
from leakage_tasks.attacks.finding import BANDED, EXTRAPOLATED, Finding
from leakage_tasks.metrics import aggregates
from leakage_tasks.metrics.aggregates import ExposureRange, maximum, mean, median
from leakage_tasks.metrics.control_chance import ControlExposure, exposed_by_chance, sheltered_by_chance
from leakage_tasks.metrics.families import family_rows
from leakage_tasks.metrics.metric import (
    COUNTS,
    HEADLINE,
    NOISE,
    Metric,
    MetricSpec,
    ValidityCheck,
    controls,
    planted,
)
from leakage_tasks.metrics.tiers import Copies, of_headline, pooled_brief, tiers

ON_CLASSIFIERS = ("class-loss", "label-search", "mix-and-match")


def chance_exposure(size: int) -> float:
    """Mean exposure in bits of a uniform secret the model never saw: log2|R| − log2(|R|!) / |R|.

    Its rank is uniform over 1..|R|. About 1.44 (log2 e) for large R.
    """
    return math.log2(size) - math.lgamma(size + 1) / math.log(2) / size


def exposure_fraction(found: Finding) -> float | None:
    """Exposure as a share of its largest value, log2|R|; 1 for an extrapolated one beyond that."""
    if found.exposure is None or not found.log2_size:
        return None
    return min(1.0, found.exposure / found.log2_size)


def has_interval(found: Finding) -> float | None:
    """1 if the exposure is exact or has an interval, 0 if it is a lower bound alone; None without one."""
    return None if found.exposure is None else float(found.method != "lower_bound")


def fit_passes(found: Finding) -> float | None:
    """1 if the distribution that the exposure is extrapolated from fits, 0 if that is rejected; None without one."""
    return float(not found.extra["rejected"]) if extrapolated(found) else None


def extrapolated(found: Finding) -> bool:
    """Whether the exposure is read off a fitted distribution: no filling as cheap as the secret was counted."""
    return found.method == EXTRAPOLATED


def pseudo(found: Finding) -> bool:
    """Whether a masked language model was asked, so that costs are pseudo-log-perplexities."""
    return found.access == MASKS


def at_least(found: Finding) -> ControlExposure | None:
    """Return the least that a control's exposure may be; that of its band, if the band is known."""
    return _control(found, least(found))


def at_most(found: Finding) -> ControlExposure | None:
    """Return the most that a control's exposure may be, log2|R| for a lower bound; that of its band, if known."""
    bounds = known(found)
    return _control(found, None if bounds is None else bounds.most)


def _control(found: Finding, bound: float | None) -> ControlExposure | None:
    if bound is None:
        return None
    banded = found.method == BANDED
    exposure = found.exposure if banded and found.exposure is not None else bound
    return ControlExposure(exposure, found.log2_size, banded)


def known(found: Finding) -> ExposureRange | None:
    """The exposure as far as it is known; an extrapolated one may be larger than log2|R|."""
    bits, size = found.exposure, found.log2_size
    if bits is None:
        return None
    ends = found.exposure_ends or (bits, size if found.method == "lower_bound" else bits)
    return ExposureRange(*ends, largest=max(bits, size))


def least(found: Finding) -> float | None:
    """The least that the exposure may be; other than the exposure only where a band is all that is told."""
    bounds = known(found)
    return None if bounds is None else bounds.least


def most(found: Finding) -> float | None:
    """The most that the exposure may be where a band is told, else the exposure itself."""
    return found.exposure_ends[1] if found.exposure_ends is not None else found.exposure


def on_classifiers(found: Finding) -> bool:
    """Whether the attack was one on a classifier, not on a language model."""
    return found.attack in ON_CLASSIFIERS


def compared(found: Finding) -> bool:
    """Whether the model was compared with the one before fine-tuning."""
    return "base_exposure" in found.extra


def added(found: Finding) -> float | None:
    """What fine-tuning added to the exposure by cost; None where that is not known."""
    return found.extra["tuned_exposure"] - found.extra["base_exposure"] if compared(found) else None


def _extra(name: str, found: Finding) -> Any:
    return found.extra.get(name)


def _two_ranks(name: str, words: str) -> list[Metric]:
    """A rank of Mix and Match, and the same of controls."""

    def proposed(found: Finding) -> bool:
        return "candidate_rank" in found.extra

    theirs = f"the same for controls, whose secret no model saw: what {name} is without a leak"
    return [
        MetricSpec(name, words, direction="higher").row(planted(partial(_extra, name)), median, proposed),
        MetricSpec(f"control_{name}", theirs).row(controls(partial(_extra, name)), median, proposed),
    ]


TWO_RANKS: list[Metric] = [
    *_two_ranks(
        "candidate_rank", "place of the secret in the generator's order of all it could put there, from 1; median"
    ),
    *_two_ranks(
        "pruned_rank", "place of the secret by class loss among the candidates down to its own place, for words; median"
    ),
]
bits, log_perplexity = attrgetter("exposure"), attrgetter("log_perplexity")
CHANCE = "1.44 bits on average (1.14 for 10 fillings) for random secrets, whatever the model"
BOUNDS_ONLY = ValidityCheck(
    1, "of some canaries the exposure is only known to be so high or higher: raise budget=", "lower-bound", low=True
)
ANY_SHARE = 1.01
"""More than any share is, so that the row raises its alarm whatever its value."""
EXTRAPOLATIONS = ValidityCheck(
    ANY_SHARE,
    "exposure is extrapolated from a fitted distribution, nothing as cheap as the secret was counted: attack=exposure "
    "or rank-sample does",
    "extrapolated",
    low=True,
)
NOT_AT_CHANCE = ValidityCheck(
    0.01, "controls are not at chance: the figures show a fault, not a leak", "controls-off-chance", fault=True
)
BELOW_CHANCE = dataclasses.replace(
    NOT_AT_CHANCE,
    words="controls are less exposed than chance allows: fillings that cost the same, or a scorer that tells nothing, "
    "hide a leak as well",
)
EXPOSURE, LOW, HIGH = HEADLINE(
    "exposure",
    "bits of the secret the model gives away: log2 of how far up its rank is among all fillings, mean",
    "bits",
    CHANCE,
    direction="lower",
    title="Exposure, pooled",
    control="control_exposure",
).average(planted(bits))
KNOWN = MetricSpec(
    "share_with_interval",
    "share of canaries whose exposure is more than a lower bound",
    "share",
    direction="higher",
    check=BOUNDS_ONLY,
).row(planted(has_interval), mean, lambda found: not extrapolated(found))
METRICS: list[Metric[Finding, Any]] = [
    EXPOSURE,
    dataclasses.replace(LOW, value=planted(least)),
    dataclasses.replace(HIGH, value=planted(most)),
    HEADLINE(
        "exposure_max",
        "exposure of the most exposed canary; by chance alone it grows with their number",
        "bits",
        direction="lower",
        title="Exposure, maximum",
    ).row(planted(bits), maximum),
    KNOWN,
    MetricSpec(
        "fit_not_rejected",
        "share of canaries whose costs the Kolmogorov-Smirnov test lets pass as skew-normal; it says nothing of the "
        "tail, from which the exposure is extrapolated without an upper bound",
        "share",
        check=EXTRAPOLATIONS,
    ).row(planted(fit_passes), mean, extrapolated),
    MetricSpec(
        "exposure_fraction", "exposure as a share of its largest possible value", "share", direction="lower"
    ).row(planted(exposure_fraction), mean),
    MetricSpec(
        "rank",
        "place of the secret among all fillings, cheapest first, from 1; median",
        chance="half the number of fillings",
    ).row(planted(lambda found: found.rank), median),
    MetricSpec("log_perplexity", "cost of the whole canary to the model, mean", "bits", direction="higher").row(
        planted(log_perplexity), mean, lambda found: not on_classifiers(found) and not pseudo(found)
    ),
    MetricSpec(
        "pseudo_log_perplexity",
        "sum over the canary's tokens of −log2 P(token | all others), that token masked, mean",
        "bits",
        direction="higher",
    ).row(planted(log_perplexity), mean, pseudo),
    MetricSpec(
        "class_loss",
        "−log2 of the probability of the canary's label (on taggers label and tags), mean",
        "bits",
        direction="higher",
    ).row(planted(partial(_extra, "class_loss")), mean, on_classifiers),
    *TWO_RANKS,
    MetricSpec(
        "exposure_tuned", "exposure by what the fine-tuned model finds cheap, whatever the base model finds", "bits"
    ).row(planted(partial(_extra, "tuned_exposure")), mean, compared),
    MetricSpec("exposure_base", "exposure by what the base model finds cheap, before fine-tuning", "bits", CHANCE).row(
        planted(partial(_extra, "base_exposure")), mean, compared
    ),
    *MetricSpec(
        "exposure_added", "exposure_tuned less exposure_base of the same canary: what fine-tuning added", "bits"
    )
    .row(planted(added), mean, compared, in_table=True)
    .with_ends(aggregates.BOOTSTRAP),
    MetricSpec("control_exposure_added", "the same of controls; away from 0 it shows a fault", "bits").row(
        controls(added), mean, compared, in_table=True
    ),
    MetricSpec(
        "control_exposure", "mean exposure of controls; away from chance it shows a fault, not a leak", "bits", CHANCE
    ).row(controls(bits), mean, in_table=True),
    MetricSpec("control_exposure_max", "exposure of the most exposed control", "bits").row(controls(bits), maximum),
    MetricSpec(
        "control_p",
        "probability that chance alone exposes controls as much; a small one shows a fault",
        "probability",
        check=NOT_AT_CHANCE,
    ).row(controls(at_least), exposed_by_chance, in_table=True),
    MetricSpec(
        "control_p_low",
        "probability that chance alone exposes controls as little; a small one shows a fault",
        "probability",
        check=BELOW_CHANCE,
    ).row(controls(at_most), sheltered_by_chance),
    MetricSpec(
        "min_detectable_exposure",
        "a mean exposure below this could go unnoticed beside chance: so many canaries show it in 8 of 10 runs",
        "bits",
    ).row(planted(bits), aggregates.exposure_shown_by, in_table=True),
    NOISE,
    *COUNTS,
]


def metrics(copies: Copies) -> list[Metric[Finding, Any]]:
    """The rows of a run with so many canaries of each number of copies, those of the fewest copies first."""
    found, families = tiers(copies), family_rows(copies, EXPOSURE, aggregates.LOG_T, known, bits)
    if not found:
        return pooled_brief(METRICS, "exposure")
    own = [row for tier in found for row in (*tier.rows(EXPOSURE, aggregates.LOG_T, known), tier.part(KNOWN))]
    return [*own, *families, *of_headline(METRICS, "min_detectable_exposure", found[0])]
