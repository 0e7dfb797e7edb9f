"""Training speed of the NLU tagger, compared with a hand-written loop. Prints utterances per second as JSON.

The data are Snips in the folder ``LEAKAGE_DATA``, or else the generated data set. ``hand`` is the hand-written loop:
the model with equal initial weights, prepared batches of equal rows as tensors, Adam and clipped gradients, without a
progress bar. ``ours`` is a call of :func:`~leakage_tasks.training.tagger.trainer.train_tagger` with one epoch, which
also builds the model, encodes the rows and collects the batches. Goal: 0.8 of the speed of ``hand``. Both alternate in
one process on one thread, also in who is first; the best round by processor time (``process_time``) counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from pathlib import Path

import torch

from benchmarks.clock import cpu_seconds
from leakage_tasks.data.utterances import Utterance, read_utterances
from leakage_tasks.training.rows import bucketed
from leakage_tasks.training.tagger.model import fresh_tagger
from leakage_tasks.training.tagger.rows import TaggedRows
from leakage_tasks.training.tagger.trainer import CLIP, NLURecipe, train_tagger

WANTED = 0.8


class Bench:
    """The rows, and the batches of one epoch as tensors."""

    def __init__(self, rows: list[Utterance], characters: bool) -> None:
        self.rows, self.recipe = rows, NLURecipe(epochs=1, characters=characters)
        model, tokenizer = fresh_tagger(rows, (), self.recipe, (), seed=0)
        encoded = TaggedRows(rows, tokenizer, model)
        batches = bucketed(encoded.lengths, self.recipe.batch_size, random.Random("rows:0"))
        self.tensors = [encoded.batch(batch) for batch in batches]
        self.losses: dict[str, float] = {}

    def ours(self) -> None:
        """Train one epoch with the package."""
        self.losses["ours"] = train_tagger(self.rows, (), self.recipe, device="cpu").history[0].training

    def hand(self) -> None:
        """Train one epoch with the hand-written loop; building the model is not timed."""
        total = 0.0
        for batch in self.tensors:
            self.optimiser.zero_grad()
            loss = self.model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            self.optimiser.step()
            total += loss.item() * len(batch["labels"])
        self.losses["hand"] = total / len(self.rows)

    def start(self) -> None:
        """Build a new model for the hand-written loop."""
        self.model, _ = fresh_tagger(self.rows, (), self.recipe, (), seed=0)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=self.recipe.learning_rate, fused=True)


def utterances(most: int) -> tuple[str, list[Utterance]]:
    """Return the name of the data and at most ``most`` utterances."""
    data = os.environ.get("LEAKAGE_DATA")
    if data is not None and (Path(data) / "snips").is_dir():
        return "snips", read_utterances(Path(data) / "snips" / "train")[:most]
    from leakage_tasks.research.victims.nlu_grammar import write_nlu_data

    with tempfile.TemporaryDirectory() as folder:
        write_nlu_data(Path(folder) / "nlu")
        return "generated", read_utterances(Path(folder) / "nlu" / "train")[:most]


def main() -> None:
    """Measure both loops and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="maximum number of utterances")
    parser.add_argument("--characters", action="store_true")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    name, rows = utterances(options.rows)
    bench = Bench(rows, options.characters)
    best = {"ours": float("inf"), "hand": float("inf")}
    for turn in range(options.rounds):
        for loop in list(best)[:: 1 if turn % 2 else -1]:
            bench.start()
            best[loop] = min(best[loop], cpu_seconds(getattr(bench, loop)))
    ratio = best["hand"] / best["ours"]
    speeds = {f"{loop}_utterances_a_second": round(len(rows) / seconds) for loop, seconds in best.items()}
    results = {"data": name, "utterances": len(rows), **speeds, "losses": bench.losses}
    print(json.dumps({**results, "ratio": round(ratio, 3), "wanted": WANTED, "met": ratio >= WANTED}, indent=2))


if __name__ == "__main__":
    main()
