"""``leakage card``: a run's figures into a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakage_tasks.cli.registry import register_command
from leakage_tasks.core.errors import OptionError


@register_command("card", 9)
def card_command(
    result: Annotated[Path, typer.Argument(help="Results file of lm_eval, or a folder with those of one run.")],
    card: Annotated[Path, typer.Option(help="Model card to write to; made if there is none.")] = Path("README.md"),
    name: Annotated[
        str | None, typer.Option(help="The model in model-index (default: the card's own, else the run's name).")
    ] = None,
    delta: Annotated[float, typer.Option(help="δ of the audit's (ε, δ)-differential privacy.")] = 0.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the section and write nothing.")] = False,
) -> None:
    """Write what leaks, and how that was measured, into a model card: a section and model-index entries."""
    from leakage_tasks.core.atomic import check_place
    from leakage_tasks.core.stable_inputs import unchanged
    from leakage_tasks.report.card.card import make_card, read_card, read_one_run, save_card
    from leakage_tasks.report.load.results import files_read
    from leakage_tasks.report.load.samples import audit_of

    if not 0 <= delta < 1:
        raise OptionError(f"--delta {delta:g}: no δ: give a number from 0 up to, not including, 1")
    if name is not None and not name.strip():
        raise OptionError("--name: is empty: give the model's name, or leave it out")
    with unchanged(*files_read([result]), card):
        run = read_one_run(result)
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
    save_card(card, made.text)
    print(f"{card}: section and {made.results} model-index results of {made.name} written{_without(made.unfit)}")


def _without(unfit: tuple[tuple[str, str], ...]) -> str:
    by_reason: dict[str, list[str]] = {}
    for task, why in unfit:
        by_reason.setdefault(why, []).append(task)
    return "".join(f" (none of {', '.join(tasks)}: {why})" for why, tasks in by_reason.items())
