"""Grouping of runs that may be ranked together: the tasks that they share ran with equal protocols."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.load.results import Run, TaskResult
from leakage_tasks.report.load.validate import all_printable, as_words

_HASH = re.compile(r"[0-9a-f]{64}")
_SEED = re.compile(r", seed -?\d+")
"""The random seed in the name of a generator of texts."""
TRAINED_HEADS = ("train", "adapter", "prompt")
"""Values of ``head=`` in ``--model_args`` that make the attacker train a generator of candidates."""
HEAD_ARGUMENTS = {"head": None, "text": None, "base": None, "head_epochs": 3, "bridge_size": None}
"""Arguments of a model for the training of such a generator, with their defaults."""


def check_scored(run: Run) -> None:
    """Raise ResultsError for a run under ``--predict_only``, which scored no leakage."""
    if any(result.predicted_only for result in run.tasks.values() if result.is_leakage):
        raise ResultsError(
            f"{run.files[-1]}: the run had --predict_only, so nothing was scored: run lm_eval again without it"
        )


def measured(run: Run) -> dict[str, TaskResult]:
    """Return the leakage tasks with at least one value, by name."""
    return {task: result for task, result in sorted(run.tasks.items()) if result.is_leakage and result.answered}


def group_comparable(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs so that every leakage task that two runs of a group share has equal protocols in both.

    Runs with the most tasks start the groups; runs without leakage results form a group of their own.
    """
    groups: list[tuple[list[Run], dict[str, str]]] = []
    for run in sorted(runs, key=lambda run: (-len(measured(run)), run.name)):
        protocols = _protocols(run)
        # All members of a group agree on a task's protocol, so the group stores one protocol per task.
        fitting = (
            (members, known)
            for members, known in groups
            if (protocols.keys() & known.keys() or not (protocols or known))
            and all(known.get(task, words) == words for task, words in protocols.items())
        )
        members, known = next(fitting, ([], {}))
        if not members:
            groups.append((members, known))
        members.append(run)
        known.update(protocols)
    return [members for members, _ in groups]


def separation_reason(group: Sequence[Run], first: Sequence[Run]) -> str:
    """Return the reason why the runs of ``group`` are not ranked with the runs of ``first``."""
    if not measured(group[0]):
        return "no leakage was measured"
    pairs = product(_distinct(group), _distinct(first))
    reasons = next((reasons for run, other in pairs if (reasons := differences(run, other))), None)
    return "; ".join(reasons) if reasons else f"other tasks: {', '.join(measured(group[0]))}"


def differences(run: Run, other: Run) -> list[str]:
    """List how the protocols of ``run`` and ``other`` differ in the leakage tasks that both have.

    Tasks with equal differences share an entry.
    """
    ours, theirs = measured(run), measured(other)
    tasks_by_words: dict[str, list[str]] = {}
    for task in sorted(ours.keys() & theirs.keys()):
        for words in _between(protocol(run, task), protocol(other, task)):
            tasks_by_words.setdefault(words, []).append(task)
    words_by_tasks: dict[str, list[str]] = {}
    for words, tasks in sorted(tasks_by_words.items()):
        words_by_tasks.setdefault(", ".join(tasks), []).append(words)
    return [f"{tasks}: {'; '.join(words)}" for tasks, words in sorted(words_by_tasks.items())]


def protocol(run: Run, task: str) -> dict[str, Any]:
    """Return the protocol of a leakage task by name: its declared options, the attacks that ran, what these use of the
    model's arguments, and the number of documents."""
    result = run.tasks[task]
    assert result.declared is not None
    attacks = ", ".join(dict.fromkeys(attack for attack, _ in result.declared.attacks))
    access = "; ".join(dict.fromkeys(access for _, access in result.declared.attacks if access))
    # The declared attack may be "auto"; the attack that ran is more specific.
    ran = {name: words for name, words in (("attack", attacks), ("access", access)) if words}
    declared = {name: value for name, value in result.declared.protocol.items() if name != "attack" or not attacks}
    return {**declared, **ran, **_of_attacker(run, result), "documents": result.samples}


def _of_attacker(run: Run, result: TaskResult) -> dict[str, Any]:
    """Return the arguments of the model that decide the attack and not the model: its generator and its reference.

    The task declares the generator only if an attack used it. Runs may have different seeds.
    """
    used: dict[str, Any] = {}
    if generator := result.tested.get("generator"):
        used["generator"] = _SEED.sub("", str(generator))
        if run.arguments.get("head") in TRAINED_HEADS and used["generator"] in ("frankenstein", "pretrained"):
            # Some versions of the harness record all arguments as text.
            given = {name: str(run.arguments.get(name, usual)) for name, usual in HEAD_ARGUMENTS.items()}
            used |= {name: value for name, value in given.items() if value != str(HEAD_ARGUMENTS[name])}
    options = {} if result.declared is None else result.declared.protocol
    if any(name.rpartition(".")[2] == "signal" and value == "calibrated" for name, value in options.items()):
        used["reference"] = run.arguments.get("reference")
    return {name: all_printable(value) for name, value in used.items()}


def _protocols(run: Run) -> dict[str, str]:
    """Return each leakage task's protocol as JSON; two are equal if :func:`differences` finds nothing."""
    protocols = ((task, protocol(run, task)) for task in measured(run))
    return {
        task: _text({name: value for name, value in options.items() if value is not None})
        for task, options in protocols
    }


def _distinct(runs: Sequence[Run]) -> list[Run]:
    """Return the first run for each distinct set of protocols."""
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(_text(_protocols(run)), run)
    return list(first.values())


def _between(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*ours, *theirs]):
        mine, other = ours.get(name), theirs.get(name)
        if _text(mine) == _text(other):
            continue
        if all(isinstance(value, str) and _HASH.fullmatch(value) for value in (mine, other)):
            yield f"other {name} ({_shown(mine)} instead of {_shown(other)})"
        else:
            yield f"{name} {_shown(mine)} instead of {_shown(other)}"


def _shown(value: Any) -> str:
    if isinstance(value, str) and _HASH.fullmatch(value):
        return f"{value[:8]}…"
    return "unset" if value is None else as_words(value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
