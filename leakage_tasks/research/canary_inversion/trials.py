"""Trials of the NLU studies: train a tagger on utterances with canaries and extract them by gradient descent.

n is the number of unknown tokens, and R the number of copies of a canary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.research.canary_inversion.experiment import (
    ALIKE,
    OVERTRAINED,
    SNIPS,
    SPREAD,
    Parts,
    TaggerExperiment,
    fingerprint,
    ground_at,
    utterances,
    vectors_of,
)
from leakage_tasks.research.framework.registry import Config, Result, Scale, StudyPlan, StudyTrial, registrar

if TYPE_CHECKING:
    from leakage_tasks.training.tagger.trainer import TrainedTagger

SCALES: Mapping[Scale, str] = {
    "smoke": "seconds, on the generated set",
    "small": "10 to 35 minutes of a core (table-3 two and a half hours, dp-sgd an hour and a half), less if "
    "another study of the paper has run before; --jobs for several cores; LEAKAGE_DATA for Snips and ATIS",
    "paper": "a GPU for days: 10 trials a setting on all of Snips, and FastText's vectors in LEAKAGE_DATA",
}
SEEDS = {"smoke": 1, "small": 10, "paper": 10}
PATTERNS = ("color", "pin", "call")
ONE_START = "one start"
ATTACKS: dict[str, Config] = {
    "published": {"relaxation": "softmax", "characters": "published"},
    ONE_START: {"relaxation": "softmax", "characters": "published", "finish": False, "restarts": 1},
    "adaptive": {"relaxation": "softmax", "characters": "adaptive"},
    "embedding": {"relaxation": "embedding", "characters": "published", "finish": False},
    "embedding, one start": {"relaxation": "embedding", "characters": "published", "finish": False, "restarts": 1},
    "gumbel": {"relaxation": "gumbel", "characters": "adaptive"},
    "straight-through": {"relaxation": "straight-through", "characters": "adaptive"},
}
"""``published`` is the paper's attack, as the best of five starts by loss before the discrete finish.

