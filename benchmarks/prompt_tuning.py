"""Tuning a soft prompt, against the loop one would write by hand: prints JSON, steps a second and peak memory.

``hand`` is that loop written well: the same model, frozen and in evaluation mode, the same tensors, AdamW, rates and
loss; the prompt expanded over the batch, inputs without their last token, and only the suffixes' logits asked of the
model (``logits_to_keep``). Both read the validation pairs once at the end. ``ours`` is
:func:`~leakage_tasks.training.prompt.tuning.tune_prompt` as anyone calls it, start and checks included. Wanted: 0.9 of
the steps a second, and peak memory within a tenth. Speeds take turns and each keeps its best round; memory is that of a
process of its own each: on a CPU the growth of its resident set while tuning, on a GPU what PyTorch had allocated. The
model is a GPT-2 of random weights: neither depends on what it has learnt.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

from leakage_tasks.pairs import Pair  # noqa: E402
from leakage_tasks.training.prompt.settings import PromptSettings  # noqa: E402
from leakage_tasks.training.prompt.tuning import tune_prompt  # noqa: E402

PREFIX = SUFFIX = 50
PROMPT = 100
VALIDATION = 32


class Bench:
    """One model and its pairs."""

    def __init__(self, given: argparse.Namespace) -> None:
        torch.manual_seed(0)
        heads, context = max(2, given.hidden // 64), PROMPT + PREFIX + SUFFIX
        sizes = {"n_layer": given.layers, "n_embd": given.hidden, "n_head": heads, "n_positions": context}
        config = GPT2Config(vocab_size=given.vocabulary, bos_token_id=0, eos_token_id=0, **sizes)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = GPT2LMHeadModel(config).to(self.device).eval()
        count = given.steps * given.batch + VALIDATION
        self.ids = torch.randint(given.vocabulary, (count, PREFIX + SUFFIX))
        rows = [tuple(row) for row in self.ids.tolist()]
        self.pairs = [Pair(number, row[:PREFIX], row[PREFIX:]) for number, row in enumerate(rows)]
        self.settings = PromptSettings(length=PROMPT, epochs=1, batch_size=given.batch, bf16=given.bf16)
        self.steps = given.steps

    def ours(self) -> None:
        """The library's."""
        tune_prompt(self.model, self.pairs[:-VALIDATION], self.pairs[-VALIDATION:], self.settings, progress=False)

    def hand(self) -> None:
        """The loop by hand."""
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
        """The paper's, of pairs of equal length."""
        with torch.autocast(self.device, torch.bfloat16, enabled=self.settings.bf16):
            inputs = torch.cat([prompt.expand(len(ids), -1, -1), words(ids[:, :-1])], dim=1)
            logits = self.model(inputs_embeds=inputs, logits_to_keep=SUFFIX, use_cache=False).logits
        flat = cross_entropy(logits.float().flatten(0, 1), ids[:, PREFIX:].flatten(), reduction="none")
        costs = flat.view(len(ids), SUFFIX)
        hardest = costs.topk(self.settings.hardest, dim=1).values
        return costs.mean() + self.settings.alpha * hardest.mean()

    def speed(self, way: str) -> float:
        """Steps a second of ``ours`` or ``hand``."""
        started = time.perf_counter()
        getattr(self, way)()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return self.steps / (time.perf_counter() - started)

    def peak(self, way: str) -> float:
        """MiB that tuning ``way`` takes at its highest, what was there before not counted."""
        if self.device == "cuda":
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self.speed(way)
            return (torch.cuda.max_memory_allocated() - before) / 2**20
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        before = resident("VmRSS")
        self.speed(way)
        return (resident("VmHWM") - before) / 2**10


def resident(what: str) -> int:
    """KiB of this process, from the kernel's own account."""
    (found,) = re.findall(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found)


def steady_heap() -> None:
    """Give freed blocks back at once, so that a resident set is what is in use and not what lies about."""
    threshold = -3  # M_MMAP_THRESHOLD
    ctypes.CDLL(None).mallopt(threshold, 1 << 16)


def measured_apart(way: str) -> float:
    """Peak memory of ``way`` in a fresh process."""
    done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--peak-of", way], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout)


def compare(given: argparse.Namespace) -> dict[str, Any]:
    """Speeds, peaks and their ratios."""
    peaks = {way: measured_apart(way) for way in ("hand", "ours")}
    bench = Bench(given)
    speeds: dict[str, list[float]] = {"hand": [], "ours": []}
    for _ in range(given.rounds):
        for way, values in speeds.items():
            values.append(bench.speed(way))
    best = {way: max(values) for way, values in speeds.items()}
    return {
        "device": bench.device,
        "model": {"layers": given.layers, "hidden": given.hidden, "vocabulary": given.vocabulary},
        "pairs": {"prompt": PROMPT, "prefix": PREFIX, "suffix": SUFFIX, "batch": given.batch, "steps": given.steps},
        "bf16": given.bf16,
        "steps_per_second": {way: round(value, 3) for way, value in best.items()},
        "ours_to_hand": round(best["ours"] / best["hand"], 3),
        "peak_mib": {way: round(value, 1) for way, value in peaks.items()},
        "peak_ours_to_hand": round(peaks["ours"] / peaks["hand"], 3),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=8_000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8, help="steps a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--peak-of", choices=("hand", "ours"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak_of:
        steady_heap()
        print(Bench(given).peak(given.peak_of))
        return
    print(json.dumps(compare(given), indent=1))


if __name__ == "__main__":
    main()
