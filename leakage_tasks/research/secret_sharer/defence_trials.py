"""Trials of The Secret Sharer's defences: models trained with and without a defence, and their exposure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan
from leakage_tasks.research.secret_sharer.experiment import EXPERIMENTS, PlantedText

LEVELS: Mapping[Scale, Sequence[int]] = {"smoke": (256,), "small": (256, 16, 4), "paper": (256, 16, 4)}
"""Numbers of values a weight may have: the paper's, and smaller numbers."""
DROP = 50
BITS_WINDOW = 32


@dataclass(frozen=True)
class PrivateExperiment:
    """Size and training of our LSTM with DP-SGD."""

    hidden_size: int = 100
    """Units per layer."""
    layers: int = 1
    """Number of layers."""
    epochs: int = 40
    """Epochs of training."""
    batch_size: int = 64
    """Mean number of rows in a batch."""
    characters: int = 40_000
    """Maximum number of characters of the training text."""
    delta: float = 1e-5
    """The δ of every ε."""


_PRIVATE: Mapping[Scale, PrivateExperiment] = {
    "smoke": PrivateExperiment(hidden_size=16, epochs=1, characters=3_000),
    "small": PrivateExperiment(),
    "paper": PrivateExperiment(200, 2, 100, 256, 0),
}


def undefended(plan: StudyPlan) -> list[Config]:
    """List trials of models without a defence, measured as they are and with rounded weights."""
    return _configs(plan, "none", recipe=_usual(plan), levels=list(LEVELS[plan.scale]))


def sanitized(plan: StudyPlan) -> list[Config]:
    """List trials of models trained on the output of ``leakage sanitize``, which drops at most a tenth of the
    samples."""
    epochs = 1 if plan.scale == "smoke" else 20
    return _configs(plan, "sanitization", recipe=_usual(plan), drop=DROP, sanitize_epochs=epochs)


def _usual(plan: StudyPlan) -> Config:
    ground = EXPERIMENTS[plan.scale]
    small = {"units": 20} if plan.scale == "smoke" else {}
    return ground.recipe(patience=ground.patience, **small)


def private(plan: StudyPlan, optimizer: str, epsilon: float | None) -> list[Config]:
    """List trials of LSTMs trained with DP-SGD at ``epsilon``. If it is None, gradients are clipped without noise."""
    experiment = _PRIVATE[plan.scale]
    options = {"optimizer": optimizer, "learning_rate": {"rmsprop": 2e-3, "sgd": 1.0}[optimizer], "epsilon": epsilon}
    return _configs(plan, "dp-sgd", characters=experiment.characters, private=asdict(experiment), **options)


def not_private(plan: StudyPlan, optimizer: str) -> list[Config]:
    """List trials of LSTMs with the same number of units, trained on this text without DP-SGD."""
    experiment, ground = _PRIVATE[plan.scale], EXPERIMENTS[plan.scale]
    recipe = ground.recipe(
        architecture="lstm-1x320" if experiment.layers == 1 else "lstm-2x200",
        units=experiment.hidden_size,
        optimizer=optimizer,
        epochs=experiment.epochs,
        patience=ground.patience,
    )
    return _configs(plan, "none", characters=experiment.characters, recipe=recipe, levels=[])


def _configs(plan: StudyPlan, defence: str, characters: int | None = None, **more: Any) -> list[Config]:
    """List a trial per seed. ``characters`` changes the length of the text."""
    usual = EXPERIMENTS[plan.scale]
    ground = usual if characters is None else replace(usual, characters=characters)
    common = {"defence": defence, "ground": asdict(ground), **more}
    return [{**common, "seed": seed} for seed in plan.seeds(usual.seeds)]


def run(config: Config, shared: Path) -> Result:
    """Train and measure.

    ``models`` has an entry per model: ``name``, held-out ``loss`` in bits per character, and the exposure of the secret
    and of the controls in bits.
    """
    from leakage_tasks.training.threads import one_thread

    with one_thread():
        return _DEFENCES[config["defence"]](config, PlantedText(config, {"copies": config["ground"]["copies"]}))


def measured_model(name: str, model: Any, text: PlantedText) -> Result:
    """Return a model's held-out loss, and its exposure of the secret and the controls."""
    from leakage_tasks.training.fitting import bits
    from leakage_tasks.training.text_batches import Windows

    secret, *controls = [entry["exposure"]["bits"] for entry in text.observe(model, ("exposure",), text.seed)]
    checks = Windows(text.held_out, text.tokenizer, BITS_WINDOW, BITS_WINDOW, model.device)
    return {"name": name, "loss": bits(model, checks), "exposure": secret, "controls": controls}


def _plain(config: Config, text: PlantedText) -> Result:
    from leakage_tasks.research.victims.quantize import quantize

    model = text.train(config["recipe"]).model
    models = [measured_model("float32", model, text)]
    sizes = {}
    for levels in config["levels"]:
        rounded = deepcopy(model)
        done = quantize(rounded, levels)
        sizes[str(levels)] = {"packed": done.packed_bytes, "zlib": done.zlib_bytes, "stored": done.stored_bytes}
        models.append(measured_model(str(levels), rounded, text))
    return {"models": models, "sizes": sizes}


def _sanitized(config: Config, text: PlantedText) -> Result:
    from leakage_tasks.defences.ranking import character_lm, rank_samples

    lines = text.training.split("\n")
    ranked = rank_samples(lines, character_lm(lines, epochs=config["sanitize_epochs"]), seed=text.seed)
    orders = {"character": ranked, "sample": sorted(ranked, key=lambda sample: -sample.score("sample"))}
    secret = text.views[0][0].text
    ranks = {by: [sample.text for sample in order].index(secret) + 1 for by, order in orders.items()}
    drop = min(config["drop"], len(ranked) // 10)
    gone = {sample.text for sample in ranked[:drop]}
    clean = "\n".join(line for line in lines if line not in gone)
    models = [measured_model("sanitized", text.train(config["recipe"], clean).model, text)]
    return {"models": models, "places": ranks, "samples": len(ranked), "drop": drop}


def _private(config: Config, text: PlantedText) -> Result:
    from leakage_tasks.research.victims.private_lm import train_private_char_lm
    from leakage_tasks.training.dp.private import DpConfig

    experiment = PrivateExperiment(**config["private"])
    epsilon = config["epsilon"]
    trained = train_private_char_lm(
        text.training,
        DpConfig(noise_multiplier=0.0 if epsilon is None else None, epsilon=epsilon, delta=experiment.delta),
        tokenizer=text.tokenizer,
        epochs=experiment.epochs,
        batch_size=experiment.batch_size,
        optimizer=config["optimizer"],
        learning_rate=config["learning_rate"],
        hidden_size=experiment.hidden_size,
        layers=experiment.layers,
        seed=text.seed,
    )
    guarantee = trained.guarantee.to_json((1, 2 * text.ground.copies))
    return {"models": [measured_model("private", trained.model, text)], "promise": guarantee, "rows": trained.rows}


_DEFENCES: Mapping[str, Callable[[Config, PlantedText], Result]] = {
    "none": _plain,
    "sanitization": _sanitized,
    "dp-sgd": _private,
}
