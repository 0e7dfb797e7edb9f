"""Trials several at once, through joblib."""

from __future__ import annotations

import threading
import traceback
import warnings
from collections.abc import Generator, Sequence
from concurrent.futures import Executor

from leakage_tasks.core.endings import ended_in_order
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.research.framework.registry import Config, Run, Study, StudyTrial
from leakage_tasks.research.framework.trials import TrialStore, trial_name

_Trials = Generator[StudyTrial, None, None]
_ALONE = threading.Lock()


class TrialFailed(Exception):
    """An error that crosses processes: the class to raise here, and what it says."""

    def __init__(self, kind: type[Exception], message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message


def trials_run(
    store: TrialStore, study: Study, configs: Sequence[Config], jobs: int, dask: str | None = None
) -> _Trials:
    """Run and save a trial for each config, ``jobs`` at once, and give each as it ends.

    One job runs here. Several are processes of their own, with as many threads each as one would have: that, and the
    config, is all a trial is a function of. With ``dask``, the address of a cluster's scheduler, they run on its
    workers, one trial a worker at once, which read and write the store's folder too. The first error stops all, as does
    closing the iterator. Raises LeakageError, and RuntimeError with a process' traceback for what went wrong there
    without a known reason.
    """
    jobs = min(jobs, len(configs))
    ended = _chosen(store, study, configs, jobs, dask if configs else None)
    try:
        for trial in ended:
            store.made.add(trial_name(study.run, trial.config))
            yield trial
    finally:
        # joblib warns of trials that a stop leaves unfinished.
        with warnings.catch_warnings(action="ignore"):
            ended.close()


def check_jobs(jobs: int, dask: str | None = None) -> None:
    """Raise OptionError for fewer than one process, and for processes beside a cluster."""
    if jobs < 1:
        raise OptionError(f"--jobs is {jobs}: give 1 or more")
    if jobs > 1 and dask is not None:
        raise OptionError(f"--jobs is {jobs} with --dask, whose workers run one trial each: leave one of them out")


def _chosen(store: TrialStore, study: Study, configs: Sequence[Config], jobs: int, dask: str | None) -> _Trials:
    if dask is None and jobs <= 1:
        for config in configs:
            yield store.run(study.name, study.run, config)
        return
    # They load joblib, and with it numpy, which one job may do without.
    from leakage_tasks.research.framework.workers import dask_cluster, local_processes

    if dask is None:
        with local_processes(jobs) as pool:
            yield from _several(pool, jobs, store, study, configs)
    else:
        with dask_cluster(dask, store.versions) as (cluster, workers):
            yield from _several(cluster, workers, store.anywhere(), study, configs)


def _several(pool: Executor, jobs: int, store: TrialStore, study: Study, configs: Sequence[Config]) -> _Trials:
    from joblib import Parallel, delayed

    from leakage_tasks.research.framework.workers import ExecutorBackend

    calls = (delayed(_answer)(store, study.name, study.run, config) for config in configs)
    # joblib would run a single job itself; no more are begun than pre_dispatch and one for each that ends.
    parallel = Parallel(
        max(2, jobs), ExecutorBackend(pool), return_as="generator_unordered", pre_dispatch=jobs, batch_size=1
    )
    try:
        yield from parallel(calls)
    except TrialFailed as failed:
        # As it comes out of the trial itself, whatever else the class is made with.
        raise failed.kind.__new__(failed.kind, failed.message) from None


def _answer(store: TrialStore, study: str, run: Run, config: Config) -> StudyTrial:
    """Run a trial in a process of several; its threads wait for each other, as generators are the process'."""
    with ended_in_order(), _ALONE:
        try:
            return store.run(study, run, config)
        except LeakageError as error:
            raise TrialFailed(type(error), str(error)) from None
        except (Exception, SystemExit):
            raise TrialFailed(RuntimeError, f"in another process:\n{traceback.format_exc()}") from None
