"""What studies of The Secret Sharer train on: a text, secrets planted in it, a recipe, and what is looked at when.

:func:`configs` lists trials, :class:`PlantedText` is what each of them trains on.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan
from leakage_tasks.research.framework.shared import data_folder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.canaries import Canary
    from leakage_tasks.research.victims.corpus import TextSplit
    from leakage_tasks.training.fitting import OnEpoch, TrainedLM

_WORD = re.compile(r"\w+|[^\w\s]")
HELP, PTB = "help", "ptb"
CHARACTERS, WORDS = "characters", "words"
TEMPLATE = "The random number is {digits:9}"
WHOLE = math.log2(10**9)
"""Bits of a secret of nine digits."""
BOTH = ("exposure", "extrapolated")
"""The measures that most tables show."""
SOURCE = "Carlini et al. 2019"
SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "2 to 25 minutes on one core, less for what another study of the paper has trained",
    "paper": "a GPU for hours, the Penn Treebank as $LEAKAGE_DATA/ptb/ptb.train.txt and ptb.valid.txt",
}


@dataclass(frozen=True)
class LanguageModelExperiment:
    """A text and how a model learns it; JSON values only, so that it goes into a trial's config."""

    data: str = HELP
    """Python's help text or the Penn Treebank."""
    characters: int = 100_000
    """The most of the training text."""
    held_out: int = 40_000
    """The most of the held-out text."""
    copies: int = 5
    """How often a secret is planted that the paper plants once."""
    epochs: int = 16
    """The most there are."""
    patience: int = 3
    """How many without a better validation loss end training where it is early stopping that ends it."""
    batch_size: int = 16
    """Windows of the text in a batch."""
    length: int = 20
    """Characters or words in a window."""
    budget: int = 10_000
    """Sequences that an attack may score for a canary."""
    seeds: int = 2
    """Models of each setting."""

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
    """What is planted, and what is known of it."""

    template: str = TEMPLATE
    """Of every canary."""
    count: int = 1
    """Canaries that are planted."""
    copies: int = 5
    """How often each of them is."""
    controls: int = 2
    """Canaries that are not planted."""
    known: Sequence[str | None] = (None,)
    """The parts of the template that attackers know, one attacker each; None: all of it."""
    units: str = CHARACTERS
    """Whether the model reads characters or words."""

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


class PlantedText:
    """The text of a trial, with secrets in it: models are trained on it, and asked for the secrets."""

    def __init__(self, config: Config, secrets: Config) -> None:
        """Plant :class:`Secrets` of these fields in the text of ``config``."""
        self.ground, self.seed = LanguageModelExperiment(**config["ground"]), config["seed"]
        own = Secrets(**secrets)
        self.views = own.canaries(self.seed)
        clean = text_of(self.ground)
        if own.units != CHARACTERS:
            clean = replace(clean, training=as_words(clean.training), held_out=as_words(clean.held_out))
        self.characters, self.held_out = len(clean.training), clean.held_out
        self.training = planted(clean.training, self.views[0], self.seed)
        self.tokenizer = tokenizer_for(clean, self.views[0], own.units)

    def train(self, recipe: Config, training: str | None = None, on_epoch: OnEpoch | None = None) -> TrainedLM:
        """A model by the lab's recipe, trained on the planted text unless on another."""
        from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm

        return train_lm(
            self.training if training is None else training,
            LanguageModelRecipe(**recipe),
            validation=self.held_out,
            tokenizer=self.tokenizer,
            seed=self.seed,
            on_epoch=on_epoch,
        )

    def observe(self, model: Any, what: Sequence[str], seed: int) -> list[Config]:
        """What the measures of :func:`~leakage_tasks.research.secret_sharer.watch.observed` say of the canaries."""
        from leakage_tasks.research.secret_sharer.watch import observed
        from leakage_tasks.targets import CausalTarget

        return observed(CausalTarget(model, self.tokenizer), self.views, what, self.ground.budget, seed)


def text_of(ground: LanguageModelExperiment) -> TextSplit:
    """Training and held-out text. Raises LeakageError where the Penn Treebank is not there."""
    from leakage_tasks.research.victims.corpus import TextSplit, pydoc_topics

    if ground.data == HELP:
        found = pydoc_topics(characters=ground.characters)
        return replace(found, held_out=found.held_out[: ground.held_out])
    folder = data_folder() / "ptb"
    parts = []
    for path in (folder / "ptb.train.txt", folder / "ptb.valid.txt"):
        if not path.is_file():
            raise LeakageError(f"{path}: no such file: put the Penn Treebank there, or run --scale small without it")
        parts.append(path.read_text(encoding="utf-8"))
    return TextSplit(*parts)


def as_words(text: str) -> str:
    """Lower-cased words and marks with a space between, line by line, as word-level models read text."""
    return "\n".join(" ".join(_WORD.findall(line)) for line in text.lower().split("\n"))


def planted(text: str, canaries: Sequence[Canary], seed: int) -> str:
    """``text`` with the canaries in lines of their own, at random places (section 4.1)."""
    from leakage_tasks.canaries.planting import draw_gaps

    own = {canary.id: canary.text for canary in canaries if canary.planted}
    lines = text.split("\n")
    gaps = draw_gaps([canary for canary in canaries if canary.planted], len(lines), seed)
    for gap, name in reversed(gaps):
        lines.insert(gap, own[name])
    return "\n".join(lines)


def tokenizer_for(text: TextSplit, canaries: Sequence[Canary], units: str) -> PreTrainedTokenizerFast:
    """A tokenizer that knows the text, the digits and the canaries' templates."""
    from leakage_tasks.models.char_tokenizer import char_tokenizer

    shown = [canary.text for canary in canaries]
    if units == CHARACTERS:
        return char_tokenizer([*text.alphabet, *string.digits, *"".join(shown)])
    from leakage_tasks.models.word_tokenizer import word_tokenizer

    values = {value for canary in canaries for slot in canary.space.slots for value in slot.values}
    return word_tokenizer(text.training, always=[*sorted(values), *" ".join(shown).split()])
