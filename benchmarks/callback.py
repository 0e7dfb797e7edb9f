"""Cost of ``ExposureCallback`` in a training run. Prints JSON.

A small GPT-2 is trained with ``transformers.Trainer`` on Python's help text with planted canaries, once without and
once with the callback. ``ratio`` is the CPU time with the callback divided by the time without it. ``share_of_runtime``
is the share of the wall time that its measurements took. ``same_weights`` is true if both runs end with weights that
are equal to the bit. ``--share 0`` measures at every epoch. ``--output`` stores trainer_state.json of the run with the
callback, for ``leakage plot training``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")


import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

from benchmarks.small_models import byte_level
from leakage_tasks import ExposureCallback
from leakage_tasks.canaries import make_canaries, plant, write_manifest
from leakage_tasks.research.victims.corpus import pydoc_topics
from leakage_tasks.training.callback.callback import BUDGET

TEMPLATE = "The random number of {unique}: {digits:9}."
LENGTH = 64


def rows(text: str, tokenizer: PreTrainedTokenizerFast) -> list[dict[str, torch.Tensor]]:
    """Split the text into rows of LENGTH tokens for the Trainer."""
    ids = torch.tensor([tokenizer.bos_token_id, *tokenizer(text, verbose=False)["input_ids"]])
    return [{"input_ids": row, "labels": row} for row in ids.split(LENGTH) if len(row) == LENGTH]


@dataclass(frozen=True)
class Data:
    """A text with planted canaries, a held-out text, and a tokenizer trained without canaries."""

    planted: str
    held_out: str
    tokenizer: PreTrainedTokenizerFast
    manifest: Path


def prepared(folder: Path, characters: int) -> Data:
    """Plant canaries in Python's help text, in ``folder``."""
    corpus = pydoc_topics(characters=characters)
    canaries = make_canaries(TEMPLATE, 6, repetitions=(1, 5, 20), controls=4, seed=0)
    write_manifest(canaries, folder / "canaries.jsonl")
    (folder / "text.txt").write_text(corpus.training, encoding="utf-8")
    plant(folder / "canaries.jsonl", folder / "text.txt", folder / "planted.txt", seed=0)
    planted = (folder / "planted.txt").read_text(encoding="utf-8")
    # A tokenizer trained on canaries would merge their digits into tokens that even an untrained model prefers.
    tokenizer = byte_level(corpus.training, 800)
    return Data(planted, corpus.held_out, tokenizer, folder / "canaries.jsonl")


def trained(options: argparse.Namespace, data: Data, watch: bool) -> dict[str, Any]:
    """Train once and return the CPU seconds, the weights and the trainer's state."""
    tokenizer = data.tokenizer
    set_seed(0)
    sizes = {"n_layer": 3, "n_embd": 128, "n_head": 4, "n_positions": LENGTH}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0, **sizes))
    arguments = TrainingArguments(
        output_dir=str(data.manifest.parent / "run"),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=64,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        eval_strategy="epoch",
        logging_strategy="epoch",
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=rows(data.planted, tokenizer),
        eval_dataset=rows(data.held_out, tokenizer),
        processing_class=tokenizer,
    )
    if watch:
        pace = {"every": options.every or "epoch", "share": options.share or None, "canaries": options.canaries}
        # Rows are cut at equal lengths, so a copy of a canary may be in two rows.
        ExposureCallback(data.manifest, budget=options.budget, strict=False, **pace).attach(trainer)
    started = time.process_time()
    trainer.train()
    spent = time.process_time() - started
    return {"seconds": spent, "weights": model.state_dict(), "state": trainer.state}


def main() -> None:
    """Train with and without the callback and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--characters", type=int, default=200_000)
    parser.add_argument("--every", type=int, help="steps between measurements (default: an epoch)")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--canaries", type=int, default=3, help="number of planted canaries and of controls to watch")
    parser.add_argument("--budget", type=int, default=BUDGET, help="sequences scored per canary and measurement")
    parser.add_argument("--output", type=Path, help="folder for trainer_state.json of the run with the callback")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as name:
        data = prepared(Path(name), options.characters)
        plain, watched = (trained(options, data, watch) for watch in (False, True))
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        watched["state"].save_to_json(str(options.output / "trainer_state.json"))
    looks = [entry for entry in watched["state"].log_history if "leakage/seconds" in entry]
    pairs = zip(plain["weights"].values(), watched["weights"].values(), strict=True)
    runtime = next(entry["train_runtime"] for entry in watched["state"].log_history if "train_runtime" in entry)
    figures = {
        "seconds": plain["seconds"],
        "seconds_watched": watched["seconds"],
        "ratio": watched["seconds"] / plain["seconds"],
        "share_of_runtime": sum(entry["leakage/seconds"] for entry in looks) / runtime,
        "same_weights": all(torch.equal(one, other) for one, other in pairs),
        "looks": [round(entry["leakage/seconds"], 2) for entry in looks],
        "skipped": sum(entry["leakage/skipped"] for entry in looks),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
