"""The signal by which attacks rank fillings."""

from __future__ import annotations

from leakage_tasks.core.option import Option

LOSS, CALIBRATED = "loss", "calibrated"
SIGNAL = Option(
    "signal",
    str,
    LOSS,
    "the score of a filling: loss is its cost under the model (for classifiers the class loss), calibrated is that "
    "cost minus its cost under a reference model",
    (LOSS, CALIBRATED),
)
