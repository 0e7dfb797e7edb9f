"""One end of one command: when it comes, and what is wrong afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leakage_tasks.core.atomic import is_leftover, leftovers
from tests.killing.child import Child, import_as, started
from tests.killing.commands import Command
from tests.killing.faults import Faults
from tests.killing.folders import NAMED_BY_TIME, contents, figures, half_written, open_to_others

SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "INT": signal.SIGINT}
CODES = {"KILL": (-9,), "TERM": (-15, 143), "INT": (-2, 130)}
"""What a program's exit status is that the signal ended."""
PAUSE = 0.002
"""Seconds between two looks at a running command."""
PATIENCE, LONGER = 600.0, 10.0
"""Seconds that a command may take, and how many times as long as an undisturbed run, where that is more."""


@dataclass(frozen=True)
class Undisturbed:
    """A whole run: how long it took till its first byte of output and in all, its exit code, and what it wrote."""

    first: float
    seconds: float
    code: int
    calls: int
    new: dict[str, dict[str, str]]
    old: dict[str, dict[str, str]]
    found: dict[str, Any]


@dataclass(frozen=True)
class Moment:
    """``way``: at a share of the ``whole`` time, at one of the time ``after`` the first byte, or at a ``call``."""

    way: str
    at: float

    @property
    def name(self) -> str:
        """In the state, where it tells moments of one command and signal apart."""
        return f"{self.way}:{self.at:g}"


