"""``leakage card``: write the results of a run into a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.help import REPORT
from leakage_tasks.cli.registry import register_command
from leakage_tasks.cli.shared_options import Delta
from leakage_tasks.core.errors import OptionError, one_line


@register_command("card", REPORT, 4, example="leakage card results --card README.md --name my-model")
def card_command(
    result: Annotated[Path, typer.Argument(help="Results file of lm_eval, or a folder with the results of one run.")],
    card: Annotated[Path, typer.Option(help="Model card to write to; created if missing.")] = Path("README.md"),
    name: Annotated[
        str | None, typer.Option(help="Name of the model in model-index (default: the card's, else the run's).")
    ] = None,
    delta: Delta = 0.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the section without writing it.")] = False,
) -> None:
    """Write the results of a run into a model card.

    The card gets a section on leakage, with the settings of the measurement, and entries in its model-index.
    """
    from leakage_tasks.core.atomic import check_place, write_text
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.report.card.card import make_card, read_card, read_measured_run
    from leakage_tasks.report.load.results import files_read
    from leakage_tasks.report.load.samples import audit_of

    if name is not None and not name.strip():
        raise OptionError("--name is empty: give the model's name, such as --name my-model, or leave the option out")
    with unchanged(*files_read([result]), card):
        run = read_measured_run(result)
        old = read_card(card)
        if not dry_run:
            check_place(card)
        made = make_card(old, card, run, name=name, delta=delta, audited=audit_of(run, delta))
    if dry_run:
        print(made.section)
        return
    if made.text == old:
        print(f"{card}: up to date, nothing written")
        return
    write_text(card, made.text)
    name = one_line(made.name)
    print(f"{card}: section and {made.results} model-index results of {name} written{_left_out(made.unfit)}")


def _left_out(unfit: tuple[tuple[str, str], ...]) -> str:
    """Return a note on the tasks without entries, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for task, reason in unfit:
        by_reason.setdefault(reason, []).append(task)
    return "".join(f" (without {', '.join(tasks)}: {reason})" for reason, tasks in by_reason.items())
