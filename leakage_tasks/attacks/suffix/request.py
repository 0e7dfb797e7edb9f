"""Options of suffix extraction: sampling scheme, number of draws and the confidence that chooses the guess."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from leakage_tasks.attacks.suffix.confidences import CONFIDENCES
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import declared, options_of
from leakage_tasks.pairs import Pair
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

DEFAULT_CONFIDENCE = "calibrated"


@dataclass(frozen=True)
class SuffixRequest:
    """A request for ``samples`` draws (K) by ``scheme`` after each prefix; the guess has the highest ``confidence``.

    ``prefix_lengths``, ``suffix_lengths`` and ``sample_counts`` add results at other lengths and numbers of draws; only
    ``prefix_lengths`` needs new draws. ``lowercase`` enables the confidence ``lowercase``, which takes another forward
    pass over all distinct draws. ``near`` enables bounds on the probability of a draw within this edit distance of the
    true suffix. ``keep`` is the number of guesses that a finding keeps. If ``compares`` is true, findings compare the
    guess with the true suffix (:class:`~leakage_tasks.attacks.suffix.finding.Likeness`), and if ``locates`` is true,
    they list the equal runs of both. Raises OptionError for invalid values.
    """

    scheme: DecodingConfig = field(default_factory=DecodingConfig)
    samples: int = declared(100, "number of suffixes to draw after each prefix")
    seed: int = declared(0, "the seed of random draws")
    confidence: str = declared(DEFAULT_CONFIDENCE, "the confidence that chooses the guess among the drawn suffixes")
    prefix_lengths: tuple[int, ...] = declared((), "further prefix lengths at which to report results")
    suffix_lengths: tuple[int, ...] = declared((), "further suffix lengths at which to report results")
    sample_counts: tuple[int, ...] = declared((), "further numbers of draws at which to report results")
    lowercase: bool = declared(True, "compute the confidence lowercase, which takes another forward pass")
    near: float = declared(
        0.0,
        "edit distance up to which a draw is near-verbatim, in tokens or, below 1, as a share of the suffix; 0 leaves "
        "out the probability of such draws",
    )
    near_beam: int = declared(20, "number of beginnings of draws in the search for near-verbatim draws")
    keep: int = 0
    compares: bool = False
    locates: bool = False

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise OptionError(f"samples is {self.samples}: draw 1 or more suffixes after each prefix")
        known = [*CONFIDENCES, TRAINED]
        if self.confidence not in known:
            raise OptionError(f"confidence is {self.confidence!r}: use {', '.join(known)}")
        for name in ("prefix_lengths", "suffix_lengths", "sample_counts"):
            if min(getattr(self, name), default=1) < 1:
                raise OptionError(f"{name} has {min(getattr(self, name))}: each number must be 1 or more")
        if max(self.sample_counts, default=0) > self.samples:
            raise OptionError(
                f"sample_counts has {max(self.sample_counts)}, but samples is {self.samples}: raise samples, "
                "or lower sample_counts"
            )

        if not 0 <= self.near < math.inf or (self.near > 1 and self.near % 1):
            raise OptionError(f"near is {self.near:g}: give a number of tokens, a share of the suffix below 1, or 0")
        if self.near_beam < 1:
            raise OptionError(f"near_beam is {self.near_beam}: give 1 or more")

    def edits(self, length: int) -> int:
        """Return the largest number of token edits of a near-verbatim draw from a suffix of ``length`` tokens."""
        # 0.29 · 100 is slightly below 29.
        return math.floor(self.near * length + 1e-9) if self.near < 1 else int(self.near)

    def check_near(self, pair: Pair) -> None:
        """Raise OptionError if every draw would be near-verbatim."""
        if self.edits(len(pair.suffix)) >= len(pair.suffix):
            raise OptionError(
                f"near is {self.near:g}, but {pair} has {len(pair.suffix)} suffix tokens, so every draw would be near: "
                f"use less than {len(pair.suffix)}, or a share below 1"
            )

    @property
    def draws(self) -> int:
        """Number of suffixes per prefix: ``samples``, or the width of a beam search."""
        return self.samples if self.scheme.decoding == "sample" else self.scheme.width

    @property
    def views(self) -> list[str]:
        """Names of all views but the primary view."""
        counts = self.sample_counts if self.scheme.decoding == "sample" else ()
        named = {"prefix": self.prefix_lengths, "suffix": self.suffix_lengths, "samples": counts}
        return [f"{name}_{number}" for name, numbers in named.items() for number in numbers]

    def confidences(self, compared: bool, trained: bool) -> list[str]:
        """Return the names of the primary view's confidences; ``compared`` is true if there is a second model."""
        available = {"compared": compared, "lowered": self.lowercase or self.confidence == "lowercase"}
        usable = [
            name
            for name, confidence in CONFIDENCES.items()
            if confidence.needs is None or available.get(confidence.needs, True)
        ]
        return [*usable, *([TRAINED] if trained else [])]


REQUEST_OPTIONS = options_of(SuffixRequest)
