"""Check before training that the trainer's data contain complete canaries and that the loss includes their secrets."""

from leakage_tasks.training.preflight.check import preflight
from leakage_tasks.training.preflight.counts import CanaryCounts
from leakage_tasks.training.preflight.report import Preflight

__all__ = ["CanaryCounts", "Preflight", "preflight"]
