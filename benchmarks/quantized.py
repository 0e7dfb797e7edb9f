"""What 4 and 8 bits change: prints a table of a small Llama that learnt canaries, quantized in several ways.

``path`` is how it is scored: fast, or slow where the fast way stepped aside. ``fast − harness`` is the largest
difference between the log-perplexity (bits) of a filled text by our target and by the harness' ``loglikelihood`` on the
same quantized model, over all fillings of a canary. ``cost shift`` are the mean and the largest difference of these
costs to the model in float32, ``exposure`` and ``control`` the mean exposures of planted canaries and controls,
``exposure shift`` the largest change of one canary's.

It takes what is installed of torchao, optimum-quanto and bitsandbytes, and says what is not.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

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
    """Weights of so many bits, in groups where they are 4."""
    from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig, PerGroup

    few = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(GROUP)) if bits == 4 else None
    return TorchAoConfig(few or Int8WeightOnlyConfig())


KINDS: dict[str, tuple[str | None, Callable[[], Any]]] = {
    "float32": (None, lambda: None),
    "bfloat16": (None, lambda: None),
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
"""By name: the package it takes, and the settings of `transformers`."""


def installed(package: str | None) -> bool:
    """Whether a package can be imported."""
    try:
        return package is None or importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def loaded(folder: Path, name: str) -> HFLM:
    """The model of a folder in the harness, quantized as ``name`` says."""
    dtype = torch.bfloat16 if name == "bfloat16" else torch.float32
    given = {"quantization_config": KINDS[name][1](), "dtype": dtype}
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False, **given)
    return HFLM(
        pretrained=model, tokenizer=AutoTokenizer.from_pretrained(folder, trust_remote_code=False), batch_size=64
    )


def measured(lm: HFLM, canaries: list[Any]) -> tuple[bool, np.ndarray, float, np.ndarray]:
    """Whether the way is fast, costs of all fillings, their largest difference to the harness', exposures."""
    texts = [canaries[0].space.fill(each) for each in canaries[0].space.enumerate()]
    target = as_target(lm)
    costs, theirs = target.log_perplexity(texts), HarnessTarget(lm).log_perplexity(texts)
    found = run_attack("exposure", target, canaries, budget=20_000)
    exposures = np.array([each.exposure for each in found])
    return isinstance(target, CausalTarget), costs, float(np.abs(costs - theirs).max()), exposures


def main() -> None:
    """Train, quantize in each way, print."""
    canaries = make_canaries(TEMPLATE, 6, controls=12, repetitions=(1, 4, 16), seed=0)
    planted = np.array([each.planted for each in canaries])
    model, tokenizer = train(canaries, STEPS)
    print("| model | path | fast − harness | cost shift, mean | largest | exposure | control | exposure shift |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    first: Any = None
    with TemporaryDirectory() as place:
        folder = Path(place)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for name, (package, _) in KINDS.items():
            if not installed(package):
                print(f"| {name} | {package} is not installed | | | | | | |")
                continue
            fast, costs, apart, exposures = measured(loaded(folder, name), canaries)
            first = first or (costs, exposures)
            shift = np.abs(costs - first[0])
            figures = f"{apart:.1e} | {shift.mean():.3f} | {shift.max():.3f} | {fmean(exposures[planted]):.2f} | "
            figures += f"{fmean(exposures[~planted]):.2f} | {np.abs(exposures - first[1]).max():.2f}"
            print(f"| {name} | {'fast' if fast else 'slow'} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
