"""Where several trials run at once: processes of this machine, or the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

from joblib.parallel import ParallelBackendBase

from leakage_tasks.core.endings import ended_in_order
from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import first_line
from leakage_tasks.research.framework.trials import versions

GRACE = 10.0
"""Seconds a process that is told to end has for cleaning up, and a cluster for answering."""


class ExecutorBackend(ParallelBackendBase):
    """A backend of joblib that submits to an executor of ``concurrent.futures``.

    joblib's own do not serve. loky kills the other processes as soon as one has ended, before they can clean up, and
    gives each fewer threads than one process has, which changes figures. ``dask`` waits for ever for a trial whose
    worker died.
    """

    supports_retrieve_callback = True

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self._executor = executor

    def effective_n_jobs(self, n_jobs: int) -> int:
        """As many as were asked for."""
        return n_jobs

    def submit(self, func: Callable[[], Any], callback: Callable[[Future[Any]], object] | None = None) -> Future[Any]:
        """Have ``func`` run, and ``callback`` called with its future once it has."""
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """What the function gave or raised."""
        return out.result()


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
        raise LeakageError(_why(jobs, processes.values())) from None


def _end(processes: Iterable[BaseProcess]) -> None:
    """Stop all processes; those at work get time to clean up."""
    latest = time.monotonic() + GRACE
    for process in processes:
        process.terminate()
    for process in processes:
        if not wait([process.sentinel], max(0.0, latest - time.monotonic())):
            process.kill()


def _why(jobs: int, processes: Iterable[BaseProcess]) -> str:
    """Why one of the processes does not answer."""
    if code := next((process.exitcode for process in processes if (process.exitcode or 0) > 0), 0):
        return f"one of {jobs} processes ended by itself (exit {code}; it says why above): run it with --jobs 1"
    return (
        f"one of {jobs} processes was killed, most likely for lack of memory: give fewer --jobs; the trials that "
        "ended are kept"
    )


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


_KEPT = "the same command goes on with the trials that are left"
_START = "start one with 'dask scheduler' and 'dask worker ADDRESS --nthreads 1'"


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


_SAME = "install the same packages there as here"
