"""Parallel function calls in local processes or on a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import first_line
from leakage_tasks.core.signal_cleanup import cleanup_on_signals
from leakage_tasks.core.version import __version__

GRACE = 10.0
"""Seconds that a process gets to clean up before it is killed, and a cluster to respond."""
_RESUMABLE = "run the command again to continue with the remaining {}"
_START = "start one with 'dask scheduler' and 'dask worker ADDRESS --nthreads 1'"
_VERSIONS = "install the packages of this machine there"


class CallFailed(Exception):
    """Error that a worker process sends to the main process; its arguments are the class to raise there, and the
    message."""


def call_results(
    pool: Executor, jobs: int, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
) -> Generator[Any, None, None]:
    """Yield the results of ``function`` for all calls in order of completion, through joblib, with ``jobs`` at once.

    If ``function`` raises CallFailed, the error described by its arguments is raised here. Closing the generator stops
    all calls.
    """
    # joblib loads numpy, which a single job may not need.
    from joblib import Parallel, delayed

    from leakage_tasks.core.executor_backend import ExecutorBackend

    # joblib would run a single job in this process.
    parallel = Parallel(
        max(2, jobs), ExecutorBackend(pool), return_as="generator_unordered", pre_dispatch=jobs, batch_size=1
    )
    results = parallel(delayed(function)(*call) for call in calls)
    try:
        yield from results
    except CallFailed as failed:
        kind, message = failed.args
        # The error as the call raised it, without the constructor's other arguments.
        raise kind.__new__(kind, message) from None
    finally:
        # joblib warns of calls that a stop leaves unfinished.
        with warnings.catch_warnings(action="ignore"):
            results.close()


def map_tasks(
    function: Callable[[Any], Any], tasks: Sequence[Any], jobs: int = 1, dask: str | None = None, units: str = "shards"
) -> list[Any]:
    """Call ``function`` on each task and return the results in order. ``jobs`` calls run at a time, or all on a Dask
    cluster; the first error stops the others.

    Raises OptionError if ``jobs`` is below 1.
    """
    with workers(len(tasks), jobs, dask, units) as map_call:
        return map_call(function, tasks)


def check_jobs(jobs: int) -> None:
    """Raise OptionError if ``jobs`` is below 1."""
    if jobs < 1:
        raise OptionError(f"--jobs is {jobs}: give 1 or more")


def check_no_cluster(dask: str | None) -> None:
    """Raise OptionError if a single file is to be processed by a cluster."""
    if dask is not None:
        raise OptionError("--dask divides shards, and the data are one file: leave --dask out")


@contextmanager
def workers(
    tasks: int, jobs: int = 1, dask: str | None = None, units: str = "shards"
) -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]]:
    """Yield a function like :func:`map_tasks` that can be called repeatedly and uses the same worker processes; each
    call has at most ``tasks`` tasks."""
    check_jobs(jobs)
    if dask is not None and tasks:
        with dask_cluster(dask, _versions(), _versions, units) as (cluster, worker_count):
            yield partial(_map_on, cluster, worker_count)
    elif min(jobs, tasks) > 1:
        with local_processes(min(jobs, tasks), units) as pool:
            yield partial(_map_on, pool, min(jobs, tasks))
    else:
        yield lambda function, group: [function(task) for task in group]


def _map_on(pool: Executor, jobs: int, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    results = dict(call_results(pool, jobs, _run_task, [(function, index, task) for index, task in enumerate(tasks)]))
    return [results[index] for index in range(len(tasks))]


def _run_task(function: Callable[[Any], Any], index: int, task: Any) -> tuple[int, Any]:
    with cleanup_on_signals():
        try:
            return index, function(task)
        except LeakageError as error:
            raise CallFailed(type(error), str(error)) from None
        except (Exception, SystemExit):
            raise CallFailed(RuntimeError, f"in another process:\n{traceback.format_exc()}") from None


def _versions() -> dict[str, str]:
    return {"lm-eval-leakage": __version__, "python": platform.python_version(), "pyarrow": version("pyarrow")}


@contextmanager
def local_processes(jobs: int, units: str = "trials") -> Iterator[Executor]:
    """Start ``jobs`` new processes, which end with the block and get time to clean up.

    Raises LeakageError if a process dies during its work; the message says that finished ``units`` are kept.
    """
    # Spawned, not forked, since threads and CUDA do not survive a fork.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin)
    # When the pool ends it drops its processes, and with them their exit codes.
    processes = pool._processes
    try:
        with cleanup_on_signals():
            try:
                yield pool
            finally:
                _end(processes.values())
                pool.shutdown()
    except BrokenProcessPool:
        if code := next((process.exitcode for process in processes.values() if (process.exitcode or 0) > 0), 0):
            why = f"ended by itself (exit {code}; it says why above): run it with --jobs 1"
        else:
            why = f"was killed, most likely for lack of memory: give fewer --jobs; finished {units} are kept"
        raise LeakageError(f"one of {jobs} processes {why}") from None


def _end(processes: Iterable[BaseProcess]) -> None:
    """Stop all processes; busy ones get time to clean up."""
    latest = time.monotonic() + GRACE
    for process in processes:
        process.terminate()
    for process in processes:
        if not wait([process.sentinel], max(0.0, latest - time.monotonic())):
            process.kill()


def _begin() -> None:
    """Set up a worker process: no progress bars, passive waiting of threads, and an exit when the parent ends."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # tqdm reads TQDM_DISABLE when it is imported.
    from tqdm import tqdm

    # tqdm's default lock holds a semaphore, and Python warns about it when the process is terminated.
    tqdm.set_lock(threading.RLock())
    # Ctrl-C reaches all processes of a terminal; the main process then stops the others.
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
def dask_cluster(
    address: str, expected: dict[str, str], versions: Callable[[], dict[str, str]], units: str = "trials"
) -> Iterator[tuple[Executor, int]]:
    """Yield an executor for the Dask cluster with its scheduler at ``address``, and the number of its workers.

    When the block ends, running calls continue on the cluster and waiting calls are cancelled.

    Raises:
        OptionError: If no cluster with workers responds at ``address``.
        LeakageError: If a worker's ``versions()`` differ from the ``expected`` versions by name, or if the cluster or
            several workers in turn end during their work.
    """
    try:
        from distributed import Client, KilledWorker
        from distributed.comm.addressing import resolve_address
    except ImportError as error:
        raise OptionError(
            f"--dask needs dask ({error}): install it with: pip install 'lm-eval-leakage[dask]'"
        ) from None
    try:
        resolve_address(address)  # a client of a malformed address prints a traceback when Python ends
        client = Client(address, timeout=GRACE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OptionError(f"--dask is {address!r}: no cluster responds there ({first_line(error)}): {_START}") from None
    with client:
        _check_workers(client, address, expected, versions, units)
        try:
            yield client.get_executor(pure=False), len(client.scheduler_info(n_workers=-1)["workers"])
        except KilledWorker:
            raise LeakageError(
                f"{address}: a {units[:-1]} ended its worker, most likely for lack of memory: "
                f"{_RESUMABLE.format(units)}"
            ) from None
        except CancelledError:
            raise LeakageError(f"{address}: the cluster ended: {_RESUMABLE.format(units)}") from None


def _check_workers(
    client: Any, address: str, expected: dict[str, str], versions: Callable[[], dict[str, str]], units: str
) -> None:
    try:
        client.wait_for_workers(1, timeout=GRACE)
        found_versions = client.run(versions)
    except TimeoutError:
        raise OptionError(f"--dask is {address!r}: the cluster has no workers: {_START}") from None
    except Exception as error:
        raise LeakageError(
            f"{address}: the cluster's workers cannot run {units} ({first_line(error)}): {_VERSIONS}"
        ) from None
    for worker, has in found_versions.items():
        for name in expected:
            if has.get(name) != expected[name]:
                raise LeakageError(
                    f"{worker}: has {name} {has.get(name)}, expected {expected[name]} as here: {_VERSIONS}"
                )
