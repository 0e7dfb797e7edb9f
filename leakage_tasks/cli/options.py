"""``leakage options``: list the options of attacks, tasks and models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from leakage_tasks.cli.help import AUDIT
from leakage_tasks.cli.registry import register_command

if TYPE_CHECKING:
    from leakage_tasks.core.option import Option


@register_command("options", AUDIT, 4, example="leakage options canary_exposure")
def options_command(
    name: Annotated[
        str | None, typer.Argument(help="An attack, task or model (default: all attacks and tasks).")
    ] = None,
) -> None:
    """List the options of attacks, tasks and models, with defaults."""
    from leakage_tasks.core.text_table import text_table

    for title, options in dict(_all() if name is None else _named(name)).items():
        print(title if options else f"{title}: no options")
        if options:
            rows = [[f"  {option.name}", _values(option), _default(option), option.help] for option in options]
            print(text_table(rows, right=False))


def _all() -> Iterator[tuple[str, Sequence[Option]]]:
    """Yield a title and the options for each task and attack."""
    from leakage_tasks.attacks.registry import ATTACKS
    from leakage_tasks.tasks.options import TASKS

    for name, options in TASKS.items():
        yield f"task {name}", list(options.values())
    for attack in ATTACKS.values():
        yield f"attack {attack.name}, for {attack.goal}", attack.options


def _models() -> Iterator[tuple[str, Sequence[Option]]]:
    """Yield a title and the options for each model whose class declares options, unlike the harness' own models."""
    from leakage_tasks.harness import groups
    from leakage_tasks.harness.places import other_packages, our_models

    for entry in [*our_models(), *other_packages(groups.MODELS)]:
        options = getattr(entry.load(), "OPTIONS", None)
        if options is not None:
            yield f"model {entry.name}", list(options)


def _named(name: str) -> Iterator[tuple[str, Sequence[Option]]]:
    """Yield the title and options of one attack, task or model. Raises OptionError for an unknown name."""
    from leakage_tasks.core.errors import OptionError
    from leakage_tasks.core.option import near

    options = dict(_all())
    titles = {title.partition(",")[0].split()[1]: title for title in options}
    if name not in titles:
        # Importing models takes seconds.
        options |= dict(_models())
        titles = {title.partition(",")[0].split()[1]: title for title in options}
    if name not in titles:
        raise OptionError(
            f"NAME is {name!r}, not an attack, task or model: use {', '.join(titles)}{near(name, titles)}"
        )
    yield titles[name], options[titles[name]]


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
