"""Targeted extraction: draw suffixes after a prefix, pick one by a confidence and score the true suffix.

This is the attack of Ethicist (Zhang et al. 2023), after the training of its soft prompt, if any. Each pair has its
own random numbers, so that batches, order and other pairs do not change its draws.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from leakage_tasks.attacks.streams import stream_of
from leakage_tasks.attacks.suffix import confidences
from leakage_tasks.attacks.suffix.candidates import Candidates, ranked
from leakage_tasks.attacks.suffix.finding import HEADLINE, Likeness, SuffixFinding, SuffixView
from leakage_tasks.attacks.suffix.groups import groups_of
from leakage_tasks.attacks.suffix.likeness import equal_blocks, likeness
from leakage_tasks.attacks.suffix.prefix_samples import PrefixSamples, compare, read_lowered
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED, TrainedConfidence
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.protocols import BoundsNear, DrawsSuffixes
from leakage_tasks.targets.suffix.edit_band import within
from leakage_tasks.targets.suffix.sampled_suffixes import NearBounds, SuffixCosts


def attack_pairs(
    target: DrawsSuffixes,
    pairs: Sequence[Pair],
    request: SuffixRequest,
    *,
    compared_with: DrawsSuffixes | None = None,
    untuned: DrawsSuffixes | None = None,
    trained: TrainedConfidence | None = None,
    progress: Callable[..., Any] | None = None,
    known: Mapping[int, SuffixFinding] = MappingProxyType({}),
    done: Callable[[int, SuffixFinding], None] | None = None,
) -> list[SuffixFinding]:
    """Attack each pair and return the findings, in the order of the pairs.

    A pair that the target cannot take gets a finding without views that gives the reason. The groups of pairs do not
    depend on ``known``, so that known findings change no result.

    Args:
        target: The model that draws suffixes.
        pairs: Prefixes with their true suffixes.
        request: The options of the attack.
        compared_with: Second model of the confidence ``comparing_lm``.
        untuned: The model before fine-tuning; its costs of the true suffix are reported in addition.
        trained: A fitted confidence.
        progress: Makes a progress bar.
        known: Findings that exist already, by pair index.
        done: Called with index and finding of each other pair as soon as it is complete.

    Returns:
        One finding per pair.

    Raises:
        TargetError: The pairs do not fit the model.
        OptionError: The request does not fit the pairs or the model.
    """
    if request.confidence == "comparing_lm" and compared_with is None:
        raise OptionError("confidence=comparing_lm needs a second model: pass --metadata comparing_lm=MODEL")
    if request.suffix_lengths and target.totals_only:
        raise OptionError(
            "suffix_lengths needs the cost of each token, and this model returns costs of whole texts: leave it out, "
            "or use --model hf"
        )
    if request.near and not isinstance(target, BoundsNear):
        raise OptionError(
            "near needs the probabilities of next tokens, and this model takes only text: leave it out, or use "
            "--model hf"
        )
    for model in (target, compared_with, untuned):
        if model is not None:
            check_pairs(model, pairs, request)
    attack = _Attack(target, request, compared_with, trained, untuned)
    unfit = {index: why for index, pair in enumerate(pairs) if (why := target.unfit(pair)) is not None}
    findings = {index: attack.finding(pairs[index], {}, extra={"left_out": why}) for index, why in unfit.items()}
    with closing(groups_of(target, pairs, unfit, request, progress, findings)) as groups:
        for group in groups:
            if known.keys() >= set(group):
                findings |= {index: known[index] for index in group}
                continue
            for index, finding in zip(group, attack.findings([pairs[index] for index in group]), strict=True):
                findings[index] = known.get(index, finding)
                if done is not None and index not in known:
                    done(index, finding)
    return [findings[index] for index in range(len(pairs))]


def fit_confidence(
    target: DrawsSuffixes, pairs: Sequence[Pair], request: SuffixRequest, progress: Callable[..., Any] | None = None
) -> TrainedConfidence:
    """Fit a confidence on the draws of ``target`` after the prefixes of ``pairs``, whose suffixes are known.

    Args:
        target: The model that draws suffixes.
        pairs: Validation pairs.
        request: The options of the attack.
        progress: Makes a progress bar.

    Returns:
        The fitted confidence.

    Raises:
        NothingToFit: The fit is impossible, for example because no true suffix was drawn.
    """
    check_pairs(target, pairs, request)
    attack = _Attack(target, request, None, None)
    unfit = {index for index, pair in enumerate(pairs) if target.unfit(pair) is not None}
    examples = []
    with closing(groups_of(target, pairs, unfit, request, progress)) as groups:
        for group in groups:
            group_pairs = [pairs[index] for index in group]
            for pair, drawn in zip(group_pairs, attack.draw_samples(group_pairs, None), strict=True):
                examples.append((drawn.candidates(request.draws, len(pair.suffix), compressed=True), pair.suffix))
    return TrainedConfidence.fit(examples)


def check_pairs(target: DrawsSuffixes, pairs: Sequence[Pair], request: SuffixRequest) -> None:
    """Raise TargetError for a pair that the model cannot read, OptionError for a length that exceeds a pair's."""
    for pair in pairs:
        request.check_near(pair)
        largest, length = max(*pair.prefix, *pair.suffix), len(pair.prefix) + len(pair.suffix)
        if target.vocabulary is not None and largest >= target.vocabulary:
            raise TargetError(
                f"{pair} has token {largest}, but the model's tokens are 0 to {target.vocabulary - 1}: give pairs made "
                "with this model's tokenizer"
            )
        if target.max_length is not None and length > target.max_length:
            raise TargetError(
                f"{pair} has {len(pair.prefix)} + {len(pair.suffix)} tokens, but the model reads at most "
                f"{target.max_length} (without the soft prompt): pass a smaller prefix_length or suffix_length"
            )
        for name, tokens in (("prefix_lengths", pair.prefix), ("suffix_lengths", pair.suffix)):
            if (most := max(getattr(request, name), default=0)) > len(tokens):
                raise OptionError(
                    f"{name} has {most}, but {pair} has {len(tokens)} such tokens: use at most {len(tokens)}"
                )


