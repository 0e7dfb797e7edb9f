"""Judging one call: by how it ends, by what it says, and by what it leaves in its folder."""

from __future__ import annotations

import hashlib
import os
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import LeakageError
from tests.fuzzing.case import GOOD, Call, Declined, Outcome, Wrong

SECONDS = 10.0
LONGEST = 2_100
_PACKAGES = ("leakage_tasks", "adapters")


class TooLong(BaseException):
    """The call took more time than it may; no ``except Exception`` on its way catches it."""


def judged(call: Call, folder: Path, seconds: float = SECONDS) -> Outcome:
    """What comes of a call, made in ``folder``, which holds its inputs and nothing else."""
    before = listing(folder)
    outcome = _called(call, folder, seconds)
    if outcome.kind not in GOOD:
        return outcome
    return _left(call, outcome, before, listing(folder)) or outcome


def _called(call: Call, folder: Path, seconds: float) -> Outcome:
    here = Path.cwd()
    os.chdir(folder)
    try:
        with _limited(seconds):
            call.run()
    except TooLong as error:
        return Outcome("hang", _place(error), traceback.format_exc())
    except (LeakageError, Declined) as error:
        return _declined(call, error)
    except MemoryError as error:
        return _found("memory", error)
    except Wrong as error:
        return Outcome("wrong", str(error).split(":")[0], traceback.format_exc())
    except BaseException as error:
        # Panics of libraries in Rust are no Exception.
        if isinstance(error, KeyboardInterrupt):
            raise
        return _found("traceback", error)
    finally:
        os.chdir(here)
    return Outcome("success")


def _found(kind: str, error: BaseException) -> Outcome:
    return Outcome(kind, f"{type(error).__name__} at {_place(error)}", traceback.format_exc()[-20_000:])


def _declined(call: Call, error: BaseException) -> Outcome:
    said = str(error)
    where = f"{type(error).__name__} at {_place(error)}"
    if not said.isprintable():
        return Outcome("message", f"control characters: {where}", repr(said[:5000]))
    if len(said) > LONGEST:
        return Outcome("message", f"too long: {where}", said[:5000])
    if not said.strip():
        return Outcome("message", f"says nothing: {where}")
    if any(secret in said for secret in call.secrets):
        return Outcome("message", f"shows a secret: {where}", said)
    return Outcome("declined", where, said)


def _place(error: BaseException) -> str:
    """The innermost line of ours that an error came through."""
    ours = "?"
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        package = next((part for part in path.parts if part in _PACKAGES), None)
        if package is not None:
            ours = f"{'/'.join(path.parts[path.parts.index(package) :])}:{line}"
    return ours


def _left(call: Call, outcome: Outcome, before: dict[str, str], after: dict[str, str]) -> Outcome | None:
    """What is wrong with what stands in the folder after a call, if anything is."""
    may = call.outputs if outcome.kind == "success" else ()
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name) or (name.split("/")[0] in may and ".leakage-" not in name):
            continue
        kind = "changed" if name in before else "leftover"
        told = f"{name}: was {before.get(name)}, is {after.get(name)}\n{outcome.kind} {outcome.where}\n{outcome.detail}"
        return Outcome(kind, f"{kind} after {outcome.kind} {outcome.where}".strip(), told)
    return None


def listing(folder: Path) -> dict[str, str]:
    """Everything in a folder with a hash of what it holds."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(folder):
        place = Path(root)
        found |= {(place / name).relative_to(folder).as_posix(): "folder" for name in folders}
        for name in files:
            path = place / name
            held = path.read_bytes() if path.is_file() else os.fsencode(str(path.lstat()))
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(held).hexdigest()
    return found


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise TooLong(f"over {seconds:g} s")

    # Time of computing, as other processes may keep this one waiting; whoever drives it ends one that sleeps.
    older = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, older)
