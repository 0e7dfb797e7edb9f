"""What is told of losses and exposure over training: a run's log, written and read back, and the demo's history."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.report.load.validate import is_finite, load_json

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding

Point = tuple[float, float]
"""Epoch or step, and the value there."""
Over = Literal["epoch", "step"]
STATE = "trainer_state.json"
MEAN, MOST, CONTROLS = (f"leakage/exposure_{name}" for name in ("mean", "max", "controls"))
BOUND, KNOWN = "leakage/exposure_bound", "leakage/share_with_interval"
NATURAL_MEAN, NATURAL_CONTROLS = "leakage/exposure_natural", "leakage/exposure_natural_controls"
SECONDS, SKIPPED = "leakage/seconds", "leakage/skipped"
_TIMES = "leakage/exposure_x"
_AT_LEAST = "_at_least"
"""Ending of the key for the share of a tier's canaries whose exposure is only known from below."""


def exposure_entry(findings: Sequence[Finding]) -> dict[str, float]:
    """Findings of one point of a run as an entry of its log, all in bits but ``share_with_interval``, a share.

    The fewest copies come first; ``exposure_mean`` is of all planted canaries together, natural ones apart.
    ``exposure_bound`` is the largest log2|R|, ``share_with_interval`` the share of canaries in the data whose exposure
    is more than a lower bound. A tier with lower bounds also has ``exposure_x…_at_least``, their share.
    """
    by_times: dict[int, list[float]] = {}
    bounds: Counter[int] = Counter()
    natural: dict[bool, list[float]] = {True: [], False: []}
    for found in findings:
        assert found.exposure is not None, "findings of the exposure attack have a rank"
        times = found.repetitions + found.near if found.planted else 0
        group = natural[found.planted] if found.kind == NATURAL else by_times.setdefault(times, [])
        group.append(found.exposure)
        if found.kind != NATURAL:
            bounds[times] += found.method == "lower_bound"
    never = by_times.pop(0, [])
    planted = [bits for group in by_times.values() for bits in group]
    known = [finding.method != "lower_bound" for finding in findings if finding.planted]
    means = {MEAN: planted, CONTROLS: never, NATURAL_MEAN: natural[True], NATURAL_CONTROLS: natural[False]}
    return {
        **{f"{_TIMES}{times}": fmean(bits) for times, bits in sorted(by_times.items())},
        **{
            f"{_TIMES}{times}{_AT_LEAST}": bounds[times] / len(by_times[times])
            for times in sorted(by_times)
            if bounds[times]
        },
        **{name: fmean(bits) for name, bits in means.items() if bits},
        **({MOST: max(planted)} if planted else {}),
        BOUND: max(finding.log2_size for finding in findings),
        KNOWN: fmean(known),
    }


@dataclass(frozen=True)
class EpochExposure:
    """Exposure in bits of one canary after one epoch; ``repetitions`` is 0 for a control.

    ``log2_size`` is log2|R|, the most there can be. With ``bound`` the exposure is a lower bound.
    """

    epoch: int
    canary: str
    repetitions: int
    exposure: float
    log2_size: float
    bound: bool = False


@dataclass(frozen=True)
class TrainingCurves:
    """A run's losses and mean exposures, points in order of their epoch or step."""

    training: Sequence[Point]
    """Losses on the training data."""
    validation: Sequence[Point]
    """Losses on other data."""
    planted: Mapping[int, Sequence[Point]]
    """Mean exposure in bits, by repetitions."""
    controls: Sequence[Point]
    """Mean exposure of controls."""
    log2_size: float
    """log2|R|, the most there can be."""
    over: Over = "epoch"
    """What points are placed by."""
    loss_unit: str = "nats a token"
    """In words."""
    bounds: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """By repetitions, the epochs or steps at which the mean exposure is a lower bound."""


def read_curves(source: str | Path, over: Over = "epoch") -> TrainingCurves:
    """The curves of a run of ``transformers.Trainer`` with an ``ExposureCallback``, or of the demo.

    ``source`` is a ``trainer_state.json``, a folder that holds one or checkpoints with one (the latest is read), or
    the demo's ``exposure_by_epoch.json``, which knows no steps. Raises ResultsError for a file that is neither or
    holds no exposure, and OptionError for steps of the demo.
    """
    path = _file_of(Path(source))
    data = _read(path)
    if "exposures" in data:
        if over != "epoch":
            raise OptionError(f"{path}: knows epochs alone, no steps: leave --steps out")
        return _curves_of_demo(path, data)
    history = data.get("log_history")
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        raise ResultsError(
            f"{path}: field 'log_history': expected a list of objects: give the {STATE} of a Trainer, a folder with "
            "checkpoints, or the exposure_by_epoch.json of 'leakage demo'"
        )
    curves = curves_of_log(history, over)
    if curves is None:
        raise ResultsError(f"{path}: field 'log_history': no exposure in it: train with an ExposureCallback")
    return curves


