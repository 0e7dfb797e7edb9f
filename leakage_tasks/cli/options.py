"""``leakage options``: what attacks and tasks can be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.registry import register_command

if TYPE_CHECKING:
    from leakage_tasks.core.option import Option


@register_command("options", 15)
def options_command(
    name: Annotated[
        str | None, typer.Argument(help="An attack, task or model; all attacks and tasks if left out.")
    ] = None,
) -> None:
    """Show what attacks, tasks and models can be told, with types and defaults."""
    from leakage_tasks.core.text_table import text_table

    found = dict(_all() if name is None else _one(name))
    for title, options in found.items():
        print(title if options else f"{title}: none")
        if options:
            rows = [[f"  {each.name}", _values(each), _default(each), each.help] for each in options]
            print(text_table(rows, right=False))


def _all() -> Iterator[tuple[str, Sequence[Option]]]:
    from leakage_tasks.attacks.registry import ATTACKS
    from leakage_tasks.tasks.options import TASKS

    for name, options in TASKS.items():
        yield f"task {name}", list(options.values())
    for attack in ATTACKS.values():
        yield f"attack {attack.name}, for {attack.goal}", attack.options


def _models() -> Iterator[tuple[str, Sequence[Option]]]:
    """Models whose class says what ``--model_args`` takes, as ours do; those of the harness do not."""
    from leakage_tasks.harness import groups
    from leakage_tasks.harness.places import our_models, outside

    for entry in [*our_models(), *outside(groups.MODELS)]:
        options = getattr(entry.load(), "OPTIONS", None)
        if options is not None:
            yield f"model {entry.name}", list(options)


def _one(name: str) -> Iterator[tuple[str, Sequence[Option]]]:
    from leakage_tasks.core.errors import OptionError
    from leakage_tasks.core.option import near

    every = dict(_all())
    known = {title.partition(",")[0].split()[1]: title for title in every}
    if name not in known:
        # Importing models takes seconds.
        every |= dict(_models())
        known = {title.partition(",")[0].split()[1]: title for title in every}
    if name not in known:
        raise OptionError(f"no attack, task or model is called {name!r}: use {', '.join(known)}{near(name, known)}")
    yield known[name], every[known[name]]


def _values(option: Option) -> str:
    if option.choices:
        return " | ".join(option.choices)
    bounds = [f">= {option.minimum:g}"] if option.minimum is not None else []
    bounds += [f"<= {option.maximum:g}"] if option.maximum is not None else []
    kind = "int:int:…" if option.type is list else "text" if option.type in (object, str) else option.type.__name__
    return f"{kind} {', '.join(bounds)}".strip()


def _default(option: Option) -> str:
    if option.required:
        return "required"
    return option.usual or ("-" if option.default in (None, ()) else str(option.default).lower())
