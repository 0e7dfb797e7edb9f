"""Options of tasks, as ``--metadata`` hands them over."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from leakage_tasks.attacks import ATTACKS
from leakage_tasks.canaries.context import read_context
from leakage_tasks.core.option import Option
from leakage_tasks.report.check import limit_from
from leakage_tasks.tasks.contamination.options import CONTAMINATION_OPTIONS, read_contamination_options
from leakage_tasks.tasks.membership.options import MEMBERSHIP_OPTIONS, read_membership_options
from leakage_tasks.tasks.options import CANARY_OPTIONS, read_options
from leakage_tasks.tasks.suffix.options import SUFFIX_OPTIONS, read_suffix_options
from leakage_tasks.tasks.untargeted.options import UNTARGETED_OPTIONS, read_untargeted_options
from tests.fuzzing import hostile
from tests.fuzzing.case import Call, ensure

_USUAL: dict[str, tuple[Any, ...]] = {
    "decoding": ("sample", "greedy", "beam"),
    "split": ("train", "validation", "test", "all"),
    "attack": ("auto", "exposure", "greedy", "label_search"),
    "known": ("all", "before"),
    "rows": ("brief", "all"),
    "confidence": ("calibrated", "likelihood", "trained", "comparing_lm"),
    "context": ("auto", "bos", "none", "a\\n", {"before": "x", "start": "bos"}),
}
_OF: dict[type, tuple[Any, ...]] = {
    int: (1, 2, 50),
    float: (0.5, 1.0),
    bool: (True, False),
    str: ("x",),
    object: ("x",),
}
_OWN = {
    "suffix_extraction": SUFFIX_OPTIONS,
    "untargeted_extraction": UNTARGETED_OPTIONS,
    "contamination_test": CONTAMINATION_OPTIONS,
    "membership": MEMBERSHIP_OPTIONS,
}
"""Options of tasks that are not about canaries."""
_LISTS: tuple[Any, ...] = ("10:20", "1", [1, 2], [0], "1:x", [])


def make(stream: Random, folder: Path) -> Call:
    """Some options with sound or odd values, for all tasks or under a task's name."""
    task = stream.choice(("canary_exposure", "canary_extraction", *_OWN))
    options = _OWN.get(task) or _canary_options()
    names = stream.sample(sorted(options), stream.randint(1, 5))
    given = {name: _value(stream, name.rpartition(".")[2], options[name].type) for name in names}
    needed = {"membership": ("members", "nonmembers"), "contamination_test": ("of",)}.get(task, ("data",))
    for name in needed if task in _OWN else ():
        given.setdefault(name, "pairs")
    if stream.random() < 0.1:
        given[stream.choice((hostile.text(stream), "bugdet", "tokenizer_mode"))] = hostile.value(stream)
    odds = stream.random()
    metadata = {task: given} if odds < 0.2 else {**given, task: hostile.value(stream)} if odds < 0.25 else given
    text = stream.choice(("", "m=")) + hostile.text(stream) if stream.random() < 0.2 else ""
    return Call(lambda: _read(metadata, task, text))


def _canary_options() -> dict[str, Option]:
    attacks = ATTACKS.without_plugins().values()
    owned = {f"{attack.name}.{name}": each for attack in attacks for name, each in attack.options_by_name.items()}
    return CANARY_OPTIONS | {each.name: each for each in owned.values()} | owned


def _value(stream: Random, name: str, kind: type) -> Any:
    odds = stream.random()
    if odds < 0.7:
        return stream.choice(_USUAL.get(name, _LISTS if kind is list else _OF[kind]))
    return stream.choice((0, -1, 0.5, 1.0, True, None, "x")) if odds < 0.85 else hostile.value(stream)


def _read(metadata: dict[str, Any], task: str, text: str) -> None:
    if task == "suffix_extraction":
        options = read_suffix_options(metadata)
        ensure(bool(options.selections), "something is read off")
    elif task == "untargeted_extraction":
        request = read_untargeted_options(metadata).request
        ensure(request.shortest <= request.length, "a run fits into a text")
    elif task == "contamination_test":
        shuffles = read_contamination_options(metadata).request.shuffles
        ensure(shuffles > 0, "a shard is compared with an order")
    elif task == "membership":
        chosen = read_membership_options(metadata).request.chosen()
        ensure(bool(chosen), "an attack is chosen")
    else:
        context = read_options(metadata, task).context
        ensure(
            context.is_auto or read_context(str(context) or "auto") is not None, "a context is written as it is read"
        )
    if text:
        limit_from(text)
