"""Metrics of the task ``canary_extraction``, and further ones of the attack ``inversion``."""

from __future__ import annotations

import dataclasses
from functools import partial
from statistics import fmean

from leakage_tasks.attacks.finding import GUESSES, Finding
from leakage_tasks.metrics import aggregates
from leakage_tasks.metrics.aggregates import GuessOutcome, SampledShare, maximum, mean
from leakage_tasks.metrics.exposure import NOT_AT_CHANCE, TWO_RANKS, on_classifiers
from leakage_tasks.metrics.families import family_rows
from leakage_tasks.metrics.metric import COUNTS, HEADLINE, NOISE, Metric, MetricSpec, controls, planted, with_count
from leakage_tasks.metrics.tiers import Copies, of_headline, pooled_brief, tiers
from leakage_tasks.stats.intervals import clopper_pearson

GUESS_COUNTS = (50, 100, 200)
"""Numbers of guesses allowed on classifiers, in addition to 1 and 10 (Elmahdy et al., Table 3)."""
SHOWN = 100
"""The number of guesses whose success reports show by default."""
MARGIN = 1e-6
"""Relative difference in loss above which a secret counts as overlooked; smaller differences are rounding."""


def reports_slots(finding: Finding) -> bool:
    """Return True if the finding reports correct slots, which findings on natural secrets do not."""
    return not finding.coarse


def extracted(finding: Finding) -> float | None:
    """Return 1 if the best guess is the secret."""
    return None if finding.correct is None else float(all(finding.correct))


def success_at(k: int, finding: Finding) -> float | None:
    """Return 1 if the secret is among the first ``k`` guesses; None if the attack ranked fewer guesses or hides
    this."""
    if finding.coarse:
        return within_ten(finding) if k == GUESSES else None
    if finding.correct is None or k > finding.extra.get("ranked", k):
        return None
    return float(finding.place is not None and finding.place <= k)


def within_ten(finding: Finding) -> float | None:
    """Return 1 if a natural secret is among the first ten guesses, the only fact reported on it; None if even that is
    hidden."""
    return float(finding.place == GUESSES) if finding.extra.get("ranked") == GUESSES else None


def chance_at(k: int, finding: Finding) -> float:
    """Return the probability that ``k`` different random guesses contain the secret: k / |R|."""
    return min(1.0, k * 2**-finding.log2_size)


def shortlist_kept(finding: Finding) -> float | None:
    """Return the share of the ten best values that a shortlist kept, mean over its slots."""
    shares = finding.extra.get("shortlist_kept")
    return fmean(shares) if shares else None


def tried(finding: Finding) -> GuessOutcome | None:
    """Return the outcome of the best guess, for a natural secret of the first ten guesses, with its probability by
    chance."""
    if finding.coarse:
        hit = within_ten(finding)
        return None if hit is None else GuessOutcome(bool(hit), chance_at(GUESSES, finding))
    return None if finding.correct is None else GuessOutcome(all(finding.correct), chance_at(1, finding))


def was_drawn(finding: Finding) -> bool:
    """Return True if the attack draws texts and counts those with the secret."""
    return "hits" in finding.extra


def drawn(finding: Finding) -> float | None:
    """Return 1 if at least one of the drawn texts contains the secret; None if this is hidden."""
    return float(finding.extra["hits"] > 0) if was_drawn(finding) else None


def p_z(finding: Finding) -> float | None:
    """Return the share of drawn texts with the secret, an estimate of its probability in one text."""
    return finding.extra["hits"] / finding.extra["texts"] if was_drawn(finding) else None


def p_z_sampled(finding: Finding) -> SampledShare | None:
    """Return this share with the number of drawn texts."""
    share = p_z(finding)
    return None if share is None else SampledShare(share, finding.extra["hits"], finding.extra["texts"])


def p_z_high(finding: Finding) -> float | None:
    """Return the upper end of the Clopper-Pearson interval of this probability."""
    return clopper_pearson(finding.extra["hits"], finding.extra["texts"])[1] if was_drawn(finding) else None


def hamming_distance(finding: Finding) -> float | None:
    """Return the share of wrong slots in the best guess (Hamming distance per token)."""
    return None if finding.correct is None else finding.correct.count(False) / len(finding.correct)


def inverted(finding: Finding) -> bool:
    """Return True if the attack relaxed tokens before it searched whole fillings."""
    return "unfinished" in finding.extra


def extracted_unfinished(finding: Finding) -> float:
    """Return 1 if the best answer of the relaxation alone is the secret."""
    return float(all(finding.extra["unfinished"]))


def hdt_unfinished(finding: Finding) -> float:
    """Return the share of wrong slots in the best answer of the relaxation alone."""
    marks = finding.extra["unfinished"]
    return marks.count(False) / len(marks)


def overlooked(finding: Finding) -> float:
    """Return 1 if the secret has a lower loss than the best guess."""
    return float(finding.extra["secret_loss"] < finding.extra["best_loss"] * (1 - MARGIN))


def _among(k: int) -> list[Metric]:
    words = f"share of canaries with the secret among the {k} best guesses"
    spec = MetricSpec(f"success_at_{k}", words, chance=f"min(1, {k}/|R|)", direction="lower")
    shown = k == SHOWN
    if shown:
        spec = dataclasses.replace(spec, title=f"Success@{k}", headline=True)
    rows = spec.rate(planted(partial(success_at, k)), on_classifiers)
    return with_count(rows) if shown else rows


