"""Options shared by commands that report on runs: δ, waivers, and files of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import near

Delta = Annotated[float, typer.Option(help="δ of the audit's (ε, δ)-differential privacy.")]
KINDS = (".html", ".json", ".png", ".svg")
"""Endings of the files that a report is written to: a page, data, or a picture."""
PICTURES = (".png", ".svg")


def check_delta(delta: float) -> None:
    """Raise OptionError if ``delta`` is no δ of a differential privacy."""
    if not 0 <= delta < 1:
        raise OptionError(f"--delta is {delta:g}: give a number of at least 0 and less than 1, such as 1e-5")


def read_waivers(allow: Sequence[str] | None) -> tuple[str, ...]:
    """Return the current names of the conditions that ``--allow`` names. Raises OptionError for an unknown name."""
    from leakage_tasks.core.former_names import current_waiver
    from leakage_tasks.report.check import WAIVERS

    waivers = tuple(map(current_waiver, allow or ()))
    for waiver in waivers:
        if waiver not in WAIVERS:
            use = f"{', '.join(WAIVERS)}{near(waiver, WAIVERS)}"
            raise OptionError(f"--allow is {waiver!r}, not a condition of leakage check: use {use}")
    return waivers


def check_outputs(outputs: Sequence[Path] | None) -> None:
    """Raise OptionError if a file of ``--output`` has another ending than :data:`KINDS` or cannot be written."""
    from leakage_tasks.core.atomic import check_place

    for path in outputs or ():
        if path.suffix.lower() not in KINDS:
            raise OptionError(f"--output {path}: unknown kind of file: use a name that ends in {', '.join(KINDS)}")
        check_place(path)
