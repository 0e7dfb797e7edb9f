"""The models and pairs of a trial of Ethicist, and the prompts tuned for them: each made once, in the shared folder.

A lab model has read other text since it learnt its pairs, as real models have. What it knew by heart is then partly
covered, not gone: there is something for a soft prompt to bring back. A model fresh from its pairs says them best after
the bare prefix, so that tuning adds nothing.
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
from leakage_tasks.research.framework.shared import sole_maker

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.research.victims.pair_corpus import PairCorpus
    from leakage_tasks.targets.suffix.target import CausalSuffixes

MISSING = (
    "the public pairs are not here: set LEAKAGE_DATA to a folder with lm_extraction/ (train_prefix.npy and "
    "train_suffix.npy of the LM Extraction Benchmark) and gpt2/ (its tokenizer)"
)
BATCH, CLIP = 16, 1.0
"""Rows a batch and the largest norm of a gradient, when a lab model reads on."""


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
    from leakage_tasks.training.rows import select_device

    # A model of the lab's own is so small that a GPU would only change its last digits.
    device = select_device(None if isinstance(victim, str) else "cpu")
    return load_causal_target(_name(victim, data, shared), "the attacked model", device=device)


def _name(victim: Victim, data: str, shared: Path) -> str:
    return victim if isinstance(victim, str) else str(_lab(victim, data, shared) / "model")


def _lab(victim: dict[str, Any], data: str, shared: Path) -> Path:
    """The folder of a lab model and its pairs, made if it is not there yet."""
    recipe = victim["recipe"]
    folder = shared / f"lab-{recipe['layers']}x{recipe['hidden']}-{_hash({'victim': victim, 'data': data})}"
    with sole_maker(folder) as missing:
        if missing:
            make_lab(victim, folder, _public() if recipe["public"] else None)
    return folder


def make_lab(victim: dict[str, Any], folder: Path, data: Path | None) -> None:
    """Make ``model``, ``pairs`` and ``record.json`` in ``folder``, which is replaced whole.

    ``victim`` has the fields of a :class:`~leakage_tasks.research.victims.pair_lm.PairRecipe` as ``recipe``, and
    ``reading``: how many batches of other text the model reads after its pairs, at the learning rate ``reading_rate``.
    ``data`` is the folder of the public pairs. ``record.json`` has the greedy recall of the first pairs before and
    after.
    """
    from leakage_tasks.research.victims.pair_lm import PairRecipe, save_pair_lm
    from leakage_tasks.research.victims.pair_training import PROBE, greedy_recall, train_pair_lm

    # JSON has no tuples.
    recipe_fields: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in victim["recipe"].items()
    }
    recipe = PairRecipe(**recipe_fields)
    corpus = recipe.corpus(0, data)
    trained = train_pair_lm(corpus, recipe, device="cpu")
    read_on(trained.model, corpus, victim["reading"], victim["reading_rate"])
    after = greedy_recall(trained.model, corpus.prefixes[:PROBE], corpus.suffixes[:PROBE])
    record = {**victim, "recipe": asdict(recipe), "recalls": trained.recalls, "after": after}
    save_pair_lm(folder, trained, corpus, "record.json", record)


def read_on(model: Any, corpus: PairCorpus, steps: int, learning_rate: float, seed: int = 0) -> None:
    """Train on ``steps`` batches of 16 rows of the corpus' other text, all of whose tokens are learnt; AdamW.

    The model is left in evaluation mode, the caller's random state alone.
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
