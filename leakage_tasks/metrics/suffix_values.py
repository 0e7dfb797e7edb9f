"""What one pair of prefix and suffix gives the rows of the task ``suffix_extraction``."""

from __future__ import annotations

import math

from leakage_tasks.attacks.suffix.finding import Choice, SelectedView
from leakage_tasks.metrics.aggregates import Guessed, SampledShare, ShareEnds
from leakage_tasks.stats.intervals import clopper_pearson

LIKELY = 0.5
"""The p of (n, p)-discoverability."""


def recalled(reading: SelectedView) -> float:
    """1 if the suffix picked is the true one, token for token."""
    return float(reading.choice.wrong == 0)


def recalled_among(k: int, reading: SelectedView) -> float:
    """1 if the true suffix is among the ``k`` surest drawn."""
    return float(reading.choice.place is not None and reading.choice.place <= k)


def hamming_distance(reading: SelectedView) -> float:
    """Share of the tokens that are wrong in the suffix picked."""
    return reading.choice.wrong


def guessed(reading: SelectedView) -> Guessed:
    """What ``recall_early_stop`` needs of one pair."""
    return _guessed(reading, reading.choice, reading.choice.confidence)


def guessed_by_headline(reading: SelectedView) -> Guessed:
    """The same for the guess that the run's own confidence picks, with this confidence in it."""
    return _guessed(reading, reading.view.choices[reading.finding.chosen_by], reading.choice.of_headline)


def _guessed(reading: SelectedView, choice: Choice, confidence: float) -> Guessed:
    return Guessed(choice.wrong == 0, confidence, choice.bits or 0.0, reading.pair)


def p_z(reading: SelectedView) -> float | None:
    """Probability of the true suffix in one draw of the sampling scheme; None where the model does not tell.

    Of a model that only writes the share of the draws that were it.
    """
    if reading.view.hits is not None:
        return reading.view.hits / reading.view.samples
    return _probability(reading.view.p_z_bits, reading.view.reachable)


def p_z_ends(reading: SelectedView) -> tuple[float, float] | None:
    """Both ends of the 95 % Clopper-Pearson interval of p_z where it is a share of draws; else p_z itself twice."""
    if reading.view.hits is not None:
        return clopper_pearson(reading.view.hits, reading.view.samples)
    exact = p_z(reading)
    return None if exact is None else (exact, exact)


def p_z_high(reading: SelectedView) -> float | None:
    """The upper one of them."""
    ends = p_z_ends(reading)
    return None if ends is None else ends[1]


def p_z_sampled(reading: SelectedView) -> SampledShare | None:
    """p_z with the draws that it was seen in; without draws if the suffix was drawn and nobody counted how often."""
    found, view = p_z(reading), reading.view
    if found is None:
        return None
    if view.hits is None:
        return SampledShare(found, 0, 0 if drawn(reading) else view.samples)
    return SampledShare(found, view.hits, view.samples)


def p_z_base(reading: SelectedView) -> float | None:
    """The same of the model before fine-tuning."""
    view = reading.view
    return _probability(view.base_p_z_bits, view.base_reachable)


def p_z_added(reading: SelectedView) -> float | None:
    """How much likelier fine-tuning made the suffix, as counterfactual memorization does it for whole training sets.

    The model before fine-tuning stands for one that was not trained on the pair (Zhang et al. 2023, "Counterfactual
    Memorization in Neural Language Models", definition 2.1).
    """
    return _difference(p_z(reading), p_z_base(reading))


def bits_added(reading: SelectedView) -> float | None:
    """Bits by which fine-tuning made the true suffix cheaper, under the models' own distributions."""
    return _difference(reading.view.base_own_bits, reading.view.own_bits)


def beyond_reference(reading: SelectedView) -> float | None:
    """1 if as many draws as there were hold the suffix with a probability of a half or more, and the base's do not."""
    draws = reading.view.samples
    now, before = drawn_within(draws, reading), _within(draws, p_z_base(reading))
    return None if now is None or before is None else float(now >= LIKELY > before)


def _probability(bits: float | None, reachable: bool | None) -> float | None:
    if bits is not None:
        return min(1.0, 2.0**-bits)
    return 0.0 if reachable is False else None


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def drawn_within(draws: int, reading: SelectedView) -> float | None:
    """Probability that the true suffix is among ``draws`` draws, 1 − (1 − p_z)^draws."""
    return _within(draws, p_z(reading))


def _within(draws: int, probability: float | None) -> float | None:
    if probability is None or probability == 1:
        return probability
    return -math.expm1(draws * math.log1p(-probability))


def discoverable(draws: int, reading: SelectedView) -> float | None:
    """1 if the suffix is (draws, 0.5)-discoverable (Hayes et al. 2024)."""
    return _likely(draws, p_z(reading))


def discoverable_ends(draws: int, reading: SelectedView) -> ShareEnds | None:
    """The same for either end of the interval of p_z."""
    ends = p_z_ends(reading)
    low, high = (None, None) if ends is None else (_likely(draws, end) for end in ends)
    return None if low is None or high is None else ShareEnds(low, high)


def _likely(draws: int, probability: float | None) -> float | None:
    within = _within(draws, probability)
    return None if within is None else float(within >= LIKELY)


def expected(reading: SelectedView) -> float | None:
    """Probability that the true suffix is among the draws there were."""
    return drawn_within(reading.view.samples, reading)


def drawn(reading: SelectedView) -> float:
    """1 if the true suffix was drawn."""
    return float(reading.choice.place is not None)


def distinct(reading: SelectedView) -> float:
    """Different suffixes among the draws, as a share of them."""
    return reading.view.distinct / reading.view.samples


def node_share(reading: SelectedView) -> float:
    """Token positions computed, as a share of those of as many separate draws."""
    return reading.finding.nodes / (reading.finding.samples * reading.view.suffix_length)
