"""Before training: does the trainer read the planted canaries whole, and do their secrets count in its loss?"""

from leakage_tasks.training.preflight.check import preflight
from leakage_tasks.training.preflight.report import CanaryCounts, Preflight

__all__ = ["CanaryCounts", "Preflight", "preflight"]
