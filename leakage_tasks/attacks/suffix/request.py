"""What is asked of suffix extraction: how to draw, how often, and by what to choose."""

from __future__ import annotations

from dataclasses import dataclass, field

from leakage_tasks.attacks.suffix.confidences import CONFIDENCES
from leakage_tasks.attacks.suffix.trained_confidence import TRAINED
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import declared, options_of
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig

DEFAULT_CONFIDENCE = "calibrated"


@dataclass(frozen=True)
class SuffixRequest:
    """``samples`` draws (K) by ``scheme`` after each prefix; the guess is the one that ``confidence`` is surest of.

    ``prefix_lengths``, ``suffix_lengths`` and ``sample_counts`` ask for the same at other lengths and numbers of draws:
    only the first draws anew. ``lowercase`` has the confidence of that name computed, which takes another pass over all
    distinct draws. ``keep`` is how many guesses a finding holds. Raises OptionError.
    """

    scheme: DecodingConfig = field(default_factory=DecodingConfig)
    samples: int = declared(100, "how many suffixes are drawn after each prefix")
    seed: int = declared(0, "the seed of random draws", of_model=True)
    confidence: str = declared(DEFAULT_CONFIDENCE, "by which a guess is chosen among the suffixes drawn")
    prefix_lengths: tuple[int, ...] = declared((), "other lengths of prefixes to ask for the same at")
    suffix_lengths: tuple[int, ...] = declared((), "other lengths of suffixes to ask for the same at")
    sample_counts: tuple[int, ...] = declared((), "other numbers of draws to ask for the same at")
    lowercase: bool = declared(True, "whether the confidence of that name is computed, which takes another pass")
    keep: int = 0

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise OptionError(f"samples is {self.samples}: draw 1 or more suffixes after each prefix")
        known = [*CONFIDENCES, TRAINED]
        if self.confidence not in known:
            raise OptionError(f"confidence is {self.confidence!r}: use {', '.join(known)}")
        for name in ("prefix_lengths", "suffix_lengths", "sample_counts"):
            if min(getattr(self, name), default=1) < 1:
                raise OptionError(f"{name} has {min(getattr(self, name))}: give numbers of 1 or more")
        if max(self.sample_counts, default=0) > self.samples:
            raise OptionError(f"sample_counts has {max(self.sample_counts)}, samples is {self.samples}: draw as many")

    @property
    def draws(self) -> int:
        """Suffixes that come back after each prefix: ``samples``, or the beams of a search."""
        return self.samples if self.scheme.decoding == "sample" else self.scheme.width

    @property
    def views(self) -> list[str]:
        """Names of the views besides the headline's."""
        counts = self.sample_counts if self.scheme.decoding == "sample" else ()
        named = {"prefix": self.prefix_lengths, "suffix": self.suffix_lengths, "samples": counts}
        return [f"{name}_{number}" for name, numbers in named.items() for number in numbers]

    def confidences(self, compared: bool, trained: bool) -> list[str]:
        """Names of the confidences the headline's view has; ``compared`` says whether there is a second model."""
        there = {"compared": compared, "lowered": self.lowercase or self.confidence == "lowercase"}
        usable = [name for name, each in CONFIDENCES.items() if each.needs is None or there.get(each.needs, True)]
        return [*usable, *([TRAINED] if trained else [])]


REQUEST_OPTIONS = options_of(SuffixRequest)