@dataclass
class Outcome:
    """What one end showed; each list names what is wrong."""

    command: str
    signal: str
    moment: str
    ended: bool = True
    after_first: bool = False
    partial: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    readable: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    status: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As it stands in the state."""
        return asdict(self)


class Place:
    """The folder of one command: its outputs, as they are before each run, and what an undisturbed run makes."""

    def __init__(self, command: Command, inputs: Path, work: Path) -> None:
        self.command, self.inputs, self.work = command, inputs, work
        self.out, self.older, self.start = work / "out", work / "older", work / "start"
        self.before = contents(inputs)

    def undisturbed(self) -> Undisturbed:
        """Run the command some times: for an older output, for times and results, and for the number of calls."""
        self._reset(self.start, None)
        old: dict[str, dict[str, str]] = {}
        self._reset(self.out, None)
        if self.command.older:
            self._whole(self.command.older)
            self._reset(self.older, self.out)
            old = self._outputs()
        self._reset(self.out, None)
        self._whole()
        import_as(self.work / "log.modules")
        self._reset(self.out, None)
        child, first = self._whole()
        new, found = self._outputs(), figures(self.out)
        if self.command.kept:
            for name in self.command.kept:
                shutil.copytree(self.out / name, self.start / name)
            self._reset(self.out, self.start)
            child, first = self._whole()
        calls = 0
        if self.command.by_call:
            self._reset(self.out, self.start)
            calls = self._whole(faults=Faults(self.out, 0, 0))[0].calls()
        assert child.code is not None
        return Undisturbed(first, child.seconds, child.code, calls, new, old, found)

    def end(self, usual: Undisturbed, name: str, moment: Moment, over: bool, fork: bool = True) -> Outcome:
        """End one run by a signal, judge what it left, run it again and judge that; ``over`` an older output or not.

        A moment in time that came after the run's end is tried again earlier, some times.
        """
        for earlier in (1.0, 0.6, 0.3, 0.1):
            sent = Moment(moment.way, moment.at * (1 if moment.way == "call" else earlier))
            self._reset(self.out, self.older if over and usual.old else self.start)
            outcome = Outcome(self.command.name, name, moment.name)
            call = int(moment.at) if moment.way == "call" else 0
            faults = Faults(self.out, call, SIGNALS[name]) if call else None
            child = started(self.command.program, self._words(), self.work, faults, fork)
            self._watch(child, usual, outcome, None if call else (SIGNALS[name], sent))
            outcome.after_first = outcome.after_first or call > 0
            outcome.ended = child.code in CODES[name]
            if outcome.ended or call or child.code != usual.code:
                break
        if not outcome.ended and child.code != usual.code:
            outcome.status.append(f"{child.code}: {_last(child.log)}")
        self._judge(usual, outcome, name, over)
        self._again(usual, outcome)
        return outcome

    def _watch(self, child: Child, usual: Undisturbed, outcome: Outcome, sent: tuple[int, Moment] | None) -> None:
        """Look at ``out`` till the child has ended, and send it the signal at its moment."""
        first = None
        before = _growth(self.out)
        while not child.ended():
            if first is None and _growth(self.out) != before:
                first = child.seconds
            if self.command.private:
                outcome.readable += [each for each in self._readable() if each not in outcome.readable]
            if sent is not None and _due(sent[1], child.seconds, first, usual):
                os.kill(child.pid, sent[0])
                outcome.after_first = first is not None
                sent = None
            if child.seconds > max(PATIENCE, LONGER * usual.seconds):
                outcome.status = ["did not end"]
                os.kill(child.pid, signal.SIGKILL)
            time.sleep(PAUSE)

    def _judge(self, usual: Undisturbed, outcome: Outcome, name: str, over: bool) -> None:
        now, start = self._outputs(), usual.old if over and usual.old else self._outputs(self.start)
        for output, held in now.items():
            before, new = start.get(output, {}), usual.new[output]
            whole = {name: each for name, each in held.items() if not any(map(is_leftover, Path(name).parts))}
            grown = output in self.command.grows and whole.items() <= before.items() | new.items()
            if held not in (before, new) and not grown:
                outcome.partial.append(output)
        left = half_written(self.out)
        told = list(leftovers(self.out))
        if name != "KILL":
            outcome.stale += [str(each) for each in left] + [str(each) for each in (self.work / "tmp").iterdir()]
        else:
            outcome.readable += [str(each) for each in left if stat.S_IMODE(each.stat().st_mode) != 0o700]
            outcome.stale += [str(each) for each in left if each not in told]
        outcome.stale += self._unknown()
        if self.command.private:
            outcome.readable += self._readable()
        if contents(self.inputs) != self.before:
            outcome.changed.append(str(self.inputs))
            self.before = contents(self.inputs)

    def _readable(self) -> list[str]:
        """What others can read, but for the harness' own results: those have the rights that the umask gives."""
        logged = self.out / NAMED_BY_TIME
        return [each for each in open_to_others(self.out) if not Path(each).is_relative_to(logged)]

    def _unknown(self) -> list[str]:
        """What lies in ``out`` that is neither an output nor left by a kill."""
        known = {Path(each).parts[0] for each in (*self.command.outputs, self.command.resume, "results") if each}
        names = (each.name for each in self.out.iterdir() if each not in half_written(self.out))
        return [name for name in names if name not in known]

    def _again(self, usual: Undisturbed, outcome: Outcome) -> None:
        """Run once more what was cut short, with what it left in place."""
        resumed = self.command.resume and (self.out / self.command.resume).exists()
        shutil.rmtree(self.work / "tmp")
        child, _ = self._whole(self.command.resumed if resumed else "")
        if child.code != usual.code:
            outcome.differs.append(f"exit code {child.code}: {_last(child.log)}")
        now = self._outputs()
        outcome.differs += [name for name in now if now[name] != usual.new[name]]
        if figures(self.out) != usual.found:
            outcome.differs.append("figures")

    def _whole(self, more: str = "", faults: Faults | None = None) -> tuple[Child, float]:
        """Run to the end; the child and when its first byte of output came."""
        before, first = _growth(self.out), None
        child = started(self.command.program, self._words(more), self.work, faults)
        while not child.ended():
            if first is None and _growth(self.out) != before:
                first = child.seconds
            if child.seconds > PATIENCE:
                os.kill(child.pid, signal.SIGKILL)
            time.sleep(PAUSE)
        return child, first if first is not None else child.seconds

    def _words(self, more: str = "") -> list[str]:
        return self.command.arguments(self.inputs, self.out, more)

    def _outputs(self, where: Path | None = None) -> dict[str, dict[str, str]]:
        return {name: contents((where or self.out) / name) for name in self.command.outputs}

    def _reset(self, folder: Path, source: Path | None) -> None:
        """Make ``folder`` anew, as ``source`` is or empty; what others write in it can be read by all."""
        shutil.rmtree(folder, ignore_errors=True)
        if source is None or not source.exists():
            folder.mkdir(parents=True)
        else:
            shutil.copytree(source, folder)
        folder.chmod(0o755)


def _growth(folder: Path) -> tuple[int, ...]:
    """What changes as soon as anything is written to a folder."""
    try:
        found = [each.stat().st_mtime_ns for each in (folder, *folder.iterdir())]
    except FileNotFoundError:
        return (-1,)
    return tuple(found)


def _due(moment: Moment, now: float, first: float | None, usual: Undisturbed) -> bool:
    if moment.way == "whole":
        return now >= moment.at * usual.seconds
    # Where an older output is of the same kind, the whole rest of the run is after the first byte.
    return first is not None and now >= first + moment.at * (usual.seconds - usual.first)


def _last(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