def uniforms(seed: int, pair: Pair, samples: int) -> FloatArray:
    """Return random numbers for a pair's draws, ``[samples, suffix length]``, determined by the seed and the pair's id.

    The first rows do not depend on the number of samples.
    """
    return stream_of(f"suffixes:{seed}:{pair.id}").random((samples, len(pair.suffix)))


class _Scored(NamedTuple):
    """Costs of a true suffix after its prefix: by the model (``now``), and by the model before fine-tuning (``base``).

    Both are None for a model that only generates text; ``base`` is None without a model before fine-tuning. ``near``
    are bounds on the probability of a near-verbatim draw, None unless the request has a distance.
    """

    now: SuffixCosts | None
    base: SuffixCosts | None
    near: NearBounds | None


@dataclass(frozen=True)
class _Attack:
    target: DrawsSuffixes
    request: SuffixRequest
    compared_with: DrawsSuffixes | None
    trained: TrainedConfidence | None
    untuned: DrawsSuffixes | None = None

    def finding(self, pair: Pair, views: dict[str, SuffixView], **more: Any) -> SuffixFinding:
        """Return the finding of a pair with these views and the fields ``more``."""
        scheme, chosen_by = str(self.request.scheme), self.request.confidence
        more |= {"only_writes": self.target.only_writes, "document": pair.document, "offset": pair.offset}
        return SuffixFinding(pair.id, scheme, self.request.draws, chosen_by, views, **more)

    def findings(self, pairs: Sequence[Pair]) -> list[SuffixFinding]:
        """Attack pairs of equal lengths and return their findings."""
        started = time.perf_counter()
        full, suffix = len(pairs[0].prefix), len(pairs[0].suffix)
        whole = self.draw_samples(pairs, None)
        self._read_for_confidences(whole, suffix, whole=True)
        views = [
            self._views(pair, drawn, scored)
            for pair, drawn, scored in zip(pairs, whole, self._scored(pairs, None), strict=True)
        ]
        for length in self.request.prefix_lengths:
            # Draws after the whole prefix exist already. A shorter prefix may be unfit even if the whole prefix is fit.
            fit = [index for index, pair in enumerate(pairs) if self.target.unfit(_shortened(pair, length)) is None]
            fit_pairs = [pairs[index] for index in fit]
            drawn = [whole[index] for index in fit] if length == full else self.draw_samples(fit_pairs, length)
            self._read_for_confidences(drawn, suffix, whole=length == full)
            for index, samples, scored in zip(fit, drawn, self._scored(fit_pairs, length), strict=True):
                views[index][f"prefix_{length}"] = self._view(pairs[index], samples, scored, self.request.draws, None)
        seconds = (time.perf_counter() - started) / len(pairs)
        return [
            self.finding(
                pair,
                views[index],
                guesses=self._guesses(drawn, len(pair.suffix)),
                nodes=drawn.draws.nodes,
                model_calls=drawn.calls + (not self.target.only_writes) + (self.untuned is not None),
                seconds=seconds,
            )
            for index, (pair, drawn) in enumerate(zip(pairs, whole, strict=True))
        ]

    def draw_samples(self, pairs: Sequence[Pair], length: int | None) -> list[PrefixSamples]:
        """Draw suffixes after the prefixes, or after their last ``length`` tokens."""
        if not pairs:
            return []
        prefixes = _prefixes(pairs, length)
        numbers = np.stack([uniforms(self.request.seed, pair, self.request.samples) for pair in pairs])
        draws = self.target.draw(prefixes, numbers, self.request.scheme)
        return [PrefixSamples(self.target, prefix, samples) for prefix, samples in zip(prefixes, draws, strict=True)]

    def _read_for_confidences(self, drawn: Sequence[PrefixSamples], length: int, whole: bool) -> None:
        """Score lower-cased texts, and the draws under the second model, if a confidence needs these scores.

        All draws are scored at once. The suffixes have ``length`` tokens.
        """
        if self.target.only_writes or not drawn:
            return
        if self.compared_with is not None:
            compare(drawn, self.compared_with)
        chooses = self.request.confidence == "lowercase"
        lengths = [length] * (chooses or (whole and self.request.lowercase))
        lengths += self.request.suffix_lengths if chooses and whole else ()
        for distinct_length in dict.fromkeys(lengths):
            read_lowered(drawn, self.request.draws, distinct_length)

    def _scored(self, pairs: Sequence[Pair], length: int | None) -> list[_Scored]:
        if self.target.only_writes:
            return [_Scored(None, None, None)] * len(pairs)
        if not pairs:
            return []
        arguments = _prefixes(pairs, length), [pair.suffix for pair in pairs], self.request.scheme
        now = self.target.score(*arguments)
        base = [None] * len(pairs) if self.untuned is None else self.untuned.score(*arguments)
        near: Sequence[NearBounds | None] = [None] * len(pairs)
        if self.request.near and isinstance(self.target, BoundsNear):
            edits = self.request.edits(len(pairs[0].suffix))
            near = self.target.near(*arguments, edits, self.request.near_beam)
        return [_Scored(*scored) for scored in zip(now, base, near, strict=True)]

    def _views(self, pair: Pair, drawn: PrefixSamples, scored: _Scored) -> dict[str, SuffixView]:
        draws = self.request.draws
        views = {HEADLINE: self._view(pair, drawn, scored, draws, None, full=True)}
        views |= {f"suffix_{m}": self._view(pair, drawn, scored, draws, m) for m in self.request.suffix_lengths}
        if self.request.scheme.decoding == "sample":
            views |= {f"samples_{k}": self._view(pair, drawn, scored, k, None) for k in self.request.sample_counts}
        return views

    def _view(
        self, pair: Pair, drawn: PrefixSamples, scored: _Scored, draws: int, length: int | None, full: bool = False
    ) -> SuffixView:
        """Evaluate the draws at one length. Compute expensive confidences only if ``full`` is true or they choose the
        guess."""
        truth = pair.suffix[:length]
        candidates = self._candidates(drawn, draws, len(truth), full)
        own_bits, bits, reachable = _true_bits(scored.now, len(truth))
        base = _true_bits(scored.base, len(truth))
        top1, top1_tail = _first_choices(scored.now, len(truth))
        compared = self._likeness(pair, drawn, candidates) if self.request.compares else (None, None)
        return SuffixView(
            prefix_length=len(drawn.prefix),
            suffix_length=len(truth),
            samples=draws,
            distinct=len(candidates.counts),
            own_bits=own_bits,
            p_z_bits=bits,
            reachable=reachable,
            choices=confidences.choose(candidates, truth, self.request.confidence, self.trained),
            base_own_bits=base[0],
            base_p_z_bits=base[1],
            base_reachable=base[2],
            hits=self._hits(candidates, truth),
            top1=top1,
            top1_tail=top1_tail,
            likeness=compared[0],
            exchanged=compared[1],
            blocks=equal_blocks(self._guess(candidates), truth) if full and self.request.locates else None,
            **self._near_fields(scored.near if length is None else None, candidates, truth),
        )

    def _guess(self, candidates: Candidates) -> list[int]:
        """Return the tokens of the guess that the run's own confidence picks."""
        confidence = confidences.confidence_of(candidates, self.request.confidence, self.trained)
        guess: list[int] = candidates.tokens[ranked(candidates, confidence)[0]].tolist()
        return guess

    def _likeness(self, pair: Pair, drawn: PrefixSamples, candidates: Candidates) -> tuple[Likeness, Likeness | None]:
        """Compare the guess with the pair's suffix, and with the suffix of another document if the pair has one."""
        guess = self._guess(candidates)
        length = len(guess)
        compared = likeness(self.target.decode, drawn.prefix, guess, pair.suffix[:length])
        if not pair.exchanged:
            return compared, None
        return compared, likeness(self.target.decode, drawn.prefix, guess, pair.exchanged[:length])

    def _hits(self, candidates: Candidates, truth: tuple[int, ...]) -> int | None:
        """Return the number of draws of the true suffix for a model that does not report its probability; else None."""
        if not self.target.only_writes or self.request.scheme.decoding != "sample":
            return None
        return int(candidates.counts[(candidates.tokens == np.array(truth)).all(axis=1)].sum())

    def _near_fields(self, near: NearBounds | None, candidates: Candidates, truth: tuple[int, ...]) -> dict[str, Any]:
        """Return the fields of a view for near-verbatim draws."""
        if near is None:
            return {}
        bits, high = (value if math.isfinite(value) else None for value in (near.bits, near.high_bits))
        hits = None
        if self.request.scheme.decoding == "sample":
            hits = int(candidates.counts[within(candidates.tokens, truth, near.edits)].sum())
        return {"near_edits": near.edits, "near_bits": bits, "near_high_bits": high, "near_hits": hits}

    def _guesses(self, drawn: PrefixSamples, length: int) -> tuple[tuple[int, ...], ...]:
        if not self.request.keep:
            return ()
        candidates = self._candidates(drawn, self.request.draws, length)
        confidence = confidences.confidence_of(candidates, self.request.confidence, self.trained)
        best = ranked(candidates, confidence)[: self.request.keep]
        return tuple(tuple(row) for row in candidates.tokens[best].tolist())

    def _candidates(self, drawn: PrefixSamples, draws: int, length: int, full: bool = False) -> Candidates:
        confidence = self.request.confidence
        compressed = full or confidence in ("zlib", TRAINED)
        lowered = (full and self.request.lowercase) or confidence == "lowercase"
        return drawn.candidates(draws, length, compressed=compressed, lowered=lowered)


