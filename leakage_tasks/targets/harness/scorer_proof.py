"""Proof that a scorer is alive, before the first canary is attacked.

A server without log-probabilities of prompts, a cache that answers for another text, a score that is rounded, clipped
or taken per token: each gives figures, and all of them say that nothing leaks. What such a scorer cannot do is asked
here of some texts of our own and of random fillings. No secret is among them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import first_line, log, warn_once
from leakage_tasks.targets.harness.filling_noise import example_of, random_texts, warn_of_blur
from leakage_tasks.targets.noise import FLOOR_BITS, NO_NOISE, Noise, recorded_noise
from leakage_tasks.targets.protocols import ReadsSource, ReadsTags, ScoresLabels, ScoresSequences
from leakage_tasks.targets.rounding import SENTENCES, in_half_precision, perturbed_rounding

FILLINGS = 32
AGAIN = 5
"""Every so manieth text is asked about a second time."""
TIE_BITS = 1e-5
MOST_TIED, TELLING_TIES = 0.5, 0.2
"""Shares of random fillings: of one cost, beyond which ranks say nothing; of costs that others have too, which a score
in full precision hardly has."""
GROWING, IN_ORDER = 0.8, 0.75
"""Shares of the sentences that must cost more with another one after them, and less than their words shuffled."""
LEAST = 4
"""Sentences, or fillings, that anything is concluded from."""
USUAL_BITS, USUAL_SHARE = 0.1, 0.02
"""Bits by which two answers about one text may always differ, and the share of its cost, as servers round."""
DROWNED = 0.5
"""Share of the standard deviation of random fillings' costs: a scorer that does not show its precision is refused if
its answers vary by more."""
DEAD = "no figure of this run would mean anything"


def prove(target: Any, canaries: Sequence[Canary]) -> None:
    """Ask ``target`` what no dead scorer can answer. Raises TargetError for one that is, and warns of a doubtful one.

    About a hundred short texts, which no attack's ``budget`` counts. A model that gives no log-likelihoods at all is
    left to the attacks, some of which need none. The noise of a scorer whose tokens are not seen is set as its
    ``recorded_noise``.
    """
    canary, own, noise = example_of(canaries), recorded_noise(target), NO_NOISE
    model = getattr(target, "model", None) or getattr(getattr(target, "lm", None), "model", None)
    if isinstance(target, ReadsSource):
        translated = canary.source_space is not None and not canary.source_space.slots
        scorer = target.given(canary)
        seen = ScorerPrecision(model, own)
        noise = _prove_costs(scorer, canary.attack_space, SENTENCES if translated else (), seen, words=False)
    elif isinstance(target, ScoresLabels):
        tagged = target.tagged(canary) if isinstance(target, ReadsTags) else target
        noise = _prove_labels(tagged, canary, ScorerPrecision(model, own))
    elif isinstance(target, ScoresSequences):
        noise = _prove_costs(target, canary.attack_space, SENTENCES, ScorerPrecision(model, own), words=True)
    if own == NO_NOISE and noise != NO_NOISE:
        target.recorded_noise = noise


@dataclass(frozen=True)
class ScorerPrecision:
    """What is seen of a scorer's precision: its ``model``, None if it is not seen, and the noise of its tokens."""

    model: Any
    noise: Noise

    def explained(self, lengths: Sequence[int | None]) -> FloatArray | None:
        """Return by how much costs of texts of ``lengths`` tokens may differ; None if the model is not seen."""
        if self.noise != NO_NOISE:
            return np.array([self.noise.allowed(length) for length in lengths])
        return np.zeros(len(lengths)) if self.is_float32 else None

    @property
    def is_float32(self) -> bool:
        """Whether the model is seen, and computes in 32 bits or more."""
        return hasattr(self.model, "parameters") and not in_half_precision(self.model)


