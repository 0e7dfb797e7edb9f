"""Training speed of the 2×200 LSTM, compared with a hand-written loop. Prints characters per second as JSON.

``hand`` is the hand-written loop: ``nn.Embedding``, ``nn.LSTM`` and ``nn.Linear`` of equal sizes, the prepared tensors
of windows, RMSprop, mean cross entropy and clipped gradients, without a progress bar. ``ours`` is the loop of
:func:`~leakage_tasks.research.victims.language_model.train_lm`, including the drawing of windows. Goal: 0.8 of the
speed of ``hand``. Both alternate in one process on one thread; the best round by processor time (``process_time``)
counts.
"""

from __future__ import annotations

import argparse
import json
import random
import string

import torch
from torch import nn

from benchmarks.clock import cpu_seconds
from leakage_tasks.models.char_tokenizer import char_tokenizer
from leakage_tasks.research.victims.architectures import build
from leakage_tasks.training.fitting import TrainingConfig, fit
from leakage_tasks.training.optimizers import make_optimizer
from leakage_tasks.training.text_batches import DrawnWindows

WANTED = 0.8
CLIP = 1.0


class Bench:
    """One text, and a model for each loop."""

    def __init__(self, options: argparse.Namespace) -> None:
        stream = random.Random(0)
        self.text = "".join(stream.choices(string.ascii_lowercase + string.digits + " .\n", k=options.characters))
        self.tokenizer = char_tokenizer(self.text)
        self.batches = DrawnWindows(self.text, self.tokenizer, options.batch, options.length, torch.device("cpu"))
        self.model = build("lstm-2x200", self.tokenizer)
        self.bare = Bare(len(self.tokenizer), self.model.config.embedding_size)
        self.tensors = list(self.batches.epoch(1))

    def ours(self) -> None:
        """Train one epoch with the package."""
        optimiser = make_optimizer("rmsprop", self.model.parameters())
        fit(self.model, self.tokenizer, self.batches, optimiser, TrainingConfig(1, CLIP))

    def hand(self) -> None:
        """Train one epoch with the hand-written loop."""
        parameters = list(self.bare.parameters())
        optimiser = torch.optim.RMSprop(parameters, lr=1e-3, alpha=0.9)
        self.bare.train()
        for inputs, targets in self.tensors:
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(self.bare(inputs).flatten(0, 1), targets.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, CLIP)
            optimiser.step()


class Bare(nn.Module):
    """The network without `transformers`."""

    def __init__(self, vocabulary: int, embedding: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, 200, 2, batch_first=True)
        self.head = nn.Linear(200, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits [batch, length, vocabulary]."""
        return self.head(self.lstm(self.embedding(ids))[0])


def main() -> None:
    """Measure both loops and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=40_000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(options)
    loops = {"ours": bench.ours, "hand": bench.hand}
    best = dict.fromkeys(loops, float("inf"))
    for turn in range(options.rounds + 1):
        for name, run in loops.items():
            seconds = cpu_seconds(run)
            # The first round is a warm-up.
            best[name] = min(best[name], seconds) if turn else best[name]
    ratio = best["hand"] / best["ours"]
    speeds = {f"{name}_characters_a_second": round(options.characters / seconds) for name, seconds in best.items()}
    print(json.dumps({**speeds, "ratio": round(ratio, 3), "wanted": WANTED, "met": ratio >= WANTED}, indent=2))


if __name__ == "__main__":
    main()
