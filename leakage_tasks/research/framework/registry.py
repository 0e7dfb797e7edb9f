"""Studies by name: what one consists of, and how to find it."""

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
"""What a trial is a function of: JSON values by name, its seed and all that differs between scales included."""

Key = TypeVar("Key")
Result = dict[str, Any]
"""What a trial found out: JSON values by name, no NaN."""

Run = Callable[[Config, Path], Result]
"""One trial, a function of its config alone, and a folder for what several trials need."""

Draw = Callable[[Report, Path], None]
"""Draws a report as a PNG."""

PAPERS = ("elmahdy", "ethicist", "mix_and_match", "canary_inversion", "secret_sharer")
"""Rooms whose modules register studies. They are imported to list them, so they keep heavy imports in functions."""


@dataclass(frozen=True)
class StudyPlan:
    """What the user asked for. ``trials`` is how many independent runs each setting gets, None for the study's own.

    ``reveal`` has studies that look at single texts show them, also text that people wrote.
    """

    scale: Scale
    seed: int = 0
    trials: int | None = None
    reveal: bool = False

    def seeds(self, usual: int) -> range:
        """A seed for each run of one setting: ``trials`` of them, or ``usual`` where none were asked for."""
        return range(self.seed, self.seed + (self.trials or usual))


@dataclass(frozen=True)
class StudyTrial:
    """A trial that was run: its config, what it found, the seconds it took, the code's hash and the device.

    The last two are None for a trial that was saved before they were noted.
    """

    config: Config
    result: Result
    seconds: float
    code: str | None = None
    device: str | None = None


def grouped(trials: Iterable[StudyTrial], key: Callable[[Config], Key]) -> dict[Key, list[StudyTrial]]:
    """Trials by what ``key`` makes of their configs, in the order they come."""
    found: dict[Key, list[StudyTrial]] = {}
    for trial in trials:
        found.setdefault(key(trial.config), []).append(trial)
    return found


ListTrials = Callable[[StudyPlan], Iterable[Config]]
"""The configs of all trials that a plan takes."""
MakeReport = Callable[[Sequence[StudyTrial], StudyPlan], Report]
"""What the trials show."""


@dataclass(frozen=True)
class Study:
    """One table or figure of a paper as something to run.

    Studies of one paper share their trials, which are told apart by ``run`` and config.
    """

    name: str
    """``paper/table``."""
    title: str
    """What it shows, in a few words."""
    source: str
    """Where the figures were published."""
    scales: Mapping[Scale, str]
    """What every scale on offer takes."""
    trials: ListTrials
    """The configs of a plan."""
    run: Run
    """One trial, a function of its config alone, and of a folder for what several trials need, such as a base model:
    whoever needs it first makes it, as :func:`~leakage_tasks.research.framework.shared.sole_maker`, under a name that
    tells all it depends on."""
    report: MakeReport
    """Made of a :class:`StudyTrial` a config, in the order of the configs, and the plan."""
    plot: Draw | None = None
    """Draws the report as a PNG; None: there is no figure."""

    @property
    def group(self) -> str:
        """The paper the study belongs to."""
        return self.name.partition("/")[0]


Register = Callable[..., Study]
STUDIES: Registry[Study] = Registry("study", *(f"leakage_tasks.research.{paper}" for paper in PAPERS))
RESERVED = ("trials", "shared")
"""Folders beside a study's own."""


def register(study: Study) -> Study:
    """Make a study known by its name. Raises ValueError for one not ``paper/table``, PluginError for one taken."""
    paper, slash, table = study.name.partition("/")
    if not (paper and slash and table) or "/" in table or table in RESERVED:
        raise ValueError(f"{study.name!r} is no name for a study: write paper/table")
    return STUDIES.register(study.name, study, study.report)


def registrar(paper: str, source: str, scales: Mapping[Scale, str], run: Run) -> Register:
    """A function that registers studies of one paper: name, title, place in the paper, trials, report and plot."""

    def add(
        name: str, title: str, where: str, trials: ListTrials, report: MakeReport, plot: Draw | None = None
    ) -> Study:
        return register(Study(f"{paper}/{name}", title, f"{source}, {where}", scales, trials, run, report, plot))

    return add


def all_studies() -> list[Study]:
    """Every study, sorted by name; imports the modules that register them."""
    return [STUDIES[name] for name in sorted(STUDIES)]


def find_studies(names: Sequence[str]) -> list[Study]:
    """Studies by name, each once; a paper's name stands for all of its studies.

    Raises OptionError for an unknown name, with the nearest known one.
    """
    known = all_studies()
    found: dict[str, Study] = {}
    for name in names:
        chosen = [study for study in known if name in (study.name, study.group)]
        if not chosen:
            near = nearest(name, [study.name for study in known] + [study.group for study in known])
            hint = f"did you mean {near!r}?" if near else "'leakage study list' names them all"
            raise OptionError(f"no study is called {name!r}: {hint}")
        found.update({study.name: study for study in chosen})
    return list(found.values())


def check_scale(scale: str, studies: Iterable[Study]) -> Scale:
    """``scale`` as one that all ``studies`` offer. Raises OptionError."""
    for known in SCALES:
        if known == scale:
            for study in studies:
                if known not in study.scales:
                    raise OptionError(f"study {study.name} has no scale {scale}: use {', '.join(study.scales)}")
            return known
    near = nearest(scale, SCALES)
    hint = f"did you mean {near!r}?" if near else f"use {', '.join(SCALES[:-1])} or {SCALES[-1]}"
    raise OptionError(f"--scale is {scale!r}: {hint}")
