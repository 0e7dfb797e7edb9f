"""What studies of The Secret Sharer train on: a text, secrets planted in it, a recipe, and what is looked at when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan

if TYPE_CHECKING:
    from leakage_tasks.canaries import Canary

HELP, PTB = "help", "ptb"
CHARACTERS, WORDS = "characters", "words"
TEMPLATE = "The random number is {digits:9}"
SOURCE = "Carlini et al. 2019"
SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "2 to 25 minutes on one core, less for what another study of the paper has trained",
    "paper": "a GPU for hours, the Penn Treebank as $LEAKAGE_DATA/ptb/ptb.train.txt and ptb.valid.txt",
}


@dataclass(frozen=True)
class LanguageModelExperiment:
    """A text and how a model learns it; JSON values only, so that it goes into a trial's config.

    ``copies`` is how often a secret is planted that the paper plants once. ``epochs`` is the most there are, and
    ``patience`` how many without a better validation loss end training where it is early stopping that ends it.
    """

    data: str = HELP
    characters: int = 100_000
    held_out: int = 40_000
    copies: int = 5
    epochs: int = 16
    patience: int = 3
    batch_size: int = 16
    length: int = 20
    budget: int = 10_000
    seeds: int = 2

    def recipe(self, **changed: Any) -> Config:
        """The fields of the lab's recipe: Table 8's LSTM and RMSprop, but for what is ``changed``."""
        usual = {"architecture": "lstm-2x200", "optimizer": "rmsprop", "batches": "shuffled", "patience": None}
        sizes = {"batch_size": self.batch_size, "length": self.length, "epochs": self.epochs}
        return {**usual, **sizes, **changed}


SMOKE = LanguageModelExperiment(
    characters=3_000, held_out=1_500, epochs=2, patience=2, batch_size=32, budget=100, seeds=1
)
SMALL = LanguageModelExperiment()
PAPER = LanguageModelExperiment(
    data=PTB,
    characters=0,
    held_out=0,
    copies=1,
    epochs=100,
    patience=5,
    batch_size=128,
    budget=100_000,
    seeds=10,
)


def ground_at(scale: Scale) -> LanguageModelExperiment:
    """The ground of a scale."""
    return {"smoke": SMOKE, "small": SMALL, "paper": PAPER}[scale]


@dataclass(frozen=True)
class Secrets:
    """What is planted: ``count`` canaries of ``template``, ``copies`` times each, and ``controls`` that are not.

    ``known`` are the parts of the template that attackers know, one attacker each (None: all of it). ``units`` says
    whether the model reads characters or words.
    """

    template: str = TEMPLATE
    count: int = 1
    copies: int = 5
    controls: int = 2
    known: Sequence[str | None] = (None,)
    units: str = CHARACTERS

    def canaries(self, seed: int) -> list[list[Canary]]:
        """The canaries, once for each attacker; planted ones first."""
        from leakage_tasks.canaries import make_canaries

        views = []
        for known in self.known:
            settings: dict[str, Any] = {"repetitions": [self.copies], "controls": self.controls, "seed": seed}
            views.append(make_canaries(self.template, self.count, known=known, **settings))
        return views


@dataclass(frozen=True)
class Watch:
    """What is found out about the canaries: ``what`` after each of the ``epochs`` (0 stands for every one), ``at_best``
    of the model with the lowest validation loss.

    Both name measures of :func:`leakage_tasks.research.secret_sharer.watch.observed`.
    """

    at_best: Sequence[str] = ("exposure",)
    what: Sequence[str] = ()
    epochs: Sequence[int] = ()

    def at(self, epoch: int) -> bool:
        """Whether to look after this epoch."""
        return epoch in self.epochs or 0 in self.epochs


@dataclass(frozen=True)
class TrialSetting:
    """One trial but for its seed."""

    ground: LanguageModelExperiment
    recipe: Config = field(default_factory=dict)
    secrets: Secrets = Secrets()
    watch: Watch = Watch()

    def config(self, seed: int) -> Config:
        """The trial's config."""
        fields = {"recipe": self.ground.recipe(**self.recipe), "secrets": asdict(self.secrets)}
        return {"ground": asdict(self.ground), **fields, "watch": asdict(self.watch), "seed": seed}


def setting(
    plan: StudyPlan, *, recipe: Config | None = None, watch: Watch | None = None, **secrets: Any
) -> TrialSetting:
    """The usual setting at a scale, but for what is given.

    Where only the best epoch is watched, training is stopped early; where others are too, it is not.
    """
    ground = ground_at(plan.scale)
    watch = watch or Watch()
    changed = recipe or {}
    # As much patience as there are epochs stops nothing, but keeps the best epoch's weights.
    patience = changed.get("epochs", ground.epochs) if watch.epochs else ground.patience
    return TrialSetting(
        ground, {"patience": patience, **changed}, Secrets(**{"copies": ground.copies, **secrets}), watch
    )


def seeds(plan: StudyPlan) -> range:
    """A seed for each model of one setting."""
    return plan.seeds(ground_at(plan.scale).seeds)


def differences(plan: StudyPlan, characters: int | None = None) -> list[str]:
    """How the ground differs from the paper's, a sentence each; ``characters`` are those of another text."""
    ground = ground_at(plan.scale)
    if ground == PAPER:
        return ["The learning rate is constant (the paper's decays on plateaus)."]
    return [
        f"{characters or ground.characters:,} characters of Python's help text stand for the Penn Treebank (5 MB), so "
        f"that a secret planted {ground.copies} times stands for one planted once.",
        f"Batches are of {ground.batch_size} sequences where the paper has 128, so that there are enough steps; the "
        "learning rate is constant.",
        "Exposure is exact, or estimated by importance draws; 'extrapolated' is the paper's own measure, the "
        "skew-normal's tail.",
    ]
