"""Losses and exposure over training: writing and reading of a trainer's log, and reading of the demo's history."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import CONTEXT, TrainingExposure, tier_of
from leakage_tasks.core.errors import OptionError, ResultsError
from leakage_tasks.core.records import Between, WrongField, mapping, reader_of
from leakage_tasks.report.load.validate import is_finite, load_json

if TYPE_CHECKING:
    from leakage_tasks.attacks import Finding

Point = tuple[float, float]
"""Epoch or step, and the value at it."""
Over = Literal["epoch", "step"]
STATE = "trainer_state.json"
MEAN, MOST, CONTROLS = (f"leakage/exposure_{name}" for name in ("mean", "max", "controls"))
BOUND, KNOWN = "leakage/exposure_bound", "leakage/share_with_interval"
NATURAL_MEAN, NATURAL_CONTROLS = "leakage/exposure_natural", "leakage/exposure_natural_controls"
SECONDS, SKIPPED = "leakage/seconds", "leakage/skipped"
_NOT_LEARNT: dict[int | None, str] = {CONTEXT: "leakage/exposure_context", None: "leakage/exposure_absent"}
"""Keys of canaries that training read only as context or never, by tier; canaries in the loss have their copies."""
_TIMES = "leakage/exposure_x"
_AT_LEAST = "_at_least"
"""Ending of the key for the share of a tier's canaries whose exposure is a lower bound."""


def exposure_entry(findings: Sequence[Finding]) -> dict[str, float]:
    """Summarize findings at one point of a run as an entry of its log.

    All values are in bits, except ``share_with_interval`` and ``…_at_least``. The lowest number of copies comes first,
    then canaries that training did not learn from; ``exposure_mean`` covers all planted canaries, natural secrets have
    means of their own. ``exposure_bound`` is the largest log2|R|, ``share_with_interval`` the share of planted canaries
    whose exposure is more than a lower bound. A tier with lower bounds also has ``exposure_x…_at_least``, their share.
    """
    by_tier: dict[int | None, list[float]] = {}
    bounds: Counter[int | None] = Counter()
    natural: dict[bool, list[float]] = {True: [], False: []}
    never: list[float] = []
    for finding in findings:
        assert finding.exposure is not None, "findings of the exposure attack have a rank"
        if finding.kind == NATURAL:
            natural[finding.planted].append(finding.exposure)
        elif not finding.planted:
            never.append(finding.exposure)
        else:
            by_tier.setdefault(finding.tier, []).append(finding.exposure)
            bounds[finding.tier] += finding.method == "lower_bound"
    planted = [bits for group in by_tier.values() for bits in group]
    known = [finding.method != "lower_bound" for finding in findings if finding.planted]
    means = {MEAN: planted, CONTROLS: never, NATURAL_MEAN: natural[True], NATURAL_CONTROLS: natural[False]}
    tiers = sorted(by_tier, key=lambda tier: (tier in _NOT_LEARNT, tier or 0))
    return {
        **{_key(tier): fmean(by_tier[tier]) for tier in tiers},
        **{f"{_key(tier)}{_AT_LEAST}": bounds[tier] / len(by_tier[tier]) for tier in tiers if bounds[tier]},
        **{name: fmean(bits) for name, bits in means.items() if bits},
        **({MOST: max(planted)} if planted else {}),
        BOUND: max(finding.log2_size for finding in findings),
        KNOWN: fmean(known),
    }


def _key(tier: int | None) -> str:
    return _NOT_LEARNT.get(tier, f"{_TIMES}{tier}")


@dataclass(frozen=True)
class EpochExposure:
    """Exposure in bits of one canary after one epoch; ``repetitions`` is 0 for a control.

    ``log2_size`` is log2|R|, the maximum. ``bound`` is True for a lower bound, ``natural`` for a natural secret and
    its controls.
    """

    epoch: Annotated[int, Between(0)]
    canary: str
    repetitions: Annotated[int, Between(0)]
    exposure: Annotated[float, Between(0)]
    log2_size: Annotated[float, Between(0)]
    bound: bool = False
    natural: bool = False
    reading: TrainingExposure = ""

    @property
    def tier(self) -> int | None:
        """The canary's tier, as in :attr:`.Finding.tier`."""
        return tier_of(self.repetitions, self.reading)


@dataclass(frozen=True)
class TrainingCurves:
    """A run's losses and mean exposures, points in order of their epoch or step."""

    training: Sequence[Point]
    """Losses on the training data by epoch or step."""
    validation: Sequence[Point]
    """Losses on the validation data by epoch or step."""
    planted: Mapping[int | None, Sequence[Point]]
    """Mean exposure in bits, by tier: the number of copies, or a canary's training exposure, as in
    :attr:`.Finding.tier`."""
    controls: Sequence[Point]
    """Mean exposure of the controls."""
    log2_size: float
    """log2|R|, the maximum exposure."""
    over: Over = "epoch"
    """The unit of the horizontal axis."""
    loss_unit: str = "nats per token"
    """The unit of the losses in words."""
    bounds: Mapping[int | None, Sequence[float]] = field(default_factory=dict)
    """Epochs or steps at which the mean exposure is a lower bound, by tier."""


