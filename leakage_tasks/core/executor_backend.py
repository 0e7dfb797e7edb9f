"""An executor of ``concurrent.futures`` as a backend of joblib."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from joblib.parallel import ParallelBackendBase


class ExecutorBackend(ParallelBackendBase):
    """A backend of joblib that submits to an executor.

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