def _prove_costs(
    scorer: ScoresSequences, space: Space, sentences: Sequence[str], precision: ScorerPrecision, *, words: bool
) -> Noise:
    """Check costs of whole texts; return the noise that shows in them."""
    fillings = random_texts(space, FILLINGS)
    costs = _costs_or_none(scorer.log_perplexity, fillings)
    if costs is None:
        return NO_NOISE
    fitting = [sentence for sentence in sentences if _fits(scorer, f"{sentence} {max(sentences, key=len)}")]
    of_sentences, of_longer, of_shuffled = _of_sentences(scorer, fitting if len(fitting) >= LEAST else [])
    _check_figures(np.concatenate([costs, of_sentences, of_longer, of_shuffled]), "log-likelihood")
    texts, once = [*fillings, *fitting[: len(of_sentences)]], np.append(costs, of_sentences)
    explained = precision.explained([scorer.length(text) for text in texts])
    seen = _check_again(scorer.log_perplexity, texts, once, len(fillings), explained)
    if precision.noise == NO_NOISE:
        seen = max(seen, _rounding(precision.model, scorer.log_perplexity, fillings, costs))
        warn_of_blur(seen, costs)
    _check_ties(costs, refuse=True)
    _check_growth(of_sentences, of_longer)
    if words:
        _check_order(of_sentences, of_shuffled)
    return Noise(text_bits=seen) if seen > FLOOR_BITS else NO_NOISE


