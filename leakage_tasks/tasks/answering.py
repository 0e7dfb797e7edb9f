"""How a model comes to answer requests that the harness does not know, and what all such answers have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import log, warn_once
from leakage_tasks.core.unanswered import FIELD, agreed, unanswered
from leakage_tasks.harness.api import LM, CacheHook, Instance

Answer = Callable[[Mapping[str, Any], Sequence[Instance]], Sequence[Any]]
"""Answers requests of one order, which is the second of their arguments (less ``optional``)."""
Answers = Callable[[LM, Sequence[Instance]], Sequence[Any]]
"""Answers all requests of a kind."""


def let_models_answer(kind: str, answers: Answers, owner: type) -> None:
    """Let every model of the harness answer requests of a ``kind``, unless its class has a way of its own.

    The evaluator calls ``getattr(lm, kind)(requests)``: a method of the harness' base class therefore lets attacks of
    many rounds run on every model, with the harness unmodified. Raises OptionError for a kind that another class than
    ``owner`` has answers for.
    """
    there = getattr(LM, kind, None)
    if there is not None and (there.__module__, there.__qualname__) != (owner.__module__, owner.__qualname__):
        raise OptionError(f"requests of kind {kind!r} are answered by {there.__module__} already: choose another name")

    def method(lm: LM, requests: Sequence[Instance]) -> Sequence[Any]:
        return answers(lm, requests)

    method.__module__, method.__qualname__ = owner.__module__, owner.__qualname__
    setattr(LM, kind, method)


def answer_by_order(lm: LM, requests: Sequence[Instance], answer: Answer) -> list[Any]:
    """Answer requests of one order together; a request that comes twice is answered once.

    An order that is ``optional`` and that the model of some process cannot serve, as a TargetError says, stays
    unanswered on every process, with one warning. One that says itself why it cannot be answered does too.
    """
    groups: dict[str, list[Instance]] = {}
    for request in {id(request): request for request in requests}.values():
        groups.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(request)
    orders = {text: json.loads(text) for text in groups}
    optional = [text for text, order in orders.items() if order.pop("optional", False)]
    answers: dict[int, Any] = {}
    reasons: dict[str, str | None] = {}
    with uncached(lm):
        for text, group in groups.items():
            found, reasons[text] = _tried(orders[text], group, answer, text in optional)
            answers |= {id(request): each for request, each in zip(group, found, strict=reasons[text] is None)}
    for text, never in zip(optional, agreed(lm, [reasons[text] for text in optional]), strict=True):
        if never is not None:
            answers |= {id(request): unanswered(never.reason) for request in groups[text]}
            if never.first and FIELD not in orders[text]:
                log.warning("leakage: %s is null: %s", groups[text][0].task_name, never.reason)
    return [answers[id(request)] for request in requests]


def _tried(
    order: Mapping[str, Any], group: Sequence[Instance], answer: Answer, optional: bool
) -> tuple[Sequence[Any], str | None]:
    """The answers to an order, or why there are none."""
    if FIELD in order:
        return (), order[FIELD]
    try:
        return answer(order, group), None
    except TargetError as error:
        if not optional:
            raise
        return (), str(error)


@contextmanager
def uncached(lm: LM) -> Iterator[None]:
    """Keep what is asked in between out of the cache of ``--use_cache``, with one warning if there is one.

    The harness' cache answers neither attacks nor labels, yet a model would put the texts they lead to into it.
    """
    hook = getattr(lm, "cache_hook", None)
    if getattr(hook, "dbdict", None) is None:
        yield
        return
    warn_once("--use_cache changes nothing for leakage tasks: they ask the model anew, and none of it is kept")
    lm.set_cache_hook(CacheHook(None))
    try:
        yield
    finally:
        lm.set_cache_hook(hook)
