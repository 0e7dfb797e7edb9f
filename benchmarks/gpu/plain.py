"""Plain passes of `transformers` on the model of :mod:`benchmarks.gpu.big_model`: one cached token per row."""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM

from benchmarks.gpu.report import LEFT_OUT, Report, device, step_options
from benchmarks.plain_passes import plain_speed


def main() -> None:
    """Time passes of three sizes."""
    options = step_options(__doc__).parse_args()
    report = Report("plain", options.out)
    model = AutoModelForCausalLM.from_pretrained(
        options.out / "model", dtype="auto", trust_remote_code=False, device_map=device()
    ).eval()
    for rows in (8, 16, 32) if options.tiny else (512, 2048, 8192):
        try:
            speed = plain_speed(model, rows, 0.2 if options.tiny else 1.5)
        except torch.OutOfMemoryError:
            report.add(f"{rows:,} rows per pass", "out of memory", LEFT_OUT)
            continue
        result = f"{speed.rows_per_second:,.0f} rows per second, {speed.milliseconds:.1f} ms per pass"
        report.add(f"{rows:,} rows per pass", result, rows=rows, rows_per_second=speed.rows_per_second)
    report.exit()


if __name__ == "__main__":
    main()
