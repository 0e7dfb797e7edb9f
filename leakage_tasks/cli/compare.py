"""``leakage compare``: show the changes between runs on one set of canaries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import REPORT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import check_reports, output_option
from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from leakage_tasks.report.compare.changes import Comparison


@register_command("compare", REPORT, 2, example="leakage compare results/before results/after -o changes.html")
def compare_command(
    results: Annotated[
        list[Path], typer.Argument(help="Results of the first run, then of one or more later runs: files or folders.")
    ],
    output: Annotated[
        list[Path] | None,
        output_option("Also write a page (.html), .json, or a plot of slopes (.png, .svg); repeatable.", check_reports),
    ] = None,
) -> None:
    """Show the changes from the first run to each later run.

    Use it after unlearning, private training, quantization or another checkpoint, with the canaries of the first run.
    """
    import json

    from leakage_tasks.core.atomic import write_text
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.report.compare.changes import READING, as_text, compare, page
    from leakage_tasks.report.load.results import files_read, name_runs, read_one_run
    from leakage_tasks.report.plots.style import KINDS, save

    if len(results) < 2:
        raise OptionError(
            "RESULTS has fewer than two runs: give the earlier run first, such as results/before results/after"
        )
    with unchanged(*files_read(results)):
        first, *others = name_runs([read_one_run(path) for path in results])
        comparisons = [compare(first, other) for other in others]
    print("\n\n".join([*map(as_text, comparisons), READING]))
    for path in output or []:
        kind = path.suffix.lower()
        if kind in KINDS:
            save(_slopes(comparisons), path)
        else:
            data = [comparison.to_json() for comparison in comparisons]
            as_json = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
            text = as_json if kind == ".json" else page(comparisons, _picture(comparisons))
            write_text(path, text, errors="backslashreplace")
        print(f"wrote {path}")


def _slopes(comparisons: Sequence[Comparison]) -> Figure:
    """Draw one line for each canary whose exposure is known in all runs."""
    from leakage_tasks.core.task_names import EXPOSURE
    from leakage_tasks.report.compare.changes import copies_in
    from leakage_tasks.report.plots.exposure import draw_slopes

    bits: dict[str, list[float]] = {}
    groups: dict[str, dict[str, list[float]]] = {}
    bounds: dict[str, set[int]] = {}
    for index, comparison in enumerate(comparisons):
        for change in comparison.documents.get(EXPOSURE, ()):
            if not index:
                bits[change.id] = groups.setdefault(change.group, {})[change.id] = [change.before]
            if len(bits.get(change.id, ())) == index + 1:
                bits[change.id].append(change.after)
            bounds.setdefault(change.id, set()).update(
                position for position, bound in zip((0, index + 1), change.least, strict=True) if bound
            )
    names = [comparisons[0].before, *(comparison.after for comparison in comparisons)]
    complete = {
        group: {canary: values for canary, values in canaries.items() if len(values) == len(names)}
        for group, canaries in groups.items()
    }
    least = {
        group: {position for canary in canaries for position in bounds[canary]} for group, canaries in complete.items()
    }
    ordered = {group: complete[group] for group in sorted(complete, key=copies_in) if complete[group]}
    return draw_slopes(names, ordered, least)


def _picture(comparisons: Sequence[Comparison]) -> str | None:
    """Return the address of the page's plot, or None if a comparison has no exposures."""
    from leakage_tasks.core.task_names import EXPOSURE
    from leakage_tasks.report.plots.style import data_uri

    if not all(comparison.documents.get(EXPOSURE) for comparison in comparisons):
        return None
    return data_uri(_slopes(comparisons))
