"""Saved trials. Each trial runs once, and an interrupted study continues where it stopped."""

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
    """Return the versions of this package, of packages that results depend on, and of ``more``, by name."""
    by_name = {"lm-eval-leakage": __version__, "python": platform.python_version()}
    for name in (*_FIGURES_DEPEND_ON, *more):
        try:
            by_name[name] = version(name)
        except PackageNotFoundError:
            by_name[name] = "not installed"
    return by_name


class TrialStore:
    """The trials of one paper at one scale: ``folder/trials/<hash>.json``, and a folder ``shared``.

    A trial is identified by its run function and config. A trial that other versions or other code saved runs again.
    ``fresh`` ignores everything saved before, shared files too, except the trials that ``made`` lists.
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
            for path in (self.trials, self.shared):
                path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LeakageError(
                f"{path}: cannot create the folder ({error.strerror}): choose another --output"
            ) from None

    def with_absolute_paths(self) -> TrialStore:
        """Return the store with absolute paths, for a process with another working folder."""
        store = copy(self)
        store.trials, store.shared = self.trials.absolute(), self.shared.absolute()
        return store

    def saved(self, run: Run, config: Config) -> StudyTrial | None:
        """Return the saved trial, or None if it has to run."""
        name = trial_name(run, config)
        if self.fresh and name not in self.made:
            return None
        try:
            data: Any = parse_json(read_bytes(self.trials / f"{name}.json"))
            matches = (
                data["schema"] == SCHEMA and data["versions"] == self.versions and data["config"] == _plain(config)
            )
            code, device = data.get("code"), data.get("device") or _only_device(data["versions"])
            if matches and code in (None, code_of(run)):
                return StudyTrial(data["config"], data["result"], data["seconds"], code, device)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        return None

    def run(self, study: str, run: Run, config: Config) -> StudyTrial:
        """Run a trial and save it. Raises LeakageError, with the trial's config, if it fails for a known reason."""
        started = time.perf_counter()
        try:
            result = run(_plain(config), self.shared)
        except LeakageError as error:
            error.args = (f"study {study}: {error} (trial {json.dumps(config)})",)
            raise error from None
        seconds = time.perf_counter() - started
        trial = StudyTrial(_plain(config), _plain(result), seconds, code_of(run), _device())
        name = trial_name(run, config)
        record = {"schema": SCHEMA, "study": study, "versions": self.versions, **vars(trial)}
        text = json.dumps(record, indent=1) + "\n"
        write_text(self.trials / f"{name}.json", text, private=bool(config.get("reveal")))
        return trial


def trial_name(run: Run, config: Config) -> str:
    """Return a hash of the run function's name and the config."""
    key = {"run": f"{run.__module__}.{run.__qualname__}", "config": _plain(config)}
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]


def made_by(trials: Iterable[StudyTrial]) -> dict[str, Any]:
    """Return the trials' hashes of code and devices (null if not recorded), and the fewest seeds of a setting."""
    all_trials = list(trials)
    seeds: defaultdict[str, set[Any]] = defaultdict(set)
    for trial in all_trials:
        setting = {name: value for name, value in trial.config.items() if name != "seed"}
        seeds[json.dumps(setting, sort_keys=True)].add(trial.config.get("seed"))
    return {
        "code": sorted({trial.code for trial in all_trials}, key=str),
        "devices": sorted({trial.device for trial in all_trials}, key=str),
        "seeds": min(map(len, seeds.values())),
    }


def _device() -> str:
    """Return the name of the GPU that the last trial could use, or ``CPU``."""
    torch = sys.modules.get("torch")
    return str(torch.cuda.get_device_name()) if torch is not None and torch.cuda.is_available() else "CPU"


def _only_device(packages: dict[str, str]) -> str | None:
    """Return ``CPU`` if the installed torch supports no other device."""
    return "CPU" if packages["torch"].endswith("+cpu") else None


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Return the value after a round trip through JSON, so that a trial that ran equals a trial that was loaded."""
    plain: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    return plain
