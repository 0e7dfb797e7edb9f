"""Read by every Python that a test starts: what the harness finds out anew in each process is found out once.

The harness parses its 14,000 task files, and asks pip and compilers about the machine, each time: six seconds of a
processor. The first process keeps both under ``runs/tests``; the others read them there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pickle
import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

KEPT = Path(__file__).resolve().parent.parent.parent / "runs" / "tests"


def keep_index(module: ModuleType) -> None:
    """Parse the harness' own task files once for all processes."""
    build, home = module.TaskIndex.build, Path(module.__file__ or "").parent

    def kept_build(paths: Any, **settings: Any) -> Any:
        first, *others = [Path(path) for path in paths] or [None]
        if first != home or settings:
            return build(paths, **settings)
        return kept("tasks", home, lambda: build([home])) | (build(others) if others else {})

    module.TaskIndex.build = staticmethod(kept_build)


def keep_machine(module: ModuleType) -> None:
    """Describe the machine once for all processes."""
    describe = module.get_pretty_env_info
    module.get_pretty_env_info = cache(lambda: kept("machine", Path(sys.prefix), describe))


HOOKS: dict[str, Callable[[ModuleType], None]] = {
    "lm_eval.tasks._index": keep_index,
    "torch.utils.collect_env": keep_machine,
}


def kept(name: str, about: Path, find_out: Callable[[], Any]) -> Any:
    """What ``find_out`` gave for this folder and version of the harness, in this process or an earlier one."""
    mark = f"{importlib.metadata.version('lm_eval')} {about} {about.stat().st_mtime_ns}"
    path = KEPT / f"{name}-{hashlib.sha256(mark.encode()).hexdigest()[:16]}.pickle"
    try:
        return pickle.loads(path.read_bytes())
    except (FileNotFoundError, EOFError):
        found = find_out()
        KEPT.mkdir(parents=True, exist_ok=True)
        own = path.with_suffix(f".{os.getpid()}")
        own.write_bytes(pickle.dumps(found))
        own.replace(path)
        return found


class QuickStart:
    """Runs a hook after a module's own code."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in HOOKS:
            return None
        others = (each for each in list(sys.meta_path) if each is not self and hasattr(each, "find_spec"))
        spec = next(filter(None, (each.find_spec(name, path, target) for each in others)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                HOOKS[name](module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


# A worker of pytest reads this as it starts, and again as conftest.py imports it.
if not any(type(each).__name__ == QuickStart.__name__ for each in sys.meta_path):
    sys.meta_path.insert(0, QuickStart())
