"""Imports between the package's subpackages, counted in the source and drawn as a table.

``python -m benchmarks.rooms -o docs/rooms.svg`` prints one line per subpackage (modules, lines, lines of code) and
draws a table with the number of its imports of each other subpackage, the topmost layer first. Exits with 1 if a
subpackage imports a higher layer or if modules import each other in a cycle.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from benchmarks import ROOT

PACKAGE = "leakage_tasks"
Imports = set[tuple[str, str]]


def modules() -> dict[str, Path]:
    """Return all modules of the package by dotted name."""
    paths = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def imports_of(known: dict[str, Path]) -> Imports:
    """Return all imports between modules, including imports in functions and for types."""
    imports = set()
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE:
                targets = (f"{node.module}.{alias.name}" for alias in node.names)
                imports |= {(name, target if target in known else node.module) for target in targets}
    return {(one, other) for one, other in imports if one != other}


def cycles_of(imports: Imports) -> list[list[str]]:
    """Return import cycles, removing the edges of each cycle until the graph is acyclic."""
    left, seen = set(imports), []
    while True:
        graph: dict[str, set[str]] = {}
        for one, other in left:
            graph.setdefault(one, set()).add(other)
        try:
            TopologicalSorter(graph).prepare()
            return seen
        except CycleError as error:
            circle = error.args[1]
            seen.append(circle)
            left -= set(zip(circle[1:], circle, strict=False)) | set(zip(circle, circle[1:], strict=False))


def code_lines(path: Path) -> int:
    """Count the lines that are not only comments, docstrings or blank."""
    docs = {
        line
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    used = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type not in ignored:
            used |= set(range(token.start[0], token.end[0] + 1))
    return len(used - docs)


def room_of(module: str) -> str:
    """Return the subpackage of a module, or an empty string for the package itself."""
    return module.split(".")[1] if "." in module else ""


def layers() -> list[str]:
    """Return the subpackages in the order of the import linter, the topmost first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(settings["tool"]["importlinter"]["contracts"][0]["layers"])


def draw(rooms: list[str], counts: Counter[tuple[str, str]], lines: dict[str, int], path: Path) -> None:
    """Draw a table with the number of imports by importing subpackage (row) and imported subpackage (column)."""
    import matplotlib
    from matplotlib.figure import Figure

    size, most = len(rooms), max(counts.values())
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "rooms"}):
        figure = Figure(figsize=(8, 6), layout="constrained")
        axes = figure.add_subplot()
        shades = [[counts[one, other] ** 0.5 / most**0.5 for other in rooms] for one in rooms]
        axes.imshow(shades, cmap="Blues", vmax=1.6, aspect="auto")
        for row, one in enumerate(rooms):
            for column, other in enumerate(rooms):
                if count := counts[one, other]:
                    axes.text(column, row, str(count), ha="center", va="center", fontsize=8)
            axes.text(row, row, "·", ha="center", va="center", color="#777777")
        axes.set_xticks(range(size), rooms, rotation=60, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(size), [f"{room}  {lines[room]:,}" for room in rooms])
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        figure.savefig(path, metadata={"Date": None, "Creator": None} if path.suffix == ".svg" else None, dpi=130)


def main() -> int:
    """Count, print and draw the imports; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    known, rooms = modules(), layers()
    imports = imports_of(known)
    counts = Counter((room_of(one), room_of(other)) for one, other in imports)
    between = Counter({pair: count for pair, count in counts.items() if pair[0] != pair[1] and all(pair)})
    code = {room: sum(code_lines(path) for name, path in known.items() if room_of(name) == room) for room in rooms}
    print(f"{'package':<12} {'modules':>7} {'lines':>7} {'code':>7}")
    for room in rooms:
        paths = [path for name, path in known.items() if room_of(name) == room]
        print(
            f"{room:<12} {len(paths):>7} {sum(len(path.read_text().splitlines()) for path in paths):>7} {code[room]:>7}"
        )
    upwards = [pair for pair in between if rooms.index(pair[0]) > rooms.index(pair[1])]
    module_cycles = cycles_of(imports)
    counted = f"{len(between)} imports between them, {len(upwards)} upwards, {len(module_cycles)} cycles"
    print(f"{len(rooms)} subpackages, {counted}")
    for circle in module_cycles:
        print(" -> ".join(circle))
    if options.output:
        draw(rooms, between, code, options.output)
    return 1 if upwards or module_cycles else 0


if __name__ == "__main__":
    sys.exit(main())
