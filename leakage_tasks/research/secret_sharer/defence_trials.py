"""A trial of The Secret Sharer's defences: models trained with one and without it, and what they know of the secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan
from leakage_tasks.research.secret_sharer.experiment import CHARACTERS, LanguageModelExperiment, Secrets, ground_at

LEVELS: Mapping[Scale, Sequence[int]] = {"smoke": (256,), "small": (256, 16, 4), "paper": (256, 16, 4)}
"""Values a weight may have; the paper's, and fewer."""
DROP = 50
BITS_WINDOW = 32


@dataclass(frozen=True)
class PrivateExperiment:
    """How the lab's LSTM is trained with DP-SGD; ``epochs`` of batches of ``batch_size`` rows, and its size."""

    hidden_size: int = 100
    layers: int = 1
    epochs: int = 40
    batch_size: int = 64
    characters: int = 40_000
    delta: float = 1e-5


_PRIVATE: Mapping[Scale, PrivateExperiment] = {
    "smoke": PrivateExperiment(hidden_size=16, epochs=1, characters=3_000),
    "small": PrivateExperiment(),
    "paper": PrivateExperiment(200, 2, 100, 256, 0),
}


def undefended(plan: StudyPlan, seed: int) -> Config:
    """A model trained as usual; looked at as it is, and with its weights rounded."""
    return _config("none", ground_at(plan.scale), seed, recipe=_usual(plan), levels=list(LEVELS[plan.scale]))


def sanitized(plan: StudyPlan, seed: int) -> Config:
    """A model trained on what ``leakage sanitize`` leaves; it drops a tenth of the samples at most."""
    epochs = {"smoke": 1, "small": 20, "paper": 20}[plan.scale]
    more = {"drop": DROP, "sanitize_epochs": epochs}
    return _config("sanitization", ground_at(plan.scale), seed, recipe=_usual(plan), **more)


def _usual(plan: StudyPlan) -> Config:
    ground = ground_at(plan.scale)
    small = {"units": 20} if plan.scale == "smoke" else {}
    return ground.recipe(patience=ground.patience, **small)


def private(plan: StudyPlan, seed: int, optimizer: str, epsilon: float | None) -> Config:
    """The lab's LSTM with DP-SGD at ``epsilon``; None clips alone."""
    own = _PRIVATE[plan.scale]
    rate = {"rmsprop": 2e-3, "sgd": 1.0}[optimizer]
    how = {"optimizer": optimizer, "learning_rate": rate, "epsilon": epsilon}
    return _config("dp-sgd", _ground(plan, own), seed, private=asdict(own), **how)


def not_private(plan: StudyPlan, seed: int, optimizer: str) -> Config:
    """An LSTM of the same units, trained on the same text without DP-SGD."""
    own = _PRIVATE[plan.scale]
    ground = _ground(plan, own)
    name = "lstm-1x320" if own.layers == 1 else "lstm-2x200"
    recipe = ground.recipe(
        architecture=name, units=own.hidden_size, optimizer=optimizer, epochs=own.epochs, patience=ground.patience
    )
    return _config("none", ground, seed, recipe=recipe, levels=[])


def _ground(plan: StudyPlan, own: PrivateExperiment) -> LanguageModelExperiment:
    return replace(ground_at(plan.scale), characters=own.characters)


def _config(defence: str, ground: LanguageModelExperiment, seed: int, **more: Any) -> Config:
    return {"defence": defence, "ground": asdict(ground), "seed": seed, **more}


def run(config: Config, shared: Path) -> Result:
    """Train and look: ``models`` has an entry each with ``name``, held-out ``loss`` in bits a character, and the
    exposure of the secret and of the controls in bits."""
    from leakage_tasks.training.threads import one_thread

    with one_thread():
        return _DEFENCES[config["defence"]](config, _Bench(LanguageModelExperiment(**config["ground"]), config["seed"]))


