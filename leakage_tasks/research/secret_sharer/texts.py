"""The texts that studies of The Secret Sharer train on, secrets planted in them, and what models learn of these."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import Config
from leakage_tasks.research.framework.shared import data_folder
from leakage_tasks.research.secret_sharer.experiment import CHARACTERS, HELP, LanguageModelExperiment, Secrets

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from leakage_tasks.canaries import Canary
    from leakage_tasks.research.victims.corpus import Corpus
    from leakage_tasks.training.fitting import OnEpoch, TrainedLM

_WORD = re.compile(r"\w+|[^\w\s]")


class PlantedText:
    """A text with secrets in it: models are trained on it, and asked for the secrets."""

    def __init__(self, ground: LanguageModelExperiment, secrets: Secrets, seed: int) -> None:
        self.ground, self.seed = ground, seed
        self.views = secrets.canaries(seed)
        clean = text_of(ground)
        if secrets.units != CHARACTERS:
            clean = replace(clean, training=as_words(clean.training), held_out=as_words(clean.held_out))
        self.characters, self.held_out = len(clean.training), clean.held_out
        self.training = planted(clean.training, self.views[0], seed)
        self.tokenizer = tokenizer_for(clean, self.views[0], secrets.units)

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


def text_of(ground: LanguageModelExperiment) -> Corpus:
    """Training and held-out text. Raises LeakageError where the Penn Treebank is not there."""
    from leakage_tasks.research.victims.corpus import Corpus, pydoc_topics

    if ground.data == HELP:
        found = pydoc_topics(characters=ground.characters)
        return replace(found, held_out=found.held_out[: ground.held_out])
    folder = data_folder() / "ptb"
    parts = []
    for path in (folder / "ptb.train.txt", folder / "ptb.valid.txt"):
        if not path.is_file():
            raise LeakageError(f"{path}: no such file: put the Penn Treebank there, or run --scale small without it")
        parts.append(path.read_text(encoding="utf-8"))
    return Corpus(*parts)


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


def tokenizer_for(text: Corpus, canaries: Sequence[Canary], units: str) -> PreTrainedTokenizerFast:
    """A tokenizer that knows the text, the digits and the canaries' templates."""
    from leakage_tasks.models.char_tokenizer import char_tokenizer

    shown = [canary.text for canary in canaries]
    if units == CHARACTERS:
        return char_tokenizer([*text.alphabet, *string.digits, *"".join(shown)])
    from leakage_tasks.models.word_tokenizer import word_tokenizer

    values = {value for canary in canaries for slot in canary.space.slots for value in slot.values}
    return word_tokenizer(text.training, always=[*sorted(values), *" ".join(shown).split()])
