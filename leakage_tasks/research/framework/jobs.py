"""Trials several at once: in processes of this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from leakage_tasks.core.endings import ended_in_order
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import first_line
from leakage_tasks.research.framework.registry import Config, Run, Study, StudyTrial
from leakage_tasks.research.framework.trials import TrialStore, versions

_Trials = Generator[StudyTrial, None, None]
_ALONE = threading.Lock()
GRACE = 10.0
"""Seconds a process that is told to end has for cleaning up, and a cluster for answering."""
_KEPT = "the same command goes on with the trials that are left"
_START = "start one with 'dask scheduler' and 'dask worker ADDRESS --nthreads 1'"
_SAME = "install the same packages there as here"


class TrialFailed(Exception):
    """An error that crosses processes; its arguments are the class to raise here, and what it says."""


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
        with dask_cluster(dask, store.versions) as (cluster, workers):
            yield from _several(cluster, workers, store.anywhere(), study, configs)
    elif jobs > 1:
        with local_processes(jobs) as pool:
            yield from _several(pool, jobs, store, study, configs)
    else:
        for config in configs:
            yield store.run(study.name, study.run, config)


def _several(pool: Executor, jobs: int, store: TrialStore, study: Study, configs: Sequence[Config]) -> _Trials:
    """Trials as they end, through joblib; no more are begun than ``jobs`` and one for each that ended."""
    # It loads numpy, which one job may do without.
    from joblib import Parallel, delayed

    from leakage_tasks.research.framework.executor_backend import ExecutorBackend

    calls = (delayed(_answer)(store, study.name, study.run, config) for config in configs)
    # joblib would run a single job itself.
    parallel = Parallel(
        max(2, jobs), ExecutorBackend(pool), return_as="generator_unordered", pre_dispatch=jobs, batch_size=1
    )
    trials = parallel(calls)
    try:
        yield from trials
    except TrialFailed as failed:
        kind, message = failed.args
        # As it comes out of the trial itself, whatever else the class is made with.
        raise kind.__new__(kind, message) from None
    finally:
        # joblib warns of trials that a stop leaves unfinished.
        with warnings.catch_warnings(action="ignore"):
            trials.close()


def _answer(store: TrialStore, study: str, run: Run, config: Config) -> StudyTrial:
    """Run a trial in a process of several; its threads wait for each other, as generators are the process'."""
    with ended_in_order(), _ALONE:
        try:
            return store.run(study, run, config)
        except LeakageError as error:
            raise TrialFailed(type(error), str(error)) from None
        except (Exception, SystemExit):
            raise TrialFailed(RuntimeError, f"in another process:\n{traceback.format_exc()}") from None


@contextmanager
def local_processes(jobs: int) -> Iterator[Executor]:
    """So many new processes, which end with the block: told to first, so that they clean up.

    Raises LeakageError where one ended while it was at work.
    """
    # Spawned, not forked: threads and CUDA do not outlive a fork.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin)
    # The pool forgets its processes when it ends, and with them why one of them ended.
    processes = pool._processes
    try:
        with ended_in_order():
            try:
                yield pool
            finally:
                _end(processes.values())
                pool.shutdown()
    except BrokenProcessPool:
        if code := next((process.exitcode for process in processes.values() if (process.exitcode or 0) > 0), 0):
            why = f"ended by itself (exit {code}; it says why above): run it with --jobs 1"
        else:
            why = "was killed, most likely for lack of memory: give fewer --jobs; the trials that ended are kept"
        raise LeakageError(f"one of {jobs} processes {why}") from None


def _end(processes: Iterable[BaseProcess]) -> None:
    """Stop all processes; those at work get time to clean up."""
    latest = time.monotonic() + GRACE
    for process in processes:
        process.terminate()
    for process in processes:
        if not wait([process.sentinel], max(0.0, latest - time.monotonic())):
            process.kill()


def _begin() -> None:
    """Make a process one of several: no bars of its own, threads that sleep when they wait, none left alone."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Ctrl-C reaches all processes of a terminal; the first one then tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)


@contextmanager
def dask_cluster(address: str, expected: dict[str, str]) -> Iterator[tuple[Executor, int]]:
    """The Dask cluster whose scheduler is at ``address``, and how many workers it has.

    Trials at work when the block ends go on there; those that wait are withdrawn. Raises OptionError for an address
    where no cluster with workers answers, and LeakageError for workers without the ``expected`` versions by name, and
    where the cluster or several workers in turn ended while they were at work.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise OptionError(
            f"--dask needs dask ({error}): install it with: pip install 'lm-eval-leakage[dask]'"
        ) from None
    try:
        client = Client(address, timeout=GRACE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OptionError(f"--dask is {address!r}: no cluster answers there ({first_line(error)}): {_START}") from None
    with client:
        _check_workers(client, address, expected)
        try:
            yield client.get_executor(pure=False), len(client.scheduler_info(n_workers=-1)["workers"])
        except KilledWorker:
            raise LeakageError(
                f"{address}: a trial ended its worker, most likely for lack of memory: {_KEPT}"
            ) from None
        except CancelledError:
            raise LeakageError(f"{address}: the cluster ended: {_KEPT}") from None


def _check_workers(client: Any, address: str, expected: dict[str, str]) -> None:
    try:
        client.wait_for_workers(1, timeout=GRACE)
        found = client.run(versions)
    except TimeoutError:
        raise OptionError(f"--dask is {address!r}: the cluster has no workers: {_START}") from None
    except Exception as error:
        raise LeakageError(
            f"{address}: the cluster's workers cannot run trials ({first_line(error)}): {_SAME}"
        ) from None
    for worker, has in found.items():
        for name in expected:
            if has.get(name) != expected[name]:
                raise LeakageError(f"{worker}: has {name} {has.get(name)}, expected {expected[name]} as here: {_SAME}")
