"""Trials several at once: in processes of this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Generator, Sequence
from concurrent.futures import Executor

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.signal_cleanup import ended_in_order
from leakage_tasks.core.workers import CallFailed, answers, dask_cluster, local_processes
from leakage_tasks.research.framework.registry import Config, Run, Study, StudyTrial
from leakage_tasks.research.framework.trials import TrialStore, versions

_Trials = Generator[StudyTrial, None, None]
_ALONE = threading.Lock()
TrialFailed = CallFailed


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
    if dask is not None and configs:
        with dask_cluster(dask, store.versions, versions) as (cluster, workers):
            yield from _several(cluster, workers, store.anywhere(), study, configs)
    elif jobs > 1:
        with local_processes(jobs) as pool:
            yield from _several(pool, jobs, store, study, configs)
    else:
        for config in configs:
            yield store.run(study.name, study.run, config)


def _several(pool: Executor, jobs: int, store: TrialStore, study: Study, configs: Sequence[Config]) -> _Trials:
    """Trials as they end, through joblib; no more are begun than ``jobs`` and one for each that ended."""
    yield from answers(pool, jobs, _answer, [(store, study.name, study.run, config) for config in configs])


def _answer(store: TrialStore, study: str, run: Run, config: Config) -> StudyTrial:
    """Run a trial in a process of several; its threads wait for each other, as generators are the process'."""
    with ended_in_order(), _ALONE:
        try:
            return store.run(study, run, config)
        except LeakageError as error:
            raise TrialFailed(type(error), str(error)) from None
        except (Exception, SystemExit):
            raise TrialFailed(RuntimeError, f"in another process:\n{traceback.format_exc()}") from None
