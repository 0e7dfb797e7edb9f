"""Trials in several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.research.framework.registry import Config, Run, Study, Trial
from leakage_tasks.research.framework.trials import TrialStore, trial_name

GRACE = 10.0
"""Seconds a process that is told to end has for cleaning up."""
_Trials = Generator[Trial, None, None]
_Answer = Trial | tuple[type[Exception], str]


def trials_run(store: TrialStore, study: Study, configs: Sequence[Config], jobs: int) -> _Trials:
    """Run and save a trial for each config, ``jobs`` at once, and give each as it ends.

    One job runs here. Several are processes of their own, with as many threads each as one would have: that, and the
    config, is all a trial is a function of. The first error stops all, as does closing the iterator. Raises
    LeakageError, and RuntimeError with a process' traceback for what went wrong there without a known reason.
    """
    jobs = min(jobs, len(configs))
    with closing(_several(store, study, configs, jobs) if jobs > 1 else _one(store, study, configs)) as ended:
        for trial in ended:
            store.made.add(trial_name(study.run, trial.config))
            yield trial


def check_jobs(jobs: int) -> None:
    """Raise OptionError for fewer than one process."""
    if jobs < 1:
        raise OptionError(f"--jobs is {jobs}: give 1 or more")


def _one(store: TrialStore, study: Study, configs: Sequence[Config]) -> _Trials:
    for config in configs:
        yield store.run(study.name, study.run, config)


def _several(store: TrialStore, study: Study, configs: Sequence[Config], jobs: int) -> _Trials:
    left, workers = iter(configs), dict[Connection, SpawnProcess]()
    try:
        for _ in range(jobs):
            pipe, process = _started(store, study)
            workers[pipe] = process
            pipe.send(next(left))
        busy = set(workers)
        while busy:
            for pipe in busy.intersection(wait(busy)):
                trial = _trial(pipe.recv())
                if (config := next(left, None)) is None:
                    busy.remove(pipe)
                else:
                    pipe.send(config)
                yield trial
    except (EOFError, ConnectionError):
        raise LeakageError(_why(list(workers.values()))) from None
    finally:
        _end(workers)


def _started(store: TrialStore, study: Study) -> tuple[Connection, SpawnProcess]:
    # Spawned, not forked: threads and CUDA do not outlive a fork.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, store, study.name, study.run))
    process.start()
    theirs.close()
    return ours, process


def _trial(answer: _Answer) -> Trial:
    if isinstance(answer, Trial):
        return answer
    kind, message = answer
    # As it comes out of the trial itself, whatever else the class is made with.
    raise kind.__new__(kind, message)


def _why(processes: Sequence[SpawnProcess]) -> str:
    """Why one of the processes does not answer."""
    number, ended = len(processes), wait([process.sentinel for process in processes], GRACE)
    for process in processes:
        if process.sentinel in ended:
            process.join(GRACE)
    if code := next((process.exitcode for process in processes if (process.exitcode or 0) > 0), 0):
        return f"one of {number} processes ended by itself (exit {code}; it says why above): run it with --jobs 1"
    return (
        f"one of {number} processes was killed, most likely for lack of memory: give fewer --jobs; the trials that "
        "ended are kept"
    )


def _end(workers: dict[Connection, SpawnProcess]) -> None:
    """Stop all processes; those at work get time to clean up."""
    for process in workers.values():
        process.terminate()
    for pipe, process in workers.items():
        process.join(GRACE)
        if process.is_alive():
            process.kill()
            process.join()
        pipe.close()


def _work(pipe: Connection, store: TrialStore, study: str, run: Run) -> None:
    """Run the trials that the pipe names, in a process of its own, as long as there is someone to answer."""
    _begin()
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send(_answer(store, study, run, pipe.recv()))


def _answer(store: TrialStore, study: str, run: Run, config: Config) -> _Answer:
    try:
        return store.run(study, run, config)
    except LeakageError as error:
        return type(error), str(error)
    except Exception:
        return RuntimeError, f"in another process:\n{traceback.format_exc()}"


def _begin() -> None:
    """Make a process one of several: no bars of its own, threads that sleep when they wait, an end that cleans up."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Ctrl-C reaches all processes of a terminal; the first one then tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave(number: int, frame: FrameType | None) -> None:
    # Told twice, it would leave the cleaning up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)
