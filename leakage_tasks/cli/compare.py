"""``leakage compare``: the same canaries before and after."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.registry import register_command
from leakage_tasks.core.errors import OptionError, ResultsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from leakage_tasks.report.compare.changes import Comparison
    from leakage_tasks.report.load.run import Run

KINDS = (".html", ".json", ".png", ".svg")


@register_command("compare", 12)
def compare_command(
    results: Annotated[
        list[Path], typer.Argument(help="Results of the run before, then of one or more after; files or folders.")
    ],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", help="Write a page (.html), .json, or a plot of slopes (.png, .svg); repeatable."
        ),
    ] = None,
) -> None:
    """Say what changed from the first run to each other one: unlearning, privacy, quantization, a new checkpoint."""
    import json

    from leakage_tasks.core.atomic import check_place, write_text
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.report.compare.changes import READING, as_text, compare, page
    from leakage_tasks.report.load.results import files_read, name_runs
    from leakage_tasks.report.plots.style import save

    if len(results) < 2:
        raise OptionError("compare takes the results of two runs or more: name the one before first")
    for path in output or []:
        if path.suffix.lower() not in KINDS:
            raise OptionError(f"--output {path}: of no kind that is known: let it end in {', '.join(KINDS)}")
        check_place(path)
    with unchanged(*files_read(results)):
        first, *others = name_runs([_one(path) for path in results])
        found = [compare(first, other) for other in others]
    print("\n\n".join([*map(as_text, found), READING]))
    for path in output or []:
        kind = path.suffix.lower()
        if kind in (".png", ".svg"):
            save(_drawn(found), path)
        else:
            data = [each.to_json() for each in found]
            text = (
                json.dumps(data, indent=1, ensure_ascii=False) + "\n" if kind == ".json" else page(found, _svg(found))
            )
            write_text(path, text, errors="backslashreplace")
        print(f"wrote {path}")


def _one(path: Path) -> Run:
    from leakage_tasks.report.load.results import read_runs

    runs = read_runs([path])
    if len(runs) > 1:
        raise ResultsError(f"{path}: holds {len(runs)} runs: name the results file of one")
    return runs[0]


def _drawn(found: Sequence[Comparison]) -> Figure:
    """The slopes of canaries that all runs have an exposure of."""
    from leakage_tasks.report.compare.changes import copies_in
    from leakage_tasks.report.load.findings import EXPOSURE
    from leakage_tasks.report.plots.slopes import draw_slopes

    bits: dict[str, list[float]] = {}
    groups: dict[str, dict[str, list[float]]] = {}
    for place, comparison in enumerate(found):
        for each in comparison.documents.get(EXPOSURE, ()):
            if not place:
                bits[each.id] = groups.setdefault(each.group, {})[each.id] = [each.before]
            if len(bits.get(each.id, ())) == place + 1:
                bits[each.id].append(each.after)
    names = [found[0].before, *(each.after for each in found)]
    whole = {
        group: {name: own for name, own in each.items() if len(own) == len(names)} for group, each in groups.items()
    }
    return draw_slopes(names, {group: whole[group] for group in sorted(whole, key=copies_in) if whole[group]})


def _svg(found: Sequence[Comparison]) -> bytes | None:
    """The plot for the page; None where no exposure was measured."""
    from leakage_tasks.report.load.findings import EXPOSURE
    from leakage_tasks.report.plots.style import svg

    if not all(each.documents.get(EXPOSURE) for each in found):
        return None
    return svg(_drawn(found))
