"""Trials in several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from types import FrameType

from leakage_tasks.errors import LeakageError, OptionError
from leakage_tasks.studies.registry import Config, Study, Trial
from leakage_tasks.studies.trials import TrialStore, trial_name


def trials_run(store: TrialStore, study: Study, configs: Sequence[Config], jobs: int) -> Iterator[Trial]:
    """Run and save a trial for each config, ``jobs`` at once, and give each as it ends.

    One job runs here. Several are processes of their own, with as many threads each as one would have: that, and the
    config, is all a trial is a function of. The first error stops all. Raises LeakageError.
    """
    jobs = min(jobs, len(configs))
    for trial in _several(store, study, configs, jobs) if jobs > 1 else _one(store, study, configs):
        store.made.add(trial_name(study.run, trial.config))
        yield trial


def check_jobs(jobs: int) -> None:
    """Raise OptionError for fewer than one process."""
    if jobs < 1:
        raise OptionError(f"--jobs is {jobs}: give 1 or more")


def _one(store: TrialStore, study: Study, configs: Sequence[Config]) -> Iterator[Trial]:
    for config in configs:
        yield store.run(study.name, study.run, config)


def _several(store: TrialStore, study: Study, configs: Sequence[Config], jobs: int) -> Iterator[Trial]:
    before = set(multiprocessing.active_children())
    # Spawned, not forked: threads and CUDA do not outlive a fork.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        for ended in as_completed([pool.submit(store.run, study.name, study.run, config) for config in configs]):
            yield ended.result()
    except BrokenProcessPool:
        raise LeakageError(
            f"one of {jobs} processes was killed, most likely for lack of memory: give fewer --jobs; the trials that "
            "ended are kept"
        ) from None
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Make a process one of several: no bars of its own, threads that sleep when they wait, an end that cleans up."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for told in (signal.SIGINT, signal.SIGTERM):
        signal.signal(told, _end)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
