"""Metrics of the task ``canary_extraction``, and what the attack ``inversion`` adds to them."""

from __future__ import annotations

import dataclasses
from functools import partial
from statistics import fmean

from leakage_tasks.attacks.finding import GUESSES, Finding
from leakage_tasks.metrics import aggregates
from leakage_tasks.metrics.aggregates import GuessOutcome, SampledShare, maximum, mean
from leakage_tasks.metrics.exposure import NOT_AT_CHANCE, TWO_RANKS, on_classifiers
from leakage_tasks.metrics.families import family_rows
from leakage_tasks.metrics.metric import COUNTS, HEADLINE, NOISE, Metric, MetricSpec, controls, planted
from leakage_tasks.metrics.tiers import Copies, of_headline, pooled_brief, tiers
from leakage_tasks.stats.intervals import clopper_pearson

GUESS_COUNTS = (50, 100, 200)
"""Guesses allowed on classifiers, besides 1 and 10 (Elmahdy et al., Table 3)."""
SHOWN = 100
"""The one of them that reports show without being asked."""
MARGIN = 1e-6
"""A secret is overlooked if its loss is lower by more than this share: less is rounding."""


def told(found: Finding) -> bool:
    """Whether the finding tells which slots are right, as that of a natural secret does not."""
    return not found.coarse


def extracted(found: Finding) -> float | None:
    """1 if the best guess is the secret."""
    return None if found.correct is None else float(all(found.correct))


def success_at(k: int, found: Finding) -> float | None:
    """1 if the secret is among the first ``k`` guesses; None where the attack ranked fewer, or that is not told."""
    if found.coarse:
        return within_ten(found) if k == GUESSES else None
    if found.correct is None or k > found.extra.get("ranked", k):
        return None
    return float(found.place is not None and found.place <= k)


def within_ten(found: Finding) -> float | None:
    """1 if a natural secret is among the first ten guesses: no more is told of it; None where that is not either."""
    return float(found.place == GUESSES) if found.extra.get("ranked") == GUESSES else None


def chance_at(k: int, found: Finding) -> float:
    """The chance of ``k`` different guesses at random to hold the secret: k / |R|."""
    return min(1.0, k * 2**-found.log2_size)


def shortlist_kept(found: Finding) -> float | None:
    """Share of the ten best values that a shortlist kept, mean over the slots it was taken for."""
    kept = found.extra.get("shortlist_kept")
    return fmean(kept) if kept else None


def tried(found: Finding) -> GuessOutcome | None:
    """Whether the best guess is the secret, of a natural one whether one of ten is, and the chance of that."""
    if found.coarse:
        hit = within_ten(found)
        return None if hit is None else GuessOutcome(bool(hit), chance_at(GUESSES, found))
    return None if found.correct is None else GuessOutcome(all(found.correct), chance_at(1, found))


def was_drawn(found: Finding) -> bool:
    """Whether the attack was to draw texts and count those that hold the secret."""
    return "hits" in found.extra


def drawn(found: Finding) -> float | None:
    """1 if one of the texts drawn holds the secret or more do; None where that is not told."""
    return float(found.extra["hits"] > 0) if was_drawn(found) else None


def p_z(found: Finding) -> float | None:
    """Share of the texts drawn that hold the secret, which estimates its probability in one text."""
    return found.extra["hits"] / found.extra["texts"] if was_drawn(found) else None


def p_z_sampled(found: Finding) -> SampledShare | None:
    """That share with the texts that it was seen in."""
    share = p_z(found)
    return None if share is None else SampledShare(share, found.extra["hits"], found.extra["texts"])


def p_z_high(found: Finding) -> float | None:
    """The upper end of the Clopper-Pearson interval of that probability."""
    return clopper_pearson(found.extra["hits"], found.extra["texts"])[1] if was_drawn(found) else None


def hamming_distance(found: Finding) -> float | None:
    """Share of the slots that are wrong in the best guess (Hamming distance per token)."""
    return None if found.correct is None else found.correct.count(False) / len(found.correct)


def inverted(found: Finding) -> bool:
    """Whether the attack relaxed tokens before it searched whole fillings."""
    return "unfinished" in found.extra


def extracted_unfinished(found: Finding) -> float:
    """1 if the relaxation's own best answer is the secret."""
    return float(all(found.extra["unfinished"]))


def hdt_unfinished(found: Finding) -> float:
    """Share of the slots that are wrong in the relaxation's own best answer."""
    marks = found.extra["unfinished"]
    return marks.count(False) / len(marks)


def overlooked(found: Finding) -> float:
    """1 if the secret has a lower loss than the best guess."""
    return float(found.extra["secret_loss"] < found.extra["best_loss"] * (1 - MARGIN))


def _among(k: int) -> list[Metric]:
    words = f"share of canaries with the secret among the {k} best guesses"
    spec = MetricSpec(f"success_at_{k}", words, chance=f"{k}/|R|", direction="lower")
    if k == SHOWN:
        spec = dataclasses.replace(spec, title=f"Success@{k}", headline=True, count="n_planted")
    return spec.rate(planted(partial(success_at, k)), on_classifiers)


