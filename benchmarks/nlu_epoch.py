"""An epoch of the NLU tagger's training, against the loop one would write by hand: prints JSON, utterances a second.

Data is Snips in the folder ``LEAKAGE_DATA``, else the generated set. ``hand`` is that loop: the same model from the
same weights, batches of the same rows as tensors that lie ready, the same Adam, clipped gradients, no bar. ``ours`` is
a whole call of :func:`~leakage_tasks.training.tagger.trainer.train_tagger` with one epoch, which makes the model,
encodes the rows and gathers the batches as well. Wanted: 0.8 of the speed. In one process on one thread, by turns, each
first in every other round; times are those of the processor (``process_time``), the best round of each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from leakage_tasks.data.utterances import Utterance, read_utterances  # noqa: E402
from leakage_tasks.training.rows import bucketed  # noqa: E402
from leakage_tasks.training.tagger.model import fresh_tagger  # noqa: E402
from leakage_tasks.training.tagger.rows import TaggedRows  # noqa: E402
from leakage_tasks.training.tagger.trainer import CLIP, NLURecipe, train_tagger  # noqa: E402

WANTED = 0.8


class Bench:
    """The rows, and an epoch of them as tensors."""

    def __init__(self, rows: list[Utterance], characters: bool) -> None:
        self.rows, self.recipe = rows, NLURecipe(epochs=1, characters=characters)
        model, tokenizer = fresh_tagger(rows, (), self.recipe, (), seed=0)
        encoded = TaggedRows(rows, tokenizer, model)
        batches = bucketed(encoded.lengths, self.recipe.batch_size, random.Random("rows:0"))
        self.tensors = [encoded.batch(batch) for batch in batches]
        self.losses: dict[str, float] = {}

    def ours(self) -> None:
        """An epoch by the lab."""
        self.losses["ours"] = train_tagger(self.rows, (), self.recipe, device="cpu").history[0].training

    def hand(self) -> None:
        """An epoch by hand; making the model is not timed."""
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
        """A new model for the loop by hand."""
        self.model, _ = fresh_tagger(self.rows, (), self.recipe, (), seed=0)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=self.recipe.learning_rate, fused=True)


def utterances(most: int) -> tuple[str, list[Utterance]]:
    """What is trained on, and its name."""
    data = os.environ.get("LEAKAGE_DATA")
    if data is not None and (Path(data) / "snips").is_dir():
        return "snips", read_utterances(Path(data) / "snips" / "train")[:most]
    from leakage_tasks.research.victims.nlu_grammar import write_nlu_data

    with tempfile.TemporaryDirectory() as folder:
        write_nlu_data(Path(folder) / "nlu")
        return "generated", read_utterances(Path(folder) / "nlu" / "train")[:most]


def spent(run: Callable[[], None]) -> float:
    """Seconds of processor time."""
    before = time.process_time()
    run()
    return time.process_time() - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="at most")
    parser.add_argument("--characters", action="store_true")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    name, rows = utterances(given.rows)
    bench = Bench(rows, given.characters)
    best = {"ours": float("inf"), "hand": float("inf")}
    for turn in range(given.rounds):
        for way in list(best)[:: 1 if turn % 2 else -1]:
            bench.start()
            best[way] = min(best[way], spent(getattr(bench, way)))
    ratio = best["hand"] / best["ours"]
    speeds = {f"{way}_utterances_a_second": round(len(rows) / seconds) for way, seconds in best.items()}
    found = {"data": name, "utterances": len(rows), **speeds, "losses": bench.losses}
    print(json.dumps({**found, "ratio": round(ratio, 3), "wanted": WANTED, "met": ratio >= WANTED}, indent=2))


if __name__ == "__main__":
    main()
