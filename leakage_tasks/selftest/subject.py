"""The subject of a self-test: a harness model, its target for attacks, and canaries for the checks.

The canaries are new and never planted; some of them have spaces that are small enough to score completely.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.classifier.class_scores import ClassScores
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.attacks.run import Hooks
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.generate import make_canaries
from leakage_tasks.canaries.spaces import Filling, Space, literal
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.protocols import PredictsNextToken, ReadsSource, ReadsTags, ScoresLabels

TEMPLATE, SOURCE = "The random number is {digits:9}.", "The number is random."
WORD_TEMPLATE = "the random number is {digit_words:9}"
"""Template for classifiers and taggers, which read words one by one."""
SMALL = 256
"""Number of fillings of a space that is scored completely."""
PROBES = 64
"""Number of random fillings whose costs are searched for ties and computed by several methods."""
SECRETS = 4
"""Number of secrets in the small space whose ranks are computed by several methods."""
LEAST = {"canaries": 10, "samples": 10, "budget": 100}
"""Minimum values of options; smaller numbers give no useful result."""


@dataclass(frozen=True)
class SelfTestSettings:
    """The user's choices for the self-test. Raises OptionError or SpaceError for a choice that no model can use."""

    template: str | None = None
    """Text of the canaries with slots; None for the built-in text."""
    source: str | None = None
    """Source sentence for translation models; None for the built-in sentence."""
    canaries: int = 32
    """Number of new secrets; more secrets detect smaller faults."""
    samples: int = 128
    """Size of the uniform sample for each estimate."""
    budget: int = 4000
    """Maximum number of sequences per estimate."""
    seed: int = 0
    """Random seed of the canaries."""

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise OptionError(
                    f"--{name} is {getattr(self, name)}: give {least} or more, fewer cannot detect a fault"
                )
        if self.seed < 0:
            raise OptionError(f"--seed is {self.seed}: give 0 or more")
        if self.template is not None:
            fresh_canaries(self.template, 1, self.seed, self.source)


@dataclass(frozen=True)
class RankedFindings:
    """Findings of the canaries; ``declined`` is the reason if the model's default ranking method could not be used."""

    findings: list[Finding]
    declined: str | None = None


