"""Results of a preflight check for a task: the training exposure of canaries, and the number of copies in the loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import CONTEXT, TrainingExposure
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import parse_json, read_named
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.records import Between, read_record

State = Literal["in the loss", "in the context only", "absent"]
"""The role of a canary's secret in training."""
IN_LOSS: State = "in the loss"
_TRAINING_EXPOSURES: dict[State, TrainingExposure] = {"in the context only": "context", "absent": "absent"}


@dataclass(frozen=True)
class _Copies:
    """The record of a canary: its state, and counts of its copies unless it is natural."""

    canary: str
    state: State
    in_loss: Annotated[int, Between(0)] | None = None
    """The number of copies with all of the secret in the loss."""
    in_part: Annotated[int, Between(0)] | None = None
    """The number of copies with a part of the secret in the loss."""

    @property
    def copies(self) -> int | None:
        """The number of copies with a token of the secret in the loss; None if a count is missing."""
        return None if self.in_loss is None or self.in_part is None else self.in_loss + self.in_part


@dataclass(frozen=True)
class _Check:
    """The content of a file of ``leakage preflight``."""

    schema: Annotated[int, Between(0)]
    rows: Annotated[int, Between(0)]
    """The number of rows that were checked, of ``total``."""
    canaries: tuple[dict[str, Any], ...]
    total: Any = None
    manifest: Any = None


@dataclass(frozen=True)
class PreflightSummary:
    """Result of a preflight check on an audit's canaries; empty without such a check."""

    learnt: dict[str, list[int]] = field(default_factory=dict)
    """For each repetition count: the number of copies whose secret is in the loss, and the expected number. The key
    :data:`.CONTEXT` counts canaries that training read only as context."""
    readings: dict[str, TrainingExposure] = field(default_factory=dict)
    """Training exposure by canary id, for planted canaries that are not in the loss."""


def read_preflight(
    path: str, manifest: str, canaries: Sequence[Canary], near: Sequence[Canary] = ()
) -> PreflightSummary:
    """Return the training exposure of the ``canaries``, some of which have ``near`` copies.

    ``path`` is a file written by ``leakage preflight -o`` or ``ExposureCallback``, ``manifest`` the canaries' hash.
    Natural canaries are left out. A warning names planted canaries whose secret was not in the loss. Raises OptionError
    for another file, another manifest, or a part of the data.
    """
    planted = [canary for canary in canaries if canary.planted]
    check, records = _read(path, [*planted, *near])
    copies_of = _with_near(planted, near)
    if check.manifest != manifest:
        raise OptionError(
            f"--metadata preflight={path}: was made with another manifest than canaries=…: run preflight again"
        )
    if check.rows != check.total:
        raise OptionError(f"--metadata preflight={path}: covers only a part of the data: run preflight on all of it")
    states = {name: record.state for name, record in records.items()}
    not_in_loss = [name for name, same in copies_of.items() if IN_LOSS not in {states[copy.id] for copy in same}]
    if not_in_loss:
        shown = ", ".join(not_in_loss[:3]) + (" …" if len(not_in_loss) > 3 else "")
        warn_once(
            f"{len(not_in_loss)} of {len(planted)} planted canaries ({shown}) had no token of their secret in the "
            f"training loss, or no trained weight that learns from it, according to {path}: their low values do not "
            "show that training protects them"
        )
    readings = training_exposures(states, planted, near)
    learnt: Counter[int] = Counter()
    copies: Counter[int] = Counter()
    for canary in (canary for canary in planted if canary.kind != NATURAL):
        planned = sum(each.repetitions for each in copies_of[canary.id])
        tier = CONTEXT if readings.get(canary.id) == "context" else planned
        copies[tier] += planned
        for each in copies_of[canary.id] if canary.id not in not_in_loss else ():
            # Copies of another canary with equal text are counted for this one, too.
            learnt[tier] += min(each.repetitions, records[each.id].copies or 0)
    return PreflightSummary({str(tier): [learnt[tier], copies[tier]] for tier in sorted(copies)}, readings)


def training_exposures(
    states: Mapping[str, State], canaries: Sequence[Canary], near: Sequence[Canary] = ()
) -> dict[str, TrainingExposure]:
    """Return the training exposure, by id, of planted canaries without a copy in the loss, exact or near.

    ``states`` has the state of each canary. Natural canaries are left out, because it would distinguish a natural
    secret from others.
    """
    public = [canary for canary in canaries if canary.planted and canary.kind != NATURAL]
    known = {name: {states[copy.id] for copy in same} for name, same in _with_near(public, near).items()}
    return {
        name: next(reading for state, reading in _TRAINING_EXPOSURES.items() if state in of_copies)
        for name, of_copies in known.items()
        if IN_LOSS not in of_copies
    }


def _with_near(canaries: Sequence[Canary], near: Sequence[Canary]) -> dict[str, list[Canary]]:
    """Return each canary with its near copies, by id."""
    copies_of = {canary.id: [canary] for canary in canaries}
    for each in near:
        copies_of.get(each.supports or "", []).append(each)
    return copies_of


def _read(path: str, canaries: Sequence[Canary]) -> tuple[_Check, dict[str, _Copies]]:
    """Return the content of the file, with a record for each canary. Raises OptionError for any other file."""
    text = read_named(Path(path), "file", OptionError)
    try:
        check = read_record(_Check, parse_json(text), ignore_unknown=True)
        records = [read_record(_Copies, record, "canaries", ignore_unknown=True) for record in check.canaries]
        by_id = {record.canary: record for record in records}
        for canary in canaries:
            if by_id[canary.id].copies is None and canary.kind != NATURAL:
                raise KeyError(canary.id)
    except (ValueError, KeyError):
        raise OptionError(
            f"--metadata preflight={path}: not a file of 'leakage preflight -o' for these canaries: give that file"
        ) from None
    return check, by_id
