"""Models, pairs and tuned prompts of Ethicist's trials, each created once in the shared folder.

A model trained here reads other text after its pairs, as real models do. This weakens its memory of the pairs, which a
soft prompt can then restore. Directly after training on the pairs, a bare prefix works best and tuning adds nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.research.ethicist.experiment import Victim
from leakage_tasks.research.framework.registry import Config
from leakage_tasks.research.framework.shared import create_once

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.research.victims.pair_corpus import PairCorpus
    from leakage_tasks.targets.suffix.target import CausalSuffixes

MISSING = (
    "the public pairs are missing: set LEAKAGE_DATA to a folder with lm_extraction/ (train_prefix.npy and "
    "train_suffix.npy of the LM Extraction Benchmark) and gpt2/ (its tokenizer)"
)
BATCH, CLIP = 16, 1.0
"""Rows per batch and the largest gradient norm, when a model is trained on other text."""


@dataclass(frozen=True)
class Pairs:
    """The pairs for tuning, for early stopping and confidences, and for the attack."""

    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]


def pairs_of(config: Config, shared: Path) -> Pairs:
    """Return the split, identical for all seeds. Raises LeakageError if the public pairs are missing."""
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
    recipe = victim["recipe"]
    folder = shared / f"lab-{recipe['layers']}x{recipe['hidden']}-{_hash({'victim': victim, 'data': data})}"
    with create_once(folder) as missing:
        if missing:
            make_lab(victim, folder, _public() if recipe["public"] else None)
    return folder


def make_lab(victim: dict[str, Any], folder: Path, data: Path | None) -> None:
    """Train a model; write ``model``, ``pairs`` and ``record.json`` to ``folder``, which is replaced completely.

    ``victim`` has the fields of a :class:`~leakage_tasks.research.victims.pair_lm.PairRecipe` as ``recipe``, and
    ``reading``: the number of batches of other text after the pairs, with the learning rate ``reading_rate``. ``data``
    is the folder of the public pairs. ``record.json`` has the greedy recall of the first pairs before and after this
    text.
    """
    from leakage_tasks.research.victims.pair_lm import PairRecipe, save_pair_lm
    from leakage_tasks.research.victims.pair_training import PROBE, greedy_recall, train_pair_lm

    # JSON has no tuples.
    recipe_fields: dict[str, Any] = {
        name: tuple(field) if isinstance(field, list) else field for name, field in victim["recipe"].items()
    }
    recipe = PairRecipe(**recipe_fields)
    corpus = recipe.corpus(0, data)
    trained = train_pair_lm(corpus, recipe, device="cpu")
    read_on(trained.model, corpus, victim["reading"], victim["reading_rate"])
    after = greedy_recall(trained.model, corpus.prefixes[:PROBE], corpus.suffixes[:PROBE])
    record = {**victim, "recipe": asdict(recipe), "recalls": trained.recalls, "after": after}
    save_pair_lm(folder, trained, corpus, "record.json", record)


def read_on(model: Any, corpus: PairCorpus, steps: int, learning_rate: float, seed: int = 0) -> None:
    """Train on ``steps`` batches of 16 rows of the corpus' other text with AdamW; all tokens are learnt.

    The model is left in evaluation mode. The caller's random state does not change.
    """
    import numpy as np
    import torch
    from torch.nn.functional import cross_entropy

    from leakage_tasks.research.victims.pair_training import has_bf16, plain_attention

    stream = np.random.default_rng([seed, steps])
    optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    half = torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_bf16(model.device))
    model.train()
    with plain_attention(model, model.device):
        for _ in range(steps):
            ids = torch.from_numpy(corpus.filler[stream.integers(len(corpus.filler), size=BATCH)])
            with half:
                logits = model(input_ids=ids[:, :-1], use_cache=False).logits
            loss = cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
    model.eval()


def _public() -> Path:
    folder = Path(os.environ.get("LEAKAGE_DATA", ""))
    if not os.environ.get("LEAKAGE_DATA") or not (folder / "lm_extraction").is_dir():
        raise LeakageError(MISSING)
    return folder


def _hash(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
