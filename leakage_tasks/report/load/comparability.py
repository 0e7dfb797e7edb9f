"""Which runs may be ranked against each other: those that were asked the same about the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from leakage_tasks.report.load.results import Run, TaskResult

_HASH = re.compile(r"[0-9a-f]{64}")


def measured(run: Run) -> dict[str, TaskResult]:
    """The leakage tasks that have any figure, by name."""
    return {task: result for task, result in sorted(run.tasks.items()) if result.is_leakage and result.answered}


def comparable(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs in groups within which every leakage task that two of them share was asked alike.

    Those that measured most decide; runs without leakage figures are a group of their own.
    """
    groups: list[tuple[list[Run], dict[str, str]]] = []
    for run in sorted(runs, key=lambda run: (-len(measured(run)), run.name)):
        asked = _asked(run)
        # Whoever has a task in a group was asked alike, so one question a task speaks for all of them.
        fitting = (
            (members, known)
            for members, known in groups
            if (asked.keys() & known.keys() or not (asked or known))
            and all(known.get(task, words) == words for task, words in asked.items())
        )
        members, known = next(fitting, ([], {}))
        if not members:
            groups.append((members, known))
        members.append(run)
        known.update(asked)
    return [members for members, _ in groups]


def apart(group: Sequence[Run], first: Sequence[Run]) -> str:
    """Why the runs of a group are not ranked with those of the ``first`` one, in words."""
    if not measured(group[0]):
        return "no leakage was measured"
    pairs = product(_once_each(group), _once_each(first))
    found = next((found for run, other in pairs if (found := differences(run, other))), None)
    return "; ".join(found) if found else f"other tasks: {', '.join(measured(group[0]))}"


def differences(run: Run, other: Run) -> list[str]:
    """What ``run`` was asked otherwise than ``other`` in the leakage tasks that both have, in words."""
    ours, theirs = measured(run), measured(other)
    said: dict[str, list[str]] = {}
    for task in ours.keys() & theirs.keys():
        for words in _between(protocol(ours[task]), protocol(theirs[task])):
            said.setdefault(words, []).append(task)
    return sorted(f"{', '.join(sorted(tasks))}: {words}" for words, tasks in said.items())


def protocol(result: TaskResult) -> dict[str, Any]:
    """What a task was asked, by name: its declared protocol, the attacks that ran, the number of documents."""
    assert result.declared is not None
    attacks = ", ".join(dict.fromkeys(attack for attack, _ in result.declared.attacks))
    access = "; ".join(dict.fromkeys(access for _, access in result.declared.attacks if access))
    # The attack asked for may be "auto"; that which ran tells more.
    ran = {name: words for name, words in (("attack", attacks), ("access", access)) if words}
    asked = {name: value for name, value in result.declared.protocol.items() if name != "attack" or not attacks}
    return {**asked, **ran, "documents": result.samples}


def _asked(run: Run) -> dict[str, str]:
    """What each leakage task of a run was asked, as one text a task; equal where :func:`differences` finds nothing."""
    asked = ((task, protocol(result)) for task, result in measured(run).items())
    return {task: _text({name: each for name, each in told.items() if each is not None}) for task, told in asked}


def _once_each(runs: Sequence[Run]) -> list[Run]:
    """The first run of each way in which runs were asked."""
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(_text(_asked(run)), run)
    return list(first.values())


def _between(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*ours, *theirs]):
        mine, other = ours.get(name), theirs.get(name)
        if _text(mine) == _text(other):
            continue
        if all(isinstance(each, str) and _HASH.fullmatch(each) for each in (mine, other)):
            yield f"other {name} ({str(mine)[:8]}… instead of {str(other)[:8]}…)"
        else:
            yield f"{name} {_shown(mine)} instead of {_shown(other)}"


def _shown(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
