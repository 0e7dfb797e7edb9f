"""The rooms of the package and what they import of each other, counted and drawn from the imports themselves.

``python -m benchmarks.rooms -o docs/rooms.svg`` prints a line a room (modules, lines, lines of code) and draws a
table: a row a room, from the topmost down, with how often it imports each other one. It exits with 1 where a room
imports one above it or modules import each other in a circle.
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

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "leakage_tasks"
Arrows = set[tuple[str, str]]


def modules() -> dict[str, Path]:
    """All modules of the package by dotted name."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def arrows(known: dict[str, Path]) -> Arrows:
    """Which module imports which, wherever in the file and for types too."""
    found = set()
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE:
                inner = (f"{node.module}.{each.name}" for each in node.names)
                found |= {(name, each if each in known else node.module) for each in inner}
    return {(one, other) for one, other in found if one != other}


def circles(found: Arrows) -> list[list[str]]:
    """Circles of modules, one at a time till none is left."""
    left, seen = set(found), []
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
    """Lines with something other than comments, docstrings and blanks."""
    docs = {
        line
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    told = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    used = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type not in told:
            used |= set(range(token.start[0], token.end[0] + 1))
    return len(used - docs)


def room_of(module: str) -> str:
    """The room a module lies in; the package's own face is in none."""
    return module.split(".")[1] if "." in module else ""


def layers() -> list[str]:
    """The rooms as the import linter has them, the topmost first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(settings["tool"]["importlinter"]["contracts"][0]["layers"])


def draw(rooms: list[str], counts: Counter[tuple[str, str]], lines: dict[str, int], path: Path) -> None:
    """Write the picture: a row a room, a column for each room it imports, with the number of imports."""
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
    """Count, print, draw; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    known, rooms = modules(), layers()
    found = arrows(known)
    counts = Counter((room_of(one), room_of(other)) for one, other in found)
    between = Counter({pair: count for pair, count in counts.items() if pair[0] != pair[1] and all(pair)})
    code = {room: sum(code_lines(path) for name, path in known.items() if room_of(name) == room) for room in rooms}
    print(f"{'room':<12} {'modules':>7} {'lines':>7} {'code':>7}")
    for room in rooms:
        own = [path for name, path in known.items() if room_of(name) == room]
        print(f"{room:<12} {len(own):>7} {sum(len(path.read_text().splitlines()) for path in own):>7} {code[room]:>7}")
    upwards = [pair for pair in between if rooms.index(pair[0]) > rooms.index(pair[1])]
    around = circles(found)
    print(f"{len(rooms)} rooms, {len(between)} arrows, {len(upwards)} upwards, {len(around)} circles of modules")
    for circle in around:
        print(" -> ".join(circle))
    if options.output:
        draw(rooms, between, code, options.output)
    return 1 if upwards or around else 0


if __name__ == "__main__":
    sys.exit(main())
