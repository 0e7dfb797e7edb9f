"""A trial of The Secret Sharer in the Penn Treebank's small parts, with models of the paper's size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.framework.registry import Config, Result, StudyPlan
from leakage_tasks.research.framework.shared import data_folder, file_hash
from leakage_tasks.research.secret_sharer.experiment import (
    CHARACTERS,
    EXPERIMENTS,
    PAPER,
    PTB,
    LanguageModelExperiment,
    PlantedText,
    Secrets,
    Watch,
    planted,
    text_of,
    tokenizer_for,
)
from leakage_tasks.research.secret_sharer.trials import EPOCHS

if TYPE_CHECKING:
    from leakage_tasks.research.victims.corpus import TextSplit

TRAINED_ON, SPLIT = "ptb.test.txt", "ptb.valid.txt"
"""The part that is trained on whole, and the one whose beginning is held out."""
TREEBANK = replace(PAPER, held_out=50_000, epochs=30, batch_size=32, budget=10_000, seeds=3)
"""All of the two parts; the paper's one copy, model and windows, and as many steps as the paper's best epoch has."""


def treebank_configs(plan: StudyPlan, watch: Watch, variants: Iterable[Config] = ({},)) -> list[Config]:
    """A trial for each seed and recipe that differs from the paper's as a variant says; ``smoke`` reads help text.

    Training is stopped early where only the best epoch is watched.
    """
    ground = EXPERIMENTS["smoke"] if plan.scale == "smoke" else TREEBANK
    parts = {name: file_hash(_folder() / name) for name in (TRAINED_ON, SPLIT)} if ground.data == PTB else {}
    patience = ground.epochs if watch.epochs else ground.patience
    found = []
    for variant in variants:
        own = {
            "ground": asdict(ground),
            "parts": parts,
            "recipe": ground.recipe(**{"patience": patience, **variant}),
            "secrets": asdict(Secrets(copies=ground.copies)),
            "watch": asdict(watch),
        }
        found += [{**own, "seed": seed} for seed in plan.seeds(ground.seeds)]
    return found


class TreebankText(PlantedText):
    """The two parts with secrets in them, read as characters; Python's help text where a trial's ground says so."""

    def __init__(self, config: Config) -> None:
        """Raise LeakageError where a part is not there."""
        self.ground, self.seed = LanguageModelExperiment(**config["ground"]), config["seed"]
        self.views = Secrets(**config["secrets"]).canaries(self.seed)
        clean = _parts(self.ground.held_out) if self.ground.data == PTB else text_of(self.ground)
        self.characters, self.held_out = len(clean.training), clean.held_out
        self.training = planted(clean.training, self.views[0], self.seed)
        self.tokenizer = tokenizer_for(clean, self.views[0], CHARACTERS)


def run(config: Config, shared: Path) -> Result:
    """Train a model and look at its canaries; the result is as that of the paper's other trials.

    See :func:`leakage_tasks.research.secret_sharer.trials.run`.
    """
    from leakage_tasks.training.threads import one_thread

    text, watch = TreebankText(config), Watch(**config["watch"])
    seen: dict[str, list[Config]] = {}

    def look(name: str, model: Any, what: Sequence[str]) -> None:
        seen[name] = text.observe(model, what, EPOCHS * text.seed + len(seen))

    def on_epoch(epoch: int, model: Any, losses: Sequence[Any]) -> None:
        if watch.epochs:
            look(str(epoch), model, watch.what)

    with one_thread():
        trained = text.train(config["recipe"], on_epoch=on_epoch)
        look("best", trained.model, watch.at_best)
    losses = [[each.training, each.validation or 0.0] for each in trained.losses]
    best = min(range(len(losses)), key=lambda place: losses[place][1]) + 1
    return {
        "seen": seen,
        "losses": losses,
        "best": best,
        "parameters": trained.model.num_parameters(),
        "characters": text.characters,
    }


def _folder() -> Path:
    return data_folder() / "ptb"


def _parts(held_out: int) -> TextSplit:
    """One part and most of the other to train on, and so many characters to hold out, up to the end of a line."""
    from leakage_tasks.research.victims.corpus import TextSplit

    texts = []
    for path in (_folder() / TRAINED_ON, _folder() / SPLIT):
        if not path.is_file():
            raise LeakageError(
                f"{path}: no such file: set LEAKAGE_DATA to a folder with the Penn Treebank's parts in ptb/"
            )
        texts.append(path.read_text(encoding="utf-8"))
    whole, split = texts
    end = split.index("\n", held_out) + 1
    return TextSplit(training=whole + split[end:], held_out=split[:end])
