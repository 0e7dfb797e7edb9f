"""What attacks rank fillings by."""

from __future__ import annotations

from leakage_tasks.core.option import Option

LOSS, CALIBRATED = "loss", "calibrated"
SIGNAL = Option(
    "signal",
    str,
    LOSS,
    "what fillings are ranked by: what they cost the model (of classifiers the class loss), or how much less than they "
    "cost a reference model",
    (LOSS, CALIBRATED),
)
