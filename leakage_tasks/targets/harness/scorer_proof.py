"""Check that a scorer works, before the first canary is attacked.

Some scorers return meaningless scores: a server without log-probabilities of prompts, a cache that answers for another
text, a score that is rounded, clipped or averaged per token. All of these would report that nothing leaks. Here fixed
sentences and random fillings are scored, and the properties of a working scorer are tested. No secret is among them.
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
REPEAT_EVERY = 5
"""Interval of texts that are scored a second time: every fifth text."""
TIE_BITS = 1e-5
"""Costs of texts are equal up to this many bits. Losses of a class are close to 0 if the model is certain, and
distinct down to this share of a loss below one bit, as attacks compare them."""
MOST_TIED, SUSPICIOUS_TIES = 0.5, 0.2
"""Shares of random fillings. Above the first share with one common cost, ranks are meaningless. Above the second share
with a cost that another filling also has, a warning is issued: this is rare for scores in full precision."""
GROWING, IN_ORDER = 0.8, 0.75
"""Minimum share of sentences that must cost more if a sentence is appended, and less than their words shuffled."""
LEAST = 4
"""Minimum number of sentences or fillings for a conclusion."""
USUAL_BITS, USUAL_SHARE = 0.1, 0.02
"""Tolerated difference in bits of two scores of one text, and as a share of its cost: servers round."""
MOST_VARIATION = 0.5
"""Ratio to the standard deviation of random fillings' costs: a scorer of unknown precision is refused if its scores
vary by more."""
DEAD = "the results of this run would be meaningless"


def prove(target: Any, canaries: Sequence[Canary]) -> None:
    """Check that ``target`` is a working scorer. Raises TargetError if it is not, and warns if this is doubtful.

    The check scores about a hundred short texts, which do not count for any attack's ``budget``. A model without
    log-likelihoods passes, since some attacks do not need them. The noise of a scorer without costs of single tokens is
    stored as its ``recorded_noise``.
    """
    canary, recorded, noise = example_of(canaries), recorded_noise(target), NO_NOISE
    model = getattr(target, "model", None) or getattr(getattr(target, "lm", None), "model", None)
    if isinstance(target, ReadsSource):
        translated = canary.source_space is not None and not canary.source_space.slots
        scorer = target.given(canary)
        seen = ScorerPrecision(model, recorded)
        noise = _prove_costs(scorer, canary.attack_space, SENTENCES if translated else (), seen, words=False)
    elif isinstance(target, ScoresLabels):
        tagged = target.tagged(canary) if isinstance(target, ReadsTags) else target
        noise = _prove_labels(tagged, canary, ScorerPrecision(model, recorded))
    elif isinstance(target, ScoresSequences):
        noise = _prove_costs(target, canary.attack_space, SENTENCES, ScorerPrecision(model, recorded), words=True)
    if recorded == NO_NOISE and noise != NO_NOISE:
        target.recorded_noise = noise


@dataclass(frozen=True)
class ScorerPrecision:
    """The known precision of a scorer: its ``model``, None if not accessible, and the noise of its tokens."""

    model: Any
    noise: Noise

    def tolerated(self, lengths: Sequence[int | None]) -> FloatArray | None:
        """Return the tolerated difference in bits of costs of texts, or None if the model is not accessible."""
        if self.noise != NO_NOISE:
            return np.array([self.noise.allowed(length) for length in lengths])
        return np.zeros(len(lengths)) if self.is_float32 else None

    @property
    def is_float32(self) -> bool:
        """True if the model is accessible and computes in 32 bits or more."""
        return hasattr(self.model, "parameters") and not in_half_precision(self.model)


def _prove_costs(
    scorer: ScoresSequences, space: Space, sentences: Sequence[str], precision: ScorerPrecision, *, words: bool
) -> Noise:
    """Check costs of whole texts; return their noise."""
    fillings = random_texts(space, FILLINGS)
    costs = _costs_or_none(scorer.log_perplexity, fillings)
    if costs is None:
        return NO_NOISE
    fitting = [sentence for sentence in sentences if _fits(scorer, f"{sentence} {max(sentences, key=len)}")]
    of_sentences, of_longer, of_shuffled = _of_sentences(scorer, fitting if len(fitting) >= LEAST else [])
    _check_figures(np.concatenate([costs, of_sentences, of_longer, of_shuffled]), "log-likelihood", TIE_BITS)
    texts, once = [*fillings, *fitting[: len(of_sentences)]], np.append(costs, of_sentences)
    tolerated = precision.tolerated([scorer.length(text) for text in texts])
    seen = _check_again(scorer.log_perplexity, texts, once, len(fillings), tolerated)
    if precision.noise == NO_NOISE:
        seen = max(seen, _rounding(precision.model, scorer.log_perplexity, fillings, costs))
        warn_of_blur(seen, costs)
    _check_ties(costs, TIE_BITS * np.maximum(1.0, costs / 100), refuse=True)
    _check_growth(of_sentences, of_longer)
    if words:
        _check_order(of_sentences, of_shuffled)
    return Noise(text_bits=seen) if seen > FLOOR_BITS else NO_NOISE


def _of_sentences(scorer: ScoresSequences, sentences: Sequence[str]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return costs of sentences, of each sentence with the next appended, and of each with its words shuffled."""
    longer = [f"{first} {second}" for first, second in zip(sentences, [*sentences[1:], *sentences[:1]], strict=True)]
    texts = [*sentences, *longer, *map(_shuffle_words, sentences)]
    try:
        costs = scorer.log_perplexity(texts) if texts else np.zeros(0)
    except Exception as error:  # models that do not report their maximum length raise errors of many types
        log.info("leakage: the model's scores were checked on random fillings alone: %s", first_line(error))
        costs = np.zeros(0)
    of_sentences, of_longer, of_shuffled = np.split(costs, 3)
    return of_sentences, of_longer, of_shuffled