The paper mentions no restarts, so ``ONE_START`` is closest to it.
"""
PLAIN: Config = {"dropout": 0.0, "patience": None, "characters": False}
DEFENCES: dict[str, Config] = {
    "No defense": {},
    "Dropout (D)": {"dropout": 0.2},
    "Early Stopping (ES)": {"patience": 20},
    "Char. Emb. (CE)": {"characters": True},
    "D + ES": {"dropout": 0.2, "patience": 20},
    "ES + CE": {"patience": 20, "characters": True},
    "D + ES + CE": {"dropout": 0.2, "patience": 20, "characters": True},
}
"""Defences by their names in Table 3."""
MOST_EPOCHS = {"smoke": 2, "small": 100, "paper": 100}
"""Maximum number of epochs with early stopping, by scale."""
PRIVATE_EPOCHS, PRIVATE_BATCH, PRIVATE_RATE, DELTA = 20, 128, 1e-2, 1e-5
"""Training with DP-SGD; noise requires few steps, large batches and a larger learning rate."""
BUDGET = 21_000
"""Fillings scored for an exposure: all of 12^4."""


def victims(
    plan: StudyPlan,
    unknown: Mapping[str, int],
    copies: int,
    *,
    data: str = SNIPS,
    defence: Config | None = None,
    attacks: Sequence[str] = ("published", ONE_START),
    area_code: bool = False,
    made_vectors: bool = False,
) -> list[Config]:
    """List a config per seed, with a canary of each pattern. At ``paper`` each victim has the canary of one pattern.

    Args:
        plan: scale and seeds.
        unknown: number of unknown tokens by pattern.
        copies: copies of a canary, in the paper's count.
        data: name of the data set.
        defence: changes of the training; one with ``epsilon`` uses DP-SGD.
        attacks: names of the attacks.
        area_code: True if the area code of a call is known.
        made_vectors: True for fixed random embeddings, with longer training.
    """
    ground, defence_settings, smoke = ground_at(plan.scale, data), {**PLAIN, **(defence or {})}, plan.scale == "smoke"
    private = "epsilon" in defence_settings
    if made_vectors:
        ground = replace(ground, alike=ALIKE, spread=SPREAD, epochs=ground.epochs if smoke else OVERTRAINED)
    if private:
        epochs = ground.epochs if smoke else PRIVATE_EPOCHS
        ground = replace(ground, epochs=epochs, batch_size=PRIVATE_BATCH, learning_rate=PRIVATE_RATE)
    parts = [{pattern: n} for pattern, n in unknown.items()] if plan.scale == "paper" else [dict(unknown)]
    setting = {
        "ground": asdict(ground),
        "data": fingerprint(ground),
        "copies": ground.copies(copies),
        "published_copies": copies,
        "defence": defence_settings,
        "epochs": MOST_EPOCHS[plan.scale] if defence_settings["patience"] and not private else ground.epochs,
        "attacks": list(attacks),
        "steps": 3 if smoke else 250,
        "area_code": area_code,
    }
    seeds = plan.seeds(SEEDS[plan.scale])
    return [{**setting, "unknown": part, "seed": seed} for part in parts for seed in seeds]


def run(config: Config, shared: Path) -> Result:
    """Train a tagger and attack its canaries.

    ``found`` has an entry per pattern: for each attack, the wrong slots of its answer before the discrete finish
    (``relaxed``) and after it (``finished``), and the exposure of the true filling in bits.
    """
    ground = TaggerExperiment(**config["ground"])
    result, trained = attacked_tagger(config, ground, utterances(ground), _canaries(config), shared)
    return {**result, "epoch": trained.best_epoch, "epochs": len(trained.history)}


def attacked_tagger(
    config: Config, ground: TaggerExperiment, parts: Parts, canaries: Sequence[Any], shared: Path
) -> tuple[Result, TrainedTagger]:
    """Train a tagger on utterances with canaries and attack them.

    Args:
        config: config of the trial; its ``epochs`` and ``defence`` may be left out.
        ground: the trial's experiment.
        parts: training, validation and test utterances.
        canaries: a canary of each pattern.
        shared: folder of files that trials share.

    Returns:
        ``found`` of :func:`run` with the tagger's scores on the test utterances, and the tagger.
    """
    from leakage_tasks.targets.tagger.target import TaggerTarget
    from leakage_tasks.training.dp.private import DpConfig
    from leakage_tasks.training.tagger.trainer import NLURecipe, score_tagger, train_tagger
    from leakage_tasks.training.threads import one_thread

    defence = dict(config.get("defence", {}))
    epsilon = defence.pop("epsilon", None)
    copies, validation_copies = split(canaries)
    alphabets = sorted({slot.values for canary in canaries for slot in canary.space.slots})
    words = {word for row in [*parts.training, *copies] for word in row.words}
    recipe = NLURecipe(
        embedding_size=ground.embedding_size,
        hidden_size=ground.hidden_size,
        epochs=config.get("epochs", ground.epochs),
        learning_rate=ground.learning_rate,
        batch_size=ground.batch_size,
        embeddings=vectors_of(ground, words, alphabets, shared),
        frozen=ground.fixed,
        **defence,
    )
    with one_thread():
        trained = train_tagger(
            [*parts.training, *copies],
            [*parts.validation, *validation_copies],
            recipe,
            words=chain(*alphabets),
            seed=config["seed"],
            private=None if epsilon is None else DpConfig(epsilon=epsilon, delta=DELTA),
        )
        scores = score_tagger(trained.model, trained.tokenizer, parts.test)
        attacked = attacks_by_pattern(TaggerTarget(trained.model, trained.tokenizer), canaries, config)
    result = {"found": attacked, "intent_accuracy": scores.intent_accuracy, "slot_f1": scores.slot_f1}
    return result, trained


def _canaries(config: Config) -> list[Any]:
    from leakage_tasks.canaries.presets import nlu_canaries

    canaries = []
    shared: dict[str, Any] = {"repetitions": (config["copies"],), "seed": config["seed"]}
    for pattern, unknown in config["unknown"].items():
        code = "random" if config["area_code"] and pattern == "call" else None
        canaries += nlu_canaries(pattern, 1, unknown=unknown, area_code=code, id_prefix=f"{pattern}-", **shared)
    return canaries


def split(canaries: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the canaries' copies in the training and in the validation set, 9 : 1 (the paper's appendix A)."""
    from leakage_tasks.canaries.sidecar import repetitions_in
    from leakage_tasks.data.tagged import utterance_of

    def copies(part: Any) -> list[Any]:
        return [utterance_of(canary) for canary in canaries for _ in range(repetitions_in(part, canary.repetitions))]

    return copies("training"), copies("validation")


def attacks_by_pattern(target: Any, canaries: Sequence[Any], config: Config) -> dict[str, Any]:
    """Return exposure and wrong words of each attack by pattern, from attacks on the canaries of a trial."""
    from leakage_tasks.attacks import run_attack

    exposures = run_attack("class-loss", target, canaries, budget=BUDGET, seed=config["seed"], goal="exposure")
    by_pattern: dict[str, Any] = {
        pattern: {"exposure": finding.exposure, "method": finding.method, "attacks": {}}
        for pattern, finding in zip(config["unknown"], exposures, strict=True)
    }
    for name in config["attacks"]:
        settings = {**ATTACKS[name], "steps": config["steps"]}
        answers = run_attack("inversion", target, canaries, seed=config["seed"], goal="extraction", values=settings)
        for pattern, answer in zip(config["unknown"], answers, strict=True):
            by_pattern[pattern]["attacks"][name] = {
                "relaxed": [not right for right in answer.extra["unfinished"]],
                "finished": [not right for right in answer.correct or ()],
            }
    return by_pattern


def chosen(trials: Iterable[StudyTrial], pattern: str, unknown: int | None = None, **wanted: Any) -> list[Config]:
    """Return the results of a pattern in the trials whose config has these values."""
    return [
        trial.result["found"][pattern]
        for trial in trials
        if pattern in trial.config["unknown"]
        and unknown in (None, trial.config["unknown"][pattern])
        and wanted.items() <= {**trial.config, "set": trial.config["ground"]["data"]}.items()
    ]


register_study = registrar("nlu", "Parikh, Dupuy and Gupta 2022", SCALES, run)
"""A function that registers a study of this paper."""
