"""Logs of trainers and of the demo, and the curves that are drawn of them."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

from leakage_tasks.report.load.training_log import read_curves, read_history
from leakage_tasks.report.plots.exposure import draw_epochs
from leakage_tasks.report.plots.training import draw_training
from tests.fuzzing import mutate
from tests.fuzzing.case import Call, ensure

_LOG: dict[str, Any] = {
    "global_step": 20,
    "log_history": [
        {"epoch": 0.5, "step": 5, "loss": 3.5, "learning_rate": 1e-3},
        {"epoch": 1.0, "step": 10, "eval_loss": 3.0},
        {"epoch": 1.0, "step": 10, "leakage/exposure_x1": 1.5, "leakage/exposure_x10": 9.0}
        | {"leakage/exposure_controls": 1.4, "leakage/exposure_bound": 13.3, "leakage/share_with_interval": 1.0},
        {"epoch": 2.0, "step": 20, "loss": 2.0, "leakage/exposure_x1": 3.5, "leakage/exposure_bound": 13.3},
    ],
}
_DEMO: dict[str, Any] = {
    "exposures": [
        {"epoch": epoch, "canary": name, "repetitions": times, "exposure": epoch * 1.5, "log2_size": 13.3}
        for epoch in (1, 2)
        for name, times in (("a", 1), ("b", 10), ("c", 0))
    ],
    "losses": [{"training": 2.5, "validation": 2.75}, {"training": 2.0, "validation": 2.5}],
}
_PLACES = ("trainer_state.json", "checkpoint-5/trainer_state.json", "checkpoint-\u0665/trainer_state.json", "x.json")


def make(stream: Random, folder: Path) -> Call:
    """A log in one of the places where it may be; one of five hundred is drawn."""
    sound = stream.choice((_LOG, _LOG, _DEMO))
    path = folder / (stream.choice(_PLACES) if sound is _LOG else "exposure_by_epoch.json")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(mutate.json_file(stream, sound))
    over = stream.choice(("epoch", "step"))
    drawn = stream.random() < 0.002
    source = folder if sound is _LOG and stream.random() < 0.5 else path
    return Call(lambda: _read(source, path, over, drawn))


def _read(source: Path, path: Path, over: Any, drawn: bool) -> None:
    if path.name.startswith("exposure"):
        history = read_history(path)
        if drawn:
            draw_epochs(history)
    curves = read_curves(source, over)
    groups = [curves.training, curves.validation, curves.controls, *curves.planted.values()]
    points = [number for group in groups for point in group for number in point]
    ensure(all(math.isfinite(number) for number in [*points, curves.log2_size]), "all that is drawn is finite")
    if drawn:
        draw_training(curves)