def _chance(k: int) -> Metric:
    guesses, row = ("one guess", "extracted") if k == 1 else (f"{k} different guesses", f"success_at_{k}")
    words = f"what {row} is for {guesses} at random, {k}/|R|, mean"
    applies = _has_chances if k <= GUESSES else on_classifiers
    return MetricSpec(f"chance_at_{k}", words, "share").row(planted(partial(chance_at, k)), mean, applies)


def _has_chances(found: Finding) -> bool:
    return on_classifiers(found) or inverted(found)


EXTRACTED = HEADLINE(
    "extracted",
    "share of canaries whose best guess is the secret",
    chance="1/|R|",
    direction="lower",
    title="Extraction rate, pooled",
    control="control_extracted",
).rate(planted(extracted), told)
CONTROLS = MetricSpec("control_extracted", "share of controls extracted; above chance it shows a fault").rate(
    controls(extracted), told
)
METRICS: list[Metric] = [
    *EXTRACTED,
    *HEADLINE(
        "success_at_10",
        "share of canaries with the secret among the guesses offered, the ten best at most",
        chance="10/|R|",
        direction="lower",
        title="Success@10",
    ).rate(planted(partial(success_at, 10))),
    *(metric for k in GUESS_COUNTS for metric in _among(k)),
    *(_chance(k) for k in (1, 10, *GUESS_COUNTS)),
    *HEADLINE(
        "hdt",
        "share of slots wrong in the best guess (Hamming distance per token)",
        "share",
        "1 − 1/|alphabet|",
        direction="higher",
        title="HDT",
    ).average(planted(hamming_distance), told, between=(0, 1)),
    *MetricSpec(
        "extracted_unfinished",
        "share of canaries that the relaxation alone gets out, before whole fillings are searched",
        chance="1/|R|",
        direction="lower",
    ).rate(planted(extracted_unfinished), inverted),
    *MetricSpec(
        "hdt_unfinished",
        "share of slots wrong in the relaxation's own answer (Hamming distance per token)",
        "share",
        "1 − 1/|alphabet|",
        direction="higher",
    ).average(planted(hdt_unfinished), inverted, between=(0, 1)),
    *MetricSpec(
        "overlooked",
        "share of canaries whose secret has a lower loss than the best guess: the search missed it, not the model",
    ).rate(planted(overlooked), inverted),
    dataclasses.replace(CONTROLS[0], in_table=True),
    *CONTROLS[1:],
    MetricSpec(
        "control_p",
        "probability that guesses at random extract as many controls; a small one shows a fault",
        "probability",
        check=NOT_AT_CHANCE,
    ).row(controls(tried), aggregates.hit_by_chance, in_table=True),
    *HEADLINE(
        "drawn",
        "share of canaries whose secret is in one of the texts drawn or more",
        direction="lower",
        title="Drawn",
        control="control_drawn",
    ).rate(planted(drawn), was_drawn),
    MetricSpec("control_drawn", "the same of controls; above chance it shows a fault", "share").row(
        controls(drawn), mean, was_drawn, in_table=True
    ),
    *MetricSpec(
        "p_z",
        "probability that a text drawn holds the secret: the share that did, mean over canaries",
        "share",
        direction="lower",
    )
    .row(planted(p_z), mean, was_drawn, in_table=True)
    .with_ends(aggregates.SAMPLED_SHARE, planted(p_z_sampled)),
    MetricSpec(
        "p_z_most",
        "no canary's probability to be in a text drawn is above this, each by its own 95 % Clopper-Pearson interval",
        "share",
        direction="lower",
    ).row(planted(p_z_high), maximum, was_drawn, in_table=True),
    MetricSpec("control_p_z", "the same as p_z for controls", "share").row(
        controls(p_z), mean, was_drawn, in_table=True
    ),
    *TWO_RANKS,
    MetricSpec(
        "shortlist_kept",
        "share of the ten best of all values that the gradient's shortlist kept, mean over slots",
        "share",
    ).row(shortlist_kept, mean, lambda found: "shortlist_kept" in found.extra),
    MetricSpec("model_calls", "sequences scored for a canary, mean").row(
        planted(lambda found: None if found.model_calls is None else float(found.model_calls)), mean
    ),
    MetricSpec("nodes", "nodes of the tree of partial fillings whose children a search priced for a canary, mean").row(
        planted(lambda found: float(found.extra["nodes"])), mean, lambda found: "nodes" in found.extra
    ),
    MetricSpec(
        "min_detectable_rate",
        "an extraction rate below this could go unnoticed: so many canaries show it in 8 of 10 runs",
        "share",
    ).row(planted(tried), aggregates.rate_shown_by, in_table=True),
    NOISE,
    *COUNTS,
]


def metrics(copies: Copies) -> list[Metric]:
    """The rows of a run with so many canaries of each number of copies, those of the fewest copies first."""
    found, families = tiers(copies), family_rows(copies, EXTRACTED[0], aggregates.CLOPPER_PEARSON, extracted, extracted)
    if not found:
        return pooled_brief(METRICS, "extracted", "success_at_10")
    own = [row for tier in found for row in tier.rows(EXTRACTED[0], aggregates.CLOPPER_PEARSON, extracted)]
    return [*own, *families, *of_headline(METRICS, "min_detectable_rate", found[0])]
