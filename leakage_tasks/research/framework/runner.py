"""Running of studies: all missing trials, then the report, which is written completely or not at all."""

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
from leakage_tasks.research.framework.jobs import run_trials
from leakage_tasks.research.framework.registry import Config, Study, StudyPlan, StudyTrial, check_scale
from leakage_tasks.research.framework.report import Report, markdown, plain_text
from leakage_tasks.research.framework.stored_results import REVEAL
from leakage_tasks.research.framework.trials import TrialStore, made_by, trial_name, versions


@dataclass(frozen=True)
class StudyRun:
    """A study that was run."""

    study: Study
    plan: StudyPlan
    """The options of the run."""
    report: Report
    """The results."""
    folder: Path
    """The folder of the report."""
    ran: int
    """Number of trials that ran."""
    reused: int
    """Number of trials that were loaded."""
    seconds: float
    """Total duration of all its trials, in this run or earlier."""

    @property
    def shown(self) -> Report:
        """The report for display. At scale ``smoke`` it has no claims."""
        return replace(self.report, claims=()) if self.plan.scale == "smoke" else self.report

    def summary(self) -> str:
        """Return the report as text, with its folder."""
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
    """Run studies one after the other; trials that several studies of a paper share run once.

    Results go to ``<output>/<paper>/<scale>/``: the saved trials, and a folder per study with ``report.json``,
    ``table.txt``, ``table.md``, ``how.json`` and, if the study draws a plot, ``figure.png``. A script that sets
    ``jobs`` needs ``if __name__ == "__main__"`` and trials that can be imported.

    Args:
        studies: the studies to run.
        plan: scale, seeds and number of trials.
        output: folder of all results.
        fresh: run saved trials again.
        progress: show a progress bar.
        jobs: trials at a time, in processes of their own; results do not depend on it.
        dask: address of a Dask cluster's scheduler, whose workers run the trials and can access ``output``.

    Raises:
        LeakageError: an option is invalid, or a trial failed for a known reason.
    """
    if jobs < 1:
        raise OptionError(f"--jobs is {jobs}: use 1 or more")
    if jobs > 1 and dask is not None:
        raise OptionError(
            f"--jobs is {jobs} with --dask, whose workers run one trial each: remove one of the two options"
        )
    if plan.trials is not None and plan.trials < 1:
        raise OptionError(f"--trials is {plan.trials}: use 1 or more")
    check_scale(plan.scale, studies)
    stores: dict[str, TrialStore] = {}
    for study in studies:
        started, folder_of_scale = time.perf_counter(), Path(output) / study.group / plan.scale
        if study.group not in stores:
            stores[study.group] = TrialStore(folder_of_scale, fresh=fresh)
        configs = {trial_name(study.run, config): config for config in study.trials(plan)}
        if not configs:
            raise ValueError(f"study {study.name} has no trials at scale {plan.scale}")
        trials, ran = _trials(stores[study.group], study, configs, progress, jobs, dask)
        report = study.report(list(trials.values()), plan)
        seconds = sum(trial.seconds for trial in trials.values())
        folder = folder_of_scale / study.name.partition("/")[2]
        done = StudyRun(study, plan, report, folder, ran, len(trials) - ran, seconds)
        _write(done, Path(output), trials, time.perf_counter() - started)
        yield done


def _trials(
    store: TrialStore, study: Study, configs: Mapping[str, Config], progress: bool, jobs: int, dask: str | None
) -> tuple[dict[str, StudyTrial], int]:
    """Return trials by name, in the order of the configs, and the number of trials that ran."""
    from tqdm import tqdm

    saved = {name: store.saved(study.run, config) for name, config in configs.items()}
    missing = [config for name, config in configs.items() if saved[name] is None]
    bar = tqdm(desc=study.name, total=len(saved), initial=len(saved) - len(missing), unit="trial", disable=not progress)
    with bar, closing(run_trials(store, study, missing, jobs, dask)) as running:
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
    with replacing(done.folder, private=done.plan.reveal) as temporary:
        temporary.mkdir()
        _dump({**about, "seed": done.plan.seed, **report.to_json(), "trials": list(trials)}, temporary / "report.json")
        _dump(_how(done, output, seconds) | made_by(trials.values()), temporary / "how.json")
        (temporary / "table.txt").write_text(plain_text(done.shown), encoding="utf-8")
        (temporary / "table.md").write_text(markdown(done.shown, f"{study.title} ({study.source})"), encoding="utf-8")
        if study.plot is not None:
            study.plot(report, temporary / "figure.png")


def _how(done: StudyRun, output: Path, seconds: float) -> dict[str, Any]:
    """Return the command that repeats the run, and the duration and environment of this run."""
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
