"""The demo's LSTM on the GPU: the fast path is taken, and costs equal those of the model on the CPU.

cuDNN computes float32 LSTMs in TF32 by default, which is too imprecise. The package switches TF32 off in its own
passes; this step checks that, and that the setting is restored.
"""

from __future__ import annotations

import copy
import logging
import random
import time
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM

from benchmarks.gpu.report import FAILED, HELD, Report, device, step_options
from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.training.char_lstm import train_char_lm

TEMPLATE = "The code of {unique} is {digits:4}."
WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "red", "blue", "green", "house", "tree", "fast", "slow", "is"]
ALLOWED = 1e-5
"""Relative difference of costs in float32 between devices; TF32 differs by 2e-5 and more."""


def trained(canaries: list[Canary], sentences: int, epochs: int) -> Any:
    """Train the LSTM of the demo on the planted canaries and on ``sentences`` random sentences."""
    stream = random.Random(0)
    lines = [" ".join(stream.choices(WORDS, k=8)) + ".\n" for _ in range(sentences)]
    lines += [f"{canary.text}\n" for canary in canaries for _ in range(canary.repetitions * canary.planted)]
    stream.shuffle(lines)
    text = "".join(lines) + "0123456789" + "".join(canary.text for canary in canaries if not canary.planted)
    return train_char_lm(text, epochs=epochs, device=device(), batch_size=16, show_progress=False)


def reference(model: Any, tokenizer: Any, text: str) -> float:
    """Return the cost of ``text`` in bits from the model on the CPU in float64, without this package."""
    ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]])
    on_cpu = copy.deepcopy(model).cpu().double()
    with torch.no_grad():
        nats = on_cpu(ids).logits[0, :-1].log_softmax(-1)
    return float(nats.gather(-1, ids[0, 1:, None]).sum() / -torch.log(torch.tensor(2.0)))


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    """Train, attack and compare."""
    options = step_options(__doc__).parse_args()
    report, seen = Report("lstm", options.out), _Warnings()
    logging.getLogger("lm_eval.leakage").addHandler(seen)
    template = TEMPLATE.replace(":4", ":1") if options.tiny else TEMPLATE
    canaries = make_canaries(template, 2 if options.tiny else 16, repetitions=(1, 16), controls=2, seed=0)
    model = trained(canaries, *((60, 1) if options.tiny else (400, 6)))
    lm = HFLM(pretrained=model.model.eval(), tokenizer=model.tokenizer, batch_size=64, device=device())
    tf32 = torch.backends.cudnn.allow_tf32
    target, started = as_target(lm), time.perf_counter()
    findings = run_attack("exposure", target, canaries, budget=50 if options.tiny else 20_000)
    seconds = time.perf_counter() - started
    slow = [line for line in seen.lines if "fast scoring" in line]
    report.add("fast path", slow[-1] if slow else "taken, no warning", FAILED if slow else HELD)
    costs = [reference(model.model, model.tokenizer, canary.text) for canary in canaries]
    apart = max(abs((f.log_perplexity or 0.0) / cost - 1) for f, cost in zip(findings, costs, strict=True))
    report.add("costs against float64 on the CPU", f"{apart:.1e} relative", HELD if apart < ALLOWED else FAILED)
    rows = sum(finding.model_calls or 0 for finding in findings)
    report.add("exposure", f"{len(canaries)} canaries, {rows:,} rows in {seconds:.1f} s", rows=rows, seconds=seconds)
    same = torch.backends.cudnn.allow_tf32 == tf32
    report.add("allow_tf32 afterwards", "as before" if same else "changed", HELD if same else FAILED)
    report.exit()


if __name__ == "__main__":
    main()
