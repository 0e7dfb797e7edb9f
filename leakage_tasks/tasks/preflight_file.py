"""What a look before training found, for a task to tell beside its figures: of how many copies a secret was learnt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import parse_json, read_named
from leakage_tasks.core.log import warn_once

IN_LOSS = "in the loss"
COUNTS = ("in_loss", "in_part")
"""Copies of a canary with all of the secret in the loss, and with some of it."""


def copies_in_loss(path: str, manifest: str, canaries: Sequence[Canary]) -> dict[str, list[int]]:
    """By repetitions, how many copies of ``canaries`` had their secret in the loss, and how many there are to be.

    ``path`` is what ``leakage preflight -o`` or ``ExposureCallback`` wrote, ``manifest`` the hash of the canaries'.
    Natural canaries are left out. Raises OptionError for another file, one of another manifest, or of a part of the
    data; warns of planted canaries whose secret was not in the loss.
    """
    planted = [canary for canary in canaries if canary.planted]
    told = _read(path, planted)
    if told.get("manifest") != manifest:
        raise OptionError(f"--metadata preflight={path}: is about another manifest than canaries=…: look again with it")
    if told.get("rows") != told.get("total"):
        raise OptionError(f"--metadata preflight={path}: only a part of the data was looked at: look at all of it")
    found = told["canaries"]
    outside = [canary.id for canary in planted if found[canary.id]["state"] != IN_LOSS]
    if outside:
        shown = ", ".join(outside[:3]) + (" …" if len(outside) > 3 else "")
        warn_once(
            f"{len(outside)} of {len(planted)} planted canaries ({shown}) had no token of their secret in the loss of "
            f"training, as {path} says: low figures of theirs do not show that training protects them"
        )
    learnt: Counter[int] = Counter()
    copies: Counter[int] = Counter()
    for canary in planted:
        if canary.kind != NATURAL:
            # Copies of another canary of the same text are found as this one's too.
            learnt[canary.repetitions] += min(canary.repetitions, sum(found[canary.id][name] for name in COUNTS))
            copies[canary.repetitions] += canary.repetitions
    return {str(times): [learnt[times], copies[times]] for times in sorted(copies)}


def _read(path: str, canaries: Sequence[Canary]) -> dict[str, Any]:
    """The file, which has a record for each canary. Raises OptionError."""
    text = read_named(Path(path), "file", OptionError)
    try:
        told: Any = parse_json(text)
        records = {each["canary"]: each for each in told["canaries"]}
        counts = [records[each.id][name] for each in canaries if each.kind != NATURAL for name in COUNTS]
        counts += [told["rows"], told["schema"]]
        if not all(type(count) is int and count >= 0 for count in counts) or not all(
            isinstance(records[each.id]["state"], str) for each in canaries
        ):
            raise ValueError
    except (ValueError, LookupError, TypeError):
        raise OptionError(
            f"--metadata preflight={path}: not what 'leakage preflight -o' writes for these canaries: give that file"
        ) from None
    return {**told, "canaries": records}
