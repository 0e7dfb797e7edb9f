"""Exposure over training as the demo wrote it: a point a canary and epoch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.report.reading.validate import is_finite


@dataclass(frozen=True)
class EpochExposure:
    """Exposure in bits of one canary after one epoch; ``repetitions`` is 0 for a control.

    ``log2_size`` is log2|R|, the most there can be.
    """

    epoch: int
    canary: str
    repetitions: int
    exposure: float
    log2_size: float


def read_history(path: str | Path) -> list[EpochExposure]:
    """The points of an ``exposure_by_epoch.json`` that the demo wrote. Raises ResultsError naming file and field."""
    wanted = {field.name for field in fields(EpochExposure)}
    try:
        points = parse_json(read_text(path))["exposures"]
        return [_sound(EpochExposure(**{name: point[name] for name in wanted})) for point in points]
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}): check the path") from None
    except (ValueError, KeyError, TypeError):
        raise ResultsError(
            f"{path}: field 'exposures': expected a list of objects with {', '.join(sorted(wanted))}: give the "
            "exposure_by_epoch.json of 'leakage demo', or what lm_eval wrote"
        ) from None


def _sound(point: EpochExposure) -> EpochExposure:
    """The point itself. Raises ValueError for one that cannot be drawn."""
    numbers = (point.epoch, point.repetitions, point.exposure, point.log2_size)
    if not isinstance(point.canary, str) or not all(is_finite(each) and each >= 0 for each in numbers):
        raise ValueError(point.canary)
    return point