def read_history(path: str | Path) -> list[EpochExposure]:
    """The points of an ``exposure_by_epoch.json`` that the demo wrote. Raises ResultsError naming file and field."""
    wanted = sorted(field.name for field in fields(EpochExposure) if field.name != "bound")
    try:
        return [
            _sound(EpochExposure(**{name: point[name] for name in wanted}, bound=point.get("bound") is True))
            for point in load_json(path)["exposures"]
        ]
    except (AttributeError, ValueError, KeyError, TypeError):
        raise ResultsError(
            f"{path}: field 'exposures': expected a list of objects with {', '.join(wanted)}: give the "
            "exposure_by_epoch.json of 'leakage demo', or what lm_eval wrote"
        ) from None


def _sound(point: EpochExposure) -> EpochExposure:
    """The point itself. Raises ValueError for one that cannot be drawn."""
    numbers = (point.epoch, point.repetitions, point.exposure, point.log2_size)
    if not isinstance(point.canary, str) or not all(is_finite(number) and number >= 0 for number in numbers):
        raise ValueError(point.canary)
    return point


def curves_of_log(history: Iterable[Mapping[str, Any]], over: Over = "epoch") -> TrainingCurves | None:
    """The curves in a trainer's ``log_history``, or None if no exposure was logged."""
    entries = list(history)
    bounds = [bits for _, bits in _points(entries, BOUND, over)]
    times = {int(found[1]) for entry in entries for key in entry if (found := re.fullmatch(f"{_TIMES}(\\d+)", key))}
    planted = {time: _points(entries, f"{_TIMES}{time}", over) for time in sorted(times)}
    if not bounds or not any(planted.values()):
        return None
    training, validation, controls = (_points(entries, key, over) for key in ("loss", "eval_loss", CONTROLS))
    at_least = {
        each: [at for at, share in _points(entries, f"{_TIMES}{each}{_AT_LEAST}", over) if share] for each in planted
    }
    return TrainingCurves(
        training,
        validation,
        planted,
        controls,
        max(bounds),
        over,
        bounds={each: at for each, at in at_least.items() if at},
    )


def _points(entries: Iterable[Mapping[str, Any]], key: str, over: Over) -> list[Point]:
    """The finite values of one key; of entries at one place, as a resumed run may have, the last counts."""
    found = {entry[over]: entry[key] for entry in entries if is_finite(entry.get(over)) and is_finite(entry.get(key))}
    return sorted(found.items())


def _file_of(source: Path) -> Path:
    if not source.is_dir():
        return source
    saved = {
        int(path.parent.name.removeprefix("checkpoint-")): path
        for path in source.glob(f"checkpoint-*/{STATE}")
        if path.parent.name.removeprefix("checkpoint-").isdecimal()
    }
    if (source / STATE).is_file():
        return source / STATE
    if not saved:
        raise ResultsError(f"{source}: no {STATE} in it or in a checkpoint-* of it: give the output_dir of a Trainer")
    return saved[max(saved)]


def _read(path: Path) -> dict[str, Any]:
    try:
        data = load_json(path)
    except ValueError:
        raise ResultsError(f"{path}: not JSON: give the {STATE} of a Trainer") from None
    return data if isinstance(data, dict) else {}


def _curves_of_demo(path: Path, data: Mapping[str, Any]) -> TrainingCurves:
    points = read_history(path)
    if not points:
        raise ResultsError(f"{path}: field 'exposures': is empty: run 'leakage demo' again")
    losses = data.get("losses")
    if not isinstance(losses, list) or not all(isinstance(loss, dict) for loss in losses):
        raise ResultsError(f"{path}: field 'losses': expected a list of objects: run 'leakage demo' again")
    grouped: dict[int, dict[int, list[float]]] = {}
    for point in points:
        grouped.setdefault(point.repetitions, {}).setdefault(point.epoch, []).append(point.exposure)
    means = {times: sorted((epoch, fmean(bits)) for epoch, bits in at.items()) for times, at in grouped.items()}
    entries = [{**loss, "epoch": epoch} for epoch, loss in enumerate(losses, 1)]
    training, validation = (_points(entries, name, "epoch") for name in ("training", "validation"))
    size = max(point.log2_size for point in points)
    bounds: dict[int, list[float]] = {}
    for times, epoch in sorted({(point.repetitions, point.epoch) for point in points if point.bound}):
        bounds.setdefault(times, []).append(epoch)
    bounds.pop(0, None)
    return TrainingCurves(
        training, validation, means, means.pop(0, []), size, loss_unit="bits a character", bounds=bounds
    )
