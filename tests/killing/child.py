"""A command in a process of its own, made by forking one that has imported what the command needs."""

from __future__ import annotations

import gc
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tests.conftest import ROOT
from tests.killing.faults import Faults

RUNS = {
    "leakage": "from leakage_tasks.cli import main; main()",
    "lm_eval": "import runpy; runpy.run_module('lm_eval', run_name='__main__')",
}


def warm_up() -> None:
    """Import what commands need, once for all children."""
    import datasets
    import lm_eval.__main__
    import lm_eval.models.huggingface
    import matplotlib.figure
    import peft
    import pyarrow.parquet
    import transformers

    import leakage_tasks.cli

    used = (datasets, lm_eval, matplotlib, peft, pyarrow, transformers)
    assert all(used)
    leakage_tasks.cli.build_app()
    gc.freeze()


def import_as(noted: Path) -> None:
    """Import what a child had imported at its end, so that later ones need not."""
    for name in noted.read_text().split() if noted.exists() else ():
        # Some are made by a program as it runs.
        with suppress(Exception):
            import_module(name)
    gc.freeze()


@dataclass
class Child:
    """A running command; ``log`` is what it says, and at its end the number of calls where faults were installed."""

    pid: int
    started: float
    log: Path
    code: int | None = None

    def ended(self) -> bool:
        """Whether it has ended; its exit code is then in ``code``, negative for a signal."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    @property
    def seconds(self) -> float:
        """Since its start."""
        return time.monotonic() - self.started

    def calls(self) -> int:
        """How many calls there were to end it at."""
        return int(self.log.with_suffix(".calls").read_text())


def started(program: str, words: list[str], work: Path, faults: Faults | None = None, fork: bool = True) -> Child:
    """Start a command in ``work``, where its log and its temporary files go."""
    (work / "tmp").mkdir(exist_ok=True)
    log = work / "log.txt"
    if not fork:
        environment = {**os.environ, "TMPDIR": str(work / "tmp"), "PYTHONPATH": str(ROOT)}
        with log.open("wb") as out:
            command = [sys.executable, "-c", RUNS[program], *words]
            process = subprocess.Popen(
                command, cwd=work, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )
        process.returncode = 0  # It is waited for by its number.
        return Child(process.pid, time.monotonic(), log)
    sys.stdout.flush()
    sys.stderr.flush()
    begun = time.monotonic()
    pid = os.fork()
    if not pid:
        _run(program, words, work, log, faults)
    return Child(pid, begun, log)


def _run(program: str, words: list[str], work: Path, log: Path, faults: Faults | None) -> None:
    """Be the command, and never return."""
    code = 70
    try:
        with log.open("wb") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        os.chdir(work)
        os.environ["TMPDIR"] = str(work / "tmp")
        # Named, as the standard library would try one out with a file, which a signal can leave there.
        __import__("tempfile").tempdir = str(work / "tmp")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        # The harness' own tasks take it many seconds to list, in which nothing of ours runs.
        (work / "no-tasks").mkdir(exist_ok=True)
        import_module("lm_eval.tasks.manager").__file__ = str(work / "no-tasks" / "manager.py")
        # Nor does any while it asks pip and the processor about themselves.
        import_module("lm_eval.evaluator").add_env_info = lambda storage: None  # type: ignore[attr-defined]
        for bars in _with_subclasses(tqdm):
            # The usual lock is shared with the other children, of which a killed one may hold it.
            bars.set_lock(threading.RLock())
        sys.argv = [program, *words]
        if faults is not None:
            faults.install()
        code = _code_of(program)
        if faults is not None:
            log.with_suffix(".calls").write_text(str(faults.calls))
        else:
            log.with_suffix(".modules").write_text("\n".join(name for name in sys.modules if name != "__main__"))
    except KeyboardInterrupt:
        # It came before the command began, or once it had ended.
        code = 130
    except BaseException:
        __import__("traceback").print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _with_subclasses(bars: type[tqdm[Any]]) -> Iterator[type[tqdm[Any]]]:
    """A class of progress bars and all that are made of it, each of which may have a lock of its own."""
    yield bars
    for each in bars.__subclasses__():
        yield from _with_subclasses(each)


def _code_of(program: str) -> int:
    """Run it as Python runs a program, and end as that would; its exit code where it ends by itself."""
    try:
        if program == "leakage":
            from leakage_tasks.cli import main

            main()
        else:
            runpy.run_module("lm_eval", run_name="__main__")
    except SystemExit as stop:
        given = stop.code
        # What an exit leaves to the interpreter: frames, and the generators in them, are let go.
        stop.__traceback__ = None
        gc.collect()
        return given if isinstance(given, int) else 0 if given is None else 1
    except KeyboardInterrupt as stop:
        stop.__traceback__ = None
        gc.collect()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 0
