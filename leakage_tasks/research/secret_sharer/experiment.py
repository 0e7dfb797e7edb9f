"""Experiments of The Secret Sharer's studies: a text with planted secrets, a recipe, and the measurements.

:func:`configs` lists trials. :class:`PlantedText` is the training text of a trial.
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
"""The measures in most tables."""
SOURCE = "Carlini et al. 2019"
SCALES: Mapping[Scale, str] = {
    "smoke": "seconds",
    "small": "2 to 25 minutes on one core, less if another study of the paper has trained the models",
    "paper": "a GPU for hours, the Penn Treebank as $LEAKAGE_DATA/ptb/ptb.train.txt and ptb.valid.txt",
}


@dataclass(frozen=True)
class LanguageModelExperiment:
    """A text and the training of a model on it. All fields are JSON values for a trial's config."""

    data: str = HELP
    """Python's help text or the Penn Treebank."""
    characters: int = 100_000
    """Maximum number of characters of the training text."""
    held_out: int = 40_000
    """Maximum number of characters of the held-out text."""
    copies: int = 5
    """Copies of a secret that the paper plants once."""
    epochs: int = 16
    """Maximum number of epochs."""
    patience: int = 3
    """Early stopping ends training after this many epochs without a lower validation loss."""
    batch_size: int = 16
    """Windows of the text per batch."""
    length: int = 20
    """Characters or words per window."""
    budget: int = 10_000
    """Sequences that an attack may score for a canary."""
    seeds: int = 2
    """Models per setting."""

    def recipe(self, **changed: Any) -> Config:
        """Return the fields of the training recipe: Table 8's LSTM and RMSprop with the changes in ``changed``."""
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
    """The planted secrets and the knowledge of the attackers."""

    template: str = TEMPLATE
    """The template of every canary."""
    count: int = 1
    """Planted canaries."""
    copies: int = 5
    """Copies of each planted canary."""
    controls: int = 2
    """Canaries that are not planted."""
    known: Sequence[str | None] = (None,)
    """The part of the template that each attacker knows; None: all of it."""
    units: str = CHARACTERS
    """Units that the model reads: characters or words."""

    def canaries(self, seed: int) -> list[list[Canary]]:
        """Make the canaries for each attacker, planted ones first."""
        from leakage_tasks.canaries import make_canaries

        settings: dict[str, Any] = {"repetitions": [self.copies], "controls": self.controls, "seed": seed}
        return [make_canaries(self.template, self.count, known=known, **settings) for known in self.known]


