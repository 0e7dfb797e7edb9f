"""A joblib backend that runs tasks on an executor of ``concurrent.futures``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from joblib.parallel import ParallelBackendBase


class ExecutorBackend(ParallelBackendBase):
    """A joblib backend that submits tasks to an executor.

    joblib's own backends do not fit. When one process ends, loky kills the others before they can clean up. It also
    gives each process fewer threads than a single process has, which changes results. The ``dask`` backend waits
    forever for a trial if its worker died.
    """

    supports_retrieve_callback = True

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self._executor = executor

    def effective_n_jobs(self, n_jobs: int) -> int:
        """Return the requested number of jobs."""
        return n_jobs

    def submit(self, func: Callable[[], Any], callback: Callable[[Future[Any]], object] | None = None) -> Future[Any]:
        """Submit ``func`` and call ``callback`` with its future when it is done."""
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Return the function's result or raise its exception."""
        return out.result()
