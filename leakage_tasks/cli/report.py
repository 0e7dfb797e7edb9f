"""``leakage report``: write the evidence on one run as a page that can be checked offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import REPORT, in_panel
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import Delta, output_option, read_waivers

FILES = "Files to hash"


@register_command("report", REPORT, 7, example="leakage report results -o report.html --model ./mine")
def report_command(
    result: Annotated[Path, typer.Argument(help="Results file of lm_eval, or a folder with the results of one run.")],
    output: Annotated[Path, output_option("Page to write.")] = Path("report.html"),
    name: Annotated[str, typer.Option(help="Name of the model in the report (default: the run's).")] = "",
    release: Annotated[
        str, typer.Option(help="How the model is released, in your words, such as 'open weights'.")
    ] = "",
    delta: Delta = 0.0,
    limit: Annotated[
        list[str] | None, typer.Option(help="Limit of leakage check to report, as metric=number; repeatable.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="Condition that the limits accept, as leakage check --allow; repeatable.")
    ] = None,
    model: Annotated[
        list[Path] | None,
        in_panel(FILES, "Folder or file of the model's weights; repeatable, for a base model and its adapter."),
    ] = None,
    manifest: Annotated[Path | None, in_panel(FILES, "Manifest of the canaries; must be the run's.")] = None,
    data: Annotated[list[Path] | None, in_panel(FILES, "File or folder of training data; repeatable.")] = None,
    selftest: Annotated[Path | None, in_panel(FILES, "File of leakage selftest -o, to show its checks.")] = None,
) -> None:
    """Write the evidence on one run as one page.

    The page has protocol, results, controls, limits, the tests that did not run, hashes, and annexes for data
    protection and copyright. It prints on A4, and leakage verify-report checks it offline.
    """
    from leakage_tasks.core.atomic import write_text
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.report.evidence.files import Files
    from leakage_tasks.report.evidence.gather import gather
    from leakage_tasks.report.evidence.page import page
    from leakage_tasks.report.evidence.record import Settings
    from leakage_tasks.report.load.results import files_read

    waivers = read_waivers(allow)
    inputs = Files(tuple(model or ()), manifest, tuple(data or ()), selftest)
    settings = Settings(name.strip(), release.strip(), delta, tuple(limit or ()), waivers)
    with unchanged(*files_read([result]), *inputs.paths):
        text = page(gather(result, settings, inputs))
    write_text(output, text)
    print(f"wrote {output}")