def _prove_labels(target: ScoresLabels, canary: Canary, precision: ScorerPrecision) -> Noise:
    """Check costs of a class, which need not grow with a text nor depend on word order; return their noise."""

    def losses(texts: Sequence[str]) -> FloatArray:
        scorer = target.tagged(canary) if isinstance(target, ReadsTags) else target
        return scorer.label_costs(scorer.encode(texts))[:, scorer.place_of(canary.label)]

    fillings = random_texts(canary.attack_space, FILLINGS)
    # A tagger's loss includes the canary's tags, one per word, which fit no other text.
    others = () if isinstance(target, ReadsTags) else SENTENCES
    costs = _costs_or_none(losses, [*fillings, *others])
    if costs is None:
        return NO_NOISE
    _check_figures(costs, "label probability", TIE_BITS * min(1.0, costs.max()))
    costs = costs[: len(fillings)]
    tolerated = precision.tolerated([target.length(text) for text in fillings])
    seen = _check_again(losses, fillings, costs, len(fillings), tolerated)
    seen = max(seen, _rounding(precision.model, losses, fillings, costs))
    warn_of_blur(seen, costs)
    _check_ties(costs, TIE_BITS * np.minimum(1.0, costs), refuse=False)
    return Noise(text_bits=seen) if seen > FLOOR_BITS else NO_NOISE


def _rounding(
    model: Any, score: Callable[[Sequence[str]], FloatArray], texts: Sequence[str], costs: FloatArray
) -> float:
    """Return the noise in bits of the costs of texts if ``model`` is accessible and computes in 16 bits, else 0."""
    if not in_half_precision(model):
        return 0.0
    with perturbed_rounding(model):
        return _rms(score(texts) - costs)


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0


def _costs_or_none(score: Callable[[Sequence[str]], FloatArray], texts: Sequence[str]) -> FloatArray | None:
    """Return costs, or None if the model declines; the attacks then report the reason with the canary."""
    try:
        return score(texts)
    except TargetError:
        return None


def _fits(scorer: ScoresSequences, text: str) -> bool:
    """Return True if the model can read a text, as far as it reports its maximum, and the text has more than one
    token."""
    length = scorer.length(text)
    return length is None or (length > LEAST and (scorer.max_length is None or length < scorer.max_length))


def _shuffle_words(sentence: str) -> str:
    words = sentence.split()
    random.Random(sentence).shuffle(words)
    return " ".join(words)