def read_curves(source: str | Path, over: Over = "epoch") -> TrainingCurves:
    """Read the curves of a run of ``transformers.Trainer`` with an ``ExposureCallback``, or of the demo.

    ``source`` is a ``trainer_state.json``, a folder that contains this file or checkpoints with it (the latest is
    read), or the demo's ``exposure_by_epoch.json``, which has no steps. Raises ResultsError for another file or one
    without exposure, and OptionError for steps of the demo.
    """
    path = _file_of(Path(source))
    data = _read(path)
    if "exposures" in data:
        if over != "epoch":
            raise OptionError(f"{path}: contains epochs, but no steps: remove --steps")
        return _curves_of_demo(path, data)
    history = data.get("log_history")
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        raise ResultsError(
            f"{path}: field 'log_history': expected a list of objects: give the {STATE} of a Trainer, a folder with "
            "checkpoints, or the exposure_by_epoch.json of 'leakage demo'"
        )
    curves = curves_of_log(history, over)
    if curves is None:
        raise ResultsError(f"{path}: field 'log_history': contains no exposure: train with an ExposureCallback")
    return curves


def read_history(path: str | Path) -> list[EpochExposure]:
    """Read the demo's ``exposure_by_epoch.json``. Raises ResultsError naming file and field."""
    remedy = "give the exposure_by_epoch.json of 'leakage demo', or a file that lm_eval wrote"
    try:
        points = mapping(load_json(path), "").get("exposures")
        return list(reader_of(tuple[EpochExposure, ...])(points, "exposures"))
    except WrongField as error:
        raise ResultsError(f"{path}: field {error.name or 'exposures'!r}: {error.what}: {remedy}") from None
    except ValueError:
        raise ResultsError(f"{path}: not JSON: {remedy}") from None


def curves_of_log(history: Iterable[Mapping[str, Any]], over: Over = "epoch") -> TrainingCurves | None:
    """Return the curves of a trainer's ``log_history``, or None if it contains no exposure."""
    entries = list(history)
    bounds = [bits for _, bits in _points(entries, BOUND, over)]
    copies = {int(match[1]) for entry in entries for key in entry if (match := re.fullmatch(f"{_TIMES}(\\d+)", key))}
    of_tier = {tier: _points(entries, _key(tier), over) for tier in (*sorted(copies), *_NOT_LEARNT)}
    planted = {tier: points for tier, points in of_tier.items() if points}
    if not bounds or not planted:
        return None
    training, validation, controls = (_points(entries, key, over) for key in ("loss", "eval_loss", CONTROLS))
    at_least = {
        tier: [position for position, share in _points(entries, f"{_key(tier)}{_AT_LEAST}", over) if share]
        for tier in planted
    }
    return TrainingCurves(
        training,
        validation,
        planted,
        controls,
        max(bounds),
        over,
        bounds={tier: positions for tier, positions in at_least.items() if positions},
    )


def _points(entries: Iterable[Mapping[str, Any]], key: str, over: Over) -> list[Point]:
    """Return the finite values of one key; a later entry at one position wins, as after a resumed run."""
    values = {entry[over]: entry[key] for entry in entries if is_finite(entry.get(over)) and is_finite(entry.get(key))}
    return sorted(values.items())


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
        raise ResultsError(f"{source}: contains no {STATE}, nor does a checkpoint-* in it: give a Trainer's output_dir")
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
    grouped: dict[int | None, dict[int, list[float]]] = {}
    never: dict[int, list[float]] = {}
    for point in points:
        group = grouped.setdefault(point.tier, {}) if point.repetitions else never
        group.setdefault(point.epoch, []).append(point.exposure)
    means = {tier: _means(by_epoch) for tier, by_epoch in grouped.items()}
    entries = [{**loss, "epoch": epoch} for epoch, loss in enumerate(losses, 1)]
    training, validation = (_points(entries, name, "epoch") for name in ("training", "validation"))
    size = max(point.log2_size for point in points)
    lower = {
        tier: sorted({point.epoch for point in points if point.bound and point.repetitions and point.tier == tier})
        for tier in means
    }
    bounds = {tier: epochs for tier, epochs in lower.items() if epochs}
    return TrainingCurves(
        training, validation, means, _means(never), size, loss_unit="bits per character", bounds=bounds
    )


def _means(by_epoch: Mapping[int, Sequence[float]]) -> list[Point]:
    return sorted((epoch, fmean(bits)) for epoch, bits in by_epoch.items())
