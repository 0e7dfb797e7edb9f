"""Findings that outlive their run: appended as they are made, used again by a run of the same on the same model.

A finding is used again where all is the same that decides it: the model, what is asked of it, and the canary or pair.
Of a natural secret neither the folder's findings nor their keys say more than samples do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from leakage_tasks.attacks.arithmetic import ARITHMETIC
from leakage_tasks.canaries import Canary, manifest_hash
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.journal import Journal, kept, open_journal
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.processes import Processes
from leakage_tasks.harness.api import LM
from leakage_tasks.targets.harness.fingerprint import files_fingerprint, model_fingerprint
from leakage_tasks.tasks.base_task import fingerprint
from leakage_tasks.tasks.sharing import holders_of, processes_of, rank_of

AnyFinding = TypeVar("AnyFinding")
Item = Any
"""What tells one canary or pair from the others of its task, as JSON holds it; None for what cannot be told."""


class Resume:
    """The folders and the model of a run: each folder is opened, each model hashed, once."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm
        self._models: dict[str | None, dict[str, Any]] = {}
        self._journals: dict[str, Journal] = {}

    def findings(
        self,
        folder: str,
        model_id: str | None,
        task: str,
        asked: Mapping[str, Any],
        items: Sequence[Item],
        read: Callable[[str], AnyFinding],
        whole: bool = False,
    ) -> Findings[AnyFinding]:
        """What a folder holds of ``items``, of which ``task`` asks what ``asked`` says. Raises LeakageError.

        Of several processes each has all ``items`` where they are the ``whole``, else its part.
        """
        if folder not in self._journals:
            self._journals[folder] = open_journal(Path(folder))
        if model_id not in self._models:
            self._models[model_id] = self._model(model_id)
        group = {"task": task, "model": self._models[model_id], "arithmetic": ARITHMETIC, "asked": asked}
        named = getattr(self._lm, "pretrained", None) or model_id or type(self._lm).__name__
        about = {"group": fingerprint(group), "task": task, "model": str(named) if isinstance(named, str) else ""}
        found = Findings(self._journals[folder], about, items, read)
        if (holders := holders_of(self._lm)) is not None:
            found.agree(holders)
        processes = None if whole else processes_of(self._lm)
        share = "" if processes is None else f" of this process, one of {processes.size},"
        if rank_of(self._lm) == 0:
            log.info(
                "leakage: %s: %d of %d findings%s are there already in %s", task, len(found.known), len(items), share,
                folder,
            )  # fmt: skip
        return found

    def _model(self, model_id: str | None) -> dict[str, Any]:
        """The model's fingerprint; of one in parts, which differ by process, those of all parts."""
        holders = holders_of(self._lm)
        if holders is None:
            return model_fingerprint(self._lm, model_id)
        with holders.call():
            own = json.dumps(model_fingerprint(self._lm, model_id))
            return {"parts": holders.exchange("part", own)}


class Findings(Generic[AnyFinding]):
    """What a folder holds of some items, by their place among them, and how more is added."""

    def __init__(
        self, journal: Journal, about: Mapping[str, str], items: Sequence[Item], read: Callable[[str], AnyFinding]
    ) -> None:
        self._journal, self._about = journal, about
        self._keys = [None if item is None else fingerprint([about["group"], item]) for item in items]
        self.known: dict[int, AnyFinding] = {}
        """The findings that are there, by place."""
        places = {key: index for index, key in enumerate(self._keys) if key is not None}
        torn = 0
        for file in kept(journal.folder):
            torn += file.torn
            for record in file.records:
                place = places.get(str(record.get("key")))
                if place is not None and place not in self.known:
                    try:
                        self.known[place] = read(record["finding"])
                    except (ValueError, KeyError, TypeError):
                        torn += 1
        self._writes = True
        if torn:
            warn_once(f"leakage: {journal.folder}: {torn} torn or damaged line(s) are left out: found out anew")

    @property
    def missing(self) -> list[int]:
        """Places of the items that there is nothing of."""
        return [index for index in range(len(self._keys)) if index not in self.known]

    def agree(self, holders: Processes) -> None:
        """Know no more than every one of ``holders`` of one model does, who must attack the same; the first appends."""
        with holders.call():
            told = holders.exchange("known", json.dumps([*self.known]))
        everywhere = set(self.known).intersection(*map(json.loads, told))
        self.known = {place: each for place, each in self.known.items() if place in everywhere}
        self._writes = holders.rank == 0

    def add(self, place: int, attack: str, finding: str) -> None:
        """Append what was found out about an item, as JSON; nothing for one that cannot be told from others."""
        if self._writes and (key := self._keys[place]) is not None:
            self._journal.append(
                {
                    "key": key,
                    **self._about,
                    "attack": attack,
                    "arithmetic": ARITHMETIC,
                    "when": datetime.now(UTC).isoformat(timespec="seconds"),
                    "finding": finding,
                }
            )


def item_of(canary: Canary, reveal: bool) -> Item:
    """A canary as it decides its finding; of a natural one no more than a hash that its manifest's salt goes into.

    None for a natural one without a salt, which no hash can tell from another without confirming guesses at it.
    """
    if canary.kind != "natural":
        return canary.to_json()
    if canary.salt is None:
        warn_once(
            "leakage: natural canaries of manifests without salts are attacked anew in each run: make the manifest "
            "with 'leakage canaries --from-text' again for resume= to keep their findings"
        )
        return None
    return [manifest_hash([canary]), reveal]


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of attacks with the content of what they name instead of its place."""
    return {name: files_fingerprint(value) if isinstance(value, str) else value for name, value in given.items()}


def summary_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What a record says of its group: the group, task, model and attack. Raises KeyError, ValueError, TypeError."""
    parse_json(record["finding"])
    datetime.fromisoformat(record["when"])
    return tuple(str(record[name]) for name in ("group", "task", "model", "attack"))
