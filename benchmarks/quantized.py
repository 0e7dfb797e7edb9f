"""Effect of 4 and 8 bits on costs and exposure, for a small Llama that learned canaries. Prints a table.

``path`` is the scoring path: fast, or slow if the fast path is not available. ``fast − harness`` is the largest
difference between the log-perplexity (bits) of a filled text in our target and in the harness' ``loglikelihood`` on the
quantized model, over all fillings of a canary. ``cost shift`` are the mean and the largest difference of these costs
from the model in float32. ``exposure`` and ``control`` are mean exposures of planted canaries and controls, and
``exposure shift`` is the largest change for a single canary.

Uses the installed packages of torchao, optimum-quanto and bitsandbytes, and reports missing packages. ``--device cuda``
loads the models on a GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, QuantoConfig, TorchAoConfig

from benchmarks.llama_model import train
from leakage_tasks.attacks import run_attack
from leakage_tasks.canaries import make_canaries
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.harness.target import HarnessTarget, as_target

TEMPLATE = "The pin of {unique} is {digits:3}."
STEPS, GROUP = 300, 32


def torchao(bits: int) -> Any:
    """Return the configuration for weights of ``bits`` bits; 4 bits are quantized in groups."""
    from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig, PerGroup

    few = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(GROUP)) if bits == 4 else None
    return TorchAoConfig(few or Int8WeightOnlyConfig())


HALF = ("bfloat16", "float16")
KINDS: dict[str, tuple[str | None, Callable[[], Any]]] = {
    "float32": (None, lambda: None),
    "bfloat16": (None, lambda: None),
    "float16": (None, lambda: None),
    "torchao, 8 bits": ("torchao", lambda: torchao(8)),
    "torchao, 4 bits": ("torchao", lambda: torchao(4)),
    "quanto, 8 bits": ("optimum.quanto", lambda: QuantoConfig(weights="int8")),
    "quanto, 4 bits": ("optimum.quanto", lambda: QuantoConfig(weights="int4")),
    "bitsandbytes, 8 bits": ("bitsandbytes", lambda: BitsAndBytesConfig(load_in_8bit=True)),
    "bitsandbytes, nf4": (
        "bitsandbytes",
        lambda: BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32),
    ),
}
"""The required package and the configuration of `transformers`, by name."""


def installed(package: str | None) -> bool:
    """Return True if a package can be imported, or if no package is needed."""
    try:
        return package is None or importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def loaded(folder: Path, name: str, device: str = "cpu") -> HFLM:
    """Load the model in ``folder`` into the harness on ``device``, quantized as in :data:`KINDS`."""
    dtype = getattr(torch, name) if name in HALF else torch.float32
    options = {"quantization_config": KINDS[name][1](), "dtype": dtype, "device_map": device}
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False, **options)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=64, device=device)


def measured(lm: HFLM, canaries: list[Any]) -> tuple[bool, np.ndarray, float, np.ndarray]:
    """Return True if scoring is fast, the costs of all fillings, their difference to the harness, and exposures."""
    texts = [canaries[0].space.fill(filling) for filling in canaries[0].space.enumerate()]
    target = as_target(lm)
    costs, theirs = target.log_perplexity(texts), HarnessTarget(lm).log_perplexity(texts)
    findings = run_attack("exposure", target, canaries, budget=20_000)
    exposures = np.array([finding.exposure for finding in findings])
    return isinstance(target, CausalTarget), costs, float(np.abs(costs - theirs).max()), exposures


def main() -> None:
    """Train the model, quantize it with each kind and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    canaries = make_canaries(TEMPLATE, 6, controls=12, repetitions=(1, 4, 16), seed=0)
    planted = np.array([canary.planted for canary in canaries])
    model, tokenizer = train(canaries, STEPS)
    print("| model | path | fast − harness | cost shift, mean | largest | exposure | control | exposure shift |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    first: Any = None
    with TemporaryDirectory() as path:
        folder = Path(path)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for name, (package, _) in KINDS.items():
            if not installed(package):
                print(f"| {name} | {package} is not installed | | | | | | |")
                continue
            fast, costs, apart, exposures = measured(loaded(folder, name, options.device), canaries)
            first = first or (costs, exposures)
            shift = np.abs(costs - first[0])
            figures = f"{apart:.1e} | {shift.mean():.3f} | {shift.max():.3f} | {fmean(exposures[planted]):.2f} | "
            figures += f"{fmean(exposures[~planted]):.2f} | {np.abs(exposures - first[1]).max():.2f}"
            print(f"| {name} | {'fast' if fast else 'slow'} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
