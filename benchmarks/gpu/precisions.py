"""Precisions of :mod:`benchmarks.quantized` on the GPU: bfloat16, float16, and 8 and 4 bits of bitsandbytes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.gpu.report import FAILED, HELD, LEFT_OUT, Report, device, step_options
from benchmarks.llama_model import train
from benchmarks.quantized import KINDS, TEMPLATE, installed, loaded, measured
from leakage_tasks.canaries import make_canaries

CHECKED = ("float32", "bfloat16", "float16", "bitsandbytes, 8 bits", "bitsandbytes, nf4")
ALLOWED = {"float32": 1e-3}
ALLOWED_ELSE = 2.0
"""Largest difference in bits between the fast path and the harness; 16 bits and fewer round each cost of some 50 bits.
The package compares more strictly, with the measured rounding noise of the model, and warns."""


def main() -> None:
    """Train a small Llama on canaries and measure it in each precision."""
    options = step_options(__doc__).parse_args()
    report = Report("precisions", options.out)
    template = TEMPLATE.replace(":3", ":2") if options.tiny else TEMPLATE
    canaries = make_canaries(template, 3, controls=3, repetitions=(1, 4, 16), seed=0)
    model, tokenizer = train(canaries, 5 if options.tiny else 200)
    with TemporaryDirectory() as name:
        model.save_pretrained(name)
        tokenizer.save_pretrained(name)
        for kind in CHECKED:
            _check(report, kind, Path(name), canaries, options.tiny)
    report.exit()


def _check(report: Report, kind: str, folder: Path, canaries: list[Any], tiny: bool) -> None:
    """Report one precision; an error is a failed check, so that the others still run.

    A ``tiny`` model is hardly trained. Its costs are nearly equal, and 16 bits round all of them to one side, so the
    fast path is rightly refused there.
    """
    package = KINDS[kind][0]
    if not installed(package):
        report.add(kind, f"{package} is not installed", LEFT_OUT)
        return
    if package == "bitsandbytes" and device() == "cpu":
        report.add(kind, "needs a GPU", LEFT_OUT)
        return
    try:
        fast, _, apart, exposures = measured(loaded(folder, kind, device()), canaries)
    except Exception as error:
        report.add(kind, f"{type(error).__name__}: {' '.join(str(error).split())[:150]}".replace("|", "/"), FAILED)
        return
    result = f"{'fast' if fast else 'slow'} path, {apart:.1e} bits from the harness, mean exposure "
    right = (fast or tiny) and apart < ALLOWED.get(kind, ALLOWED_ELSE) and bool(np.isfinite(exposures).all())
    report.add(kind, f"{result}{exposures.mean():.2f}", HELD if right else FAILED)


if __name__ == "__main__":
    main()
