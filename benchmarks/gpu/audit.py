"""``lm_eval --tasks canary_extraction,canary_exposure`` on the model of :mod:`benchmarks.gpu.big_model`.

Reports rows per second as a share of plain passes in the same process, the GPU's utilization, peak memory and results.
The time begins with the first forward pass, so loading the model is not part of it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.gpu.report import FAILED, HELD, Report, device, step_options
from benchmarks.gpu.usage import Usage
from benchmarks.plain_passes import plain_speed
from leakage_tasks.canaries import read_manifest
from leakage_tasks.harness import plugin

TASKS = "canary_extraction,canary_exposure"
FIGURES = ("extracted_x1", "control_extracted", "exposure_x1", "control_exposure", "n_planted", "n_controls")


class Meter:
    """Passes and rows of the harness' model, the time since the first pass, and the speed of plain passes."""

    def __init__(self, tiny: bool) -> None:
        self.tiny, self.plain = tiny, 0.0
        self.passes = self.rows = 0
        self.started = 0.0

    def attach(self, model: Any) -> None:
        """Measure plain passes of ``model``, then count its calls."""
        speed = plain_speed(model.eval(), 16 if self.tiny else 2048, 0.2 if self.tiny else 1.5)
        self.plain = speed.rows_per_second
        if device() == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        model.register_forward_pre_hook(self._note, with_kwargs=True)

    def _note(self, module: Any, arguments: Sequence[Any], named: dict[str, Any]) -> None:
        ids = named.get("input_ids", arguments[0] if arguments else None)
        self.started = self.started or time.perf_counter()
        self.passes, self.rows = self.passes + 1, self.rows + (0 if ids is None else len(ids))

    @property
    def seconds(self) -> float:
        """Seconds since the first pass."""
        return time.perf_counter() - self.started if self.started else 0.0

    def words(self) -> str:
        """Return the figures in words."""
        speed, per_pass = self.rows / max(self.seconds, 1e-9), self.rows / max(self.passes, 1)
        share = f"{speed / self.plain:.3f} of plain passes ({self.plain:,.0f})" if self.plain else "not begun"
        counts = f"{self.rows:,} rows in {self.seconds:.0f} s, {per_pass:,.0f} per pass"
        return f"{counts}, {speed:,.0f} per second: {share}"


@contextlib.contextmanager
def attached(meter: Meter) -> Iterator[None]:
    """Attach ``meter`` to the model that the harness loads within the block."""
    from lm_eval.models.huggingface import HFLM

    original = HFLM.__init__

    def with_meter(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        meter.attach(self.model)

    with mock.patch.object(HFLM, "__init__", with_meter):
        yield


def run_lm_eval(out: Path, results: Path, kept: Path, more: str) -> None:
    """Run the ``lm_eval`` command in this process; ``more`` are further words of ``--metadata``."""
    from lm_eval.__main__ import cli_evaluate

    sys.argv = ["lm_eval", "--model", "hf", "--model_args", f"pretrained={out / 'model'},dtype=auto"]
    sys.argv += ["--tasks", TASKS, "--device", device(), "--batch_size", "512", "--output_path", str(results)]
    sys.argv += ["--log_samples", "--metadata", f"canaries={out / 'canaries.jsonl'},resume={kept}{more}"]
    cli_evaluate()


def done(kept: Path) -> str:
    """Return the number of findings that a resumed run would keep."""
    lines = (line for file in kept.rglob("*.jsonl") for line in file.read_text(errors="replace").splitlines())
    return f"{sum('finding' in line for line in lines)} findings kept"


def outcomes(results: Path) -> str:
    """Return the primary metrics of the run in words."""
    (file,) = results.rglob("results_*.json")
    metrics = json.loads(file.read_text())["results"]
    chosen = [
        f"{name.partition(',')[0]} {value:.3g}"
        for task in TASKS.split(",")
        for name, value in metrics[task].items()
        if isinstance(value, int | float) and name.partition(",")[0] in FIGURES
    ]
    return ", ".join(chosen) or "no metrics"


def main() -> None:
    """Run the command and report."""
    options = step_options(__doc__).parse_args()
    report, meter, work = Report("audit", options.out), Meter(options.tiny), options.out / "audit"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    plugin.install("benchmarks.gpu")
    check = f"{len(read_manifest(options.out / 'canaries.jsonl')):,} canaries, both tasks"
    results, kept = work / "results", work / "kept"
    usage = Usage(lambda: report.progress(check, f"{meter.words()}, {done(kept)}, GPU utilization {usage.words}"))
    with attached(meter), usage:
        run_lm_eval(options.out, results, kept, ",budget=100" if options.tiny else "")
        words, share = meter.words(), meter.rows / meter.seconds / meter.plain
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB" if device() == "cuda" else "not measured"
    report.add(check, f"{words}, GPU utilization {usage.words}, peak memory {memory}", share=share)
    found = outcomes(results)
    report.add("results", found, FAILED if found == "no metrics" else HELD)
    report.exit()


if __name__ == "__main__":
    main()
