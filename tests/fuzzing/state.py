"""What has been done and found so far, as files that a later call goes on from."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzzing.case import BAD, GOOD, Outcome
from tests.fuzzing.work import KEPT


@dataclass
class State:
    """One surface: ``done`` inputs from 0, what became of them by kind, and findings by where they were made.

    ``seconds`` are those of computing.
    """

    surface: str
    seed: int
    done: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, number: int, outcome: Outcome, seconds: float) -> bool:
        """Count an outcome; whether it is a finding to keep."""
        self.done = number + 1
        self.seconds += seconds
        self.counts[outcome.kind] += 1
        if outcome.kind in GOOD:
            return False
        held = self.found.setdefault(f"{outcome.kind}: {outcome.where}", {"times": 0, "cases": []})
        held["times"] += 1
        if len(held["cases"]) >= KEPT:
            return False
        held["cases"].append(number)
        return True

    @property
    def findings(self) -> int:
        """How many inputs were findings."""
        return sum(self.counts[kind] for kind in BAD)

    def save(self, folder: Path) -> None:
        """Write it to ``folder`` at once."""
        held = {name: value for name, value in vars(self).items() if name != "surface"}
        beside = folder / f".{self.surface}.json"
        beside.write_text(json.dumps(held, indent=1, ensure_ascii=True), encoding="utf-8")
        os.replace(beside, folder / f"{self.surface}.json")


def load(folder: Path, surface: str, seed: int) -> State:
    """A surface's state, a new one where there is none. Raises ValueError for that of another seed."""
    path = folder / f"{surface}.json"
    if not path.is_file():
        return State(surface, seed)
    held: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if held["seed"] != seed:
        raise ValueError(f"{path}: is of seed {held['seed']}, not {seed}: name another --state")
    return State(surface, **{**held, "counts": Counter(held["counts"])})
