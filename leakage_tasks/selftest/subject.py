"""What is tested: a harness model, the target that attacks ask, and the self-test's canaries on it.

The canaries are fresh and never planted, and some of spaces small enough to be scored as a whole.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import prod
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.classifier.class_scores import ClassScores
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.generate import make_canaries
from leakage_tasks.canaries.spaces import Filling, Space, literal
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.protocols import PredictsNextToken, ReadsSource, ReadsTags, ScoresLabels

TEMPLATE, SOURCE = "The random number is {digits:9}.", "The number is random."
WORD_TEMPLATE = "the random number is {digit_words:9}"
"""For classifiers and taggers, whose words are read one by one."""
SMALL = 256
"""Fillings of a space that is scored as a whole."""
PROBES = 64
"""Random fillings whose costs are looked at for ties, and computed in several ways."""
SECRETS = 4
"""Secrets of one small space whose ranks are found in several ways."""
LEAST = {"canaries": 10, "samples": 10, "budget": 100}
"""Fewer of each can tell nothing."""


@dataclass(frozen=True)
class SelfTestSettings:
    """What a user may choose: the canaries, and how hard to look. Raises OptionError for a number that cannot be."""

    template: str | None = None
    """Text of the canaries with slots; None: one that is built in."""
    source: str | None = None
    """The source sentence for translation models; None: one that is built in."""
    canaries: int = 32
    """Fresh secrets: more see smaller faults."""
    samples: int = 128
    """The size of the uniform sample each estimate is held against."""
    budget: int = 4000
    """The most sequences that an estimate may take."""
    seed: int = 0
    """The same seed gives the same canaries."""

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise OptionError(f"--{name} is {getattr(self, name)}: give {least} or more, fewer can tell nothing")


@dataclass(frozen=True)
class RankedFindings:
    """Findings of the canaries, and why the model's own way of ranking them is not the one they come by, if so."""

    findings: list[Finding]
    declined: str | None = None


