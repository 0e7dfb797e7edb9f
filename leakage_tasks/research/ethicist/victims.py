"""The models and pairs of a trial of Ethicist, and the prompts tuned for them: each made once, in the shared folder."""

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
from leakage_tasks.research.framework.shared import sole_maker

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.targets.suffix.target import CausalSuffixes

MISSING = (
    "the public pairs are not here: set LEAKAGE_DATA to a folder with lm_extraction/ (train_prefix.npy and "
    "train_suffix.npy of the LM Extraction Benchmark) and gpt2/ (its tokenizer)"
)


@dataclass(frozen=True)
class Pairs:
    """The pairs to tune on, to stop tuning and fit confidences by, and to attack."""

    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]


def pairs_of(config: Config, shared: Path) -> Pairs:
    """The split, the same for all seeds. Raises LeakageError where the public pairs are missing."""
    from leakage_tasks.pairs.source import Source, read_pairs

    victim = config["victim"]
    if isinstance(victim, str):
        data = str(_public() / "lm_extraction")
        return Pairs(*(read_pairs(Source(data, split=split)) for split in ("train", "validation", "test")))
    # The lab has drawn its pairs at random, so their order is as good as any.
    rows = read_pairs(Source(str(_lab(victim, config["data"], shared) / "pairs"), split="all"))
    first, second = len(rows) - config["test"] - config["validation"], len(rows) - config["test"]
    return Pairs(rows[:first], rows[first:second], rows[second:])


def suffixes_of(victim: Victim, data: str, shared: Path, prompt: Path | None = None) -> CausalSuffixes:
    """A model, behind a soft prompt if one is given, to draw suffixes from."""
    from leakage_tasks.targets.causal.target import CausalTarget
    from leakage_tasks.targets.suffix.target import CausalSuffixes

    target = _loaded(victim, data, shared)
    if prompt is not None:
        from peft import PeftModel

        behind: Any = PeftModel.from_pretrained(target.model, str(prompt))
        target = CausalTarget(behind.eval(), target.tokenizer)
    return CausalSuffixes(target)


def tuned_prompt(config: Config, pairs: Pairs, shared: Path) -> Path:
    """The folder of the prompt that a trial's ``tuning`` and ``seed`` give, tuned if it is not there yet."""
    from leakage_tasks.training.prompt.settings import PromptSettings
    from leakage_tasks.training.prompt.tuning import tune_prompt

    victim, settings = config["victim"], PromptSettings(**config["tuning"], seed=config["seed"])
    key = {name: config[name] for name in ("victim", "data", "test", "validation", "tuning", "seed")}
    folder = shared / f"prompt-{_hash(key)}"
    with sole_maker(folder) as missing:
        if missing:
            model = _loaded(victim, config["data"], shared).model
            tuned = tune_prompt(model, pairs.train, pairs.validation, settings, progress=False)
            tuned.save(folder, _name(victim, config["data"], shared))
    return folder


def tuning_record(folder: Path) -> dict[str, Any]:
    """How the tuning in ``folder`` went: epochs run, the best one, and its validation losses in bits a token."""
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    best = next(each for each in record["losses"] if each["epoch"] == record["best_epoch"])
    return {"epochs": len(record["losses"]), "best": record["best_epoch"], "validation": best["validation"]}


def _loaded(victim: Victim, data: str, shared: Path) -> Any:
    from leakage_tasks.targets.suffix.target import load_causal_target
    from leakage_tasks.training.rows import chosen_device

    # A model of the lab's own is so small that a GPU would only change its last digits.
    device = chosen_device(None if isinstance(victim, str) else "cpu")
    return load_causal_target(_name(victim, data, shared), "the attacked model", device=device)


def _name(victim: Victim, data: str, shared: Path) -> str:
    return victim if isinstance(victim, str) else str(_lab(victim, data, shared) / "model")


def _lab(victim: dict[str, Any], data: str, shared: Path) -> Path:
    """The folder of a lab model and its pairs, made if it is not there yet."""
    from leakage_tasks.research.ethicist.reading import make_lab

    recipe = victim["recipe"]
    folder = shared / f"lab-{recipe['layers']}x{recipe['hidden']}-{_hash({'victim': victim, 'data': data})}"
    with sole_maker(folder) as missing:
        if missing:
            make_lab(victim, folder, _public() if recipe["public"] else None)
    return folder


def _public() -> Path:
    folder = Path(os.environ.get("LEAKAGE_DATA", ""))
    if not os.environ.get("LEAKAGE_DATA") or not (folder / "lm_extraction").is_dir():
        raise LeakageError(MISSING)
    return folder


def _hash(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
