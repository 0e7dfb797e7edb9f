"""A name for each run that no other has, and that is one line which can be shown."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from leakage_tasks.report.command_words import masked
from leakage_tasks.report.fields import printable
from leakage_tasks.report.run import Run

_ADDED = ("peft", "prompt", "delta")
"""Arguments that make another model of a model."""


def named(runs: Sequence[Run]) -> list[Run]:
    """Each run with the shortest name that no other has.

    That is its model, with the kind of model or the whole path if need be; of several runs of one model, with the
    model's arguments that differ, else with the date, the time, and at last a number.
    """
    models = [_models(run) for run in runs]
    same = [[other for other, each in zip(runs, models, strict=True) if each == model] for model in models]
    names = [_name(run, model, alike, models) for run, model, alike in zip(runs, models, same, strict=True)]
    return [dataclasses.replace(run, name=_numbered(place, names)) for place, run in enumerate(runs)]


def _name(run: Run, model: tuple[str, ...], alike: Sequence[Run], models: Sequence[tuple[str, ...]]) -> str:
    name = next((each for n, each in enumerate(model) if len({m for m in models if m[n] == each}) == 1), model[-1])
    details = [_details(each, alike) for each in alike]
    ours = _details(run, alike)
    unique = (each for n, each in enumerate(ours) if sum(other[n] == each for other in details) == 1)
    said = next(unique, ours[-1])
    return printable(f"{name} ({said})" if said else name)


def _models(run: Run) -> tuple[str, ...]:
    """Names of the model, from the shortest to one that no other model has."""
    whole = [run.source, *(str(run.arguments[name]) for name in _ADDED if run.arguments.get(name))]
    short = " + ".join(each.rstrip("/\\").replace("\\", "/").split("/")[-1] for each in whole)
    full = " + ".join(whole)
    return short, f"{short} ({run.model})", full, f"{full} ({run.model})"


def _details(run: Run, alike: Sequence[Run]) -> tuple[str, ...]:
    """What tells a run from others of its model: the arguments that differ, then with the day, then with the time."""
    given = {name for each in alike for name in each.arguments}
    differing = sorted(name for name in given if len({_text(each, name) for each in alike}) > 1)
    told = [f"{name}={_text(run, name)}" for name in differing if name in run.arguments]
    day = [] if run.time is None else [f"{run.time:%Y-%m-%d}"]
    time = [] if run.time is None else [f"{run.time:%Y-%m-%d %H:%M:%S}"]
    return tuple(", ".join(each) for each in (told, [*told, *day], [*told, *time]))


def _text(run: Run, name: str) -> str:
    """An argument's value without passwords and keys; nothing where it is not given."""
    value = masked(name, run.arguments.get(name, ""))
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _numbered(place: int, names: Sequence[str]) -> str:
    name = names[place]
    return name if names.count(name) == 1 else f"{name} #{names[: place + 1].count(name)}"
