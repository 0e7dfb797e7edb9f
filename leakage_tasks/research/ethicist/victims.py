"""Models, pairs and tuned prompts of Ethicist's trials, each created once in the shared folder.

A model trained here reads other text after its pairs, as real models do. This weakens its memory of the pairs, which a
soft prompt can then restore. Directly after training on the pairs, a bare prefix works best and tuning adds nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.ethicist.experiment import Victim
from leakage_tasks.research.framework.registry import Config
from leakage_tasks.research.framework.shared import create_once

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.targets.suffix.target import CausalSuffixes

MISSING = (
    "the public pairs are missing: set LEAKAGE_DATA to a folder with lm_extraction/ (train_prefix.npy and "
    "train_suffix.npy of the LM Extraction Benchmark) and gpt2/ (its tokenizer)"
)


@dataclass(frozen=True)
class Pairs:
    """The pairs for tuning, for early stopping and confidences, and for the attack."""

    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]


def pairs_of(config: Config, shared: Path) -> Pairs:
    """Return the split of the pairs, which is identical for all seeds. Raises LeakageError if the public pairs are
    missing."""
    from leakage_tasks.pairs.source import Source, read_pairs

    victim = config["victim"]
    if isinstance(victim, str):
        data = str(_public() / "lm_extraction")
        return Pairs(*(read_pairs(Source(data, split=split)) for split in ("train", "validation", "test")))
    # These pairs were drawn at random, so they need no further shuffling.
    rows = read_pairs(Source(str(_lab(victim, config["data"], shared) / "pairs"), split="all"))
    first, second = len(rows) - config["test"] - config["validation"], len(rows) - config["test"]
    return Pairs(rows[:first], rows[first:second], rows[second:])


def suffixes_of(victim: Victim, data: str, shared: Path, prompt: Path | None = None) -> CausalSuffixes:
    """Return a model, with a soft prompt if given, to draw suffixes from."""
    from leakage_tasks.targets.causal.target import CausalTarget
    from leakage_tasks.targets.suffix.target import CausalSuffixes

    target = _loaded(victim, data, shared)
    if prompt is not None:
        from peft import PeftModel

        with_prompt: Any = PeftModel.from_pretrained(target.model, str(prompt))
        target = CausalTarget(with_prompt.eval(), target.tokenizer)
    return CausalSuffixes(target)


def tuned_prompt(config: Config, pairs: Pairs, shared: Path) -> Path:
    """Return the folder of the prompt for a trial's ``tuning`` and ``seed``; tune it if it does not exist."""
    from leakage_tasks.training.prompt.settings import PromptSettings
    from leakage_tasks.training.prompt.tuning import tune_prompt

    victim, settings = config["victim"], PromptSettings(**config["tuning"], seed=config["seed"])
    key = {name: config[name] for name in ("victim", "data", "test", "validation", "tuning", "seed")}
    folder = shared / f"prompt-{_hash(key)}"
    with create_once(folder) as missing:
        if missing:
            model = _loaded(victim, config["data"], shared).model
            tuned = tune_prompt(model, pairs.train, pairs.validation, settings, progress=False)
            tuned.save(folder, _name(victim, config["data"], shared))
    return folder


def tuning_record(folder: Path) -> dict[str, Any]:
    """Return the record of a tuning: epochs, the best epoch, and its validation loss in bits per token."""
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    best = next(epoch for epoch in record["losses"] if epoch["epoch"] == record["best_epoch"])
    return {"epochs": len(record["losses"]), "best": record["best_epoch"], "validation": best["validation"]}


def _loaded(victim: Victim, data: str, shared: Path) -> Any:
    from leakage_tasks.targets.suffix.target import load_causal_target
    from leakage_tasks.training.rows import select_device

    # Models trained here are small; a GPU would only change the last digits.
    device = select_device(None if isinstance(victim, str) else "cpu")
    return load_causal_target(_name(victim, data, shared), "the attacked model", device=device)


def _name(victim: Victim, data: str, shared: Path) -> str:
    return victim if isinstance(victim, str) else str(_lab(victim, data, shared) / "model")


def _lab(victim: dict[str, Any], data: str, shared: Path) -> Path:
    """Return the folder of a model trained here and its pairs; train it if it does not exist."""
    from leakage_tasks.research.victims.pair_lm import PairRecipe, lab_pair_lm

    recipe = victim["recipe"]
    folder = shared / f"lab-{recipe['layers']}x{recipe['hidden']}-{_hash({'victim': victim, 'data': data})}"
    with create_once(folder) as missing:
        if missing:
            lab_pair_lm(
                PairRecipe.from_json(recipe),
                folder,
                data=_public() if recipe["public"] else None,
                device="cpu",
                reading=victim["reading"],
                reading_rate=victim["reading_rate"],
            )
    return folder


def _public() -> Path:
    folder = Path(os.environ.get("LEAKAGE_DATA", ""))
    if not os.environ.get("LEAKAGE_DATA") or not (folder / "lm_extraction").is_dir():
        raise LeakageError(MISSING)
    return folder


def _hash(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
