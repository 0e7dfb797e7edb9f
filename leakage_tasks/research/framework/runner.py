"""Running studies: trials once each, then the report, written whole or not at all."""

from __future__ import annotations

import json
import os
import platform
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import replacing
from leakage_tasks.core.errors import OptionError
from leakage_tasks.research.framework.jobs import trials_run
from leakage_tasks.research.framework.registry import Config, Study, StudyPlan, StudyTrial, check_scale
from leakage_tasks.research.framework.report import Report, markdown, plain_text
from leakage_tasks.research.framework.stored_results import REVEAL
from leakage_tasks.research.framework.trials import TrialStore, made_by, trial_name, versions


@dataclass(frozen=True)
class StudyRun:
    """A study that was run."""

    study: Study
    """What was run."""
    plan: StudyPlan
    """What the user asked for."""
    report: Report
    """What the trials showed."""
    folder: Path
    """Where the report was written to."""
    ran: int
    """Trials that were run for it."""
    reused: int
    """Trials that were there already."""
    seconds: float
    """What all of its trials took, whenever they were run."""

    @property
    def shown(self) -> Report:
        """The report for people: of scale ``smoke``, which only shows that the study runs, without claims."""
        return replace(self.report, claims=()) if self.plan.scale == "smoke" else self.report

    def summary(self) -> str:
        """The report for people, with where it was written."""
        study, scale = self.study, self.plan.scale
        trials = f"{self.ran} trials run" + (f", {self.reused} reused" if self.reused else "")
        title = f"{study.name}: {study.title}\n{study.source}; scale {scale}"
        return (
            f"{title}\n\n{plain_text(self.shown)}\n{trials}, {self.seconds:,.0f} s in all; written to {self.folder}\n"
        )


def run_studies(
    studies: Sequence[Study],
    plan: StudyPlan,
    output: str | Path = Path("runs/studies"),
    *,
    fresh: bool = False,
    progress: bool = True,
    jobs: int = 1,
    dask: str | None = None,
) -> Iterator[StudyRun]:
    """Run studies one after the other; trials that several of one paper need are run once.

    Everything goes to ``<output>/<paper>/<scale>/``: the trials, saved as they end, and a folder a study with
    ``report.json``, ``table.txt``, ``table.md``, ``how.json`` and, where the study draws one, ``figure.png``.
    Trials found there are not run again unless ``fresh``. ``jobs`` processes run trials at once, with the same results;
    a script that asks for several needs ``if __name__ == "__main__"``, and trials that can be imported. ``dask``, the
    address of a Dask cluster's scheduler, has its workers run them, who see the same ``output``.
    Raises LeakageError.
    """
    if jobs < 1:
        raise OptionError(f"--jobs is {jobs}: give 1 or more")
    if jobs > 1 and dask is not None:
        raise OptionError(f"--jobs is {jobs} with --dask, whose workers run one trial each: leave one of them out")
    if plan.trials is not None and plan.trials < 1:
        raise OptionError(f"--trials is {plan.trials}: give 1 or more")
    check_scale(plan.scale, studies)
    stores: dict[str, TrialStore] = {}
    for study in studies:
        started, place = time.perf_counter(), Path(output) / study.group / plan.scale
        if study.group not in stores:
            stores[study.group] = TrialStore(place, fresh=fresh)
        configs = {trial_name(study.run, config): config for config in study.trials(plan)}
        if not configs:
            raise ValueError(f"study {study.name} has no trials at scale {plan.scale}")
        trials, ran = _trials(stores[study.group], study, configs, progress, jobs, dask)
        report = study.report(list(trials.values()), plan)
        seconds = sum(trial.seconds for trial in trials.values())
        folder = place / study.name.partition("/")[2]
        done = StudyRun(study, plan, report, folder, ran, len(trials) - ran, seconds)
        _write(done, Path(output), trials, time.perf_counter() - started)
        yield done


def _trials(
    store: TrialStore, study: Study, configs: Mapping[str, Config], progress: bool, jobs: int, dask: str | None
) -> tuple[dict[str, StudyTrial], int]:
    """Trials by name, in the order of the configs, and how many had to be run."""
    from tqdm import tqdm

    saved = {name: store.saved(study.run, config) for name, config in configs.items()}
    missing = [config for name, config in configs.items() if saved[name] is None]
    bar = tqdm(desc=study.name, total=len(saved), initial=len(saved) - len(missing), unit="trial", disable=not progress)
    with bar, closing(trials_run(store, study, missing, jobs, dask)) as running:
        for trial in running:
            name = trial_name(study.run, trial.config)
            saved[name] = trial
            store.made.add(name)
            bar.update()
    trials = {name: trial for name, trial in saved.items() if trial is not None}
    assert len(trials) == len(configs)
    return trials, len(missing)


def _write(done: StudyRun, output: Path, trials: Mapping[str, StudyTrial], seconds: float) -> None:
    study, report = done.study, done.report
    about = {"study": study.name, "title": study.title, "source": study.source, "scale": done.plan.scale}
    with replacing(done.folder, private=done.plan.reveal) as beside:
        beside.mkdir()
        _dump({**about, "seed": done.plan.seed, **report.to_json(), "trials": list(trials)}, beside / "report.json")
        _dump(_how(done, output, seconds) | made_by(trials.values()), beside / "how.json")
        (beside / "table.txt").write_text(plain_text(done.shown), encoding="utf-8")
        (beside / "table.md").write_text(markdown(done.shown, f"{study.title} ({study.source})"), encoding="utf-8")
        if study.plot is not None:
            study.plot(report, beside / "figure.png")


def _how(done: StudyRun, output: Path, seconds: float) -> dict[str, Any]:
    """What it takes to run the study again, and what it took this time."""
    plan = done.plan
    words = ["leakage", "study", "run", done.study.name, "--scale", plan.scale, "--seed", str(plan.seed)]
    words += [] if plan.trials is None else ["--trials", str(plan.trials)]
    words += [REVEAL] if plan.reveal else []
    return {
        "command": shlex.join([*words, "-o", str(output)]),
        "seed": plan.seed,
        "takes": done.study.scales[plan.scale],
        "versions": versions("lm_eval", "numpy"),
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
        "trials": {"run": done.ran, "reused": done.reused, "seconds": done.seconds},
        "seconds": seconds,
    }


def _dump(data: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