def _of_sentences(scorer: ScoresSequences, sentences: Sequence[str]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Costs of sentences, of each with the next one after it, and of each with its words shuffled."""
    longer = [f"{first} {second}" for first, second in zip(sentences, [*sentences[1:], *sentences[:1]], strict=True)]
    texts = [*sentences, *longer, *map(_shuffle_words, sentences)]
    try:
        costs = scorer.log_perplexity(texts) if texts else np.zeros(0)
    except Exception as error:  # Models that do not say how much they read fail in ways of their own.
        log.info("leakage: the model's scores were tried on random fillings alone: %s", first_line(error))
        costs = np.zeros(0)
    of_sentences, of_longer, of_shuffled = np.split(costs, 3)
    return of_sentences, of_longer, of_shuffled


def _prove_labels(target: ScoresLabels, canary: Canary, precision: ScorerPrecision) -> Noise:
    """The same of class losses, which need not grow with a text nor go by the order of its words."""

    def losses(texts: Sequence[str]) -> FloatArray:
        scorer = target.tagged(canary) if isinstance(target, ReadsTags) else target
        return scorer.label_costs(scorer.encode(texts))[:, scorer.place_of(canary.label)]

    fillings = random_texts(canary.attack_space, FILLINGS)
    # A tagger's loss is of the canary's tags as well, one a word, which fit no other text.
    others = () if isinstance(target, ReadsTags) else SENTENCES
    costs = _costs_or_none(losses, [*fillings, *others])
    if costs is None:
        return NO_NOISE
    _check_figures(costs, "label probability")
    costs = costs[: len(fillings)]
    explained = precision.explained([target.length(text) for text in fillings])
    seen = _check_again(losses, fillings, costs, len(fillings), explained)
    seen = max(seen, _rounding(precision.model, losses, fillings, costs))
    warn_of_blur(seen, costs)
    _check_ties(costs, refuse=False)
    return Noise(text_bits=seen) if seen > FLOOR_BITS else NO_NOISE


def _rounding(model: Any, ask: Callable[[Sequence[str]], FloatArray], texts: Sequence[str], costs: FloatArray) -> float:
    """Return the noise in bits of the costs of texts where a model in 16 bits is seen, else 0."""
    if not in_half_precision(model):
        return 0.0
    with perturbed_rounding(model):
        return _rms(ask(texts) - costs)


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0


def _costs_or_none(ask: Callable[[Sequence[str]], FloatArray], texts: Sequence[str]) -> FloatArray | None:
    """Costs, or None where the model declines, which the attacks say in better words: of which canary, and why."""
    try:
        return ask(texts)
    except TargetError:
        return None


def _fits(scorer: ScoresSequences, text: str) -> bool:
    """Whether the model can read a text, as far as it says, and reads more than a token of it."""
    length = scorer.length(text)
    return length is None or (length > LEAST and (scorer.max_length is None or length < scorer.max_length))


def _shuffle_words(sentence: str) -> str:
    words = sentence.split()
    random.Random(sentence).shuffle(words)
    return " ".join(words)


def _check_figures(costs: FloatArray, what: str) -> None:
    """Raise TargetError for figures that are no probabilities, or all the same."""
    wrong = int((~np.isfinite(costs)).sum())
    if wrong:
        raise TargetError(
            f"of {wrong} of {len(costs)} texts the model gives no finite {what}: try --model_args dtype=float32, and "
            "look for damaged weights"
        )
    if costs.min() < -TIE_BITS:
        raise TargetError(
            f"the model gives a text a {what} above 0 ({-costs.min():.3g} bits), which no probability has; {DEAD}: "
            "look at what the model or its server returns"
        )
    if np.ptp(costs) <= TIE_BITS and len(costs) >= LEAST:
        raise TargetError(
            f"the model gives each of {len(costs)} texts the same {what} ({-costs[0]:.4g} bits); {DEAD}: a server may "
            "need to be told to return log-probabilities of prompts"
        )


def _check_again(
    ask: Callable[[Sequence[str]], FloatArray],
    texts: Sequence[str],
    costs: FloatArray,
    fillings: int,
    explained: FloatArray | None = None,
) -> float:
    """Ask about some texts again, in another order and company; return the noise in bits that this shows.

    ``explained`` ``[n]`` is by how much the precision of the model explains that costs differ, None where it is not
    seen. There the spread of the first ``fillings`` texts decides. Raises TargetError for larger differences.
    """
    places = list(range(0, len(texts), AGAIN))[::-1]
    apart = np.abs(ask([texts[place] for place in places]) - costs[places])
    usual = USUAL_BITS + USUAL_SHARE * np.abs(costs[places])
    noise, spread = _rms(apart), float(costs[:fillings].std())
    if (apart <= (usual if explained is None else np.maximum(usual, explained[places]))).all():
        return noise
    if explained is None and noise <= DROWNED * spread:
        return noise
    raise TargetError(
        f"asked twice about the same text the model gives costs up to {apart.max():.3g} bits apart, and random "
        f"fillings differ by {spread:.3g}; {DEAD}: if it computes in 16 bits, load it with dtype=float32; else look "
        "for a cache that answers for other texts, and for dropout that is still on"
    )


def _check_ties(costs: FloatArray, *, refuse: bool) -> None:
    """Say of random fillings that cost the same; raise TargetError where it is most of them, if that is to ``refuse``.

    Costs of a class in full precision may tie honestly, at a probability of 1: that is said and no error.
    """
    if len(costs) < LEAST:
        return
    ordered = np.sort(costs)
    new = np.diff(ordered) > TIE_BITS * np.maximum(1.0, ordered[1:] / 100)
    sizes = np.bincount(np.concatenate([[0], np.cumsum(new)]))
    most, tied = sizes.max() / len(costs), sizes[sizes > 1].sum() / len(costs)
    said = f"{sizes.max()} of {len(costs)} random fillings of one template cost the model the same"
    if most > MOST_TIED and refuse:
        raise TargetError(
            f"{said}, so that ranks say nothing: look for scores that are rounded, cut off or cached, and take a "
            "template of values that the model tells apart"
        )
    if most > MOST_TIED:
        warn_once(f"leakage: {said}: ranks count ties against the secret, so exposure is too low; it proves no safety")
    elif tied > TELLING_TIES:
        warn_once(
            f"leakage: {tied:.0%} of {len(costs)} random fillings cost the model exactly what another does, as rounded "
            "scores do (16 bits, a server's decimals): ranks count ties against the secret, so exposure is too low"
        )


def _check_growth(sentences: FloatArray, longer: FloatArray) -> None:
    """Raise TargetError where a longer text does not cost more: by the chain rule each token adds its own cost."""
    grown = int((longer > sentences).sum())
    if grown < GROWING * len(sentences):
        raise TargetError(
            f"only {grown} of {len(sentences)} sentences cost the model more with another one after them; {DEAD}: look "
            "for a score per token instead of a sum, and for one that is cut off"
        )


def _check_order(sentences: FloatArray, shuffled: FloatArray) -> None:
    cheaper = int((sentences < shuffled).sum())
    if cheaper < IN_ORDER * len(sentences):
        warn_once(
            f"leakage: only {cheaper} of {len(sentences)} English sentences cost the model less than their words "
            "shuffled: random weights, or a model of something else than English; if it is neither, look at its scores"
        )
