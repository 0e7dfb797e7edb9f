"""A name for each run that no other has, and that is one line which can be shown."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence

from leakage_tasks.core.command_words import masked
from leakage_tasks.report.reading.run import Run
from leakage_tasks.report.reading.validate import printable

_ADDED = ("peft", "prompt", "delta")
"""Arguments that make another model of a model."""


def named(runs: Sequence[Run]) -> list[Run]:
    """Each run with the shortest name that no other has.

    That is its model, with the kind of model or the whole path if need be; of several runs of one model, with the
    model's arguments that differ, else with the date, the time, and at last a number.
    """
    models = [_models(run) for run in runs]
    of_model: dict[tuple[str, ...], list[int]] = {}
    for place, model in enumerate(models):
        of_model.setdefault(model, []).append(place)
    shared = [Counter(model[n] for model in of_model) for n in range(len(models[0]))] if models else []
    names = [""] * len(runs)
    for model, places in of_model.items():
        name = next((each for n, each in enumerate(model) if shared[n][each] == 1), model[-1])
        for place, said in zip(places, _told_apart([runs[place] for place in places]), strict=True):
            names[place] = printable(f"{name} ({said})" if said else name)
    return [dataclasses.replace(run, name=name) for run, name in zip(runs, _numbered(names), strict=True)]


def _told_apart(alike: Sequence[Run]) -> list[str]:
    """What tells each run of one model from the others, as short as can be."""
    details = _details(alike)
    counts = [Counter(column) for column in zip(*details, strict=True)]
    return [next((each for n, each in enumerate(ours) if counts[n][each] == 1), ours[-1]) for ours in details]


def _models(run: Run) -> tuple[str, ...]:
    """Names of the model, from the shortest to one that no other model has."""
    whole = [run.source, *(str(run.arguments[name]) for name in _ADDED if run.arguments.get(name))]
    short = " + ".join(each.rstrip("/\\").replace("\\", "/").split("/")[-1] for each in whole)
    full = " + ".join(whole)
    return short, f"{short} ({run.model})", full, f"{full} ({run.model})"


def _details(alike: Sequence[Run]) -> list[tuple[str, ...]]:
    """What tells runs of one model apart: the arguments that differ, then with the day, then with the time."""
    given = {name for each in alike for name in each.arguments}
    differing = sorted(name for name in given if len({_text(each, name) for each in alike}) > 1)
    details = []
    for run in alike:
        told = [f"{name}={_text(run, name)}" for name in differing if name in run.arguments]
        day = [] if run.time is None else [f"{run.time:%Y-%m-%d}"]
        time = [] if run.time is None else [f"{run.time:%Y-%m-%d %H:%M:%S}"]
        details.append(tuple(", ".join(each) for each in (told, [*told, *day], [*told, *time])))
    return details


def _text(run: Run, name: str) -> str:
    """An argument's value without passwords and keys; nothing where it is not given."""
    value = masked(name, run.arguments.get(name, ""))
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _numbered(names: Sequence[str]) -> Iterator[str]:
    """The names, with a number where one is there more than once."""
    often, met = Counter(names), Counter[str]()
    for name in names:
        met[name] += 1
        yield name if often[name] == 1 else f"{name} #{met[name]}"
