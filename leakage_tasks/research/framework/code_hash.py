"""What tells a study's code apart."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOM = "leakage_tasks.research."
APART = f"{ROOM}framework."
"""What runs and stores studies of all kinds, and measures nothing."""


def code_of(run: Callable[..., Any]) -> str | None:
    """A hash of the module of a trial's ``run`` and of all it imports from the papers' and the victims' rooms.

    The rest of the package is told apart by its version. None where there is no source to read.
    """
    return _hash_of(run.__module__)


@cache
def _hash_of(module: str) -> str | None:
    path = _source(module)
    if path is None:
        return None
    files = {module: path}
    todo = [path]
    while todo:
        for name in _imports(todo.pop()):
            found = _source(name) if name.startswith(ROOM) and not name.startswith(APART) else None
            if found is not None and name not in files:
                files[name] = found
                todo.append(found)
    text = "".join(f"{name}\n{files[name].read_text(encoding='utf-8')}\n" for name in sorted(files))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _source(module: str) -> Path | None:
    """The file of a module, None for a name in one, a package without code and what has no file."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    try:
        spec = None if loaded else find_spec(module)
    except (ImportError, ValueError):
        return None
    path = loaded or (spec and spec.origin)
    return Path(path) if path and path.endswith(".py") and Path(path).is_file() else None


def _imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, in functions too; names taken from a module as if they were modules."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