class _Bench:
    """The planted text, and how a model trained on it is looked at."""

    def __init__(self, ground: LanguageModelExperiment, seed: int) -> None:
        from leakage_tasks.research.secret_sharer.texts import planted, prepared, tokenizer_for

        self.ground, self.seed = ground, seed
        (self.canaries,) = Secrets(copies=ground.copies).canaries(seed)
        text = prepared(ground, CHARACTERS)
        self.held_out = text.held_out
        self.text = planted(text.training, self.canaries, seed)
        self.tokenizer = tokenizer_for(text, self.canaries, CHARACTERS)

    def train(self, recipe: Config, text: str | None = None) -> Any:
        """A model by the lab's recipe, on the planted text unless on another."""
        from leakage_tasks.research.victims.language_model import LanguageModelRecipe, train_lm

        settings: dict[str, Any] = {"validation": self.held_out, "tokenizer": self.tokenizer, "seed": self.seed}
        return train_lm(self.text if text is None else text, LanguageModelRecipe(**recipe), **settings).model

    def look(self, name: str, model: Any) -> Result:
        """Its held-out loss, and what it knows."""
        from leakage_tasks.research.secret_sharer.watch import observed
        from leakage_tasks.targets import CausalTarget
        from leakage_tasks.training.fitting import bits
        from leakage_tasks.training.text_batches import Windows

        target = CausalTarget(model, self.tokenizer)
        seen = observed(target, [self.canaries], ("exposure",), self.ground.budget, self.seed)
        checks = Windows(self.held_out, self.tokenizer, BITS_WINDOW, BITS_WINDOW, model.device)
        exposures = {each["canary"]: each["exposure"]["bits"] for each in seen}
        secret = exposures.pop(self.canaries[0].id)
        return {"name": name, "loss": bits(model, checks), "exposure": secret, "controls": list(exposures.values())}


def _plain(config: Config, bench: _Bench) -> Result:
    from leakage_tasks.research.victims.quantize import quantize

    model = bench.train(config["recipe"])
    models = [bench.look("float32", model)]
    sizes = {}
    for levels in config["levels"]:
        rounded = deepcopy(model)
        done = quantize(rounded, levels)
        sizes[str(levels)] = {"packed": done.packed_bytes, "zlib": done.zlib_bytes, "stored": done.stored_bytes}
        models.append(bench.look(str(levels), rounded))
    return {"models": models, "sizes": sizes}


def _sanitized(config: Config, bench: _Bench) -> Result:
    from leakage_tasks.defences.sanitize import character_lm, rank_samples

    lines = bench.text.split("\n")
    ranked = rank_samples(lines, character_lm(lines, epochs=config["sanitize_epochs"]), seed=bench.seed)
    secret = bench.canaries[0].text
    by_sample = sorted(ranked, key=lambda sample: -sample.score("sample"))
    places = {
        by: next(place for place, sample in enumerate(order, 1) if sample.text == secret)
        for by, order in (("character", ranked), ("sample", by_sample))
    }
    drop = min(config["drop"], len(ranked) // 10)
    gone = {sample.text for sample in ranked[:drop]}
    clean = "\n".join(line for line in lines if line not in gone)
    models = [bench.look("sanitized", bench.train(config["recipe"], clean))]
    return {"models": models, "places": places, "samples": len(ranked), "drop": drop}


def _private(config: Config, bench: _Bench) -> Result:
    from leakage_tasks.research.victims.private_lm import train_private_char_lm
    from leakage_tasks.training.dp.private import DpConfig

    own = PrivateExperiment(**config["private"])
    epsilon = config["epsilon"]
    trained = train_private_char_lm(
        bench.text,
        DpConfig(noise_multiplier=0.0 if epsilon is None else None, epsilon=epsilon, delta=own.delta),
        tokenizer=bench.tokenizer,
        epochs=own.epochs,
        batch_size=own.batch_size,
        optimizer=config["optimizer"],
        learning_rate=config["learning_rate"],
        hidden_size=own.hidden_size,
        layers=own.layers,
        seed=bench.seed,
    )
    promise = trained.promise.to_json((1, 2 * bench.ground.copies))
    return {"models": [bench.look("private", trained.model)], "promise": promise, "rows": trained.rows}


_DEFENCES: Mapping[str, Callable[[Config, _Bench], Result]] = {
    "none": _plain,
    "sanitization": _sanitized,
    "dp-sgd": _private,
}
