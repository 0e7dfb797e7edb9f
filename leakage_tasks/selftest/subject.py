"""What is tested: a harness model, the target that attacks ask, and the self-test's canaries on it."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TextIO

import numpy as np
from tqdm import tqdm

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.classifier.class_scores import ClassScores
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.spaces import Filling
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.selftest.canaries import SOURCE, TEMPLATE, WORD_TEMPLATE, fresh_canaries, narrowed, others_of
from leakage_tasks.selftest.precision import Precision, precision_of
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.protocols import PredictsNextToken, ReadsSource, ReadsTags, ScoresLabels

PROBES = 64
"""Random fillings whose costs are looked at for ties, and computed in several ways."""
SECRETS = 4
"""Secrets of one small space whose ranks are found in several ways."""
LEAST_CANARIES = 10


@dataclass(frozen=True)
class SelfTestSettings:
    """What a user may choose: the canaries, and how hard to look.

    ``samples`` is the size of the uniform sample each estimate is held against, ``budget`` the most sequences that an
    estimate may take.
    """

    template: str | None = None
    source: str | None = None
    canaries: int = 32
    samples: int = 128
    budget: int = 4000
    seed: int = 0

    def check(self) -> None:
        """Raise OptionError for a number that cannot be."""
        for name, value, least in (
            ("canaries", self.canaries, LEAST_CANARIES),
            ("samples", self.samples, 10),
            ("budget", self.budget, 100),
        ):
            if value < least:
                raise OptionError(f"--{name} is {value}: give {least} or more, fewer can tell nothing")


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
        settings.check()
        target = as_target(lm, _two_texts(settings))
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

    @cached_property
    def precision(self) -> Precision:
        """How far two ways of computing a cost may differ."""
        return precision_of(self.lm, self.labelled)

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
        own = [found.extra["class_loss"] if self.labelled else found.log_perplexity for found in findings]
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
        return "class-loss" if self.labelled else "sampled"

    def attack(
        self, name: str, target: Any, canaries: Sequence[Canary], what: str, budget: int, settings: Any = None
    ) -> list[Finding]:
        """Run an attack for exposure, with a progress bar that says ``what`` is attacked."""
        bar = partial(self.progress, what=what)
        seed = self.settings.seed
        return run_attack(name, target, canaries, budget=budget, seed=seed, settings=settings, progress=bar)

    # -- the screen -------------------------------------------------------------------------------------------

    def progress(self, items: Iterable[Any], what: str) -> Iterable[Any]:
        """A progress bar on the terminal."""
        return tqdm(items, desc=f"selftest: {what}", file=self.screen, leave=False)


@contextlib.contextmanager
def no_other_bars() -> Iterator[None]:
    """Keep the harness' own progress bars, one for each question it is asked, off the terminal."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def _two_texts(settings: SelfTestSettings) -> list[str]:
    """Two fillings, for the fast way to be checked on."""
    return [canary.text for canary in fresh_canaries(settings.template or TEMPLATE, 2, settings.seed)]
