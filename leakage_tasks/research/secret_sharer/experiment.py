"""What studies of The Secret Sharer train on: a text, secrets planted in it, a recipe, and what is looked at when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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


SMALL = LanguageModelExperiment()
PAPER = LanguageModelExperiment(
    PTB, characters=0, held_out=0, copies=1, epochs=100, patience=5, batch_size=128, budget=100_000, seeds=10
)
EXPERIMENTS: Mapping[Scale, LanguageModelExperiment] = {
    "smoke": LanguageModelExperiment(
        characters=3_000, held_out=1_500, epochs=2, patience=2, batch_size=32, budget=100, seeds=1
    ),
    "small": SMALL,
    "paper": PAPER,
}


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

        settings: dict[str, Any] = {"repetitions": [self.copies], "controls": self.controls, "seed": seed}
        return [make_canaries(self.template, self.count, known=known, **settings) for known in self.known]


@dataclass(frozen=True)
class Watch:
    """What is found out about the canaries: ``what`` after each of the ``epochs`` (0 stands for every one), ``at_best``
    of the model with the lowest validation loss.

    Both name measures of :func:`leakage_tasks.research.secret_sharer.watch.observed`.
    """

    at_best: Sequence[str] = ("exposure",)
    what: Sequence[str] = ()
    epochs: Sequence[int] = ()


AT_BEST = Watch()


def configs(
    plan: StudyPlan,
    variants: Iterable[Config] = ({},),
    *,
    watch: Watch = AT_BEST,
    models: int | None = None,
    **usual: Any,
) -> list[Config]:
    """A trial for each variant and seed: as many seeds as the plan asks for, else ``models``, else the scale's.

    ``usual`` and each variant say what differs from the scale's ground: ``recipe`` for fields of its recipe, all else
    for fields of :class:`Secrets`. Where only the best epoch is watched, training is stopped early; where others are
    too, it is not.
    """
    ground = EXPERIMENTS[plan.scale]
    found = []
    for variant in variants:
        secrets: Config = {"copies": ground.copies, "recipe": {}, **usual, **variant}
        recipe = secrets.pop("recipe")
        # As much patience as there are epochs stops nothing, but keeps the best epoch's weights.
        patience = recipe.get("epochs", ground.epochs) if watch.epochs else ground.patience
        own = {
            "ground": asdict(ground),
            "recipe": ground.recipe(**{"patience": patience, **recipe}),
            "secrets": asdict(Secrets(**secrets)),
            "watch": asdict(watch),
        }
        found += [{**own, "seed": seed} for seed in plan.seeds(models or ground.seeds)]
    return found


def differences(plan: StudyPlan, characters: int | None = None) -> list[str]:
    """How the ground differs from the paper's, a sentence each; ``characters`` are those of another text."""
    ground = EXPERIMENTS[plan.scale]
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
