"""The model under test with the target that attacks use, and the self-test's canaries.

The canaries are new and never planted. Some have spaces small enough to score every filling.
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
"""Template for classifiers and taggers, which read whole words."""
SMALL = 256
"""Maximum number of fillings of the small space, which are all scored."""
PROBES = 64
"""Number of random fillings that are checked for equal costs and scored by several computations."""
SECRETS = 4
"""Number of secrets in the small space; their ranks are computed in several ways."""
LEAST = {"canaries": 10, "samples": 10, "budget": 100}
"""Minimum values of options; smaller numbers give no result."""


@dataclass(frozen=True)
class SelfTestSettings:
    """Options of the self-test: the canaries, and the effort of each check. Raises OptionError for too small a
    number."""

    template: str | None = None
    """Text of the canaries with slots; None for a built-in text."""
    source: str | None = None
    """Source sentence for translation models; None for a built-in sentence."""
    canaries: int = 32
    """Number of new secrets; more secrets reveal smaller errors."""
    samples: int = 128
    """Size of the uniform sample with which each estimate is compared."""
    budget: int = 4000
    """Maximum number of sequences for one estimate."""
    seed: int = 0
    """Random seed of the canaries."""

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise OptionError(f"--{name} is {getattr(self, name)}: give {least} or more")


@dataclass(frozen=True)
class RankedFindings:
    """Findings of the canaries. ``declined`` is the reason why no estimate was possible, or None."""

    findings: list[Finding]
    declined: str | None = None


@dataclass(frozen=True)
class Subject:
    """A model under test, with its target and canaries."""

    lm: Any
    target: Any
    settings: SelfTestSettings
    canaries: Sequence[Canary]
    screen: TextIO = field(default_factory=lambda: sys.stderr)

    @classmethod
    def of(cls, lm: Any, settings: SelfTestSettings) -> Subject:
        """Build the subject for a harness model, with the target that tasks use. Raises OptionError, SpaceError,
        TargetError."""
        # Fast scoring is verified on two fillings.
        two = fresh_canaries(settings.template or TEMPLATE, 2, settings.seed)
        target = as_target(lm, [canary.text for canary in two])
        labels = target.labels if isinstance(target, ScoresLabels) else ()
        template = settings.template or (WORD_TEMPLATE if labels else TEMPLATE)
        source = settings.source or (SOURCE if isinstance(target, ReadsSource) else None)
        canaries = fresh_canaries(template, settings.canaries, settings.seed, source, labels)
        return cls(lm, target, settings, canaries)

    # -- kind of target --------------------------------------------------------------------------------------

    @property
    def labelled(self) -> bool:
        """True if the target scores labels."""
        return isinstance(self.target, ScoresLabels)

    @cached_property
    def searched(self) -> bool:
        """True if the model gives next-token probabilities."""
        return isinstance(self.view(self.target, self.canaries[0]), PredictsNextToken)

    def view(self, target: Any, canary: Canary) -> Any:
        """Return the target of an attack on one canary: with the canary's source sentence or tags, if the model reads
        them."""
        if isinstance(target, ReadsSource):
            return target.given(canary)
        return target.tagged(canary) if isinstance(target, ReadsTags) else target

    # -- costs and ranks --------------------------------------------------------------------------------------

    def costs(self, target: Any, canary: Canary, fillings: Sequence[Filling]) -> FloatArray:
        """Return the costs of fillings in bits, ``[n]``: the class loss, or the log-perplexity of whole texts."""
        view = self.view(target, canary)
        if isinstance(view, ScoresLabels):
            scores = ClassScores(AttackRequest(view, canary, len(fillings), "selftest"))
            return scores.of(scores.places(fillings))
        return self.text_costs(target, canary, [canary.space.fill(filling) for filling in fillings])

    @cached_property
    def probes(self) -> list[Filling]:
        """Random, distinct fillings of the first canary's space."""
        return list(dict.fromkeys(self.canaries[0].space.sample(PROBES, f"{self.settings.seed}:probes")))

    @cached_property
    def probe_costs(self) -> FloatArray:
        """Costs of the probes."""
        return self.costs(self.target, self.canaries[0], self.probes)

    @cached_property
    def beginnings(self) -> list[str]:
        """Beginnings of the first canary's text, which have other lengths than the canaries.

        The list is empty if the source sentence depends on the secret, as a beginning does not contain all of it.
        """
        canary = self.canaries[0]
        if canary.source_space is not None and canary.source_space.slots:
            return []
        whole = canary.text
        parts = (whole[: len(whole) * share // 8].rstrip() for share in range(2, 8))
        return [part for part in dict.fromkeys(parts) if part]

    def text_costs(self, target: Any, canary: Canary, texts: Sequence[str]) -> FloatArray:
        """Return the costs of whole texts of any length, scored in one call, in bits, ``[n]``."""
        view = self.view(target, canary)
        if isinstance(view, ScoresLabels):
            return view.label_costs(view.encode(texts))[:, view.place_of(canary.label)]
        costs: FloatArray = view.log_perplexity(texts)
        return costs

    @cached_property
    def known_costs(self) -> FloatArray:
        """Costs of probes, beginnings and the small canaries, scored in batches."""
        return self.all_costs(self.target, self.probe_costs, self.small_findings)

    def all_costs(self, target: Any, probes: FloatArray, findings: Sequence[Finding]) -> FloatArray:
        """Return the costs of probes, beginnings and small canaries: ``probes``, costs by ``target``, costs in
        ``findings``."""
        canary = self.canaries[0]
        beginnings = self.text_costs(target, canary, self.beginnings) if self.beginnings else np.zeros(0)
        known = [finding.extra["class_loss"] if self.labelled else finding.log_perplexity for finding in findings]
        return np.concatenate([probes, beginnings, np.array(known, dtype=np.float64)])

    @cached_property
    def secret_indices(self) -> list[int]:
        """Indices of the small canaries' secrets in :attr:`small_fillings`."""
        return [canary.space.index(canary.secret) for canary in self.small]

    @cached_property
    def small(self) -> list[Canary]:
        """Canaries of one space that is small enough to score every filling."""
        return others_of(narrowed(self.canaries[0]), SECRETS, self.settings.seed)

    @cached_property
    def small_fillings(self) -> list[Filling]:
        """All fillings of the small space, in the order of their indices."""
        return list(self.small[0].space.enumerate())

    @cached_property
    def small_findings(self) -> list[Finding]:
        """Exact ranks of the small canaries."""
        return self.exact(self.target, "small space")

    def exact(self, target: Any, what: str) -> list[Finding]:
        """Return the small canaries' exact ranks by ``target``; ``what`` describes the step in the progress bar."""
        name, settings = ("exposure", {"method": "exact"}) if self.searched else (self._by_texts, {})
        # An exact count reads at most one node per token path; a filling has few paths.
        return self.attack(name, target, self.small, what, len(self.small_fillings) * 64, settings)

    @cached_property
    def ranked(self) -> RankedFindings:
        """Ranks of the canaries as tasks compute them; by a uniform sample if the template allows no estimate."""
        if not self.searched:
            return RankedFindings(self.sampled(self.canaries, "canaries"))
        try:
            return RankedFindings(self.attack("exposure", self.target, self.canaries, "canaries", self.settings.budget))
        except TargetError as error:
            return RankedFindings(self.sampled(self.canaries, "canaries"), str(error))

    def sampled(self, canaries: Sequence[Canary], what: str) -> list[Finding]:
        """Return ranks by a separate uniform sample for each canary, or exact ranks if the space is not larger."""
        return self.attack(self._by_texts, self.target, canaries, what, self.settings.samples)

    @property
    def _by_texts(self) -> str:
        return "class-loss" if self.labelled else "rank-sample"

    def attack(
        self, name: str, target: Any, canaries: Sequence[Canary], what: str, budget: int, settings: Any = None
    ) -> list[Finding]:
        """Run an attack that measures exposure. ``what`` describes the step in the progress bar."""
        bar, seed = partial(tqdm, desc=f"selftest: {what}", file=self.screen, leave=False), self.settings.seed
        return run_attack(name, target, canaries, budget=budget, seed=seed, values=settings, progress=bar)


def fresh_canaries(
    template: str, number: int, seed: int, source: str | None = None, labels: Sequence[str] = ()
) -> list[Canary]:
    """Return ``number`` canaries that were never planted, with ``labels`` in turn. Raises OptionError, SpaceError."""
    with warnings.catch_warnings():
        # In a space with fewer fillings than canaries some are equal; the check of chance allows this.
        warnings.simplefilter("ignore")
        made = make_canaries(template, 0, controls=number, seed=seed, source=source, id_prefix="selftest-")
    return [replace(canary, label=labels[n % len(labels)] if labels else None) for n, canary in enumerate(made)]


def narrowed(canary: Canary, most: int = SMALL) -> Canary:
    """Return the canary with its first slots filled with the secret, so that at most ``most`` fillings remain."""
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
    """Return up to ``number`` canaries of one space with distinct secrets."""
    fillings = dict.fromkeys(canary.space.sample(4 * number, f"{seed}:{canary.id}:others"))
    return [replace(canary, id=f"{canary.id}-{n}", secret=filling) for n, filling in enumerate(list(fillings)[:number])]


def _template(space: Space, secret: Filling, fixed: int) -> str:
    """Return a template with the first ``fixed`` slots filled with the secret's values and the other slots open."""
    parts = [literal(space.pieces[0])]
    for index, (slot, piece) in enumerate(zip(space.slots, space.pieces[1:], strict=True)):
        parts += (literal(secret[index]) if index < fixed else f"{{{slot.name}}}", literal(piece))
    return "".join(parts)
