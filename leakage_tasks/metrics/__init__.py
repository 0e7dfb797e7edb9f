"""What a finding is worth: exposure, success, Hamming distance, and their intervals."""

from leakage_tasks.metrics.declared import Metric
from leakage_tasks.metrics.exposure import chance_exposure

__all__ = ["Metric", "chance_exposure"]
