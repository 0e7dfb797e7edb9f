"""Findings that are stored while a run makes them, and reused by an equal run on the same model.

A finding is reused if everything that determines it is equal: the model, the settings, and the canary or pair. Neither
findings nor keys of the folder reveal more of a natural secret than samples do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from leakage_tasks.attacks.arithmetic import ARITHMETIC
from leakage_tasks.canaries import Canary, manifest_hash
from leakage_tasks.core.former_names import with_former_attacks
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.core.journal import Journal, journal_files, open_journal
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.nouns import counted
from leakage_tasks.core.processes import Processes
from leakage_tasks.harness.api import LM
from leakage_tasks.targets.harness.fingerprint import files_fingerprint, model_fingerprint
from leakage_tasks.tasks.base_task import fingerprint
from leakage_tasks.tasks.sharing import holders_of, processes_of, rank_of

AnyFinding = TypeVar("AnyFinding")
Item = Any
"""A JSON-able key of one canary or pair in its task; None if it has no safe key."""


class Resume:
    """The folders and the model of a run; each folder is opened once, and each model is hashed once."""

    def __init__(self, lm: LM) -> None:
        self._lm = lm
        self._models: dict[str | None, dict[str, Any]] = {}
        self._journals: dict[str, Journal] = {}

    def findings(
        self,
        folder: str | None,
        model_id: str | None,
        task: str,
        settings: Mapping[str, Any],
        items: Sequence[Item],
        read: Callable[[str], AnyFinding],
        whole: bool = False,
    ) -> Findings[AnyFinding]:
        """Return a folder's findings on ``items`` for the ``task`` with these ``settings``; none without a folder.

        They include findings that were stored under the former names of attacks. If ``whole`` is true, each of several
        processes passes all ``items``, else only its part. Raises LeakageError for a folder that cannot be used.
        """
        if folder is None:
            return NoFindings(len(items))
        if folder not in self._journals:
            self._journals[folder] = open_journal(Path(folder))
        if model_id not in self._models:
            self._models[model_id] = self._model(model_id)
        group = {"task": task, "model": self._models[model_id], "arithmetic": ARITHMETIC, "asked": settings}
        former = fingerprint({**group, "asked": with_former_attacks(settings)})
        about = {"group": fingerprint(group), "task": task, "model": self._name(model_id)}
        stored = Findings(self._journals[folder], about, items, read, former)
        if (holders := holders_of(self._lm)) is not None:
            stored.agree(holders)
        processes = processes_of(self._lm)
        share = "" if whole or processes is None else f" of this process, one of {processes.size},"
        # Another process may have begun its attacks before this one reads the folder.
        origin = ", from earlier runs or from other processes of this run" if whole and processes is not None else ""
        if rank_of(self._lm) == 0:
            log.info(
                "leakage: %s: %d of %d findings%s are already in %s%s", task, len(stored.known), len(items), share,
                folder, origin,
            )  # fmt: skip
        return stored

    def _name(self, model_id: str | None) -> str:
        """Return the model's name with its adapter or delta weights; empty for a model that was passed as an object."""
        name = getattr(self._lm, "pretrained", None) or model_id or type(self._lm).__name__
        added = (getattr(self._lm, kind, None) for kind in ("peft", "delta"))
        return " + ".join([name, *(part for part in added if isinstance(part, str))]) if isinstance(name, str) else ""

    def _model(self, model_id: str | None) -> dict[str, Any]:
        """Return the fingerprint of the model; for a model spread over processes, the fingerprints of all parts."""
        holders = holders_of(self._lm)
        if holders is None:
            return model_fingerprint(self._lm, model_id)
        with holders.call():
            fingerprint_json = json.dumps(model_fingerprint(self._lm, model_id))
            return {"parts": holders.exchange("part", fingerprint_json)}


class Findings(Generic[AnyFinding]):
    """Findings of a folder on some items, by index, with a method that appends new findings."""

    def __init__(
        self,
        journal: Journal,
        about: Mapping[str, str],
        items: Sequence[Item],
        read: Callable[[str], AnyFinding],
        former_group: str = "",
    ) -> None:
        """Read the findings of the group in ``about``, and of the ``former_group``, its hash with former names."""
        self._journal, self._about = journal, about
        self._keys = [None if item is None else fingerprint([about["group"], item]) for item in items]
        self.known: dict[int, AnyFinding] = {}
        """Stored findings by index."""
        former = {fingerprint([former_group, item]): index for index, item in enumerate(items) if item is not None}
        places = {**former, **{key: index for index, key in enumerate(self._keys) if key is not None}}
        torn = 0
        for file in journal_files(journal.folder):
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
            warn_once(f"leakage: {journal.folder}: {counted(torn, 'torn or damaged line')} left out and computed again")

    @property
    def missing(self) -> list[int]:
        """Indices of items without a finding."""
        return [index for index in range(len(self._keys)) if index not in self.known]

    def agree(self, holders: Processes) -> None:
        """Keep only findings that all ``holders`` of one model have, because they must attack equal items.

        Only the first holder appends new findings.
        """
        with holders.call():
            all_known = holders.exchange("known", json.dumps([*self.known]))
        everywhere = set(self.known).intersection(*map(json.loads, all_known))
        self.known = {index: finding for index, finding in self.known.items() if index in everywhere}
        self._writes = holders.rank == 0

    def add(self, index: int, attack: str, finding: str) -> None:
        """Append the finding on an item as JSON; skip an item without a key."""
        if self._writes and (key := self._keys[index]) is not None:
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


class NoFindings(Findings[Any]):
    """The findings of a run without a folder: ``number`` findings are missing, and none is stored."""

    def __init__(self, number: int) -> None:
        self._keys, self.known, self._writes = [None] * number, {}, False


def item_of(canary: Canary, reveal: bool) -> Item:
    """Return the key of a canary; for a natural canary only a hash with the salt of its manifest.

    None for a natural canary without a salt, because an unsalted hash would confirm guesses at the secret.
    """
    if canary.kind != "natural":
        return canary.to_json()
    if canary.salt is None:
        warn_once(
            "leakage: natural canaries of manifests without salts are attacked again in each run: make the manifest "
            "with 'leakage canaries --from-text' again for resume= to keep their findings"
        )
        return None
    return [manifest_hash([canary]), reveal]


def settings_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of attacks; the path of a file is replaced by a fingerprint of its content."""
    return {name: files_fingerprint(value) if isinstance(value, str) else value for name, value in values.items()}


def summary_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return group, task, model and attack of a record. Raises KeyError, ValueError or TypeError for a damaged
    record."""
    parse_json(record["finding"])
    datetime.fromisoformat(record["when"])
    return tuple(str(record[name]) for name in ("group", "task", "model", "attack"))