def _check_figures(costs: FloatArray, what: str, tie: float) -> None:
    """Raise TargetError if scores are not probabilities or are all equal, to within ``tie`` bits."""
    wrong = int((~np.isfinite(costs)).sum())
    if wrong:
        raise TargetError(
            f"for {wrong} of {len(costs)} texts the model gives no finite {what}: try --model_args dtype=float32, and "
            "check the weights for damage"
        )
    if costs.min() < -TIE_BITS:
        raise TargetError(
            f"the model gives a text a {what} above 0 ({-costs.min():.3g} bits), which is not a probability; {DEAD}: "
            "check the output of the model or its server"
        )
    if np.ptp(costs) <= tie and len(costs) >= LEAST:
        raise TargetError(
            f"the model gives all of {len(costs)} texts one {what} ({-costs[0]:.4g} bits); {DEAD}: check whether the "
            "server is set to return log-probabilities of prompts"
        )


def _check_again(
    score: Callable[[Sequence[str]], FloatArray],
    texts: Sequence[str],
    costs: FloatArray,
    fillings: int,
    tolerated: FloatArray | None = None,
) -> float:
    """Score some texts again, in another order and batch; return the noise in bits of the two scores.

    ``tolerated`` ``[n]`` are the differences that the model's precision explains, None if it is not accessible; then
    the spread of the first ``fillings`` texts is the limit. Raises TargetError for larger differences.
    """
    indices = list(range(0, len(texts), REPEAT_EVERY))[::-1]
    differences = np.abs(score([texts[index] for index in indices]) - costs[indices])
    usual = USUAL_BITS + USUAL_SHARE * np.abs(costs[indices])
    noise, spread = _rms(differences), float(costs[:fillings].std())
    if (differences <= (usual if tolerated is None else np.maximum(usual, tolerated[indices]))).all():
        return noise
    if tolerated is None and noise <= MOST_VARIATION * spread:
        return noise
    raise TargetError(
        f"two scores of one text differ by up to {differences.max():.3g} bits, and scores of random fillings by "
        f"{spread:.3g}; {DEAD}: if the model computes in 16 bits, load it with dtype=float32; otherwise check for a "
        "cache that answers for other texts, and for active dropout"
    )


def _check_ties(costs: FloatArray, tolerances: FloatArray, *, refuse: bool) -> None:
    """Warn if many random fillings have equal costs; if most have, raise TargetError if ``refuse``, else warn.

    A cost equals a lower one within its tolerance. Equal costs of a class are legitimate in full precision
    at a probability of 1, so they are no error.
    """
    if len(costs) < LEAST:
        return
    order = np.argsort(costs)
    new = np.diff(costs[order]) > tolerances[order][1:]
    sizes = np.bincount(np.concatenate([[0], np.cumsum(new)]))
    most, tied = sizes.max() / len(costs), sizes[sizes > 1].sum() / len(costs)
    ties = f"{sizes.max()} of {len(costs)} random fillings of one template have equal costs"
    if most > MOST_TIED and refuse:
        raise TargetError(
            f"{ties}, so that ranks are meaningless: check for scores that are rounded, clipped or cached, and use a "
            "template whose values the model distinguishes"
        )
    if most > MOST_TIED:
        warn_once(f"leakage: {ties}: ranks count ties against the secret, so exposure is too low and proves no safety")
    elif tied > SUSPICIOUS_TIES:
        warn_once(
            f"leakage: {100 * tied:.0f} % of {len(costs)} random fillings cost exactly as much as another filling, "
            "which is typical of rounded scores (16 bits, a server's decimals): ranks count ties against the secret, "
            "so exposure is too low"
        )


def _check_growth(sentences: FloatArray, longer: FloatArray) -> None:
    """Raise TargetError if longer texts do not cost more: by the chain rule each token adds its own cost."""
    grown = int((longer > sentences).sum())
    if grown < GROWING * len(sentences):
        raise TargetError(
            f"only {grown} of {len(sentences)} sentences cost more with another sentence appended; {DEAD}: check for a "
            "score per token instead of a sum, and for a score that is clipped"
        )


def _check_order(sentences: FloatArray, shuffled: FloatArray) -> None:
    cheaper = int((sentences < shuffled).sum())
    if cheaper < IN_ORDER * len(sentences):
        warn_once(
            f"leakage: only {cheaper} of {len(sentences)} English sentences cost less than their words shuffled: the "
            "weights may be random, or the model is not for English text; otherwise check its scores"
        )