@dataclass(frozen=True)
class Watch:
    """The measurements of the canaries.

    ``what`` is measured after each of the ``epochs`` (0: every epoch), ``at_best`` on the model with the lowest
    validation loss. Both list measures of :func:`leakage_tasks.research.secret_sharer.watch.observed`.
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
    ground: LanguageModelExperiment | None = None,
    **usual: Any,
) -> list[Config]:
    """List a trial for each variant and seed.

    ``usual`` and each variant change the scale's experiment: ``recipe`` has fields of its recipe, other keys are fields
    of :class:`Secrets`. Training stops early only if no epoch but the best is measured.

    Args:
        plan: scale and seeds.
        variants: changes of each variant.
        watch: the measurements.
        models: seeds if the plan has no number; default: the experiment's number.
        ground: the experiment; default: the scale's.
        usual: changes of all variants.
    """
    ground = ground or EXPERIMENTS[plan.scale]
    all_configs = []
    for variant in variants:
        secrets: Config = {"copies": ground.copies, "recipe": {}, **usual, **variant}
        recipe = secrets.pop("recipe")
        # A patience of all epochs never stops training, but keeps the best epoch's weights.
        patience = recipe.get("epochs", ground.epochs) if watch.epochs else ground.patience
        common = {
            "ground": asdict(ground),
            "recipe": ground.recipe(**{"patience": patience, **recipe}),
            "secrets": asdict(Secrets(**secrets)),
            "watch": asdict(watch),
        }
        all_configs += [{**common, "seed": seed} for seed in plan.seeds(models or ground.seeds)]
    return all_configs


def differences(plan: StudyPlan, characters: int | None = None) -> list[str]:
    """List the differences from the paper's experiment, one sentence per difference.

    ``characters`` is the length of another text.
    """
    ground = EXPERIMENTS[plan.scale]
    if ground == PAPER:
        return ["The learning rate is constant (the paper's decays on plateaus)."]
    return [
        f"{characters or ground.characters:,} characters of Python's help text replace the Penn Treebank (5 MB), so a "
        f"secret is planted {ground.copies} times where the paper plants it once.",
        f"Batches have {ground.batch_size} sequences, not 128, so that there are enough steps; the "
        "learning rate is constant.",
        "Exposure is exact, or estimated by importance draws; 'extrapolated' is the paper's measure, the tail "
        "of a skew-normal.",
    ]


class PlantedText:
    """The text of a trial with planted secrets: trains models on it and measures the secrets' exposure."""

    def __init__(self, config: Config, secrets: Config, clean: TextSplit | None = None) -> None:
        """Plant :class:`Secrets` with these fields in ``clean``, by default the text of ``config``."""
        self.ground, self.seed = LanguageModelExperiment(**config["ground"]), config["seed"]
        secrets_spec = Secrets(**secrets)
        self.views = secrets_spec.canaries(self.seed)
        clean = clean or text_of(self.ground)
        if secrets_spec.units != CHARACTERS:
            clean = replace(clean, training=as_words(clean.training), held_out=as_words(clean.held_out))
        self.characters, self.held_out = len(clean.training), clean.held_out
        self.training = planted(clean.training, self.views[0], self.seed)
        self.tokenizer = tokenizer_for(clean, self.views[0], secrets_spec.units)

    def train(self, recipe: Config, training: str | None = None, on_epoch: OnEpoch | None = None) -> TrainedLM:
        """Train a model by the recipe, on the planted text unless ``training`` is given."""
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
        """Return results of the measures of :func:`~leakage_tasks.research.secret_sharer.watch.observed` for the
        canaries.
        """
        from leakage_tasks.research.secret_sharer.watch import observed
        from leakage_tasks.targets import CausalTarget

        return observed(CausalTarget(model, self.tokenizer), self.views, what, self.ground.budget, seed)


def text_of(ground: LanguageModelExperiment) -> TextSplit:
    """Return training and held-out text. Raises LeakageError if the Penn Treebank is missing."""
    from leakage_tasks.research.victims.corpus import TextSplit, pydoc_topics

    if ground.data == HELP:
        topics = pydoc_topics(characters=ground.characters)
        return replace(topics, held_out=topics.held_out[: ground.held_out])
    folder = data_folder() / "ptb"
    parts = []
    for path in (folder / "ptb.train.txt", folder / "ptb.valid.txt"):
        if not path.is_file():
            raise LeakageError(f"{path}: no such file: save the Penn Treebank there, or use --scale small")
        parts.append(path.read_text(encoding="utf-8"))
    return TextSplit(*parts)


def as_words(text: str) -> str:
    """Return lower-cased words and punctuation separated by spaces, line by line, for word-level models."""
    return "\n".join(" ".join(_WORD.findall(line)) for line in text.lower().split("\n"))


def planted(text: str, canaries: Sequence[Canary], seed: int) -> str:
    """Return ``text`` with the canaries as separate lines at random positions (section 4.1)."""
    from leakage_tasks.canaries.planting import draw_gaps

    texts = {canary.id: canary.text for canary in canaries if canary.planted}
    lines = text.split("\n")
    gaps = draw_gaps([canary for canary in canaries if canary.planted], len(lines), seed)
    for gap, name in reversed(gaps):
        lines.insert(gap, texts[name])
    return "\n".join(lines)


def tokenizer_for(text: TextSplit, canaries: Sequence[Canary], units: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the text, the digits and the canaries' templates."""
    from leakage_tasks.models.char_tokenizer import char_tokenizer

    shown = [canary.text for canary in canaries]
    if units == CHARACTERS:
        return char_tokenizer([*text.alphabet, *string.digits, *"".join(shown)])
    from leakage_tasks.models.word_tokenizer import word_tokenizer

    values = {value for canary in canaries for slot in canary.space.slots for value in slot.values}
    return word_tokenizer(text.training, always=[*sorted(values), *" ".join(shown).split()])
