"""Folders of training runs, and a stand-in for ``lm_eval`` that writes results with values that the step gives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.report.made import STAMP, leaking, results


def training_run(folder: Path, steps: Sequence[int] = (10, 100, 20)) -> Path:
    """A run whose checkpoints are files with the right names."""
    for step in steps:
        (folder / f"checkpoint-{step}").mkdir(parents=True)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (folder / f"checkpoint-{step}" / name).write_text("{}")
    return folder


class Harness:
    """Stands in for the process of ``lm_eval``; ``commands`` are the arguments that it got."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.commands: list[dict[str, str]] = []

    def __call__(self, arguments: Sequence[str], log: Path) -> str | None:
        words = iter(arguments)
        given = {word: "" if word == "--log_samples" else next(words) for word in words}
        self.commands.append(given)
        output = Path(given["--output_path"])
        log.write_text("the log")
        if output.name in self.broken:
            return "lm_eval ended with code 1: OSError: no weights"
        step = int(output.name.rpartition("-")[2]) if "-" in output.name else 0
        values = leaking(
            exposure=step / 10, exposure_ci_low=step / 20, exposure_ci_high=step / 5, control_exposure=1.25
        )
        (output / "model").mkdir(exist_ok=True)
        content = results({"canary_exposure": values["canary_exposure"]}, model=given["--model_args"])
        (output / "model" / f"results_{STAMP}.json").write_text(json.dumps(content))
        return None
