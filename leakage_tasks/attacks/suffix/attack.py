"""Targeted extraction: draw suffixes after a prefix, pick one by a confidence, and tell how likely the true one was.

The attack of Ethicist (Zhang et al. 2023) once a soft prompt, if any, is in place. A pair has its own random numbers,
so that neither the batch, nor the order or company of pairs, changes what is drawn for it.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from leakage_tasks.attacks.suffix import confidences
from leakage_tasks.attacks.suffix.candidates import Candidates, ranked
from leakage_tasks.attacks.suffix.finding import HEADLINE, SuffixFinding, SuffixView
from leakage_tasks.attacks.suffix.groups import groups_of
from leakage_tasks.attacks.suffix.prefix_samples import PrefixSamples, compare, read_lowered
from leakage_tasks.attacks.suffix.request import SuffixRequest
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED, TrainedConfidence
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.protocols import DrawsSuffixes
from leakage_tasks.targets.suffix.sampled_suffixes import SuffixCosts


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
    """Attack each pair; one finding a pair, in their order.

    ``compared_with`` is the second model of the confidence ``comparing_lm``, ``untuned`` the model before
    fine-tuning, whose costs of the true suffix stand beside the target's, ``trained`` a fitted confidence. A pair
    that the target cannot take gets a finding without views that says why. ``known`` are findings that are there
    already, by their pairs' places; ``done`` is told of every other one as soon as it is complete, with the place.
    Pairs go to the target in the same groups whatever is known, so that it changes no number. Raises TargetError for
    pairs that do not fit the model, and OptionError for a request that does not fit the pairs or the model.
    """
    if request.confidence == "comparing_lm" and compared_with is None:
        raise OptionError("confidence=comparing_lm needs a second model: pass --metadata comparing_lm=MODEL")
    if request.suffix_lengths and target.totals_only:
        raise OptionError(
            "suffix_lengths needs what each token costs, and this model tells what a whole text costs: leave it out, "
            "or use --model hf"
        )
    for model in (target, compared_with, untuned):
        if model is not None:
            check_pairs(model, pairs, request)
    attack = _Attack(target, request, compared_with, trained, untuned)
    unfit = {index: why for index, pair in enumerate(pairs) if (why := target.unfit(pair)) is not None}
    found = {place: _left_out(pairs[place], request, why, target.only_writes) for place, why in unfit.items()}
    with closing(groups_of(target, pairs, unfit, request, progress, found)) as groups:
        for group in groups:
            if known.keys() >= set(group):
                found |= {place: known[place] for place in group}
                continue
            for place, finding in zip(group, attack.findings([pairs[place] for place in group]), strict=True):
                found[place] = known.get(place, finding)
                if done is not None and place not in known:
                    done(place, finding)
    return [found[index] for index in range(len(pairs))]


def fit_confidence(
    target: DrawsSuffixes, pairs: Sequence[Pair], request: SuffixRequest, progress: Callable[..., Any] | None = None
) -> TrainedConfidence:
    """A confidence fitted on what ``target`` draws after the prefixes of ``pairs``, whose suffixes are known.

    Raises NothingToFit, a TargetError, where it cannot be fitted, such as for pairs of which none is ever drawn.
    """
    check_pairs(target, pairs, request)
    attack = _Attack(target, request, None, None)
    unfit = {index for index, pair in enumerate(pairs) if target.unfit(pair) is not None}
    examples = []
    with closing(groups_of(target, pairs, unfit, request, progress)) as groups:
        for group in groups:
            some = [pairs[place] for place in group]
            for pair, drawn in zip(some, attack.drawn(some, None), strict=True):
                examples.append((drawn.candidates(request.draws, len(pair.suffix), compressed=True), pair.suffix))
    return TrainedConfidence.fit(examples)


def check_pairs(target: DrawsSuffixes, pairs: Sequence[Pair], request: SuffixRequest) -> None:
    """Raise TargetError for the first pair that the model cannot read, OptionError for a sweep longer than it."""
    for pair in pairs:
        largest, length = max(*pair.prefix, *pair.suffix), len(pair.prefix) + len(pair.suffix)
        if target.vocabulary is not None and largest >= target.vocabulary:
            raise TargetError(
                f"{pair} holds token {largest}, the model knows 0 to {target.vocabulary - 1}: give pairs made "
                "with this model's tokenizer"
            )
        if target.max_length is not None and length > target.max_length:
            raise TargetError(
                f"{pair} has {len(pair.prefix)} + {len(pair.suffix)} tokens, the model has room for "
                f"{target.max_length} (a soft prompt's taken off): pass a smaller prefix_length or suffix_length"
            )
        for name, own in (("prefix_lengths", pair.prefix), ("suffix_lengths", pair.suffix)):
            if (most := max(getattr(request, name), default=0)) > len(own):
                raise OptionError(f"{name} has {most}, {pair} has {len(own)} tokens there: use that or less")


def uniforms(seed: int, pair: Pair, samples: int) -> FloatArray:
    """The random numbers of a pair's draws ``[samples, suffix length]``, a function of the seed and the pair's id.

    The first rows of many are those of few.
    """
    digest = hashlib.sha256(f"suffixes:{seed}:{pair.id}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:16], "big"))
    return generator.random((samples, len(pair.suffix)))


def _left_out(pair: Pair, request: SuffixRequest, why: str, only_writes: bool) -> SuffixFinding:
    scheme, chosen_by = str(request.scheme), request.confidence
    return SuffixFinding(
        pair.id, scheme, request.draws, chosen_by, {}, extra={"left_out": why}, only_writes=only_writes
    )


class _Scored(NamedTuple):
    """Costs of a true suffix after its prefix: by the model, and by the model before fine-tuning if there is one.

    None of both for a model that only writes.
    """

    now: SuffixCosts | None
    base: SuffixCosts | None


@dataclass(frozen=True)
class _Attack:
    target: DrawsSuffixes
    request: SuffixRequest
    compared_with: DrawsSuffixes | None
    trained: TrainedConfidence | None
    untuned: DrawsSuffixes | None = None

    def findings(self, pairs: Sequence[Pair]) -> list[SuffixFinding]:
        """Findings of pairs of equal lengths."""
        started = time.perf_counter()
        full, suffix = len(pairs[0].prefix), len(pairs[0].suffix)
        whole = self.drawn(pairs, None)
        self._read_besides(whole, suffix, whole=True)
        views = [
            self._views(pair, drawn, scored)
            for pair, drawn, scored in zip(pairs, whole, self._scored(pairs, None), strict=True)
        ]
        for length in self.request.prefix_lengths:
            # The whole prefix has been drawn after already; a shorter one may be unfit where the whole is not.
            fit = [index for index, pair in enumerate(pairs) if self.target.unfit(_shortened(pair, length)) is None]
            some = [pairs[place] for place in fit]
            drawn = [whole[place] for place in fit] if length == full else self.drawn(some, length)
            self._read_besides(drawn, suffix, whole=length == full)
            for place, each, scored in zip(fit, drawn, self._scored(some, length), strict=True):
                views[place][f"prefix_{length}"] = self._view(pairs[place], each, scored, self.request.draws, None)
        seconds = (time.perf_counter() - started) / len(pairs)
        return [
            SuffixFinding(
                pair=pair.id,
                scheme=str(self.request.scheme),
                samples=self.request.draws,
                chosen_by=self.request.confidence,
                views=views[index],
                guesses=self._guesses(drawn, len(pair.suffix)),
                nodes=drawn.draws.nodes,
                model_calls=drawn.calls + (not self.target.only_writes) + (self.untuned is not None),
                seconds=seconds,
                only_writes=self.target.only_writes,
            )
            for index, (pair, drawn) in enumerate(zip(pairs, whole, strict=True))
        ]

    def drawn(self, pairs: Sequence[Pair], length: int | None) -> list[PrefixSamples]:
        """Draws after the prefixes, or after their last ``length`` tokens."""
        if not pairs:
            return []
        prefixes = _prefixes(pairs, length)
        numbers = np.stack([uniforms(self.request.seed, pair, self.request.samples) for pair in pairs])
        found = self.target.draw(prefixes, numbers, self.request.scheme)
        return [PrefixSamples(self.target, *each, self.compared_with) for each in zip(prefixes, found, strict=True)]

    def _read_besides(self, drawn: Sequence[PrefixSamples], length: int, whole: bool) -> None:
        """Have what confidences need besides read for all draws together, of suffixes of ``length`` tokens."""
        if self.target.only_writes or not drawn:
            return
        if self.compared_with is not None:
            compare(drawn)
        chooses = self.request.confidence == "lowercase"
        lengths = [length] * (chooses or (whole and self.request.lowercase))
        lengths += self.request.suffix_lengths if chooses and whole else ()
        for fromkey in dict.fromkeys(lengths):
            read_lowered(drawn, [own.to_lower(self.request.draws, fromkey) for own in drawn])

    def _scored(self, pairs: Sequence[Pair], length: int | None) -> list[_Scored]:
        if self.target.only_writes:
            return [_Scored(None, None)] * len(pairs)
        if not pairs:
            return []
        asked = _prefixes(pairs, length), [pair.suffix for pair in pairs], self.request.scheme
        now = self.target.score(*asked)
        base = [None] * len(pairs) if self.untuned is None else self.untuned.score(*asked)
        return [_Scored(*each) for each in zip(now, base, strict=True)]

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
        """The draws at one length; dearer confidences for the full view alone, unless they choose the guess."""
        truth = pair.suffix[:length]
        candidates = self._candidates(drawn, draws, len(truth), full)
        own, bits, reachable = _true_bits(scored.now, len(truth))
        base = _true_bits(scored.base, len(truth))
        return SuffixView(
            prefix_length=len(drawn.prefix),
            suffix_length=len(truth),
            samples=draws,
            distinct=len(candidates.counts),
            own_bits=own,
            p_z_bits=bits,
            reachable=reachable,
            choices=confidences.choose(candidates, truth, self.request.confidence, self.trained),
            base_own_bits=base[0],
            base_p_z_bits=base[1],
            base_reachable=base[2],
            hits=self._hits(candidates, truth),
        )

    def _hits(self, candidates: Candidates, truth: tuple[int, ...]) -> int | None:
        """How many draws were the true suffix, where nothing else tells how likely it is."""
        if not self.target.only_writes or self.request.scheme.decoding != "sample":
            return None
        return int(candidates.counts[(candidates.tokens == np.array(truth)).all(axis=1)].sum())

    def _guesses(self, drawn: PrefixSamples, length: int) -> tuple[tuple[int, ...], ...]:
        if not self.request.keep:
            return ()
        candidates = self._candidates(drawn, self.request.draws, length)
        found = confidences.confidence_of(candidates, self.request.confidence, self.trained)
        best = ranked(candidates, found)[: self.request.keep]
        return tuple(tuple(row) for row in candidates.tokens[best].tolist())

    def _candidates(self, drawn: PrefixSamples, draws: int, length: int, full: bool = False) -> Candidates:
        by = self.request.confidence
        compressed, lowered = full or by in ("zlib", TRAINED), (full and self.request.lowercase) or by == "lowercase"
        return drawn.candidates(draws, length, compressed=compressed, lowered=lowered)


def _true_bits(costs: SuffixCosts | None, length: int) -> tuple[float | None, float | None, bool | None]:
    """Of the first ``length`` tokens: own bits, bits by the scheme where it can draw them, and whether it can."""
    if costs is None:
        return None, None, None
    own = float(costs.own[:length].sum())
    if costs.drawn is None:
        return own, None, None
    bits = float(costs.drawn[:length].sum())
    return own, bits if math.isfinite(bits) else None, math.isfinite(bits)


def _shortened(pair: Pair, length: int) -> Pair:
    return Pair(pair.id, pair.prefix[-length:], pair.suffix)


def _prefixes(pairs: Sequence[Pair], length: int | None) -> list[tuple[int, ...]]:
    return [pair.prefix if length is None else _shortened(pair, length).prefix for pair in pairs]
