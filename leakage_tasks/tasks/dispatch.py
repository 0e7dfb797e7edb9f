"""Dispatch of this package's request types, which the harness does not know, to the functions that answer them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.null_results import FIELD, Unanswered, null_result, share_failures
from leakage_tasks.core.processes import Processes
from leakage_tasks.harness.api import LM, CacheHook, Instance
from leakage_tasks.harness.generation import leave_out
from leakage_tasks.tasks.sharing import EVERY_NTH, WITHOUT_DOCUMENT, Sharing, merged, pooled, processes_of

Answer = Callable[[Mapping[str, Any], Sequence[Instance]], Sequence[Any]]
"""A function that answers a group of requests with equal task settings."""
Answers = Callable[[LM, Sequence[Instance]], Sequence[Any]]
"""A function that answers all requests of a kind."""


def let_models_answer(kind: str, answers: Answers, owner: type) -> None:
    """Let every model of the harness answer requests of a ``kind``, unless its class has its own method.

    The evaluator calls ``getattr(lm, kind)(requests)``, so a method of the harness' base class runs attacks of many
    steps on every model, with the harness unmodified. Raises OptionError for a kind that a class other than ``owner``
    answers.
    """
    there = getattr(LM, kind, None)
    if there is not None and (there.__module__, there.__qualname__) != (owner.__module__, owner.__qualname__):
        raise OptionError(f"requests of kind {kind!r} are answered by {there.__module__} already: choose another name")

    def method(lm: LM, requests: Sequence[Instance]) -> Sequence[Any]:
        return answers(lm, requests)

    method.__module__, method.__qualname__ = owner.__module__, owner.__qualname__
    setattr(LM, kind, method)


def answer_by_group(lm: LM, requests: Sequence[Instance], answer: Answer, sharing: Sharing = EVERY_NTH) -> list[Any]:
    """Answer groups of requests with equal task settings; equal requests are answered once.

    If a group is ``optional`` and some process raises TargetError, all processes return null and log one warning. A
    group whose settings give a reason why it cannot be answered is null, too. ``sharing`` decides how several processes
    share the requests.
    """
    processes = processes_of(lm)
    warn_of_delta(lm)
    with uncached(lm):
        if processes is None:
            return _alone(lm, requests, answer)
        if WITHOUT_DOCUMENT:
            leave_out(lm, frozenset(WITHOUT_DOCUMENT))
        with processes.call():
            return _shared(processes, requests, answer, sharing)


def warn_of_delta(lm: Any) -> None:
    """Warn once if the harness has added the weights of ``delta=`` twice, as it does to weights with two names."""
    if not getattr(lm, "delta", None):
        return
    names = [name for name, _ in lm.model.named_parameters(remove_duplicate=False)]
    twice = sorted({*names} - {name for name, _ in lm.model.named_parameters()})
    if twice:
        warn_once(
            f"delta={lm.delta}: the harness adds it twice to tied weights ({', '.join(twice)}), and the run measures "
            "that model: save the model with the delta added once, and pass its folder as pretrained= without delta="
        )


def _alone(lm: LM, requests: Sequence[Instance], answer: Answer) -> list[Any]:
    groups: dict[str, list[Instance]] = {}
    for request in {id(request): request for request in requests}.values():
        groups.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(request)
    optional = [text for text, group in groups.items() if group[0].args[1].get("optional")]
    answers: dict[int, Any] = {}
    reasons: dict[str, str | None] = {}
    for text, group in groups.items():
        group_answers, reasons[text] = _try_group(group, answer)
        answers |= {
            id(request): one_answer for request, one_answer in zip(group, group_answers, strict=reasons[text] is None)
        }
    for text, never in zip(optional, share_failures(lm, [reasons[text] for text in optional]), strict=True):
        if never is not None:
            answers |= dict.fromkeys(map(id, groups[text]), _null_answer(groups[text][0], never))
    return [answers[id(request)] for request in requests]


def _shared(processes: Processes, requests: Sequence[Instance], answer: Answer, sharing: Sharing) -> list[Any]:
    answers: dict[tuple[str, str, int], Any] = {}
    for number, (text, group) in enumerate(pooled(processes, requests).items()):
        processes.part = str(number)
        indices = range(len(group)) if sharing.by_attack else range(processes.rank, len(group), processes.size)
        started = time.monotonic()
        own_answers, reason = _try_group([group[index] for index in indices], answer) if indices else ([], None)
        worked = time.monotonic() - started
        merged_answers, never = merged(processes, own_answers, indices, reason, sharing)
        done = len(own_answers) - own_answers.count(None)
        log.debug(
            "leakage: process %d answered %d of %d requests in %.2f s and waited %.2f s for the others",
            processes.rank,
            done,
            len(group),
            worked,
            processes.waited,
        )
        if never is not None:
            merged_answers = dict.fromkeys(range(len(group)), _null_answer(group[0], never))
        answers |= {
            (text, request.task_name, request.doc_id): merged_answers[index] for index, request in enumerate(group)
        }
    return [
        answers[json.dumps(request.args[1], sort_keys=True), request.task_name, request.doc_id] for request in requests
    ]


def _null_answer(first: Instance, never: Unanswered) -> str:
    """Return the null answer to a request. One process logs the reason, unless it was logged before."""
    if never.first and FIELD not in first.args[1]:
        log.warning("leakage: %s is null: %s", first.task_name, never.reason)
    return null_result(never.reason)


def _try_group(group: Sequence[Instance], answer: Answer) -> tuple[Sequence[Any], str | None]:
    """Try to answer a group: return the answers, or the reason why it has no answers."""
    task_settings = dict(group[0].args[1])
    optional = task_settings.pop("optional", False)
    if FIELD in task_settings:
        return (), task_settings[FIELD]
    try:
        return answer(task_settings, group), None
    except TargetError as error:
        if not optional:
            raise
        return (), str(error)


@contextmanager
def uncached(lm: LM) -> Iterator[None]:
    """Keep requests of the ``with`` block out of the cache of ``--use_cache``; warn once if there is such a cache.

    The harness' cache does not serve attacks or labels, but a model would store their texts in it.
    """
    hook = getattr(lm, "cache_hook", None)
    if getattr(hook, "dbdict", None) is None:
        yield
        return
    warn_once(
        "--use_cache changes nothing for leakage tasks: they query the model again in each run, and nothing is cached"
    )
    lm.set_cache_hook(CacheHook(None))
    try:
        yield
    finally:
        lm.set_cache_hook(hook)