def _true_bits(costs: SuffixCosts | None, length: int) -> tuple[float | None, float | None, bool | None]:
    """Return the cost of the first ``length`` tokens by the model and by the sampling scheme, in bits.

    Also return True if the scheme can draw these tokens. Its cost is None if it cannot.
    """
    if costs is None:
        return None, None, None
    own_bits = float(costs.own[:length].sum())
    if costs.drawn is None:
        return own_bits, None, None
    bits = float(costs.drawn[:length].sum())
    return own_bits, bits if math.isfinite(bits) else None, math.isfinite(bits)


def _first_choices(costs: SuffixCosts | None, length: int) -> tuple[int | None, int | None]:
    """Return the number of first choices among the first ``length`` tokens, and at the end of these without a gap."""
    if costs is None or costs.top1 is None:
        return None, None
    top1 = costs.top1[:length]
    misses = np.flatnonzero(~top1)
    return int(top1.sum()), int(length - 1 - misses[-1]) if len(misses) else length


def _shortened(pair: Pair, length: int) -> Pair:
    return Pair(pair.id, pair.prefix[-length:], pair.suffix)


def _prefixes(pairs: Sequence[Pair], length: int | None) -> list[tuple[int, ...]]:
    return [pair.prefix if length is None else _shortened(pair, length).prefix for pair in pairs]
