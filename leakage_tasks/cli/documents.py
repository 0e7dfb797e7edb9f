"""``leakage documents``: report how much of whole documents a model extracts, by position."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import REPORT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import check_reports, output_option
from leakage_tasks.stats.passages import BLOCK, DRIFT, GAP, PASSAGE


@register_command("documents", REPORT, 6, example="leakage documents results -o documents.html -o documents.png")
def documents_command(
    results: Annotated[
        Path, typer.Argument(help="Samples of suffix_extraction with stride=…, a results file, or a folder.")
    ],
    output: Annotated[
        list[Path] | None,
        output_option("Also write a page (.html), .json, or a heat map (.png, .svg); repeatable.", check_reports),
    ] = None,
    gap: Annotated[
        int, typer.Option(min=0, help="Near-verbatim passages: largest gap between two equal runs, in tokens.")
    ] = GAP,
    drift: Annotated[
        int, typer.Option(min=0, help="Near-verbatim passages: largest change of the shift between two equal runs.")
    ] = DRIFT,
    block: Annotated[
        int, typer.Option(min=3, help="Near-verbatim passages: smallest length of an equal run, in tokens.")
    ] = BLOCK,
    passage: Annotated[int, typer.Option(min=1, help="Smallest number of equal tokens of a passage.")] = PASSAGE,
) -> None:
    """Report which parts of whole documents a model writes.

    Tables show exact windows, the longest run, and the share recalled near-verbatim in order, next to controls. No
    report holds text of the documents.
    """
    import json

    from leakage_tasks.core.atomic import write_text
    from leakage_tasks.report.load.documents import read_documents
    from leakage_tasks.report.page.documents import as_json, as_text, drawn, page, part_words
    from leakage_tasks.report.plots.documents import draw_documents
    from leakage_tasks.report.plots.style import KINDS, save
    from leakage_tasks.stats.passages import Limits

    limits = Limits(gap, drift, block, passage)
    run = read_documents(results, limits)
    typer.echo(as_text(run, limits))
    for path in output or []:
        kind = path.suffix.lower()
        if kind in KINDS:
            save(draw_documents(drawn(run), run.probability_words, part_words(run)), path)
        else:
            data = json.dumps(as_json(run, limits), ensure_ascii=False, allow_nan=False) + "\n"
            write_text(path, data if kind == ".json" else page(run, limits))
        typer.echo(f"wrote {path}")
