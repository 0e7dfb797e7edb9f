"""What a look before training found, for a task to tell beside its figures: how canaries were read, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import CONTEXT, TrainingExposure
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import parse_json, read_named
from leakage_tasks.core.log import warn_once

IN_LOSS = "in the loss"
COUNTS = ("in_loss", "in_part")
"""Copies of a canary with all of the secret in the loss, and with some of it."""
_TRAINING_EXPOSURES: dict[str, TrainingExposure] = {"in the context only": "context", "absent": "absent"}


@dataclass(frozen=True)
class PreflightSummary:
    """What a look before training says of an audit's canaries; nothing where nobody looked."""

    learnt: dict[str, list[int]] = field(default_factory=dict)
    """By repetitions, how many copies had their secret in the loss, and how many there are to be; of canaries read in
    the context only, by :data:`.CONTEXT`."""
    readings: dict[str, TrainingExposure] = field(default_factory=dict)
    """By id, how planted canaries were read that are not in the loss."""


def read_look(path: str, manifest: str, canaries: Sequence[Canary], near: Sequence[Canary] = ()) -> PreflightSummary:
    """How the ``canaries`` were read in training, some of which have ``near`` copies beside the exact ones.

    ``path`` is what ``leakage preflight -o`` or ``ExposureCallback`` wrote, ``manifest`` the hash of the canaries'.
    Natural canaries are left out. Raises OptionError for another file, one of another manifest, or of a part of the
    data; warns of planted canaries whose secret was not in the loss.
    """
    planted = [canary for canary in canaries if canary.planted]
    told = _read(path, [*planted, *near])
    copies_of = {canary.id: [canary] for canary in planted}
    for each in near:
        copies_of.get(each.supports or "", []).append(each)
    if told.get("manifest") != manifest:
        raise OptionError(f"--metadata preflight={path}: is about another manifest than canaries=…: look again with it")
    if told.get("rows") != told.get("total"):
        raise OptionError(f"--metadata preflight={path}: only a part of the data was looked at: look at all of it")
    found = told["canaries"]
    states = {name: {found[each.id]["state"] for each in own} for name, own in copies_of.items()}
    outside = [name for name in copies_of if IN_LOSS not in states[name]]
    if outside:
        shown = ", ".join(outside[:3]) + (" …" if len(outside) > 3 else "")
        warn_once(
            f"{len(outside)} of {len(planted)} planted canaries ({shown}) had no token of their secret in the loss of "
            f"training, or no trained weight that learns from it, as {path} says: low figures of theirs do not show "
            "that training protects them"
        )
    # How a natural secret was read would tell it from others.
    open_ = [canary for canary in planted if canary.kind != NATURAL]
    readings = {
        canary.id: next(reading for state, reading in _TRAINING_EXPOSURES.items() if state in states[canary.id])
        for canary in open_
        if canary.id in outside
    }
    learnt: Counter[int] = Counter()
    copies: Counter[int] = Counter()
    for canary in open_:
        planned = sum(each.repetitions for each in copies_of[canary.id])
        tier = CONTEXT if readings.get(canary.id) == "context" else planned
        copies[tier] += planned
        for each in copies_of[canary.id] if canary.id not in outside else ():
            # Copies of another canary of the same text are found as this one's too.
            learnt[tier] += min(each.repetitions, sum(found[each.id][name] for name in COUNTS))
    return PreflightSummary({str(tier): [learnt[tier], copies[tier]] for tier in sorted(copies)}, readings)


def _read(path: str, canaries: Sequence[Canary]) -> dict[str, Any]:
    """The file, which has a record for each canary. Raises OptionError."""
    text = read_named(Path(path), "file", OptionError)
    try:
        told: Any = parse_json(text)
        records = {each["canary"]: each for each in told["canaries"]}
        counts = [records[canary.id][name] for canary in canaries if canary.kind != NATURAL for name in COUNTS]
        counts += [told["rows"], told["schema"]]
        if not all(type(count) is int and count >= 0 for count in counts) or not all(
            records[canary.id]["state"] in (IN_LOSS, *_TRAINING_EXPOSURES) for canary in canaries
        ):
            raise ValueError
    except (ValueError, LookupError, TypeError):
        raise OptionError(
            f"--metadata preflight={path}: not what 'leakage preflight -o' writes for these canaries: give that file"
        ) from None
    return {**told, "canaries": records}
