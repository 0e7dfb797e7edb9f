"""Hashes that identify the code of a study."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGE = "leakage_tasks."
ROOM = f"{PACKAGE}research."
EXCLUDED = f"{ROOM}framework."
"""Code that runs and stores studies of every paper. It measures nothing, so it is not hashed."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Scope = _Function | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def code_of(run: Callable[..., Any]) -> str | None:
    """Return a hash of the module of a trial's ``run`` and of all research modules that it imports.

    The hash covers the parsed code. Docstrings, comments, layout and the names of local variables do not change it, nor
    does a move of code in the rest of the package, which is identified by its version. Return None if there is no
    source file.
    """
    return _hash_of(run.__module__)


@cache
def _hash_of(module: str) -> str | None:
    path = _source(module)
    if path is None:
        return None
    trees = {module: _parsed(path)}
    pending = [module]
    while pending:
        for name in _imports(trees[pending.pop()]):
            path = _source(name) if name.startswith(ROOM) and not name.startswith(EXCLUDED) else None
            if path is not None and name not in trees:
                trees[name] = _parsed(path)
                pending.append(name)
    text = "".join(f"{name}\n{normalized(trees[name])}\n" for name in sorted(trees))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _source(module: str) -> Path | None:
    """Return the file of a module, or None if the name belongs to no module or the module has no source file."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    try:
        spec = None if loaded else find_spec(module)
    except (ImportError, ValueError):
        return None
    path = loaded or (spec and spec.origin)
    return Path(path) if path and path.endswith(".py") and Path(path).is_file() else None


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a file imports, in functions too; an imported name is yielded as if it were a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def normalized(node: Any, names: dict[str, str] | None = None) -> str:
    """Return parsed code as text that does not depend on docstrings, names of local variables or the Python version.

    ``names`` maps the local variables of the scope around ``node`` to their replacements. A variable's replacement is
    its number in the order of appearance in the outermost function, lambda or comprehension.
    """
    if isinstance(node, list):
        statements = [normalized(child, names) for child in node if not _is_string_statement(child)]
        return f"[{','.join(statements)}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if names is None and isinstance(node, _Scope):
        names = _numbered_locals(node)
    fields = dict(ast.iter_fields(node))
    if names and isinstance(node, ast.Name):
        fields["id"] = names.get(node.id, node.id)
    elif names and isinstance(node, ast.arg):
        fields["arg"] = names.get(node.arg, node.arg)
    elif isinstance(node, ast.ImportFrom) and _is_elsewhere(node.module or ""):
        fields["module"] = None
    elif isinstance(node, ast.Constant):
        fields.pop("kind", None)
        return f"Constant({fields['value']!r})"
    # Later versions of Python add fields, which are empty in code that runs on 3.11.
    shown = (f"{name}={normalized(value, names)}" for name, value in fields.items() if value not in (None, []))
    return f"{type(node).__name__}({','.join(shown)})"


def _is_elsewhere(module: str) -> bool:
    return module.startswith(PACKAGE) and not module.startswith(ROOM)


def _is_string_statement(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _numbered_locals(scope: _Scope) -> dict[str, str]:
    """Map each local variable of a scope, and of the scopes in it, to its number.

    Parameters of a function keep their names, because calls may use them as keywords; parameters of a lambda are
    numbered. Names that are also bound in another way, such as by an import, are kept too.
    """
    bound: dict[str, None] = {}
    fixed: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] = None
        elif isinstance(node, ast.Lambda):
            bound.update(dict.fromkeys(_parameters(node)))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            fixed |= {node.name, *_parameters(node)}
        elif isinstance(node, ast.Global | ast.Nonlocal):
            fixed |= set(node.names)
        elif isinstance(node, ast.alias):
            fixed.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            fixed.add(node.name or "")
    # No identifier begins with a digit, so a number cannot collide with a name.
    return {name: str(number) for number, name in enumerate(name for name in bound if name not in fixed)}


def _parameters(function: _Function) -> list[str]:
    return [node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)]