def _chance(k: int) -> Metric:
    guesses, row = ("one guess", "extracted") if k == 1 else (f"{k} different guesses", f"success_at_{k}")
    words = f"mean of {k}/|R|: expected {row} for {guesses} at random"
    applies = _has_chances if k <= GUESSES else on_classifiers
    return MetricSpec(f"chance_at_{k}", words, "share").row(planted(partial(chance_at, k)), mean, applies)


def _has_chances(finding: Finding) -> bool:
    return on_classifiers(finding) or inverted(finding)


EXTRACTED = with_count(
    HEADLINE(
        "extracted",
        "share of canaries whose best guess is the secret",
        chance="1/|R|",
        direction="lower",
        title="Extraction rate, pooled",
        control="control_extracted",
    ).rate(planted(extracted), reports_slots)
)
CONTROLS = MetricSpec("control_extracted", "share of controls extracted; a value above chance shows a fault").rate(
    controls(extracted), reports_slots
)
METRICS: list[Metric] = [
    *EXTRACTED,
    *with_count(
        HEADLINE(
            "success_at_10",
            "share of canaries with the secret among the guesses, at most ten",
            chance="10/|R|",
            direction="lower",
            title="Success@10",
        ).rate(planted(partial(success_at, 10)))
    ),
    *(metric for k in GUESS_COUNTS for metric in _among(k)),
    *(_chance(k) for k in (1, 10, *GUESS_COUNTS)),
    *HEADLINE(
        "hdt",
        "share of wrong slots in the best guess (Hamming distance per token)",
        "share",
        "1 − 1/|alphabet|",
        direction="higher",
        title="HDT",
        count="n_extracted",
    ).average(planted(hamming_distance), reports_slots, between=(0, 1)),
    *MetricSpec(
        "extracted_unfinished",
        "share of canaries extracted by the relaxation alone, before the search of whole fillings",
        chance="1/|R|",
        direction="lower",
    ).rate(planted(extracted_unfinished), inverted),
    *MetricSpec(
        "hdt_unfinished",
        "share of wrong slots in the relaxation's own answer (Hamming distance per token)",
        "share",
        "1 − 1/|alphabet|",
        direction="higher",
    ).average(planted(hdt_unfinished), inverted, between=(0, 1)),
    *MetricSpec(
        "overlooked",
        "share of canaries whose secret has a lower loss than the best guess: the search missed it, although the "
        "model knows it",
    ).rate(planted(overlooked), inverted),
    dataclasses.replace(CONTROLS[0], in_table=True),
    *CONTROLS[1:],
    MetricSpec(
        "control_p",
        "probability that random guesses extract this many controls or more; a small value shows a fault",
        "probability",
        check=NOT_AT_CHANCE,
    ).row(controls(tried), aggregates.hit_by_chance, in_table=True),
    *HEADLINE(
        "drawn",
        "share of canaries whose secret is in at least one drawn text",
        direction="lower",
        title="Drawn",
        control="control_drawn",
        count="n_extracted",
    ).rate(planted(drawn), was_drawn),
    MetricSpec(
        "control_drawn",
        "share of controls whose secret is in a drawn text; a value above chance shows a fault",
        "share",
    ).row(controls(drawn), mean, was_drawn, in_table=True),
    *MetricSpec(
        "p_z",
        "probability that a drawn text contains the secret, estimated by the share of draws, mean over canaries",
        "share",
        direction="lower",
    )
    .row(planted(p_z), mean, was_drawn, in_table=True)
    .with_ends(aggregates.SAMPLED_SHARE, planted(p_z_sampled)),
    MetricSpec(
        "p_z_most",
        "largest upper end of the 95 % Clopper-Pearson intervals of p_z, over canaries",
        "share",
        direction="lower",
    ).row(planted(p_z_high), maximum, was_drawn, in_table=True),
    MetricSpec("control_p_z", "p_z of controls", "share").row(controls(p_z), mean, was_drawn, in_table=True),
    *TWO_RANKS,
    MetricSpec(
        "shortlist_kept",
        "share of the ten best values that the gradient's shortlist kept, mean over slots",
        "share",
    ).row(shortlist_kept, mean, lambda finding: "shortlist_kept" in finding.extra),
    MetricSpec("model_calls", "sequences scored for a canary, mean").row(
        planted(lambda finding: None if finding.model_calls is None else float(finding.model_calls)), mean
    ),
    MetricSpec("nodes", "nodes of the tree of partial fillings whose children were scored for a canary, mean").row(
        planted(lambda finding: float(finding.extra["nodes"])), mean, lambda finding: "nodes" in finding.extra
    ),
    MetricSpec(
        "min_detectable_rate",
        "smallest extraction rate that this number of canaries detects with 80 % power",
        "share",
    ).row(planted(tried), aggregates.rate_shown_by, in_table=True),
    NOISE,
    *COUNTS,
]


def metrics(copies: Copies) -> list[Metric]:
    """Return the metrics of a run with ``copies`` canaries per repetition count, the lowest count first."""
    tiers_, families = (
        tiers(copies),
        family_rows(copies, EXTRACTED[0], aggregates.CLOPPER_PEARSON, extracted, extracted),
    )
    if not tiers_:
        return pooled_brief(METRICS, "extracted", "success_at_10", "n_success_at_10")
    tier_rows = [row for tier in tiers_ for row in tier.rows(EXTRACTED[0], aggregates.CLOPPER_PEARSON, extracted)]
    return [*tier_rows, *families, *of_headline(METRICS, "min_detectable_rate", tiers_[0])]
