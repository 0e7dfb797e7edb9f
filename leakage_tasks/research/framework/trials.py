"""Trials on disk: each is run once, and a run that was cut short goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from copy import copy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import write_text
from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.inputs import parse_json, read_bytes
from leakage_tasks.core.version import __version__
from leakage_tasks.research.framework.code_hash import code_of
from leakage_tasks.research.framework.registry import Config, Run, StudyTrial

SCHEMA = 1
_FIGURES_DEPEND_ON = ("torch", "transformers", "tokenizers", "datasets", "opacus")


def versions(*more: str) -> dict[str, str]:
    """This package's version and those of the packages its figures depend on, and of ``more``; all by name."""
    found = {"lm-eval-leakage": __version__, "python": platform.python_version()}
    for name in (*_FIGURES_DEPEND_ON, *more):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


class TrialStore:
    """The trials of one paper at one scale under ``folder``: ``trials/<hash>.json`` and the folder ``shared``.

    A trial is known by its run function and config; one saved by other versions or by other code is run anew.
    ``fresh`` leaves aside what was saved before, shared files included: all but the trials that ``made`` names.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.versions = versions()
        tag = hashlib.sha256(json.dumps(self.versions).encode()).hexdigest()[:12]
        self.trials, self.shared = folder / "trials", folder / "shared" / tag
        self.fresh = fresh
        self.made: set[str] = set()
        if fresh:
            shutil.rmtree(self.shared, ignore_errors=True)
        try:
            for place in (self.trials, self.shared):
                place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LeakageError(f"{place}: cannot be made ({error.strerror}): choose another --output") from None

    def anywhere(self) -> TrialStore:
        """The same store for a process with another current folder."""
        same = copy(self)
        same.trials, same.shared = self.trials.absolute(), self.shared.absolute()
        return same

    def saved(self, run: Run, config: Config) -> StudyTrial | None:
        """The trial as it was saved, None if it has to be run."""
        name = trial_name(run, config)
        if self.fresh and name not in self.made:
            return None
        try:
            data: Any = parse_json(read_bytes(self.trials / f"{name}.json"))
            same = data["schema"] == SCHEMA and data["versions"] == self.versions and data["config"] == _plain(config)
            code, device = data.get("code"), data.get("device") or _only_device(data["versions"])
            if same and code in (None, code_of(run)):
                return StudyTrial(data["config"], data["result"], data["seconds"], code, device)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        return None

    def run(self, study: str, run: Run, config: Config) -> StudyTrial:
        """Run a trial and save it. Raises LeakageError, naming the trial, for one that fails for a known reason."""
        started = time.perf_counter()
        try:
            result = run(_plain(config), self.shared)
        except LeakageError as error:
            error.args = (f"study {study}, trial {json.dumps(config)}: {error}",)
            raise error from None
        seconds = time.perf_counter() - started
        trial = StudyTrial(_plain(config), _plain(result), seconds, code_of(run), _device())
        name = trial_name(run, config)
        record = {"schema": SCHEMA, "study": study, "versions": self.versions, **vars(trial)}
        text = json.dumps(record, indent=1) + "\n"
        write_text(self.trials / f"{name}.json", text, private=bool(config.get("reveal")))
        return trial


def trial_name(run: Run, config: Config) -> str:
    """A hash of what a trial is a function of: the run function's name and the config."""
    key = {"run": f"{run.__module__}.{run.__qualname__}", "config": _plain(config)}
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]


def made_by(trials: Iterable[StudyTrial]) -> dict[str, Any]:
    """Hashes of the code and devices of trials, null for what was not noted, and the fewest seeds of a setting."""
    found = list(trials)
    seeds: defaultdict[str, set[Any]] = defaultdict(set)
    for trial in found:
        setting = {name: value for name, value in trial.config.items() if name != "seed"}
        seeds[json.dumps(setting, sort_keys=True)].add(trial.config.get("seed"))
    return {
        "code": sorted({trial.code for trial in found}, key=str),
        "devices": sorted({trial.device for trial in found}, key=str),
        "seeds": min(map(len, seeds.values())),
    }


def _device() -> str:
    """The GPU that a trial which has just ended could take, or ``CPU``."""
    torch = sys.modules.get("torch")
    return str(torch.cuda.get_device_name()) if torch is not None and torch.cuda.is_available() else "CPU"


def _only_device(packages: dict[str, str]) -> str | None:
    """``CPU`` where torch knew no other."""
    return "CPU" if packages["torch"].endswith("+cpu") else None


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """The value as it comes back from JSON, so that a trial is the same whether it was run or read."""
    plain: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    return plain
