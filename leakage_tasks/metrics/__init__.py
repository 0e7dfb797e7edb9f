"""Metrics of findings: exposure, success, Hamming distance, and their intervals."""

from leakage_tasks.metrics.exposure import chance_exposure
from leakage_tasks.metrics.metric import Metric

__all__ = ["Metric", "chance_exposure"]
