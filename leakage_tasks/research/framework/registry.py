"""Registry of studies: the parts of a study, and functions that find studies by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import nearest
from leakage_tasks.core.registry import Registry
from leakage_tasks.research.framework.report import Report

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)

Config = dict[str, Any]
"""The parameters of a trial by name, as JSON values.

They include the seed and everything that differs between scales.
"""

Key = TypeVar("Key")
Result = dict[str, Any]
"""The measurements of a trial by name, as JSON values without NaN."""

Run = Callable[[Config, Path], Result]
"""A function that runs one trial. The result depends only on the config; the folder holds files that several trials
share."""

Draw = Callable[[Report, Path], None]
"""A function that draws a report as a PNG file."""

PAPERS = ("elmahdy", "ethicist", "mix_and_match", "canary_inversion", "secret_sharer")
"""Packages whose modules register studies. Listing imports them, so heavy imports belong in their functions."""


@dataclass(frozen=True)
class StudyPlan:
    """The options of a run. ``trials`` is the number of runs per setting, None for the study's default.

    ``reveal`` lets studies that examine single texts show these texts, including text that people wrote.
    """

    scale: Scale
    seed: int = 0
    trials: int | None = None
    reveal: bool = False

    def seeds(self, usual: int) -> range:
        """Return the seeds of one setting: ``trials`` of them, or ``usual`` if the plan sets no number."""
        return range(self.seed, self.seed + (self.trials or usual))


@dataclass(frozen=True)
class StudyTrial:
    """A finished trial: config, result, duration in seconds, hash of the code, and device.

    The last two are None for a trial that an older version saved without them.
    """

    config: Config
    result: Result
    seconds: float
    code: str | None = None
    device: str | None = None


def grouped(trials: Iterable[StudyTrial], key: Callable[[Config], Key]) -> dict[Key, list[StudyTrial]]:
    """Group trials by ``key`` of their configs, in order of appearance."""
    groups: dict[Key, list[StudyTrial]] = {}
    for trial in trials:
        groups.setdefault(key(trial.config), []).append(trial)
    return groups


ListTrials = Callable[[StudyPlan], Iterable[Config]]
"""A function that lists the configs of all trials of a plan."""
MakeReport = Callable[[Sequence[StudyTrial], StudyPlan], Report]
"""A function that makes the report of trials."""


@dataclass(frozen=True)
class Study:
    """A study that reproduces one table or figure of a paper.

    Studies of one paper share trials that have the same ``run`` and config.
    """

    name: str
    """``paper/table``."""
    title: str
    """A short description."""
    source: str
    """The place of the published values."""
    scales: Mapping[Scale, str]
    """The cost and requirements of each available scale."""
    trials: ListTrials
    """A function that lists the configs of a plan."""
    run: Run
    """A function that runs one trial.

    It may share files, such as a base model, with other trials in the folder that it gets. The first trial that needs
    such a file creates it with :func:`~leakage_tasks.research.framework.shared.create_once`, under a name that depends
    on everything the file depends on.
    """
    report: MakeReport
    """A function that makes the report from the plan and one :class:`StudyTrial` per config, in the order of the
    configs."""
    plot: Draw | None = None
    """A function that draws the report as a PNG; None if there is no figure."""

    @property
    def group(self) -> str:
        """The paper that the study belongs to."""
        return self.name.partition("/")[0]


Register = Callable[..., Study]
STUDIES: Registry[Study] = Registry("study", *(f"leakage_tasks.research.{paper}" for paper in PAPERS))
RESERVED = ("trials", "shared")
"""Names of folders that cannot be a study's name."""


def register(study: Study) -> Study:
    """Register a study. Raises ValueError if its name is not ``paper/table``, and PluginError if the name is taken."""
    paper, slash, table = study.name.partition("/")
    if not (paper and slash and table) or "/" in table or table in RESERVED:
        raise ValueError(f"{study.name!r} is not a valid name of a study: use paper/table")
    return STUDIES.register(study.name, study, study.report)


def registrar(paper: str, source: str, scales: Mapping[Scale, str], run: Run) -> Register:
    """Return a function that registers studies of one paper."""

    def add(
        name: str, title: str, where: str, trials: ListTrials, report: MakeReport, plot: Draw | None = None
    ) -> Study:
        """Register a study by its name, title, place in the paper, trials, report and plot."""
        return register(Study(f"{paper}/{name}", title, f"{source}, {where}", scales, trials, run, report, plot))

    return add


def all_studies() -> list[Study]:
    """Return all studies, sorted by name. Imports the modules that register them."""
    return [STUDIES[name] for name in sorted(STUDIES)]


def find_studies(names: Sequence[str]) -> list[Study]:
    """Return studies by name, each once; a paper's name selects all of its studies.

    Raises OptionError for an unknown name and suggests the nearest known name.
    """
    known = all_studies()
    selected: dict[str, Study] = {}
    for name in names:
        chosen = [study for study in known if name in (study.name, study.group)]
        if not chosen:
            near = nearest(name, [study.name for study in known] + [study.group for study in known])
            hint = f"did you mean {near!r}?" if near else "run 'leakage study list' for all names"
            raise OptionError(f"no study is called {name!r}: {hint}")
        selected.update({study.name: study for study in chosen})
    return list(selected.values())


def check_scale(scale: str, studies: Iterable[Study]) -> Scale:
    """Return ``scale`` if all ``studies`` offer it. Raises OptionError otherwise."""
    for known in SCALES:
        if known == scale:
            for study in studies:
                if known not in study.scales:
                    raise OptionError(f"study {study.name} has no scale {scale}: use {', '.join(study.scales)}")
            return known
    near = nearest(scale, SCALES)
    hint = f"did you mean {near!r}?" if near else f"use {', '.join(SCALES[:-1])} or {SCALES[-1]}"
    raise OptionError(f"--scale is {scale!r}: {hint}")