@dataclass(frozen=True)
class Subject:
    """One model under test; ``target`` is what attacks ask of it."""

    lm: Any
    target: Any
    settings: SelfTestSettings
    canaries: Sequence[Canary]
    screen: TextIO = field(default_factory=lambda: sys.stderr)

    @classmethod
    def of(cls, lm: Any, settings: SelfTestSettings) -> Subject:
        """A harness model as the tasks would attack it. Raises OptionError, SpaceError and TargetError."""
        # Two fillings, for the fast way to be checked on.
        two = fresh_canaries(settings.template or TEMPLATE, 2, settings.seed)
        target = as_target(lm, [canary.text for canary in two])
        labels = target.labels if isinstance(target, ScoresLabels) else ()
        template = settings.template or (WORD_TEMPLATE if labels else TEMPLATE)
        source = settings.source or (SOURCE if isinstance(target, ReadsSource) else None)
        canaries = fresh_canaries(template, settings.canaries, settings.seed, source, labels)
        return cls(lm, target, settings, canaries)

    # -- what the target is -----------------------------------------------------------------------------------

    @property
    def labelled(self) -> bool:
        """Whether what is scored is labels."""
        return isinstance(self.target, ScoresLabels)

    @cached_property
    def searched(self) -> bool:
        """Whether the model gives next-token probabilities."""
        return isinstance(self.view(self.target, self.canaries[0]), PredictsNextToken)

    def view(self, target: Any, canary: Canary) -> Any:
        """What an attack on one canary asks: the target after the canary's source, or with its tags."""
        if isinstance(target, ReadsSource):
            return target.given(canary)
        return target.tagged(canary) if isinstance(target, ReadsTags) else target

    # -- costs and ranks --------------------------------------------------------------------------------------

    def costs(self, target: Any, canary: Canary, fillings: Sequence[Filling]) -> FloatArray:
        """What fillings cost as attacks score them, bits, ``[n]``: class loss, or log-perplexity of whole texts."""
        view = self.view(target, canary)
        if isinstance(view, ScoresLabels):
            scores = ClassScores(AttackRequest(view, canary, len(fillings), "selftest"))
            return scores.of(scores.places(fillings))
        return self.text_costs(target, canary, [canary.space.fill(filling) for filling in fillings])

    @cached_property
    def probes(self) -> list[Filling]:
        """Random fillings of the first canary's space, each once."""
        return list(dict.fromkeys(self.canaries[0].space.sample(PROBES, f"{self.settings.seed}:probes")))

    @cached_property
    def probe_costs(self) -> FloatArray:
        """What the probes cost."""
        return self.costs(self.target, self.canaries[0], self.probes)

    @cached_property
    def beginnings(self) -> list[str]:
        """Texts of other lengths than the canaries': beginnings of the first one.

        None where the source sentence follows from the text, which a beginning is too short for.
        """
        canary = self.canaries[0]
        if canary.source_space is not None and canary.source_space.slots:
            return []
        whole = canary.text
        parts = (whole[: len(whole) * share // 8].rstrip() for share in range(2, 8))
        return [part for part in dict.fromkeys(parts) if part]

    def text_costs(self, target: Any, canary: Canary, texts: Sequence[str]) -> FloatArray:
        """What whole texts of any length cost, asked about together, bits, ``[n]``."""
        view = self.view(target, canary)
        if isinstance(view, ScoresLabels):
            return view.label_costs(view.encode(texts))[:, view.place_of(canary.label)]
        found: FloatArray = view.log_perplexity(texts)
        return found

    @cached_property
    def known_costs(self) -> FloatArray:
        """What probes, beginnings and the small canaries cost, in batches."""
        return self.all_costs(self.target, self.probe_costs, self.small_findings)

    def all_costs(self, target: Any, probes: FloatArray, findings: Sequence[Finding]) -> FloatArray:
        """What probes, beginnings and the small canaries cost by ``target``; the last as attacks found them."""
        canary = self.canaries[0]
        beginnings = self.text_costs(target, canary, self.beginnings) if self.beginnings else np.zeros(0)
        own = [finding.extra["class_loss"] if self.labelled else finding.log_perplexity for finding in findings]
        return np.concatenate([probes, beginnings, np.array(own, dtype=np.float64)])

    @cached_property
    def places(self) -> list[int]:
        """Where the small canaries' secrets stand in :attr:`everything`."""
        return [canary.space.index(canary.secret) for canary in self.small]

    @cached_property
    def small(self) -> list[Canary]:
        """Canaries of one space that can be scored as a whole."""
        return others_of(narrowed(self.canaries[0]), SECRETS, self.settings.seed)

    @cached_property
    def everything(self) -> list[Filling]:
        """All fillings of the small space, in their order."""
        return list(self.small[0].space.enumerate())

    @cached_property
    def small_findings(self) -> list[Finding]:
        """The exact ranks of the small canaries."""
        return self.exact(self.target, "small space")

    def exact(self, target: Any, what: str) -> list[Finding]:
        """The small canaries' exact ranks by ``target``."""
        name, settings = ("exposure", {"method": "exact"}) if self.searched else (self._by_texts, {})
        # A count reads no more nodes than there are token paths, of which a filling has a few.
        return self.attack(name, target, self.small, what, len(self.everything) * 64, settings)

    @cached_property
    def ranked(self) -> RankedFindings:
        """Ranks of the canaries, as the tasks would find them; by a uniform sample where the template is declined."""
        if not self.searched:
            return RankedFindings(self.sampled(self.canaries, "canaries"))
        try:
            return RankedFindings(self.attack("exposure", self.target, self.canaries, "canaries", self.settings.budget))
        except TargetError as error:
            return RankedFindings(self.sampled(self.canaries, "canaries"), str(error))

    def sampled(self, canaries: Sequence[Canary], what: str) -> list[Finding]:
        """Ranks by a uniform sample, of its own for each canary, or exact where the space is no larger."""
        return self.attack(self._by_texts, self.target, canaries, what, self.settings.samples)

    @property
    def _by_texts(self) -> str:
        return "class-loss" if self.labelled else "rank-sample"

    def attack(
        self, name: str, target: Any, canaries: Sequence[Canary], what: str, budget: int, settings: Any = None
    ) -> list[Finding]:
        """Run an attack for exposure, with a progress bar that says ``what`` is attacked."""
        bar, seed = partial(tqdm, desc=f"selftest: {what}", file=self.screen, leave=False), self.settings.seed
        return run_attack(name, target, canaries, budget=budget, seed=seed, values=settings, progress=bar)


def fresh_canaries(
    template: str, number: int, seed: int, source: str | None = None, labels: Sequence[str] = ()
) -> list[Canary]:
    """``number`` canaries that were never planted; ``labels`` are dealt out in turn. Raises OptionError, SpaceError."""
    with warnings.catch_warnings():
        # A space of fewer fillings than canaries makes some alike, which the test of chance allows for.
        warnings.simplefilter("ignore")
        made = make_canaries(template, 0, controls=number, seed=seed, source=source, id_prefix="selftest-")
    return [replace(canary, label=labels[n % len(labels)] if labels else None) for n, canary in enumerate(made)]


def narrowed(canary: Canary, most: int = SMALL) -> Canary:
    """The canary with only so many of its last slots open that no more than ``most`` fillings are left."""
    slots = canary.space.slots
    fixed = next((n for n in range(len(slots)) if prod(map(len, slots[n:])) <= most), len(slots) - 1)
    source = canary.source_space
    return replace(
        canary,
        template=_template(canary.space, canary.secret, fixed),
        secret=canary.secret[fixed:],
        alphabets={slot.name: slot for slot in slots[fixed:]},
        source=_template(source, canary.secret, fixed) if source is not None and source.slots else canary.source,
    )


def others_of(canary: Canary, number: int, seed: int) -> list[Canary]:
    """Canaries of one space, with ``number`` secrets that differ as far as there are so many."""
    fillings = dict.fromkeys(canary.space.sample(4 * number, f"{seed}:{canary.id}:others"))
    return [replace(canary, id=f"{canary.id}-{n}", secret=filling) for n, filling in enumerate(list(fillings)[:number])]


def _template(space: Space, secret: Filling, fixed: int) -> str:
    """A template in which the first ``fixed`` slots hold the secret's values and the others are open."""
    parts = [literal(space.pieces[0])]
    for index, (slot, piece) in enumerate(zip(space.slots, space.pieces[1:], strict=True)):
        parts += (literal(secret[index]) if index < fixed else f"{{{slot.name}}}", literal(piece))
    return "".join(parts)