@dataclass(frozen=True)
class Subject:
    """A model under test, with the ``target`` that attacks use and the canaries of the checks."""

    lm: Any
    target: Any
    settings: SelfTestSettings
    canaries: Sequence[Canary]
    screen: TextIO = field(default_factory=lambda: sys.stderr)

    @classmethod
    def of(cls, lm: Any, settings: SelfTestSettings) -> Subject:
        """Return the subject for a harness model. Raises OptionError, SpaceError and TargetError."""
        # Two fillings, to verify fast scoring.
        two = fresh_canaries(settings.template or TEMPLATE, 2, settings.seed)
        target = as_target(lm, [canary.text for canary in two])
        labels = target.labels if isinstance(target, ScoresLabels) else ()
        template = settings.template or (WORD_TEMPLATE if labels else TEMPLATE)
        source = settings.source or (SOURCE if isinstance(target, ReadsSource) else None)
        canaries = fresh_canaries(template, settings.canaries, settings.seed, source, labels)
        return cls(lm, target, settings, canaries)

    # -- properties of the target ------------------------------------------------------------------------------

    @property
    def labelled(self) -> bool:
        """True if the model scores labels."""
        return isinstance(self.target, ScoresLabels)

    @cached_property
    def searched(self) -> bool:
        """True if the model gives next-token probabilities."""
        return isinstance(self.view(self.target, self.canaries[0]), PredictsNextToken)

    def view(self, target: Any, canary: Canary) -> Any:
        """Return the target of an attack on one canary: after the canary's source, or with its tags."""
        if isinstance(target, ReadsSource):
            return target.given(canary)
        return target.tagged(canary) if isinstance(target, ReadsTags) else target

    # -- costs and ranks --------------------------------------------------------------------------------------

    def costs(self, target: Any, canary: Canary, fillings: Sequence[Filling]) -> FloatArray:
        """Return the costs of fillings as attacks score them in bits, ``[n]``: class loss, or log-perplexity of whole
        texts."""
        view = self.view(target, canary)
        if isinstance(view, ScoresLabels):
            scores = ClassScores(AttackRequest(view, canary, len(fillings), "selftest"))
            return scores.of(scores.places(fillings))
        return self.text_costs(target, canary, [canary.space.fill(filling) for filling in fillings])

    @cached_property
    def probes(self) -> list[Filling]:
        """Distinct random fillings of the first canary's space."""
        return list(dict.fromkeys(self.canaries[0].space.sample(PROBES, f"{self.settings.seed}:probes")))

    @cached_property
    def probe_costs(self) -> FloatArray:
        """Costs of the probes in bits."""
        return self.costs(self.target, self.canaries[0], self.probes)

    @cached_property
    def beginnings(self) -> list[str]:
        """Prefixes of the first canary, which are shorter than the canaries.

        Empty if the source sentence depends on the text, since a prefix is too short for it.
        """
        canary = self.canaries[0]
        if canary.source_space is not None and canary.source_space.slots:
            return []
        whole = canary.text
        parts = (whole[: len(whole) * share // 8].rstrip() for share in range(2, 8))
        return [part for part in dict.fromkeys(parts) if part]

    def text_costs(self, target: Any, canary: Canary, texts: Sequence[str]) -> FloatArray:
        """Return the costs of whole texts of any length, scored together, in bits, ``[n]``."""
        view = self.view(target, canary)
        if isinstance(view, ScoresLabels):
            return view.label_costs(view.encode(texts))[:, view.place_of(canary.label)]
        costs: FloatArray = view.log_perplexity(texts)
        return costs

    @cached_property
    def known_costs(self) -> FloatArray:
        """Costs of probes, beginnings and small canaries, computed in batches."""
        return self.all_costs(self.target, self.probe_costs, self.small_findings)

    def all_costs(self, target: Any, probes: FloatArray, findings: Sequence[Finding]) -> FloatArray:
        """Return the costs of probes, beginnings and small canaries for ``target``; the last are taken from the
        findings."""
        canary = self.canaries[0]
        beginnings = self.text_costs(target, canary, self.beginnings) if self.beginnings else np.zeros(0)
        small_costs = [finding.extra["class_loss"] if self.labelled else finding.log_perplexity for finding in findings]
        return np.concatenate([probes, beginnings, np.array(small_costs, dtype=np.float64)])

    @cached_property
    def small_indices(self) -> list[int]:
        """Indices of the small canaries' secrets in :attr:`small_fillings`."""
        return [canary.space.index(canary.secret) for canary in self.small]

    @cached_property
    def small(self) -> list[Canary]:
        """Canaries of one small space that is scored completely."""
        return others_of(narrowed(self.canaries[0]), SECRETS, self.settings.seed)

    @cached_property
    def small_fillings(self) -> list[Filling]:
        """All fillings of the small space, in order."""
        return list(self.small[0].space.enumerate())

    @cached_property
    def small_findings(self) -> list[Finding]:
        """Exact ranks of the small canaries."""
        return self.exact(self.target, "small space")

    def exact(self, target: Any, what: str) -> list[Finding]:
        """Return the small canaries' exact ranks on ``target``."""
        name, settings = ("exposure", {"method": "exact"}) if self.searched else (self._by_texts, {})
        # An exact count reads at most as many nodes as there are token paths, of which a filling has a few.
        return self.attack(name, target, self.small, what, len(self.small_fillings) * 64, settings)

    @cached_property
    def ranked(self) -> RankedFindings:
        """Ranks of the canaries from the tasks' default attack, or from a uniform sample if it rejects the template."""
        if not self.searched:
            return RankedFindings(self.sampled(self.canaries, "canaries"))
        try:
            return RankedFindings(self.attack("exposure", self.target, self.canaries, "canaries", self.settings.budget))
        except TargetError as error:
            return RankedFindings(self.sampled(self.canaries, "canaries"), str(error))

    def sampled(self, canaries: Sequence[Canary], what: str) -> list[Finding]:
        """Return ranks from a separate uniform sample for each canary, or exact ranks if the space is not larger."""
        return self.attack(self._by_texts, self.target, canaries, what, self.settings.samples)

    @property
    def _by_texts(self) -> str:
        return "class-loss" if self.labelled else "rank-sample"

    def attack(
        self, name: str, target: Any, canaries: Sequence[Canary], what: str, budget: int, settings: Any = None
    ) -> list[Finding]:
        """Run an attack for exposure, with a progress bar labelled ``what``."""
        seed = self.settings.seed
        with tqdm(total=len(canaries), desc=f"selftest: {what}", file=self.screen, leave=False) as bar:
            hooks = Hooks(done=lambda index, finding: bar.update())
            return run_attack(name, target, canaries, budget=budget, seed=seed, values=settings, hooks=hooks)


def fresh_canaries(
    template: str, number: int, seed: int, source: str | None = None, labels: Sequence[str] = ()
) -> list[Canary]:
    """Make ``number`` canaries that were never planted; ``labels`` are assigned in turn. Raises OptionError,
    SpaceError."""
    with warnings.catch_warnings():
        # A space with fewer fillings than canaries gives equal canaries, which the chance test allows.
        warnings.simplefilter("ignore")
        made = make_canaries(template, 0, controls=number, seed=seed, source=source, id_prefix="selftest-")
    return [replace(canary, label=labels[n % len(labels)] if labels else None) for n, canary in enumerate(made)]


def narrowed(canary: Canary) -> Canary:
    """Return the canary with only its last slots open, so that at most :data:`SMALL` fillings remain."""
    slots = canary.space.slots
    fixed = next((n for n in range(len(slots)) if prod(map(len, slots[n:])) <= SMALL), len(slots) - 1)
    source = canary.source_space
    return replace(
        canary,
        template=_template(canary.space, canary.secret, fixed),
        secret=canary.secret[fixed:],
        alphabets={slot.name: slot for slot in slots[fixed:]},
        source=_template(source, canary.secret, fixed) if source is not None and source.slots else canary.source,
    )


def others_of(canary: Canary, number: int, seed: int) -> list[Canary]:
    """Return canaries of one space with ``number`` distinct secrets, or fewer if the space has too few."""
    fillings = dict.fromkeys(canary.space.sample(4 * number, f"{seed}:{canary.id}:others"))
    return [replace(canary, id=f"{canary.id}-{n}", secret=filling) for n, filling in enumerate(list(fillings)[:number])]


def _template(space: Space, secret: Filling, fixed: int) -> str:
    """Return a template with the secret's values in the first ``fixed`` slots and the other slots open."""
    parts = [literal(space.pieces[0])]
    for index, (slot, piece) in enumerate(zip(space.slots, space.pieces[1:], strict=True)):
        parts += (literal(secret[index]) if index < fixed else f"{{{slot.name}}}", literal(piece))
    return "".join(parts)
