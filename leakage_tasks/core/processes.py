"""Coordination of the processes of a distributed run through the key-value store of torch.distributed.

No process blocks in a collective operation. A waiting process checks regularly if the others are alive, so a process
that fails or dies ends the run on all processes.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.core.log import first_line

BEAT, SILENT = 3.0, 45.0
"""Seconds between two heartbeats, and seconds without a heartbeat until a process counts as dead."""
POLL = 0.02
"""Seconds between two checks while waiting."""
AWAY = b"0"
"""Heartbeat value of a process that pauses its heartbeats."""
SILENCE = (
    "process {} of {} gave no sign of life for {} seconds: it was killed or hangs, look for its error above or for a "
    "lack of memory, and start the run again"
)
UNREACHABLE = (
    "the other processes cannot be reached ({}): the first one was killed or failed, look for its error above, and "
    "start the run again"
)


def _nothing() -> None:
    pass


class ProcessLost(LeakageError):
    """Error in a process because another process of the run failed or died."""


class Processes:
    """The ``size`` processes of a run, seen from the process with index ``rank``.

    ``store`` is a torch.distributed store that all processes share. Keys are specific to the current :meth:`call` and,
    within it, the current ``part``. All processes must enter calls and parts in equal order.
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self.rank, self.size = store, rank, size
        self.part = ""
        self.while_waiting: Callable[[], None] = _nothing
        self.waited = 0.0
        """Seconds that the last exchange waited for the other processes."""
        self._calls = 0
        self._lost = ""
        self._lives: dict[int, tuple[bytes, float]] = {}

    @contextmanager
    def call(self) -> Iterator[None]:
        """Run a block that all processes execute; an error in it is reported to the other processes."""
        self._calls += 1
        self.part, self.while_waiting, self._lost = "", _nothing, ""
        done = threading.Event()
        alive = threading.Thread(target=self._send_heartbeats, args=(done,), daemon=True)
        alive.start()
        try:
            yield
        except BaseException as error:
            if not isinstance(error, ProcessLost):
                with suppress(Exception):
                    self._store.set(f"{self._calls}/failed", f"{self.rank}:{first_line(error)}")
            raise
        finally:
            done.set()
            alive.join()

    def count(self, name: str, more: int = 1) -> int:
        """Add ``more`` to a counter that all processes share, and return its value."""
        with self._store_errors():
            return int(self._store.add(self._key(name), more))

    def exchange(self, name: str, text: str) -> list[str]:
        """Share ``text`` with all processes and return the texts of all processes, ordered by rank.

        Waits for all processes and calls ``while_waiting`` repeatedly, which is reset afterwards.

        Raises:
            ProcessLost: If a process fails or dies.
        """
        keys = [self._key(f"{name}/{rank}") for rank in range(self.size)]
        started = time.monotonic()
        with self._store_errors():
            self._store.set(keys[self.rank], text)
            while not self._store.check(keys):
                self.look()
                self.while_waiting()
                time.sleep(POLL)
            self.while_waiting()
            self.while_waiting = _nothing
            self.waited = time.monotonic() - started
            texts = [self._store.get(key).decode() for key in keys]
            if self._store.add(self._key(f"{name}/read"), 1) == self.size:
                for key in keys:
                    self._store.delete_key(key)
        return texts

    def look(self) -> None:
        """Raise ProcessLost if another process has failed or died; the cost is negligible."""
        if self._lost:
            raise ProcessLost(self._lost)

    def _send_heartbeats(self, done: threading.Event) -> None:
        """Send heartbeats and check the heartbeats of the others until ``done`` is set; then announce a pause."""
        beat = 0
        try:
            while not done.wait(BEAT if beat else 0):
                beat += 1
                self._store.set(f"alive/{self.rank}", f"{self._calls}.{beat}")
                self._lost = self._lost or self._look(time.monotonic())
            self._store.set(f"alive/{self.rank}", AWAY.decode())
        except RuntimeError as error:
            self._lost = UNREACHABLE.format(first_line(error))

    def _look(self, now: float) -> str:
        """Return a message about a process that has failed or died, or an empty text."""
        if self._store.check([f"{self._calls}/failed"]):
            rank, _, why = self._store.get(f"{self._calls}/failed").decode().partition(":")
            return f"process {rank} of {self.size} ended the run: {why}"
        dead = [rank for rank in range(self.size) if self._seconds_silent(rank, now) > SILENT]
        return SILENCE.format(dead[0], self.size, round(SILENT)) if dead else ""

    def _seconds_silent(self, rank: int, now: float) -> float:
        """Return the seconds since the last heartbeat of a process, or 0 if it has paused its heartbeats."""
        key = f"alive/{rank}"
        beat = self._store.get(key) if self._store.check([key]) else AWAY
        last, since = self._lives.get(rank, (AWAY, now))
        if beat == AWAY or beat != last:
            self._lives[rank] = (beat, now)
            return 0.0
        return now - since

    def _key(self, name: str) -> str:
        return f"{self._calls}/{self.part}/{name}"

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise ProcessLost(UNREACHABLE.format(first_line(error))) from None


def launched() -> Processes | None:
    """Return the processes that torch.distributed has set up, or None if this is the only process."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return None
    store = dist.distributed_c10d._get_default_store()
    return None if store is None else _of(store)


@cache
def _of(store: Any) -> Processes:
    import torch.distributed as dist
    from torch._C._distributed_c10d import PrefixStore

    leave_in_order()
    return Processes(PrefixStore("leakage", store), dist.get_rank(), dist.get_world_size())


@cache
def leave_in_order() -> None:
    """Make this process leave its process group before Python exits.

    A gloo thread may release a tensor after the call that used it has returned. If Python exits at that moment, the
    process aborts and the launcher kills the others, including the process that writes the results.
    """
    atexit.register(_leave)


def _leave() -> None:
    import torch.distributed as dist

    # NCCL has no such threads, and leaving its group may wait for failed processes.
    if dist.is_initialized() and dist.get_backend() == dist.Backend.GLOO:
        dist.destroy_process_group()
