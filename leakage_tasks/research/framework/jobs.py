"""Parallel trials, in processes of this machine or on the workers of a Dask cluster."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Generator, Sequence
from concurrent.futures import Executor

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.signal_cleanup import cleanup_on_signals
from leakage_tasks.core.workers import CallFailed, call_results, dask_cluster, local_processes
from leakage_tasks.research.framework.registry import Config, Run, Study, StudyTrial
from leakage_tasks.research.framework.trials import TrialStore, versions

_Trials = Generator[StudyTrial, None, None]
_ONE_AT_A_TIME = threading.Lock()
TrialFailed = CallFailed


def run_trials(
    store: TrialStore, study: Study, configs: Sequence[Config], jobs: int, dask: str | None = None
) -> _Trials:
    """Run and save a trial for each config, up to ``jobs`` at a time, and yield each trial when it ends.

    A single job runs in this process. Several jobs run in processes with as many threads each as a single job would
    have, so results do not depend on ``jobs``. The first error stops all trials, as does closing the iterator.

    Args:
        store: saves trials; workers write to its folder too.
        study: the study whose trials run.
        configs: one config per trial.
        jobs: trials at a time.
        dask: address of a cluster's scheduler; its workers run one trial each at a time.

    Raises:
        LeakageError: a trial failed for a known reason.
        RuntimeError: a trial failed in another process without a known reason; contains the traceback.
    """
    jobs = min(jobs, len(configs))
    if dask is not None and configs:
        with dask_cluster(dask, store.versions, versions) as (cluster, workers):
            yield from _run_parallel(cluster, workers, store.with_absolute_paths(), study, configs)
    elif jobs > 1:
        with local_processes(jobs) as pool:
            yield from _run_parallel(pool, jobs, store, study, configs)
    else:
        for config in configs:
            yield store.run(study.name, study.run, config)


def _run_parallel(pool: Executor, jobs: int, store: TrialStore, study: Study, configs: Sequence[Config]) -> _Trials:
    """Yield trials as they end. At most ``jobs`` trials are pending at a time."""
    yield from call_results(pool, jobs, _run_in_worker, [(store, study.name, study.run, config) for config in configs])


def _run_in_worker(store: TrialStore, study: str, run: Run, config: Config) -> StudyTrial:
    """Run a trial in a worker. Threads of a worker take turns because random generators belong to the process."""
    with cleanup_on_signals(), _ONE_AT_A_TIME:
        try:
            return store.run(study, run, config)
        except LeakageError as error:
            raise TrialFailed(type(error), str(error)) from None
        except (Exception, SystemExit):
            raise TrialFailed(RuntimeError, f"in another process:\n{traceback.format_exc()}") from None
