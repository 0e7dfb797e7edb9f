"""Speed and memory of tuning a soft prompt, compared with a hand-written loop. Prints JSON.

``hand`` is an efficient hand-written loop: the model, frozen and in evaluation mode, the tensors, AdamW, learning rates
and loss of the package; the prompt expanded over the batch, inputs without their last token, and only the logits of the
suffixes (``logits_to_keep``). Both evaluate the validation pairs once at the end. ``ours`` is a call of
:func:`~leakage_tasks.training.prompt.tuning.tune_prompt`, including its checks. Goals: 0.9 of the steps per second, and
at most 10 % more peak memory. Speeds alternate, and the best round of each counts. Memory is measured in separate
processes: on a CPU as growth of the resident set, on a GPU as memory allocated by PyTorch. The model is a GPT-2 with
random weights, because neither depends on them.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.pairs import Pair
from leakage_tasks.training.prompt.settings import PromptSettings
from leakage_tasks.training.prompt.tuning import tune_prompt

PREFIX = SUFFIX = 50
PROMPT = 100
VALIDATION = 32


class Bench:
    """A model and its pairs."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        heads, context = max(2, options.hidden // 64), PROMPT + PREFIX + SUFFIX
        sizes = {"n_layer": options.layers, "n_embd": options.hidden, "n_head": heads, "n_positions": context}
        config = GPT2Config(vocab_size=options.vocabulary, bos_token_id=0, eos_token_id=0, **sizes)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = GPT2LMHeadModel(config).to(self.device).eval()
        count = options.steps * options.batch + VALIDATION
        self.ids = torch.randint(options.vocabulary, (count, PREFIX + SUFFIX))
        rows = [tuple(row) for row in self.ids.tolist()]
        self.pairs = [Pair(number, row[:PREFIX], row[PREFIX:]) for number, row in enumerate(rows)]
        self.settings = PromptSettings(length=PROMPT, epochs=1, batch_size=options.batch, bf16=options.bf16)
        self.steps = options.steps

    def ours(self) -> None:
        """Tune with the package."""
        tune_prompt(self.model, self.pairs[:-VALIDATION], self.pairs[-VALIDATION:], self.settings, progress=False)

    def hand(self) -> None:
        """Tune with the hand-written loop."""
        for weight in self.model.parameters():
            weight.requires_grad_(False)
        ids, words = self.ids.to(self.device), self.model.get_input_embeddings()
        with torch.no_grad():
            prompt = torch.nn.Parameter(words(torch.randint(len(words.weight), (PROMPT,), device=self.device)))
        optimiser, settings = torch.optim.AdamW([prompt], weight_decay=self.settings.weight_decay), self.settings
        total = torch.zeros((), device=self.device)
        for step, rows in enumerate(torch.randperm(len(ids) - VALIDATION).split(settings.batch_size)):
            optimiser.param_groups[0]["lr"] = settings.rate(step, self.steps)
            optimiser.zero_grad()
            loss = self.loss(prompt, words, ids[rows.to(self.device)])
            loss.backward()
            optimiser.step()
            total += loss.detach()
        with torch.no_grad():
            float(total + self.loss(prompt, words, ids[-VALIDATION:]))

    def loss(self, prompt: torch.Tensor, words: Any, ids: torch.Tensor) -> torch.Tensor:
        """Return the paper's loss for pairs of equal length."""
        with torch.autocast(self.device, torch.bfloat16, enabled=self.settings.bf16):
            inputs = torch.cat([prompt.expand(len(ids), -1, -1), words(ids[:, :-1])], dim=1)
            logits = self.model(inputs_embeds=inputs, logits_to_keep=SUFFIX, use_cache=False).logits
        flat = cross_entropy(logits.float().flatten(0, 1), ids[:, PREFIX:].flatten(), reduction="none")
        costs = flat.view(len(ids), SUFFIX)
        hardest = costs.topk(self.settings.hardest, dim=1).values
        return costs.mean() + self.settings.alpha * hardest.mean()

    def speed(self, loop: str) -> float:
        """Return the steps per second of ``ours`` or ``hand``."""
        started = time.perf_counter()
        getattr(self, loop)()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return self.steps / (time.perf_counter() - started)

    def peak(self, loop: str) -> float:
        """Return the peak growth of memory in MiB while tuning with ``loop``."""
        if self.device == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self.speed(loop)
            return (torch.cuda.max_memory_allocated() - before) / 2**20
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        before = resident("VmRSS")
        self.speed(loop)
        return (resident("VmHWM") - before) / 2**10


def resident(field: str) -> int:
    """Return a memory figure of this process in KiB, from the kernel."""
    (amount,) = re.findall(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(amount)


def steady_heap() -> None:
    """Return freed blocks to the system at once, so that the resident set contains only memory in use."""
    threshold = -3  # M_MMAP_THRESHOLD
    ctypes.CDLL(None).mallopt(threshold, 1 << 16)


def measured_apart(loop: str) -> float:
    """Return the peak memory of ``loop`` in a new process."""
    words = [sys.executable, "-m", "benchmarks.prompt_tuning", *sys.argv[1:], "--peak-of", loop]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout)


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Return speeds, peaks and their ratios."""
    peaks = {loop: measured_apart(loop) for loop in ("hand", "ours")}
    bench = Bench(options)
    speeds: dict[str, list[float]] = {"hand": [], "ours": []}
    for _ in range(options.rounds):
        for loop, values in speeds.items():
            values.append(bench.speed(loop))
    best = {loop: max(values) for loop, values in speeds.items()}
    return {
        "device": bench.device,
        "model": {"layers": options.layers, "hidden": options.hidden, "vocabulary": options.vocabulary},
        "pairs": {"prompt": PROMPT, "prefix": PREFIX, "suffix": SUFFIX, "batch": options.batch, "steps": options.steps},
        "bf16": options.bf16,
        "steps_per_second": {loop: round(value, 3) for loop, value in best.items()},
        "ours_to_hand": round(best["ours"] / best["hand"], 3),
        "peak_mib": {loop: round(value, 1) for loop, value in peaks.items()},
        "peak_ours_to_hand": round(peaks["ours"] / peaks["hand"], 3),
    }


def main() -> None:
    """Compare the loops and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=8_000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8, help="steps per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--peak-of", choices=("hand", "ours"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak_of:
        steady_heap()
        print(Bench(options).peak(options.peak_of))
        return
    print(json.dumps(compare(options), indent=1))


if __name__ == "__main__":
    main()
